"""Parts by name: how a config, which is plain data, becomes an object of one of the classes that we know."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from horst.errors import ConfigError, choices, near

Built = TypeVar("Built")


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of a model by name, with its options: plain data, from which it can be built again."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


def build(kind: str, table: Mapping[str, Callable[..., Built]], name: str, /, *args: Any, **options: Any) -> Built:
    """`table[name](*args, **options)`, with an error that names near matches for an unknown name or option."""
    if name not in table:
        raise ConfigError(f"there is no {kind} {name!r}{choices(name, table)}")
    make = table[name]
    parameters = list(inspect.signature(make).parameters.values())[len(args) :]
    function: Any = make.__init__ if isinstance(make, type) else make  # type: ignore[misc]
    hints = get_type_hints(function)
    known = [p.name for p in parameters]
    for option, value in options.items():
        if option not in known:
            raise ConfigError(f"{kind} {name!r} has no option {option!r}{near(option, known)}")
        check_type(f"option {option!r} of {kind} {name!r}", value, hints.get(option))
    for parameter in parameters:
        if parameter.default is inspect.Parameter.empty and parameter.name not in options:
            raise ConfigError(f"{kind} {name!r} needs the option {parameter.name!r}")
    return make(*args, **options)


def check_type(what: str, value: Any, hint: Any) -> None:
    """Refuse a value that a plain annotation (a class or choices) rules out."""
    if get_origin(hint) is Literal:
        if not isinstance(value, str) or value not in get_args(hint):
            raise ConfigError(f"{what} is {value!r}; choose from {', '.join(map(repr, get_args(hint)))}")
    elif hint in (int, bool, str) and type(value) is not hint:
        raise ConfigError(f"{what} is {value!r}; it takes {hint.__name__}, not {type(value).__name__}")


def check_positive(**values: int) -> None:
    """Refuse a size or count below 1."""
    for name, value in values.items():
        if type(value) is not int or value < 1:
            raise ConfigError(f"{name} is {value!r}; it takes a whole number from 1 on")


def check_dropout(value: float) -> None:
    """Refuse what is no share, and 1, of which nothing can be learnt."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ConfigError(f"dropout is {value!r}; it takes a number from 0 to below 1")
