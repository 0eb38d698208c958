"""From plain data (YAML, JSON, the command line) to dataclasses and back, and the checks of single values.

Every error names the entry, its value and what is allowed, with the closest known names.
"""

import types
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from horst.errors import ConfigError, did_you_mean

T = TypeVar("T")
Task = Literal["recognition", "anticipation", "online", "detection"]  # of a data set or a head; docs/guides/data.md
_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text", dict: "a mapping"}


def read_yaml(path: Path) -> Any:
    """The contents of a YAML file. Nothing in it is executed."""
    import yaml  # layers and ops, which use the checks below, need torch alone

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such file") from error
    except RecursionError:
        raise ConfigError(f"{path} cannot be read as YAML: it is nested too deeply") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())  # YAML's own message has several lines
        raise ConfigError(f"{path} cannot be read as YAML: {reason}") from error


def from_dict(cls: type[T], data: Any, where: str = "") -> T:
    """Build the dataclass `cls` from a mapping, as YAML or JSON gives it. Every key and value is checked.

    A class of an entry may define `from_entry(data, where)` to read itself. `where`: the dotted path of `data` in its
    file, for messages.
    """
    place, known = where or "the config", [field.name for field in fields(cls)]  # type: ignore[arg-type]
    if not isinstance(data, dict):
        raise ConfigError(f"{place} is {data!r}; it takes a mapping of {', '.join(known)}")
    for key in data:
        if key not in known:
            raise ConfigError(f"{place} has no entry {key!r}{did_you_mean(key, known)}")
    for field in fields(cls):  # type: ignore[arg-type]
        if field.name not in data and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"{place} needs the entry {field.name!r}")
    hints = get_type_hints(cls)
    return cls(**{key: convert(value, hints[key], f"{where}.{key}" if where else key) for key, value in data.items()})


def to_dict(config: Any) -> dict[str, Any]:
    """The plain data of a dataclass: `from_dict` gives the same object again."""
    return _listed(asdict(config))


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(v) for key, v in value.items()}
    return [_listed(v) for v in value] if isinstance(value, list | tuple) else value


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """The entries in which two configs differ, in words."""
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return [f"{name} is {there.get(name)!r} there and {here.get(name)!r} here" for name in names]


def convert(value: Any, hint: Any, where: str) -> Any:
    """`value` as the type `hint`: a dataclass, a choice, a number, a tuple, a mapping or None; else ConfigError."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _convert_union(value, get_args(hint), where)
    if is_dataclass(hint) and isinstance(hint, type):
        read = getattr(hint, "from_entry", None)
        return read(value, where) if read else from_dict(hint, value, where)
    if origin is Literal:
        known = get_args(hint)
        if isinstance(value, bool) or value not in known:
            close = did_you_mean(value, known) if isinstance(value, str) else ""
            raise ConfigError(f"{where} is {value!r}; choose from {', '.join(map(repr, known))}{close}")
        return value
    if origin is tuple:
        inner = get_args(hint)
        if not isinstance(value, list | tuple) or (inner[-1] is not ... and len(value) != len(inner)):
            raise ConfigError(f"{where} is {value!r}; it takes {_type_name(hint)}")
        each = inner[:1] * len(value) if inner[-1] is ... else inner
        return tuple(convert(v, h, f"{where}[{i}]") for i, (v, h) in enumerate(zip(value, each, strict=True)))
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{where} is {value!r}; it takes a number{_unquoted(value)}")
        return float(value)
    if (origin or hint) in (int, bool, str, dict) and type(value) is not (origin or hint):
        raise ConfigError(f"{where} is {value!r}; it takes {_type_name(hint)}{_unquoted(value)}")
    return value


def _convert_union(value: Any, hints: tuple[Any, ...], where: str) -> Any:
    if value is None and types.NoneType in hints:
        return None
    errors = []
    for hint in hints:
        if hint is not types.NoneType:
            try:
                return convert(value, hint, where)
            except ConfigError as error:
                errors.append(error)
    raise errors[0]


def _type_name(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return "a list of " + ", ".join(_type_name(h) for h in get_args(hint) if h is not ...)
    return _NAMES.get(get_origin(hint) or hint, str(hint))


def _unquoted(value: Any) -> str:
    """A remedy for 1e-3, which YAML reads as text."""
    try:
        number = float(value) if isinstance(value, str) else None
    except ValueError:
        number = None
    return "" if number is None else f", such as {number!r} without quotes (YAML reads 1e-3 as text: write 1.0e-3)"


def check_type(name: str, value: Any, hint: Any) -> None:
    """ConfigError if `value` is not of the type `hint`; see `convert`."""
    convert(value, hint, name)


def check_positive(**values: int) -> None:
    """ConfigError for a size or a count that is not a whole number from 1 on."""
    for name, value in values.items():
        if type(value) is not int or value < 1:
            raise ConfigError(f"{name} is {value!r}; it takes a whole number from 1 on")


def check_entries(section: str, config: object, **allowed: str) -> None:
    """ConfigError for an entry of a config that is outside its range; None is always allowed.

    check_entries("loss", self, k="1..", temperature=">0", label_smoothing="0..1")
    """
    for name, bounds in allowed.items():
        value = getattr(config, name)
        if value is None:
            continue
        low, _, high = bounds.partition("..")
        inside = value > 0 if bounds == ">0" else float(low) <= value <= float(high or "inf")
        if not inside:
            number = "a whole number" if isinstance(value, int) else "a number"
            words = "above 0" if bounds == ">0" else f"from {low} to {high}" if high else f"from {low} on"
            raise ConfigError(f"{section}.{name} is {value}; it takes {number} {words}")


def check_dropout(value: float) -> None:
    """ConfigError unless 0 <= value < 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ConfigError(f"dropout is {value!r}; it takes a number from 0 to below 1")
