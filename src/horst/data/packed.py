"""The packed form: a data set as a few large files, read with numpy and Pillow alone, where there is no FFmpeg.

    index.json            classes, sizes, and how many shards belong to it
    shard-00000.jpgs      the frames of some clips as JPEG, one after the other
    shard-00000.json      which clips these are, where each frame begins, and its time

Shards are independent, each is written whole and then renamed, its .json last: after a kill the shards that are there
are good, and a second run makes the others.
"""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures

from horst.data.clips import Clip, ClipConfig, wanted_times
from horst.data.example import Annotations, Example
from horst.data.folds import DEALT, Tie, ties, together
from horst.data.jobs import run_jobs
from horst.data.tables import read_json
from horst.errors import ConfigError, DamagedVideoError, DataError, HorstError, InputError, VideoError
from horst.files import write_text
from horst.video.images import decode_picture
from horst.video.sampling import frames_at

FORMAT = 1
CLIPS_A_SHARD = 64
INDEX = "index.json"
Render = Callable[[Sequence[Example]], Iterator[Clip | HorstError]]
"""The clips of some examples, in order, by decoding or by drawing them; an error for one that cannot be had."""


@dataclass(frozen=True, slots=True)
class PackReport:
    """What packing left out."""

    bad: tuple[tuple[str, str], ...]
    """(id, why) of clips that could not be read."""


def write_packed(
    folder: str | Path,
    annotations: Annotations,
    render: Render,
    *,
    fps: float,
    quality: int = 90,
    processes: int | None = None,
) -> PackReport:
    """Pack all examples of `annotations` into `folder`; goes on where an earlier run was stopped.

    `render` runs in other processes, so it must be a function of a module or a partial of one. `fps` is the rate of the
    clips that it makes.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shards = _shards(_grouped(annotations.examples))
    about = annotations.to_dict()
    del about["examples"]  # they are told by the shards
    index = about | {"format": FORMAT, "fps": fps, "clips": len(annotations.examples), "shards": len(shards)}
    _claim(folder, index)
    work = partial(_write_shard, folder, render, quality)
    pieces = [(number, shards[number]) for number in _missing(folder, len(shards))]
    run_jobs(f"packing {annotations.name}", work, pieces, processes=processes, done=len(shards) - len(pieces))
    written = [read_json(_shard(folder, number, "json")) for number in range(len(shards))]
    return PackReport(tuple((c["id"], c["why"]) for shard in written for c in shard["clips"] if "why" in c))


def is_complete(folder: Path) -> bool:
    """Whether all shards of a packed data set are there."""
    return (folder / INDEX).exists() and not _missing(folder, read_json(folder / INDEX)["shards"])


def each(
    read: Callable[[Example, ClipConfig], Clip | Any], config: ClipConfig, examples: Sequence[Example]
) -> Iterator[Clip | HorstError]:
    """A `Render` that reads one example after the other."""
    for example in examples:
        try:
            yield read(example, config)
        except (VideoError, InputError) as error:  # damaged, or an action so early that nothing comes before it
            yield error


class Packed:
    """A packed data set: `annotations`, and `read` for the clip of an example.

    Examples that could not be read when it was packed stay in the annotations, so that evaluation counts them; `bad`
    lists them, and to read one is an error.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        index = read_json(self.folder / INDEX)
        if not isinstance(index, dict) or index.get("format") != FORMAT:
            raise DataError(
                f"{self.folder / INDEX} is not of format {FORMAT}: it is no packed data set of this version"
            )
        self.fps = float(index["fps"])
        self._clips: dict[tuple[str, str], tuple[int, list[int], list[float | None]]] = {}
        self._bad: dict[tuple[str, str], str] = {}
        clips: list[dict[str, Any]] = []
        for number in range(index["shards"]):
            path = _shard(self.folder, number, "json")
            if not path.exists():
                raise DataError(
                    f"{self.folder} is not complete: shard {number} of {index['shards']} is missing; pack again"
                )
            shard = read_json(path)
            for clip in shard["clips"]:
                key = clip["split"], clip["id"]
                if "why" in clip:
                    self._bad[key] = clip["why"]
                else:
                    self._clips[key] = (number, clip["offsets"], clip["times"])
            clips += shard["clips"]
        annotations = Annotations.from_dict({**index, "examples": clips}, media=self.folder)
        self.annotations = replace(annotations, examples=_told_apart(annotations.examples))

    @property
    def bad(self) -> list[tuple[str, str]]:
        """(id, why) of the examples that could not be packed."""
        return [(ident, why) for (_, ident), why in self._bad.items()]

    def moved(self, annotations: Annotations) -> Packed:
        """The same clips, whose examples are in other splits: `annotations` has them in the same order."""
        pairs = zip(self.annotations.examples, annotations.examples, strict=True)
        place = {(old.split, old.id): (new.split, new.id) for old, new in pairs}
        found = copy(self)
        found.annotations = annotations
        found._clips = {place[key]: clip for key, clip in self._clips.items()}
        found._bad = {place[key]: why for key, why in self._bad.items()}
        return found

    def times(self, example: Example) -> NDArray[np.float64]:
        """Of the stored frames of an example, NaN where unobserved."""
        if (example.split, example.id) in self._bad:
            why = self._bad[example.split, example.id]
            raise DamagedVideoError(f"{self.folder}, clip {example.id}", f"when it was packed: {why}")
        return np.asarray([np.nan if t is None else t for t in self._clips[example.split, example.id][2]], np.float64)

    def read(self, example: Example, config: ClipConfig) -> Clip:
        """The clip of an example, as `read_clip` gives it from the original."""
        times = self.times(example)
        number, offsets, _ = self._clips[example.split, example.id]
        if self.annotations.task == "recognition":
            end = example.end if example.end is not None else times[-1] + 1 / self.fps
            chosen = frames_at(times, wanted_times(example.start, end, config))
        else:
            if len(times) != config.steps:
                raise ConfigError(
                    f"{self.folder} holds {len(times)} positions of each action and clip.steps is {config.steps}: "
                    "make them agree, or pack again"
                )
            chosen = np.arange(len(times))
        with _shard(self.folder, number, "jpgs").open("rb") as file:
            pictures = {}
            for i in sorted(set(chosen.tolist())):
                if not np.isnan(times[i]):
                    file.seek(offsets[i])
                    name = f"{self.folder}, clip {example.id}, frame {i}"
                    pictures[i] = decode_picture(file.read(offsets[i + 1] - offsets[i]), name, config.size)
        black = np.zeros((*config.size, 3), np.uint8)
        return Clip(np.stack([pictures.get(int(i), black) for i in chosen]), times[chosen])


