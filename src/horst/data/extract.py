"""`horst extract`: pass every frame of a data set's clips through a backbone, and store the maps.

Videos are divided into `parts`, which run in any number of processes and on any number of machines that share the
folder. A part that was killed continues: finished videos stay, the one in progress is repeated. A video of which
nothing could be read is tried again, because its disk may be back.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from horst.config import check_positive
from horst.data.clips import EPIC_FPS, ClipConfig, Timed, read_frames, seen_frames
from horst.data.config import DataConfig
from horst.data.example import Annotations, Example
from horst.data.features import (
    FORMAT,
    MICROSECONDS,
    ExtractedVideo,
    FeatureStore,
    Maps,
    maps_file,
    open_features,
    write_maps,
)
from horst.data.jobs import run_jobs
from horst.data.source import media_names, open_source
from horst.data.windows import FrameRun, Read, Window, anticipation_windows, readable_clips, recognition_runs
from horst.errors import ConfigError, DataError, InputError, VideoError
from horst.io import claim_folder, disk_errors, remove_abandoned
from horst.registry import Part
from horst.video.frame import Image

T = TypeVar("T")
Numbered = Iterator[tuple[int, Image]]  # frames with their numbers in the store
Batches = Iterator[tuple[Sequence[int], Maps]]  # maps with the numbers of their frames
Backbone = Any  # a `horst.backbones.Backbone`: this package must not import it


@dataclass(frozen=True, slots=True)
class ExtractReport:
    """The result of a part."""

    videos: int  # of this part, that are in the store
    bad: tuple[tuple[str, str], ...]  # (id, reason) of its examples that could not be read


def extract(
    config: DataConfig,
    backbone: Backbone,
    folder: str | Path,
    *,
    part: int = 0,
    parts: int = 1,
    batch: int = 16,
    device: str | torch.device = "cpu",
) -> ExtractReport:
    """Write the maps of part `part` of `parts` (from 0) of a data set into `folder`, or continue a run.

    The backbone is moved to `device` and put into evaluation mode. Recognition: complete clips at the config's rate,
    whatever it observes. Anticipation: all frames of the mode "rulstm", which include those of "strict". The windows of
    a `WindowBackbone` begin with the clip, in anticipation with the video, as those of a live stream. If the config
    does not state the size of frames, the backbone's own is used, if it has one. Videos that changed since they were
    extracted are extracted again; the maps of videos that are gone stay.
    """
    if not 0 <= part < parts:
        raise ConfigError(f"part is {part} of {parts}; parts are numbered from 0 to {parts - 1}")
    check_positive(batch=batch)
    if (own := getattr(backbone, "native_size", None)) is not None:
        config = replace(config, clip=config.clip_for(size=own, fps=config.clip.fps))
    source = open_source(config)
    if source.map is not None:
        raise ConfigError(f"the source {config.source!r} has features already: extract from videos or frames")
    clip = replace(config.clip, observe=1.0, mode="rulstm")
    media, by_id = media_names(source.annotations.examples), source.shared_media
    videos: dict[str, list[Example]] = {}
    named = []
    for example in source.annotations.examples:  # names of videos are the same on every machine
        name = example.video or (example.id if by_id else media[example.media])
        videos.setdefault(name, []).append(example)
        named.append(replace(example, video=name))
    annotations, names, folder = replace(source.annotations, examples=tuple(named)), list(videos), Path(folder)
    index = _index(annotations, names, clip, backbone)
    with disk_errors(folder, DataError):
        claim_folder(folder, index, "feature store")
    mine = range(part, len(names), parts)
    remove_abandoned(folder, {maps_file(folder, number).name for number in mine})
    anticipates = annotations.task == "anticipation"
    frames: Callable[[list[Example], ExtractedVideo], Numbered] = partial(recognition_stream, source.read, clip)
    if anticipates:
        frames = partial(anticipation_stream, source.read if by_id else None, clip)
    windowed = backbone.window > 1
    if windowed and anticipates:
        _check_windows(backbone, packed=by_id)
    backbone.to(device)
    backbone.eval()
    media_stamps = source.media_stamps(source.annotations.examples)
    stamps = [media_stamps[videos[name][0].media][1] for name in names]

    def work(number: int) -> None:
        video = ExtractedVideo(media_stamp=stamps[number])
        examples, shape = videos[names[number]], index["map"]
        maps: Batches
        if windowed and anticipates:
            windows = anticipation_windows(clip, backbone.window, examples, video)
            maps = _window_maps(backbone, device, shape, windows, batch)
        elif windowed:
            maps = _run_maps(backbone, device, shape, recognition_runs(source.read, clip, examples, video), batch)
        else:
            chunks = _chunks(frames(examples, video), batch)
            maps = (([n for n, _ in b], _maps(backbone, device, shape, [i for _, i in b])) for b in chunks)
        with disk_errors(folder, DataError):
            write_maps(maps_file(folder, number), maps, video)

    store = FeatureStore(folder)
    todo = [number for number in mine if not store.finished(names[number], stamps[number])]
    run_jobs(f"extracting {annotations.name}", work, todo, processes=1, done=len(mine) - len(todo))
    here = {names[number] for number in mine}
    bad = [(ident, why) for (ident, video, *_), why in FeatureStore(folder).bad().items() if video in here]
    return ExtractReport(len(mine), tuple(bad))


def extracted(folder: Path) -> ExtractReport:
    """The result of all parts. DataError if a video is missing."""
    store = open_features(folder)
    return ExtractReport(len(store.videos), tuple((ident, why) for (ident, *_), why in store.bad().items()))


def _maps(backbone: Backbone, device: Any, shape: list[int], images: Sequence[Image]) -> Maps:
    with torch.inference_mode():  # `clip`, because it divides a batch into parts that suit the device
        return _stored(backbone.clip(_frames(images, device).unsqueeze(0))[0][0], shape)


def _run_maps(backbone: Backbone, device: Any, shape: list[int], runs: Iterator[FrameRun], batch: int) -> Batches:
    """Of a `WindowBackbone`, clip by clip. Its memory is carried on from batch to batch."""
    for numbers, images in runs:
        memory = None
        for begin in range(0, len(numbers), batch):
            some = slice(begin, begin + batch)
            with torch.inference_mode():
                maps, memory = backbone.clip(_frames(images[some], device).unsqueeze(0), memory)
                stored = _stored(maps[0], shape)
            yield numbers[some], stored


def _window_maps(backbone: Backbone, device: Any, shape: list[int], windows: Iterator[Window], batch: int) -> Batches:
    """Of a `WindowBackbone`, window by window."""
    for some in _chunks(windows, batch):
        with torch.inference_mode():
            frames = torch.stack([_frames(images, device) for _, images in some])
            maps, _ = backbone.clip(frames[:, -1:], backbone.after(frames[:, :-1]))
            stored = _stored(maps[:, 0], shape)
        yield [number for number, _ in some], stored


def _chunks(stream: Iterator[T], size: int) -> Iterator[list[T]]:
    return iter(lambda: list(islice(stream, size)), [])


def _check_windows(backbone: Backbone, *, packed: bool) -> None:
    """ConfigError if windows before actions cannot be made."""
    name = type(backbone).__name__
    if packed:
        reason = "which packed clips do not contain: extract from the videos"
        raise ConfigError(f"the windows of {name} reach back before the clips, {reason}")
    if backbone.stride > 1:
        instead = "in anticipation clip.stride is the time between windows: leave stride out"
        raise ConfigError(f"stride of {name} is {backbone.stride}; {instead}")


def _frames(images: Sequence[Image], device: Any) -> torch.Tensor:
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).to(device)  # (N, H, W, 3) -> (N, 3, H, W)


def _stored(found: torch.Tensor, shape: list[int]) -> Maps:
    maps = found.half()
    if list(maps.shape[1:]) != shape:
        raise DataError(f"the backbone gives maps of {list(maps.shape[1:])}; it announced {shape}")
    if not torch.isfinite(maps).all():
        raise DataError("the backbone's maps have values that are not finite in half precision, which ends at 65504")
    return maps.cpu().numpy()


def _index(annotations: Annotations, videos: list[str], clip: ClipConfig, backbone: Backbone) -> dict[str, Any]:
    made = backbone.made_from or Part(name=type(backbone).__qualname__)
    used = ("size", "steps", "stride") if annotations.task == "anticipation" else ("size", "fps")
    weights = hashlib.sha256()  # maps of two trainings of one architecture must not be in one store
    for name, tensor in sorted(backbone.state_dict().items()):
        weights.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        weights.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy())
    index = {
        "format": FORMAT,
        "backbone": {"name": made.name, "options": made.options, "weights": weights.hexdigest()[:16]},
        "map": [backbone.channels, *backbone.output_size(*clip.size)],
        "dtype": "float16",
        "clip": {name: getattr(clip, name) for name in used},
        "videos": videos,
        "annotations": annotations.to_dict(),
    }
    return json.loads(json.dumps(index, default=str))  # options may be paths


def recognition_stream(read: Read, config: ClipConfig, examples: Iterable[Example], video: ExtractedVideo) -> Numbered:
    """Recognition: the frames of every clip of a video, each once. Clips that cannot be read are added to `video`."""
    seen: set[int] = set()
    for place, clip in readable_clips(read, config, examples, video):
        numbers = [round(t * MICROSECONDS) for t in clip.times.tolist()]
        video.clips.append((*place, numbers, clip.note))
        new = {n: image for n, image in zip(numbers, clip.frames, strict=True) if n not in seen}
        seen.update(new)
        yield from new.items()


def anticipation_stream(
    read: Read | None, config: ClipConfig, examples: Sequence[Example], video: ExtractedVideo
) -> Numbered:
    """Anticipation: the frames before every action of a video, in order, each once.

    Examples with frames that cannot be read are added to `video`. `read` is given if clips are packed.
    """
    wanted: list[tuple[Example, list[int]]] = []
    for example in examples:
        with suppress(InputError):  # nothing precedes the action: readers find that without the store
            wanted.append((example, seen_frames(example, config).tolist()))
    numbers = sorted({n for _, of in wanted for n in of})
    found: set[int] = set()
    failed: dict[int, VideoError] = {}
    stream = read_frames(examples[0], numbers, config.size)
    if read is not None:
        stream = _from_packed(read, config, wanted)
    for number, time, image in stream:
        if isinstance(image, VideoError):
            failed[number] = image
        elif number not in found:
            found.add(number)
            video.times[number] = time
            yield number, image
    for example, of in wanted:
        if lost := [n for n in of if n not in found]:
            video.add_bad(example, str(failed.get(lost[0], f"frame {lost[0]} is not in the packed data set")))


def _from_packed(read: Read, config: ClipConfig, wanted: list[tuple[Example, list[int]]]) -> Iterator[Timed]:
    for example, numbers in wanted:
        try:
            clip = read(example, config)
        except VideoError as error:
            yield from ((number, math.nan, error) for number in numbers)
        else:
            for i in np.flatnonzero(clip.observed):
                number, time = numbers[i], float(clip.times[i])
                if abs((number - 1) / EPIC_FPS - time) < config.stride / 2:  # else it was packed at other positions
                    yield number, time, clip.frames[i]
