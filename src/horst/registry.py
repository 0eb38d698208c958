"""Registries: objects by name, such as heads, data sources and losses. One's own are added with a decorator.

HEADS: Registry[type[Head]] = Registry("head", {"action": ActionHead})

@HEADS.register("mine")
class MyHead(Head): ...

head = HEADS.create("mine", 512, num_classes=75)
"""

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

from horst.config import convert
from horst.errors import ConfigError, did_you_mean

T = TypeVar("T")
ENVIRONMENT = "HORST_IMPORTS"  # Python files, separated as in PATH, that are imported when a name is unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a model by name, with its options: plain data, from which it can be built again."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


class Registry(Mapping[str, T], Generic[T]):
    """Objects of one kind by name. An entry may be "package.module:name", which is imported when it is first used.

    `kind`: what the objects are, in messages. `import_paths`: whether "package.module:name" is accepted as a name. Only
    for names that users write themselves: a model's config may come from a stranger.
    """

    def __init__(self, kind: str, entries: Mapping[str, T | str] | None = None, *, import_paths: bool = False) -> None:
        self.kind, self.import_paths = kind, import_paths
        self._entries: dict[str, T | str] = dict(entries or {})

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that adds what it decorates under `name`. A name that is taken by something else is an error."""

        def add(value: T) -> T:
            before = self._entries.get(name)
            if before is not None and _origin(before) != _origin(value):
                raise ConfigError(f"there is a {self.kind} {name!r} already: choose another name")
            self._entries[name] = value
            return value

        return add

    def __getitem__(self, name: str) -> T:
        """ConfigError, with the closest names, for an unknown one."""
        if name not in self:
            _import_environment()
        if name not in self:
            raise ConfigError(f"there is no {self.kind} {name!r}{did_you_mean(name, self._entries, 'There are')}")
        entry = self._entries.get(name, name)
        if not isinstance(entry, str):
            return entry
        module, _, attribute = entry.partition(":")
        try:
            found: T = getattr(import_module(module), attribute)
        except (ModuleNotFoundError, AttributeError) as error:
            raise ConfigError(f"the {self.kind} {entry!r} cannot be imported: {error}") from error
        self._entries[name] = found
        return found

    def create(self, name: str, /, *args: Any, **options: Any) -> Any:
        """`self[name](*args, **options)`; ConfigError for an unknown option, one of the wrong type or a missing one."""
        make: Any = self[name]
        what = f"{self.kind} {name!r}"
        parameters = list(inspect.signature(make).parameters.values())[len(args) :]
        function: Any = make.__init__ if isinstance(make, type) else make  # type: ignore[misc]
        hints = get_type_hints(function)
        known = [parameter.name for parameter in parameters]
        for option, value in options.items():
            if option not in known:
                raise ConfigError(f"{what} has no option {option!r}{did_you_mean(option, known)}")
            convert(value, hints.get(option), f"option {option!r} of {what}")
        for parameter in parameters:
            if parameter.default is inspect.Parameter.empty and parameter.name not in options:
                raise ConfigError(f"{what} needs the option {parameter.name!r}")
        return make(*args, **options)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except ConfigError:
            return default

    def __contains__(self, name: object) -> bool:
        return name in self._entries or (self.import_paths and isinstance(name, str) and ":" in name)

    def __iter__(self) -> Iterator[str]:
        _import_environment()
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def import_file(file: str) -> None:
    """Import a Python file, or a module by name, so that it registers its parts. It is imported once."""
    try:
        if not file.endswith(".py"):
            import_module(file)
            return
        name = str(Path(file).resolve())
        if name in sys.modules:
            return
        spec = importlib.util.spec_from_file_location(name, name)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    except (ImportError, OSError, SyntaxError) as error:
        raise ConfigError(f"{file} cannot be imported: {error}") from error


@cache
def _import_environment() -> None:
    for file in filter(None, os.environ.get(ENVIRONMENT, "").split(os.pathsep)):
        import_file(file)


def _origin(entry: Any) -> str:
    """Where an object is defined: the same after its module was loaded again."""
    if isinstance(entry, str):
        return entry
    return f"{getattr(entry, '__module__', '')}:{getattr(entry, '__qualname__', entry)}"
