"""Run files: YAML with `base:`, whose relative paths become absolute, and changes of single entries. Needs no torch.

`horst.training.config` describes the entries. `check_paths` finds wrong paths before the packages for training are
imported, which takes seconds.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from horst.config import convert, read_yaml
from horst.configs import find_base, find_config, path_root
from horst.data.config import PATHS as DATA_PATHS
from horst.data.config import DataConfig
from horst.data.source import SYNTHETIC, open_source
from horst.errors import ConfigError
from horst.io import is_url
from horst.places import find_model, pretrained_models

ENTRIES = (
    *("name", "model", "data", "seed", "paper", "batches", "augment"),
    *("loss", "optimiser", "schedule", "trainer", "imports"),
)
"""The entries of a run: the fields of `horst.training.config.RunConfig`."""
MODEL_KEYS = ("model.init", "model.init_backbone")
"""The entries of a run that are models: names of pretrained ones, or paths."""
PATH_KEYS = (*MODEL_KEYS, "model.tsn", "batches.cache", *(f"data.{name}" for name in DATA_PATHS))
"""The entries of a run that are paths."""


def read_run(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The data of a run file, with absolute paths, merged into that of its `base:`. `above`: the files based on it."""
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path} holds {data!r}; a run is a mapping with a name, a model and data")
    above = (*above, path.resolve())
    try:
        base = convert(data.pop("base", None), str | None, "base")
        data = absolute_entries(data, path_root(path))
        if isinstance(batches := data.get("batches"), dict) and "resident" in batches:  # of earlier versions
            batches["preload"] = "device" if batches.pop("resident") else None
        if base is None:
            return data
        below = find_base(base, path)
        if below.resolve() in above:
            raise ConfigError(f"base is {base}, which is based on this file")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    found = read_run(below, above)
    found.pop("name", None)
    return merged(found, data)


def merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the entries of `own`; mappings in both are merged. Options of another model or source are dropped."""
    out = dict(base)
    for key, value in own.items():
        below = base.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            if key == "model" and value.get("name", below.get("name")) != below.get("name"):
                below = {name: option for name, option in below.items() if name != "options"}
            if key == "data" and value.get("source", below.get("source")) != below.get("source"):
                below = {}
            value = merged(below, value)
        out[key] = value
    return out


def absolute_entries(data: dict[str, Any], root: Path) -> dict[str, Any]:
    """`data` with its relative paths, which are relative to `root`, made absolute."""
    data = {key: absolute_entry(key, value, root) for key, value in data.items()}
    for key, value in data.items():
        if isinstance(value, dict):
            data[key] = {name: absolute_entry(f"{key}.{name}", entry, root) for name, entry in value.items()}
    if isinstance(data.get("imports"), list | tuple):
        files = [str(file) for file in data["imports"]]
        data["imports"] = [_absolute_path(file, root) if file.endswith(".py") else file for file in files]
    return data


def absolute_entry(key: str, value: Any, root: Path) -> Any:
    """The value of an entry by its dotted key, with its paths, which are relative to `root`, made absolute."""
    if key == "data" and isinstance(value, str):
        return DataConfig.from_file(root / value).to_dict()
    if key in MODEL_KEYS and value in pretrained_models() and not (root / value).exists():
        return value
    return _absolute_path(value, root) if key in PATH_KEYS and isinstance(value, str) else value


def _absolute_path(path: str, root: Path) -> str:
    """An address, of the Hugging Face Hub or of fsspec, stays as it is."""
    return path if is_url(path) else str((root / Path(path).expanduser()).absolute())


def override(data: dict[str, Any], change: str) -> dict[str, Any]:
    """`data` with one entry changed: "trainer.epochs=3"."""
    key, equals, text = change.partition("=")
    if not equals:
        raise ConfigError(f"--{key} needs a value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())  # YAML's own message has several lines
        raise ConfigError(f"--{key}: {text!r} cannot be read as YAML: {reason}") from error
    with suppress(ValueError):  # YAML reads 1e-3 as text
        value = float(value) if isinstance(value, str) else value
    *sections, name = key.split(".")
    changed = inner = dict(data)
    for section in sections:
        below = inner.get(section)
        if below is not None and not isinstance(below, Mapping):
            raise ConfigError(f"--{key}: {section} is {below!r}, which has no entries")
        inner[section] = dict(below or {})
        inner = inner[section]
    inner[name] = absolute_entry(key, value, Path())
    return changed


def check_paths(path: str | Path, changes: Sequence[str] = ()) -> None:
    """The error for a run file that is missing, or a model or data set of it that is not there."""
    data = read_run(find_config(path))
    for change in changes:
        data = override(data, change)
    model, source = data.get("model"), data.get("data")
    for key in MODEL_KEYS:
        if isinstance(model, dict) and isinstance(found := model.get(key.removeprefix("model.")), str):
            find_model(found)
    if isinstance(source, dict) and source.get("source") not in (*SYNTHETIC, None):
        named = [value for name, value in source.items() if name in DATA_PATHS and isinstance(value, str)]
        if any(not is_url(value) and not Path(value).exists() for value in named):
            open_source(DataConfig.from_dict(source))  # the reader names what is missing, and the remedy
