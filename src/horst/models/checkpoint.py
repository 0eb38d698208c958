"""Saved models: a folder of data, nothing that executes.

    config.json        how to build the model
    model.safetensors  its weights
    labels.json        names of its classes, where it has them
    README.md          a card for people

The names are those of the Hugging Face Hub, so that a folder is a repository there as it is (`hub`).

A folder appears whole or not at all: it is written beside its place under another name and then renamed. Loading checks
every name, shape and number before a model is returned, and the CRC-32 of all weights, which model.safetensors has in
its metadata.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from horst.errors import CheckpointError, ConfigError
from horst.io import readable
from horst.models.hub import CARD, SCHEME, download
from horst.models.hub import card as make_card
from horst.models.predictor import Labels, Predictor, PredictorConfig, check_labels
from horst.weights import check_fit, load_checked

FORMAT = 1
CONFIG, WEIGHTS, LABELS = "config.json", "model.safetensors", "labels.json"
CHECKSUM = "crc32"


def save(
    model: Predictor,
    path: str | Path,
    *,
    overwrite: bool = False,
    half: bool = False,
    name: str | None = None,
    card: str | None = None,
) -> Path:
    """Write `model` to the folder `path`. An existing folder is kept unless `overwrite` says otherwise.

    A README.md that somebody wrote is kept; the one written here is titled `name`, or as the folder.
    `card` is the text of another one, which takes its place.

    `half` stores weights as fp16, at half the size; `load` gives fp32 in any case.
    """
    path = Path(path)
    path = path.resolve() if path.is_symlink() else path  # the link stays, and what it leads to is replaced
    config, weights = _savable(model)
    if half:
        weights = {name: w.half() if w.is_floating_point() else w for name, w in weights.items()}
    check_place(path, overwrite)
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(new, ignore_errors=True)  # of a run that was killed
        new.mkdir()
        _write_json(new / CONFIG, {"format": FORMAT, **config.to_dict()})
        if model.labels is not None:
            _write_json(new / LABELS, model.labels)
        save_file(weights, new / WEIGHTS, metadata={"format": "pt", CHECKSUM: checksum(weights)})
        readable(new / WEIGHTS)
        if card is None:
            card = make_card(path / CARD, name or path.name, config.core.about, config.to_dict(), model.labels)
        (new / CARD).write_text(card, encoding="utf-8")
        for file in new.iterdir():
            _sync(file)
        _put(new, path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be written: {error}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return path


def check_place(path: Path, overwrite: bool) -> None:
    """Whether `save` would write there: to know it before work that takes long."""
    if path.exists() and not overwrite:
        raise CheckpointError(f"{path} exists; pass overwrite=True to replace it, or choose another name")
    if path.exists() and not (path / CONFIG).is_file():
        raise CheckpointError(f"{path} exists and is no saved model: it will not be replaced; choose another name")


def load(path: str | Path, *, device: torch.device | str = "cpu") -> Predictor:
    """The model saved in the folder `path`, in fp32 and evaluation mode. Nothing in the folder is executed.

    hf://user/name, or hf://user/name@revision, is a folder on the Hugging Face Hub.
    """
    if isinstance(path, str) and path.startswith(SCHEME):
        path = download(path, [CONFIG, WEIGHTS, LABELS])
    path = _current(Path(path))
    if not path.is_dir():
        raise CheckpointError(f"{path} is no folder: pass the folder that `save` wrote")
    config, labels = read_config(path), _read_labels(path / LABELS)
    try:
        with torch.device("meta"):  # sizes are compared before memory is asked for
            skeleton = Predictor.from_config(config, labels=labels)
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise CheckpointError(f"{path / CONFIG}: no model can be built from it: {error}") from error
    weights, expected = _read(path / WEIGHTS)
    with ThreadPoolExecutor(1) as pool:  # the checksum is computed while the model is built
        found = pool.submit(checksum, weights)
        check_fit(skeleton, weights, source=str(path / WEIGHTS))
        model = Predictor.from_config(config, labels=labels)
        _compare(path / WEIGHTS, found.result(), expected)
    load_checked(model, weights, source=str(path / WEIGHTS))
    return model.to(device).eval()


def _savable(model: Predictor) -> tuple[PredictorConfig, dict[str, Tensor]]:
    """Config and weights of a model, if they are such that `load` will take them."""
    try:
        config = model.config
        options = {key: value for key, value in config.backbone.options.items() if key != "pretrained"}
        config = replace(config, backbone=replace(config.backbone, options=options))  # the weights are saved beside it
        if model.labels is not None:
            check_labels(model.labels, model.head.classes)
        with torch.device("meta"):
            skeleton = Predictor.from_config(config)
    except ConfigError as error:
        raise CheckpointError(f"the model cannot be saved: {error}") from error
    weights = {name: tensor.detach().contiguous().cpu() for name, tensor in model.state_dict().items()}
    check_fit(skeleton, weights, source="the model, as it was changed since it was made,")
    return config, weights


def read_config(path: Path) -> PredictorConfig:
    """The config of the model saved in the folder `path`."""
    data = _read_json(path / CONFIG)
    if data.pop("format", None) != FORMAT:
        raise CheckpointError(
            f"{path / CONFIG} is not of format {FORMAT}: it was written by another version or program"
        )
    try:
        config = PredictorConfig.from_dict(data)
        if "pretrained" in config.backbone.options:
            raise ConfigError("a saved backbone has its weights here: 'pretrained' is not for it")
        return config
    except ConfigError as error:
        raise CheckpointError(f"{path / CONFIG}: {error}") from error


def read_weights(file: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, with a typed error for one that is missing or damaged."""
    weights, expected = _read(file)
    _compare(file, checksum(weights), expected)
    return weights


def _read(file: Path) -> tuple[dict[str, Tensor], str | None]:
    """The tensors, and the checksum that they should have; None in files of earlier versions and other programs."""
    if not file.is_file():
        raise CheckpointError(f"{file} is missing")
    try:
        with safe_open(file, "pt") as opened:
            expected = (opened.metadata() or {}).get(CHECKSUM)
            return {name: opened.get_tensor(name) for name in opened.keys()}, expected  # noqa: SIM118, it is no mapping
    except (SafetensorError, OSError, ValueError) as error:
        size = file.stat().st_size
        raise CheckpointError(f"{file} ({size} bytes) is damaged or no safetensors file: {error}") from error


def _compare(file: Path, found: str, expected: str | None) -> None:
    if expected is not None and found != expected:
        raise CheckpointError(f"{file} is damaged: its weights do not match their checksum; save or download it again")


def checksum(weights: Mapping[str, Tensor]) -> str:
    """CRC-32 over names, kinds, shapes and bytes. It is 5 times as fast as BLAKE2, and made for flipped bits."""
    found = 0
    for name, tensor in sorted(weights.items()):
        found = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), found)
        data: Any = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
        found = zlib.crc32(data, found)
    return f"{found:08x}"


def _put(new: Path, path: Path) -> None:
    """Rename `new` to `path`. An old folder steps aside first, where `_current` finds it after a kill in between."""
    old = _aside(path)
    if old.is_symlink():
        old.unlink()  # of an earlier version, which put links aside
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)  # of a run that was killed after its second rename
        os.replace(path, old)
    os.replace(new, path)
    _sync(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def _current(path: Path) -> Path:
    """Where the model of `path` is: there, or aside, where a save that was killed between two renames left it."""
    old = _aside(path)
    return old if old.is_dir() and not path.exists() else path


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
    except (OSError, ValueError, RecursionError) as error:
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
