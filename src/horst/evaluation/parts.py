"""A split that is evaluated in parts, by processes of one or more machines that share a folder.

Each part writes its scores atomically. The batches are those of one process, so that the merged predictions are the
same to the last bit. A part that was finished earlier is kept, unless it has clips that could not be read.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from horst.data.example import Split
from horst.data.loader import ClipBatches
from horst.errors import ConfigError, DataError
from horst.evaluation.detection import collector
from horst.evaluation.evaluate import clip_for, collect, complete, fingerprint
from horst.evaluation.predictions import Predictions, Share
from horst.io import atomic_write, digest, set_default_mode
from horst.models import Predictor


def part_file(folder: Path, name: str, part: int, parts: int) -> Path:
    """The file of a part, hidden: it is removed when all are there."""
    return folder / f".{name}.part-{part}-of-{parts}.safetensors"


def write_part(file: Path, model: Predictor, clips: ClipBatches, split: Split, part: int, parts: int) -> None:
    """Evaluate part `part` of `parts` (from 0), unless `file` has it."""
    if not 0 <= part < parts:
        raise ConfigError(f"part is {part} of {parts}; parts are numbered from 0 to {parts - 1}")
    key = _key(model, clips, split, parts)
    if (found := _read(file, key)) is not None and not found[1]:
        return
    tensors, bad = collect(model, clips, split, share=(parts, part)).share()
    with atomic_write(file) as partial:
        metadata = {"key": key, "bad": json.dumps(bad)}
        # The dummy makes a file of a part without any clips.
        save_file({"none": torch.zeros(1), **{k: v.contiguous() for k, v in tensors.items()}}, partial, metadata)
        set_default_mode(partial)


def merge_parts(files: list[Path], model: Predictor, clips: ClipBatches, split: Split) -> Predictions:
    """The predictions of all parts. DataError if one is missing or of another model."""
    key, shares = _key(model, clips, split, len(files)), []
    for file in files:
        if (share := _read(file, key)) is None:
            raise DataError(f"{file} is missing, damaged or of another model: evaluate this part again")
        shares.append(share)
    found = collector(clips.annotations.split(split), clip_for(clips, model))
    return complete(found.predictions(shares), clips, split)


def _key(model: Predictor, clips: ClipBatches, split: Split, parts: int) -> str:
    """What the scores of a part depend on."""
    ids = [example.clip_id for example in clips.annotations.split(split).examples]
    clip = asdict(clip_for(clips, model))
    return digest([fingerprint(model), clips.annotations.name, split, ids, clip, clips.batch_size, parts])


def _read(file: Path, key: str) -> Share | None:
    try:
        with safe_open(file, "pt") as stored:
            metadata: dict[str, Any] = stored.metadata() or {}
            if metadata.get("key") != key:
                return None
            names = [name for name in stored.keys() if name != "none"]  # noqa: SIM118, it is no mapping
            bad = {int(index): why for index, why in json.loads(metadata["bad"]).items()}
            return {name: stored.get_tensor(name) for name in names}, bad
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
