"""The work of `horst extract`: every frame that the clips of a data set show, through a backbone, into a store.

Videos are dealt to `parts`, which run in any number of processes and on any number of machines that see the folder.
A part that was killed goes on where it was: finished videos stay, the one in progress is done again. A video of which
nothing could be read is tried again, too: its disk may be back.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from horst.config import check_positive
from horst.data import features
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig, open_source
from horst.data.example import Annotations, Example
from horst.data.extract_frames import Numbered, clip_frames, moments
from horst.data.features import FeatureStore, Maps, Told, stem
from horst.data.jobs import run_jobs
from horst.data.packed import Packed
from horst.errors import ConfigError, DataError
from horst.io import claim_folder, disk_errors, file_stamp, remove_abandoned
from horst.registry import Part
from horst.video.frame import Image


class Network(Protocol):
    """What is needed of a `horst.backbones.Backbone`, which stands to the right of this folder."""

    channels: int
    made_from: Part | None

    def __call__(self, frames: torch.Tensor) -> Any: ...
    def output_size(self, height: int, width: int) -> tuple[int, int]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def to(self, device: Any) -> Any: ...
    def eval(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class ExtractReport:
    """What a part did."""

    videos: int
    """Of this part, in the store now."""
    bad: tuple[tuple[str, str], ...]
    """(id, why) of its examples that could not be read."""


def extract(
    config: DataConfig,
    backbone: Network,
    folder: str | Path,
    *,
    part: int = 0,
    parts: int = 1,
    batch: int = 16,
    device: str | torch.device = "cpu",
) -> ExtractReport:
    """Write the maps of part `part` of `parts` (from 0) of a data set into `folder`; goes on where it was stopped.

    The backbone is moved to `device` and put into evaluation mode. Recognition: whole clips at the config's rate,
    whatever it observes. Anticipation: all frames that "rulstm" shows, among which are those of "strict". Where a file
    does not say the size of frames, it is the backbone's own, if it has one. Videos that were replaced since they were
    extracted are extracted again.
    """
    if not 0 <= part < parts:
        raise ConfigError(f"part is {part} of {parts}; parts are numbered from 0 to {parts - 1}")
    check_positive(batch=batch)
    if config.source in ("features", "rulstm_lmdb"):
        raise ConfigError(f"the source {config.source!r} has features already: extract from videos or frames")
    own = getattr(backbone, "native_size", None)
    if own is not None and "size" in config.unsaid and config.clip.size == ClipConfig().size:
        config = replace(config, clip=replace(config.clip, size=own))
    source = open_source(config)
    reader = getattr(source.read, "__self__", None)
    packed = isinstance(reader, Packed)
    stamp_of = cache(lambda media: reader.digest if isinstance(reader, Packed) else file_stamp(media))
    examples = source.annotations.examples
    annotations = _named(source.annotations, packed=packed)
    clip = replace(config.clip, observe=1.0, mode="rulstm")
    videos: dict[str, list[Example]] = {}
    for example, named in zip(examples, annotations.examples, strict=True):
        videos.setdefault(named.video, []).append(example)
    names, folder = list(videos), Path(folder)
    index = _index(annotations, names, clip, backbone)
    with disk_errors(folder, DataError):
        claim_folder(folder, index, "feature store")
    mine = range(part, len(names), parts)
    remove_abandoned(folder, {f"{stem(number)}.maps" for number in mine})
    frames: Callable[[list[Example], Told], Numbered] = partial(clip_frames, source.read, clip)
    if annotations.task == "anticipation":
        frames = partial(moments, source.read if packed else None, clip)
    backbone.to(device)
    backbone.eval()

    made_of = [stamp_of(videos[name][0].media) for name in names]

    def work(number: int) -> None:
        told = Told(made_of=made_of[number])
        stream = frames(videos[names[number]], told)
        chunks = iter(lambda: list(islice(stream, batch)), [])
        maps = (([n for n, _ in c], _maps(backbone, device, index["map"], [i for _, i in c])) for c in chunks)
        with disk_errors(folder, DataError):
            features.write_maps(folder / f"{stem(number)}.maps", maps, told)

    store = FeatureStore(folder)
    todo = [number for number in mine if not store.finished(names[number], made_of[number])]
    run_jobs(f"extracting {annotations.name}", work, todo, processes=1, done=len(mine) - len(todo))
    here = {(e.split, e.id) for number in mine for e in videos[names[number]]}
    bad = [(ident, why) for split, ident, why in FeatureStore(folder).bad() if (split, ident) in here]
    return ExtractReport(len(mine), tuple(bad))


def _maps(backbone: Network, device: Any, shape: list[int], images: Sequence[Image]) -> Maps:
    frames = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).to(device)  # (N, H, W, 3) -> (N, 3, H, W)
    with torch.inference_mode():
        maps = backbone(frames).half()
    if list(maps.shape[1:]) != shape:
        raise DataError(f"the backbone gives maps of {list(maps.shape[1:])}; it announced {shape}")
    if not torch.isfinite(maps).all():
        raise DataError("the backbone's maps hold values that are not finite in half precision, which ends at 65504")
    return maps.cpu().numpy()


def _named(annotations: Annotations, *, packed: bool) -> Annotations:
    """The same examples, each with a name of its video that is the same on every machine."""
    examples = annotations.examples
    base = os.path.commonpath({e.media.absolute().parent for e in examples})
    names = [e.video or (e.id if packed else e.media.absolute().relative_to(base).as_posix()) for e in examples]
    return replace(annotations, examples=tuple(replace(e, video=name) for e, name in zip(examples, names, strict=True)))


def _index(annotations: Annotations, videos: list[str], clip: ClipConfig, backbone: Network) -> dict[str, Any]:
    made = backbone.made_from or Part(name=type(backbone).__qualname__)
    used = ("size", "fps") if annotations.task == "recognition" else ("size", "steps", "stride")
    index = {
        "format": features.FORMAT,
        "backbone": {"name": made.name, "options": made.options, "weights": _fingerprint(backbone)},
        "map": [backbone.channels, *backbone.output_size(*clip.size)],
        "dtype": "float16",
        "clip": {name: getattr(clip, name) for name in used},
        "videos": videos,
        "annotations": annotations.to_dict(),
    }
    return json.loads(json.dumps(index, default=str))  # options may be paths


def _fingerprint(backbone: Network) -> str:
    """Of the weights: maps of two trainings of one architecture must not meet in one store."""
    digest = hashlib.sha256()
    for name, tensor in sorted(backbone.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]
