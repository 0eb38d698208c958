"""Parts by name: how a config, which is plain data, becomes an object of one of the classes that we know."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from horst.errors import ConfigError, near

Built = TypeVar("Built")


def build(kind: str, table: Mapping[str, type[Built]], name: str, /, *args: Any, **options: Any) -> Built:
    """`table[name](*args, **options)`, with an error that names near matches for an unknown name or option."""
    if name not in table:
        raise ConfigError(f"there is no {kind} {name!r}{near(name, table)} There are: {', '.join(table)}.")
    cls = table[name]
    init: Any = cls.__init__
    signature, hints = inspect.signature(init), get_type_hints(init)
    known = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option, value in options.items():
        if option not in known:
            raise ConfigError(f"{kind} {name!r} has no option {option!r}{near(option, known)}")
        check_type(f"option {option!r} of {kind} {name!r}", value, hints.get(option))
    missing = [p for p in known if signature.parameters[p].default is inspect.Parameter.empty and p not in options]
    if missing:
        raise ConfigError(f"{kind} {name!r} needs the option {missing[0]!r}")
    return cls(*args, **options)


def check_type(what: str, value: Any, hint: Any) -> None:
    """Refuse a value that a plain annotation (a class or choices) rules out."""
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ConfigError(f"{what} is {value!r}; choose from {', '.join(map(repr, get_args(hint)))}")
    elif hint in (int, bool, str) and type(value) is not hint:
        raise ConfigError(f"{what} is {value!r}; it takes {hint.__name__}, not {type(value).__name__}")


def check_positive(**values: int) -> None:
    """Refuse a size or count below 1."""
    for name, value in values.items():
        if type(value) is not int or value < 1:
            raise ConfigError(f"{name} is {value!r}; it takes a whole number from 1 on")
