"""Dataclasses from plain data (YAML, the command line), with errors that name the key, the value and near matches."""

from __future__ import annotations

import types
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from horst.errors import ConfigError, near

T = TypeVar("T")


def read_yaml(path: Path) -> Any:
    """What a YAML file holds; nothing in it is executed."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such file") from error
    except RecursionError:
        raise ConfigError(f"{path} cannot be read as YAML: it is nested too deeply") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())  # YAML's own has several lines
        raise ConfigError(f"{path} cannot be read as YAML: {reason}") from error


def from_plain(cls: type[T], data: Any, where: str = "") -> T:
    """`cls(**data)`, checked key by key; `where` is the dotted place of `data` in its file."""
    if not isinstance(data, dict):
        raise ConfigError(f"{where or 'the config'} is {data!r}; it takes a mapping of {', '.join(names(cls))}")
    known, hints = names(cls), get_type_hints(cls)
    for key in data:
        if key not in known:
            raise ConfigError(f"{where or 'the config'} has no entry {key!r}{near(str(key), known)}")
    for field in fields(cls):  # type: ignore[arg-type]
        if field.name not in data and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"{where or 'the config'} needs the entry {field.name!r}")
    return cls(**{key: convert(value, hints[key], f"{where}.{key}" if where else key) for key, value in data.items()})


def names(cls: Any) -> list[str]:
    return [field.name for field in fields(cls)]


def convert(value: Any, hint: Any, where: str) -> Any:
    """`value` as the type `hint`: dataclasses, choices, numbers, pairs, mappings, or None where that is allowed."""
    if get_origin(hint) in (Union, types.UnionType):
        return _one_of(value, get_args(hint), where)
    if is_dataclass(hint) and isinstance(hint, type):
        # a class may know better how it is read
        read = getattr(hint, "from_plain", None)
        return read(value, where) if read else from_plain(hint, value, where)
    if get_origin(hint) is Literal:
        if value not in get_args(hint) or isinstance(value, bool):
            likely = near(value, get_args(hint)) if isinstance(value, str) else ""
            raise ConfigError(f"{where} is {value!r}; choose from {', '.join(map(repr, get_args(hint)))}{likely}")
        return value
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        if not isinstance(value, list | tuple) or (inner[-1] is not ... and len(value) != len(inner)):
            raise ConfigError(f"{where} is {value!r}; it takes {_said(hint)}")
        each = inner[:1] * len(value) if inner[-1] is ... else inner
        return tuple(convert(v, h, f"{where}[{i}]") for i, (v, h) in enumerate(zip(value, each, strict=True)))
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{where} is {value!r}; it takes a number{_quoted(value)}")
        return float(value)
    plain = dict if get_origin(hint) is dict else hint
    if plain in (int, bool, str, dict) and type(value) is not plain:
        raise ConfigError(f"{where} is {value!r}; it takes {_said(hint)}{_quoted(value)}")
    return value


def _one_of(value: Any, hints: tuple[Any, ...], where: str) -> Any:
    if value is None and types.NoneType in hints:
        return None
    errors = []
    for hint in hints:
        if hint is types.NoneType:
            continue
        try:
            return convert(value, hint, where)
        except ConfigError as error:
            errors.append(error)
    raise errors[0]


def _said(hint: Any) -> str:
    known = {int: "a whole number", bool: "true or false", str: "text", float: "a number", dict: "a mapping"}
    if get_origin(hint) is dict:
        return "a mapping"
    if get_origin(hint) is tuple:
        return "a list of " + ", ".join(_said(h) for h in get_args(hint) if h is not ...)
    return known.get(hint, str(hint))


def _quoted(value: Any) -> str:
    """YAML reads 1e-3 as text."""
    if isinstance(value, str):
        try:
            return f", such as {float(value)!r} without quotes (YAML reads 1e-3 as text: write 1.0e-3)"
        except ValueError:
            return ""
    return ""
