"""Saved models: a folder of data, nothing that executes.

    config.json          how to build the model
    model.safetensors    its weights
    labels.json          names of its classes, where it has them

A folder appears whole or not at all: it is written beside its place under another name and then renamed. Loading checks
every name, shape and number before a model is returned.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from horst.errors import CheckpointError, ConfigError
from horst.models.predictor import Labels, Predictor, PredictorConfig
from horst.weights import load_checked

FORMAT = 1
CONFIG, WEIGHTS, LABELS = "config.json", "model.safetensors", "labels.json"


def save(model: Predictor, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write `model` to the folder `path`. An existing folder is kept unless `overwrite` says otherwise."""
    path = Path(path)
    if model.config is None:
        raise CheckpointError(
            "the model was built from parts; make it with create_model or Predictor.from_config to save it"
        )
    if path.exists() and not overwrite:
        raise CheckpointError(f"{path} exists; pass overwrite=True to replace it, or choose another name")
    if path.exists() and not (path / CONFIG).is_file():
        raise CheckpointError(f"{path} exists and is no saved model: it will not be replaced; choose another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    shutil.rmtree(new, ignore_errors=True)  # of a run that was killed
    new.mkdir()
    try:
        config = {"format": FORMAT, **model.config.to_dict()}
        config["backbone"]["options"].pop("pretrained", None)  # the weights are in this folder
        _write_json(new / CONFIG, config)
        if model.labels is not None:
            _write_json(new / LABELS, model.labels)
        weights = {name: tensor.detach().contiguous().cpu() for name, tensor in model.state_dict().items()}
        save_file(weights, new / WEIGHTS, metadata={"format": "pt"})
        for file in new.iterdir():
            _sync(file)
        _put(new, path)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return path


def load(path: str | Path, *, device: torch.device | str = "cpu") -> Predictor:
    """The model saved in the folder `path`, in evaluation mode. Nothing in the folder is executed."""
    path = Path(path)
    _finish_put(path)
    if not path.is_dir():
        raise CheckpointError(f"{path} is no folder: pass the folder that `save` wrote")
    config, labels = read_config(path), _read_labels(path / LABELS)
    try:
        model = Predictor.from_config(config, labels=labels)
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from error
    load_checked(model, read_weights(path / WEIGHTS), source=str(path / WEIGHTS))
    return model.to(device).eval()


def read_config(path: Path) -> PredictorConfig:
    """The config of the model saved in the folder `path`."""
    data = _read_json(path / CONFIG)
    if data.pop("format", None) != FORMAT:
        raise CheckpointError(
            f"{path / CONFIG} is not of format {FORMAT}: it was written by another version or program"
        )
    try:
        return PredictorConfig.from_dict(data)
    except ConfigError as error:
        raise CheckpointError(f"{path / CONFIG}: {error}") from error


def read_weights(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, with a typed error for one that is missing or damaged."""
    if not file.is_file():
        raise CheckpointError(f"{file} is missing")
    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        size = file.stat().st_size
        raise CheckpointError(f"{file} ({size} bytes) is damaged or no safetensors file: {error}") from error


def _put(new: Path, path: Path) -> None:
    """Rename `new` to `path`. An old folder steps aside first; a kill in between is mended by `_finish_put`."""
    old = _aside(path)
    if path.exists():
        os.replace(path, old)
    os.replace(new, path)
    _sync(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def _finish_put(path: Path) -> None:
    old = _aside(path)
    if old.is_dir() and not path.exists():
        os.replace(old, path)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_json(file: Path, data: Any) -> None:
    file.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_json(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{file} is missing: {file.parent} is no saved model") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(data, dict):
        raise CheckpointError(f"{file} holds {type(data).__name__}; a mapping is needed")
    return data


def _read_labels(file: Path) -> Labels | None:
    if not file.exists():
        return None
    labels = _read_json(file)
    for task, names in labels.items():
        if not isinstance(names, list):
            raise CheckpointError(f"{file}: {task!r} holds {type(names).__name__}; a list of names is needed")
    return labels