def _write_shard(folder: Path, render: Render, quality: int, piece: tuple[int, Sequence[Example]]) -> int:
    number, examples = piece
    clips: list[dict[str, Any]] = []
    path = _shard(folder, number, "jpgs")
    partial_path = path.with_suffix(f".{os.getpid()}.partial")
    try:
        with partial_path.open("wb") as file:
            for example, clip in zip(examples, render(examples), strict=True):
                if isinstance(clip, HorstError):
                    clips.append({**example.to_dict(), "why": str(clip)})
                    continue
                offsets = [file.tell()]
                for image, time in zip(clip.frames, clip.times, strict=True):
                    if not np.isnan(time):
                        file.write(encode_picture(image, quality))
                    offsets.append(file.tell())
                clips.append({**example.to_dict(), "offsets": offsets, "times": [_number(t) for t in clip.times]})
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial_path, path)
    finally:
        partial_path.unlink(missing_ok=True)
    write_text(_shard(folder, number, "json"), json.dumps({"clips": clips}))
    return len(clips)


def encode_picture(image: np.ndarray[Any, Any], quality: int) -> bytes:
    buffer = io.BytesIO()
    Pictures.fromarray(image).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def _claim(folder: Path, index: dict[str, Any]) -> None:
    """Write the index, or refuse a folder that belongs to another data set."""
    path = folder / INDEX
    if not path.exists():
        if any(folder.iterdir()):
            raise DataError(f"{folder} is not empty and no packed data set: choose another folder")
        write_text(path, json.dumps(index))
    elif read_json(path) != json.loads(json.dumps(index)):
        raise DataError(f"{folder} holds another packed data set, or one with other settings: choose another folder")


def _grouped(examples: Sequence[Example]) -> list[Example]:
    """Examples that a file ties together as one group: packed, they no longer tell their file.

    It has the file's name where nobody names a group, and the first one's where several are in one file. What is for
    testing ties nothing, as in `horst.data.folds`, and is named like the others.
    """
    clips = Counter(example.media for example in examples if not example.video)
    shared = {media for media, count in clips.items() if count > 1 and not (media / INDEX).is_file()}  # packed before
    if not shared:
        return list(examples)
    base = os.path.commonpath({os.path.abspath(e.media.parent) for e in examples})  # names are as on other machines
    names: dict[Tie, str] = {}
    for one in together([example for example in examples if example.split in DEALT]):
        named = {e.group for e in one if e.group}
        files = {e.media for e in one if not e.group and not e.video and e.media in shared}
        if files or len(named) > 1:
            name = min(named or {Path(os.path.relpath(file, base)).as_posix() for file in files})
            names |= {ties(e)[0]: name for e in one}
    return [replace(e, group=names.get(ties(e)[0], e.group)) for e in examples]


def _told_apart(examples: Sequence[Example]) -> tuple[Example, ...]:
    """Examples whose ids are not their own, each as of a video of its own: all clips are in one place."""
    times = Counter(example.id for example in examples)
    return tuple(replace(e, video=e.video or f"{e.split}/{e.id}") if times[e.id] > 1 else e for e in examples)


def _shards(examples: Sequence[Example]) -> list[list[Example]]:
    """Examples in groups of CLIPS_A_SHARD or somewhat more; those of one video stay together, as it is read once."""
    shards: list[list[Example]] = []
    for example in examples:
        if not shards or (len(shards[-1]) >= CLIPS_A_SHARD and shards[-1][-1].media != example.media):
            shards.append([])
        shards[-1].append(example)
    return shards


def _missing(folder: Path, shards: int) -> list[int]:
    there = {path.name for path in folder.iterdir()}
    files = {n: {_shard(folder, n, suffix).name for suffix in ("jpgs", "json")} for n in range(shards)}
    return [number for number, names in files.items() if not names <= there]


def _shard(folder: Path, number: int, suffix: str) -> Path:
    return folder / f"shard-{number:05d}.{suffix}"


def _number(time: float) -> float | None:
    return None if np.isnan(time) else round(float(time), 6)
