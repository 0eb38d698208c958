"""The packed form: a data set as a few large files, read with numpy and Pillow alone, where there is no FFmpeg.

    index.json            classes, how clips were sampled, and how many shards belong to it
    shard-00000.jpgs      the frames of some clips as JPEG, one after the other
    shard-00000.json      which clips these are, where each frame begins, its time and its CRC-32

Shards are independent, each is written whole and then renamed, its .json last: after a kill the shards that are there
are good, and a second run makes the others.
"""

from __future__ import annotations

import hashlib
import io
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures

from horst.data.clips import EPIC_FPS, Clip, ClipConfig, seen_frames, wanted_times
from horst.data.example import Annotations, Example
from horst.data.jobs import run_jobs
from horst.data.packed_index import Stored, _grouped, _shards, _told_apart, read_clips, read_index
from horst.errors import ConfigError, DamagedVideoError, DataError, HorstError, InputError, VideoError
from horst.io import (
    INDEX,
    atomic_write,
    claim_folder,
    disk_errors,
    encode_checked,
    file_stamp,
    read_checked,
    write_text,
)
from horst.video.images import decode_picture
from horst.video.sampling import UNOBSERVED, frames_at

FORMAT = 1
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
    clip: ClipConfig | None = None,
    native: bool = False,
    quality: int = 90,
    processes: int | None = None,
) -> PackReport:
    """Pack all examples of `annotations` into `folder`; goes on where an earlier run was stopped.

    `render` runs in other processes, so it must be a function of a module or a partial of one. `fps` is the rate of the
    clips that it makes. `clip` says how they were sampled, so that readers refuse what cannot be had from them; None if
    nobody knows. `native`: at the size of the videos, for recognition with all of their frames.

    Shards of an earlier run whose files were replaced since are packed again.
    """
    folder = Path(folder)
    with disk_errors(folder, DataError):
        shards = _shards(_grouped(annotations.examples))
        about = annotations.to_dict()
        del about["examples"]  # they are told by the shards
        index = about | {"format": FORMAT, "fps": fps, "clips": len(annotations.examples), "shards": len(shards)}
        if clip is not None:
            index |= {"clip": asdict(clip), "native": native}
        claim_folder(folder, index, "packed data set", optional=("clip", "native"))
        work = partial(_write_shard, folder, render, quality)
        missing = set(_missing(folder, len(shards)))
        todo = [n for n, of in enumerate(shards) if n in missing or not _is_current(_shard(folder, n, "json"), of)]
        pieces = [(number, shards[number]) for number in todo]
        run_jobs(f"packing {annotations.name}", work, pieces, processes=processes, done=len(shards) - len(pieces))
        written = [read_checked(_shard(folder, number, "json"))[0] for number in range(len(shards))]
        return PackReport(tuple((c["id"], c["why"]) for shard in written for c in shard["clips"] if "why" in c))


