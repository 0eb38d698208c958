"""Saved models: a folder of data, nothing that executes. As it is, it is a repository of the Hugging Face Hub (`hub`).

    config.json        how to build the model
    model.safetensors  its weights
    labels.json        names of its classes, where it has them
    README.md          a card for people, with metadata for the Hub (`card`)

A save is atomic: the folder is written under another name and then renamed. Loading checks every name, shape and number
before it returns a model, and the CRC-32 of all weights in the metadata of model.safetensors.
"""

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

from horst.errors import CheckpointError, ConfigError, DataError, ExistsError
from horst.io import read_json, set_default_mode, write_text
from horst.models.card import CARD, card_metadata, is_own_card, read_card, with_results, write_card
from horst.models.predictor import Labels, Predictor, PredictorConfig
from horst.places import FUSION, MODEL, current_place
from horst.weights import check_fit, load_checked

FORMAT = 1
ATTEMPTS = 20  # to read a folder that other processes replace
Weights = tuple[dict[str, Tensor], str | None]  # and the checksum that they should have
CONFIG, WEIGHTS, LABELS = MODEL, "model.safetensors", "labels.json"
CHECKSUM = "crc32"


def save(
    model: Predictor,
    path: str | Path,
    *,
    overwrite: bool = False,
    half: bool = False,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    text: str | None = None,
) -> Path:
    """Write `model` to the folder `path`.

    Args:
        model: All its parts must be registered; see `Predictor.config`.
        path: A new or empty folder.
        overwrite: Replace the folder if it is a saved model. A README.md of one's own is kept.
        half: Store the weights as fp16, at half the size; `load` always gives fp32.
        name: The title of the README.md; by default the name of the folder.
        metadata: Entries of the README.md's metadata, such as {"license": "mit"}, beside those of `model.card_data`.
        text: The text of the README.md, instead of a short description.
    """
    path = Path(path)
    path = path.resolve() if path.is_symlink() else path  # keep the link, replace its target
    config, weights = _savable(model)
    if half:
        weights = {name: w.half() if w.is_floating_point() else w for name, w in weights.items()}
    check_place(path, overwrite)
    new = path.with_name(f".{path.name}.new")
    described = {CONFIG: {"format": FORMAT, **config.to_dict()}}
    if model.labels is not None:
        described[LABELS] = dict(model.labels)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(new, ignore_errors=True)  # left by a killed process
        new.mkdir()
        for file, data in described.items():
            write_text(new / file, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
        found = checksum(weights)
        save_file(weights, new / WEIGHTS, metadata={"format": "pt", CHECKSUM: found})
        set_default_mode(new / WEIGHTS)
        card, about = read_card(path), {**model.card_data, **(metadata or {})}
        if card is None or not is_own_card(card) or text is not None:
            card = write_card(name or path.name, config, model.labels, weights=found, metadata=about, text=text)
        write_text(new / CARD, card)
        for written in new.iterdir():
            _sync(written)
        _put(new, path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be written: {error}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return path


def check_place(path: Path, overwrite: bool) -> None:
    """Raise if `save` would refuse to write to `path`: call it before work that takes long."""
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists() and not overwrite:
        raise ExistsError(f"{path} exists; pass overwrite=True to replace it, or choose another name")
    if path.exists() and not (path / CONFIG).is_file():
        raise CheckpointError(f"{path} exists and is not a saved model, so it is not replaced: choose another name")


def load(path: str | Path, *, device: torch.device | str = "cpu") -> Predictor:
    """The model saved in the folder `path`, in fp32 and evaluation mode. Nothing in the folder is executed."""
    path, (config, labels, skeleton, (weights, expected), card) = _read_model(Path(path))
    file = path / WEIGHTS
    with ThreadPoolExecutor(1) as pool:  # compute the checksum while the model is built
        found = pool.submit(checksum, weights)
        check_fit(skeleton, weights, source=str(file))
        model = Predictor.from_config(config, labels=labels)
    if expected not in (None, found.result()):
        raise CheckpointError(f"{file} is damaged: its weights do not match their checksum; save or download it again")
    load_checked(model, weights, source=str(file))
    model.card_data = card_metadata(card)
    return model.to(device).eval()


def _skeleton(config: PredictorConfig, labels: Labels | None, path: Path) -> Predictor:
    """The model without memory for its weights, to compare sizes first."""
    try:
        with torch.device("meta"):
            return Predictor.from_config(config, labels=labels)
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise CheckpointError(f"{path / CONFIG}: no model can be built from it: {error}") from error


def _read_model(path: Path) -> tuple[Path, tuple[PredictorConfig, Labels | None, Predictor, Weights, str | None]]:
    """Where a model is, and all its files. They are read again if another model replaced it meanwhile."""
    for _ in range(ATTEMPTS):
        place = current_place(path)
        before = _stamp(place)
        try:
            if not place.is_dir():
                raise CheckpointError(f"{place} is not a folder: pass the folder of a saved model")
            config, labels = read_config(place), read_labels(place)
            skeleton = _skeleton(config, labels, place)
            found = config, labels, skeleton, _read(place / WEIGHTS), read_card(place)
        except (CheckpointError, OSError):
            if _stamp(current_place(path)) == before:
                raise
        else:
            if _stamp(place) == before:
                return place, found
    raise CheckpointError(f"{path} was replaced {ATTEMPTS} times while it was read: try again later")


def _stamp(folder: Path) -> tuple[int, int, int] | None:
    """What tells a folder from one that replaced it; None if there is none."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def add_results(path: Path, model: Predictor, result: Mapping[str, Any]) -> None:
    """Add a result of the model-index (see `card`) to the card of the model in the folder `path`.

    A user's own card stays as it is, and so does one of other weights than those that were evaluated.
    """
    path = current_place(path)
    card, weights = read_card(path), checksum(_weights(model))
    if card is None or is_own_card(card) or _read_checksum(path / WEIGHTS) != weights:
        return
    metadata = with_results(card_metadata(card), result, weights)
    name = next((line[2:] for line in card.splitlines() if line.startswith("# ")), path.name)
    text = write_card(name, read_config(path), read_labels(path), weights=weights, metadata=metadata)
    write_text(path / CARD, text)


def _savable(model: Predictor) -> tuple[PredictorConfig, dict[str, Tensor]]:
    """Config and weights of a model, checked as `load` checks them."""
    try:
        config = model.config
        options = _without(config.backbone.options, "pretrained")
        config = replace(config, backbone=replace(config.backbone, options=options))  # the weights are saved beside it
        with torch.device("meta"):
            skeleton = Predictor.from_config(config, labels=model.labels)
    except ConfigError as error:
        raise CheckpointError(f"the model cannot be saved: {error}") from error
    weights = _weights(model)
    check_fit(skeleton, weights, source="the model, which was changed after it was built,")
    return config, weights


def _weights(model: Predictor) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous().cpu() for name, tensor in model.state_dict().items()}


def read_config(path: Path) -> PredictorConfig:
    """The config of the model saved in the folder `path`."""
    data = _read_json(path / CONFIG)
    if data.pop("format", None) != FORMAT:
        raise CheckpointError(f"{path / CONFIG} is not of format {FORMAT}: another version or program wrote it")
    try:
        config = PredictorConfig.from_dict(data)
        if _without(config.backbone.options, "pretrained") != config.backbone.options:
            raise ConfigError("a saved backbone has its weights here: 'pretrained' is not for it")
        return config
    except ConfigError as error:
        raise CheckpointError(f"{path / CONFIG}: {error}") from error


def _without(data: Any, key: str) -> Any:
    """Plain data without this key in any mapping, at any depth."""
    if isinstance(data, dict):
        return {name: _without(value, key) for name, value in data.items() if name != key}
    return type(data)(_without(value, key) for value in data) if isinstance(data, list | tuple) else data


def _read(file: Path) -> Weights:
    """The tensors and their checksum; None in files of earlier versions and other programs."""
    if not file.is_file():
        raise CheckpointError(f"{file} is missing")
    try:
        with safe_open(file, "pt") as opened:
            expected = (opened.metadata() or {}).get(CHECKSUM)
            return {name: opened.get_tensor(name) for name in opened.keys()}, expected  # noqa: SIM118, it is no mapping
    except (SafetensorError, OSError, ValueError) as error:
        size = file.stat().st_size
        raise CheckpointError(f"{file} ({size} bytes) is damaged or no safetensors file: {error}") from error


def _read_checksum(file: Path) -> str | None:
    try:
        with safe_open(file, "pt") as opened:
            return (opened.metadata() or {}).get(CHECKSUM)
    except (SafetensorError, OSError):
        return None


def checksum(weights: Mapping[str, Tensor]) -> str:
    """CRC-32 over names, dtypes, shapes and bytes. It detects flipped bits and is 5 times as fast as BLAKE2."""
    found = 0
    for name, tensor in sorted(weights.items()):
        found = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), found)
        data: Any = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
        found = zlib.crc32(data, found)
    return f"{found:08x}"


def _put(new: Path, path: Path) -> None:
    """Rename `new` to `path`. The old folder is moved first; `current_place` finds it after a kill in between."""
    old = path.with_name(f".{path.name}.old")
    if old.is_symlink():
        old.unlink()  # left by an earlier version, which moved links
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)  # left by a process that was killed after its second rename
        os.replace(path, old)
    os.replace(new, path)
    _sync(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        data = read_json(file)
    except DataError as error:
        missing = f"{file} is missing: {file.parent} is not a saved model"
        if (file.parent / FUSION).is_file() and (why := read_json(file.parent / FUSION).get("not_served")):
            missing = f"{file.parent} has the results of fused runs, and no model that reads frames: {why}"
        raise CheckpointError(missing if isinstance(error.__cause__, FileNotFoundError) else str(error)) from error
    if not isinstance(data, dict):
        raise CheckpointError(f"{file} holds {type(data).__name__}; a mapping is needed")
    return data


def read_labels(path: Path) -> Labels | None:
    """The class names by task of the model saved in the folder `path`, if it has them."""
    file = path / LABELS
    if not file.exists():
        return None
    labels = _read_json(file)
    for task, names in labels.items():
        if not isinstance(names, list):
            raise CheckpointError(f"{file}: {task!r} holds {type(names).__name__}; a list of names is needed")
    return labels