def is_complete(folder: Path) -> bool:
    """Whether all shards of a packed data set are there."""
    return (folder / INDEX).exists() and not _missing(folder, read_index(folder / INDEX, FORMAT)[0]["shards"])


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
        index, raw = read_index(self.folder / INDEX, FORMAT)
        self.fps = float(index["fps"])
        self.clip = None if index.get("clip") is None else ClipConfig(**index["clip"])
        """How clips were sampled; None in sets of earlier versions."""
        self.native = index.get("native", False)
        """Whether frames have the size, and for recognition the rate, of the videos."""
        content = hashlib.sha256(raw)
        self._clips: dict[tuple[str, str], tuple[int, Stored]] = {}
        self._bad: dict[tuple[str, str], str] = {}
        clips: list[dict[str, Any]] = []
        for number in range(index["shards"]):
            path = _shard(self.folder, number, "json")
            if not path.exists():
                raise DataError(
                    f"{self.folder} is not complete: shard {number} of {index['shards']} is missing; pack again"
                )
            told, stored, raw, summed = read_clips(path, index)
            pictures = _shard(self.folder, number, "jpgs").stat()
            content.update(raw + f"{pictures.st_size} {0 if summed else pictures.st_mtime_ns}".encode())
            for clip, found in zip(told, stored, strict=True):
                key = clip["split"], clip["id"]
                if key in self._clips or key in self._bad:
                    raise DataError(f"{path}: the clip {clip['id']!r} of {clip['split']} is stored twice; pack again")
                if found is None:
                    self._bad[key] = clip["why"]
                elif found.offsets[-1] > pictures.st_size:
                    raise DataError(f"{path}: clip {clip['id']!r} ends after the pictures do; pack again")
                else:
                    self._clips[key] = (number, found)
            clips += told
        self.digest = content.hexdigest()[:24]
        """Of labels, times and pictures: the same for a copy, wherever it lies."""
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
        return self._clips[example.split, example.id][1].times

    def check(self, config: ClipConfig) -> None:
        """Refuse clips that cannot be had from the stored ones."""
        if self.clip is None or self.native:
            return
        if any(wanted > stored for wanted, stored in zip(config.size, self.clip.size, strict=True)):
            raise ConfigError(
                f"{self.folder} was packed with clip.size {list(self.clip.size)} and clip.size is {list(config.size)}: "
                "choose one that is not larger, or pack again"
            )
        if self.annotations.task == "recognition":
            every = round(self.fps / config.fps)
            if every < 1 or abs(every * config.fps - self.fps) > 1e-6 * self.fps:
                raise ConfigError(
                    f"{self.folder} was packed with clip.fps {self.fps:g}, which is no multiple of clip.fps "
                    f"{config.fps:g}: choose another, or pack again"
                )

    def read(self, example: Example, config: ClipConfig) -> Clip:
        """The clip of an example, as `read_clip` gives it from the original."""
        self.check(config)
        times = self.times(example)
        number, stored = self._clips[example.split, example.id]
        if self.annotations.task == "recognition":
            end = example.end if example.end is not None else times[-1] + 1 / self.fps
            chosen = frames_at(times, wanted_times(example.start, end, config))
        else:
            chosen = self._before(example, times, config)
        pictures = {}
        path = _shard(self.folder, number, "jpgs")
        with path.open("rb") as file:
            for i in sorted({int(i) for i in chosen if i >= 0 and not np.isnan(times[i])}):
                file.seek(stored.offsets[i])
                data = file.read(stored.offsets[i + 1] - stored.offsets[i])
                if stored.sums is not None and zlib.crc32(data) != stored.sums[i]:
                    raise DamagedVideoError(
                        f"{self.folder}, clip {example.id}, frame {i}",
                        f"its checksum does not match, so {path.name} was damaged after it was packed: pack again",
                    )
                pictures[i] = decode_picture(data, f"{self.folder}, clip {example.id}, frame {i}", config.size)
        black = np.zeros((*config.size, 3), np.uint8)
        shown = np.where(chosen >= 0, times[chosen], np.nan)
        return Clip(np.stack([pictures.get(int(i), black) for i in chosen]), shown)

    def _before(self, example: Example, times: NDArray[np.float64], config: ClipConfig) -> NDArray[np.int64]:
        """Anticipation: the stored frame of each position; -1 where unobserved."""
        wanted = seen_frames(example, config)
        stored = np.round(times * EPIC_FPS) + 1  # earlier versions stored the positions' own times
        if self.clip is not None:
            stored = seen_frames(example, replace(self.clip, mode="strict")).astype(np.float64)
        found = stored[None] == wanted[:, None]  # (T, stored)
        found &= ~np.isnan(times)
        absent = (wanted != UNOBSERVED) & ~found.any(1)
        if absent.any():
            made = self.clip or ClipConfig(steps=len(times))
            raise ConfigError(
                f"{self.folder} was packed with clip.steps {made.steps} and clip.stride {made.stride:g}, and has no "
                f"frame {wanted[absent][0]} of example {example.id}, which clip.steps {config.steps} and clip.stride "
                f"{config.stride:g} need: make them agree, or pack again"
            )
        return np.where(wanted == UNOBSERVED, -1, found.argmax(1))


def _write_shard(folder: Path, render: Render, quality: int, piece: tuple[int, Sequence[Example]]) -> int:
    number, examples = piece
    clips: list[dict[str, Any]] = []
    made_of = _made_of(examples)
    with atomic_write(_shard(folder, number, "jpgs")) as partial_path, partial_path.open("wb") as file:
        for example, clip in zip(examples, render(examples), strict=True):
            if isinstance(clip, HorstError):
                clips.append({**example.to_dict(), "why": str(clip)})
                continue
            offsets, sums = [file.tell()], []
            for image, time in zip(clip.frames, clip.times, strict=True):
                data = b"" if np.isnan(time) else encode_picture(image, quality)
                file.write(data)
                sums.append(zlib.crc32(data))
                offsets.append(file.tell())
            times = [_number(t) for t in clip.times]
            clips.append({**example.to_dict(), "offsets": offsets, "times": times, "crc32": sums})
        file.flush()
        os.fsync(file.fileno())
    write_text(_shard(folder, number, "json"), encode_checked({"made_of": made_of, "clips": clips}))
    return len(clips)


def _made_of(examples: Sequence[Example]) -> list[str]:
    """What the files of a shard are; see `stamp`."""
    return [file_stamp(media) for media in dict.fromkeys(e.media for e in examples)]


def _is_current(shard: Path, examples: Sequence[Example]) -> bool:
    """Whether a shard was made of the files that are there now. Those of earlier versions do not say."""
    made_of = read_checked(shard)[0].get("made_of")
    return made_of is None or made_of == _made_of(examples)


def encode_picture(image: np.ndarray[Any, Any], quality: int) -> bytes:
    buffer = io.BytesIO()
    Pictures.fromarray(image).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def _missing(folder: Path, shards: int) -> list[int]:
    there = {path.name for path in folder.iterdir()}
    files = {n: {_shard(folder, n, suffix).name for suffix in ("jpgs", "json")} for n in range(shards)}
    return [number for number, names in files.items() if not names <= there]


def _shard(folder: Path, number: int, suffix: str) -> Path:
    return folder / f"shard-{number:05d}.{suffix}"


def _number(time: float) -> float | None:
    return None if np.isnan(time) else round(float(time), 6)
