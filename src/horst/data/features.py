"""A store of backbone maps, computed once: what `horst extract` writes and training reads in place of frames.

    index.json       which backbone at which settings made the maps, and the annotations of the data set
    000012.maps      the maps of video 12, fp16, one after the other; after them, as JSON, which frames they show, and
                     which examples could not be read and why
    000012.bad       there where some could not, and says so to people

A .maps file is written whole and then renamed: after a kill the ones that are there are good, and processes and
machines that work on different videos need no locks.

Maps are found by video and frame number: for anticipation the frame, from 1 at 30 a second; for recognition, where
videos have any frame rate, the time of the frame in microseconds.

Shapes: T frames of C channels, h x w the map's size.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from horst.data.clips import EPIC_FPS, ClipConfig, frame_times, seen_frames
from horst.data.example import Annotations, Example
from horst.errors import ConfigError, DamagedVideoError, DataError
from horst.io import INDEX, atomic_write, decode_checked, encode_checked, read_checked
from horst.video.sampling import UNOBSERVED, Indices, observed_frames

FORMAT = 1
MICRO = 1e6
TAIL = struct.Struct("<Q8s")
"""What a .maps file ends with: the length of its JSON, and MAGIC."""
MAGIC = b"horstmap"

Maps = NDArray[np.float16]
"""(T, C, h, w)."""


@dataclass(frozen=True, slots=True)
class FeatureClip:
    """The maps that a model is shown."""

    maps: NDArray[np.float16] | NDArray[np.float32]
    """(T, C, h, w); zeros where unobserved."""
    times: NDArray[np.float64]
    """(T,) seconds in the media at which each frame is shown; NaN where unobserved."""
    note: str = ""
    """What was lost on the way, where something was."""

    @property
    def observed(self) -> NDArray[np.bool_]:
        """(T,): which positions show a frame."""
        return ~np.isnan(self.times)


@dataclass(frozen=True, slots=True)
class StoredVideo:
    """What a .maps file says of itself."""

    numbers: Indices
    """Of the frames, in the order of their maps."""
    clips: Mapping[tuple[float, float | None], tuple[Indices, str]]
    """Recognition: the frames of the clip that starts and ends there, at the store's rate, and its note."""
    bad: tuple[tuple[str, str, str], ...]
    """(split, id, why) of the examples that could not be read."""
    times: NDArray[np.float64] | None = None
    """Anticipation: the seconds at which each frame was really shown; None: as its number says, in older stores."""
    sums: NDArray[np.int64] | None = None
    """CRC-32 of each map; None in stores of earlier versions."""
    made_of: str | None = None
    """What the video's file was, see `horst.io.stamp`; None in stores of earlier versions."""


class FeatureStore:
    """Maps by video and frame number. It may still be growing: `missing` and `bad` tell what there is not."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.index = read_checked(self.folder / INDEX)[0]
        if self.index.get("format") != FORMAT or "backbone" not in self.index:
            raise DataError(f"{self.folder / INDEX} is not of format {FORMAT}: it is no feature store of this version")
        self.videos: dict[str, int] = {name: number for number, name in enumerate(self.index["videos"])}
        channels, height, width = self.index["map"]
        self.map: tuple[int, int, int] = (channels, height, width)
        self._known: dict[int, StoredVideo] = {}
        self._checked: dict[int, set[int]] = {}
        """Of each video the maps whose checksums were right: they are compared once in each process."""

    def missing(self) -> list[str]:
        """The videos that nobody has finished yet."""
        there = {path.stem for path in self.folder.iterdir() if path.suffix == ".maps"}
        return [name for name, number in self.videos.items() if stem(number) not in there]

    def finished(self, name: str, made_of: str | None = None) -> bool:
        """Whether there is nothing left to do for a video whose file is `made_of`.

        One of which nothing could be read is worth another try, and one that was replaced since is done again.
        """
        path = self.folder / f"{stem(self.videos[name])}.maps"
        if not path.exists() or (path.with_suffix(".bad").exists() and not len(self.video(name).numbers)):
            return False
        before = self.video(name).made_of
        return before is None or made_of is None or before == made_of

    def bad(self) -> list[tuple[str, str, str]]:
        """(split, id, why) of the examples of finished videos that could not be read."""
        marked = {path.stem for path in self.folder.glob("*.bad") if path.with_suffix(".maps").exists()}
        names = [name for name, number in self.videos.items() if stem(number) in marked]
        return [entry for name in names for entry in self.video(name).bad]

    def video(self, name: str) -> StoredVideo:
        """What is stored of a video."""
        if name not in self.videos:
            raise DataError(f"{self.folder} has no video {name!r}: take examples from the store's own annotations")
        number = self.videos[name]
        if number not in self._known:
            self._known[number] = self._look(number)
        return self._known[number]

    def read(self, name: str, numbers: Sequence[int] | Indices) -> Maps:
        """The maps of some frames of a video, in the given order."""
        found, places = np.unique(self._places(name, np.asarray(numbers, np.int64)), return_inverse=True)
        stored = np.empty((len(found), *self.map), np.float16)
        length = stored[:1].nbytes
        path = self.folder / f"{stem(self.videos[name])}.maps"
        done = 0
        with path.open("rb", buffering=0) as file:
            for run in np.split(found, np.flatnonzero(np.diff(found) != 1) + 1):  # neighbours in one read
                file.seek(int(run[0]) * length)
                data = file.read(len(run) * length)
                if len(data) != len(run) * length:
                    raise DataError(f"{path} is cut off: delete it and extract again")
                self._check(name, run, data, path)
                stored[done : done + len(run)] = np.frombuffer(data, "<f2").reshape(-1, *self.map)
                done += len(run)
        return stored[places]

    def times(self, name: str, numbers: Indices) -> NDArray[np.float64]:
        """Anticipation: the seconds at which some frames of a video were shown."""
        stored = self.video(name)
        return frame_times(numbers) if stored.times is None else stored.times[self._places(name, numbers)]

    def _check(self, name: str, places: Indices, data: bytes, path: Path) -> None:
        sums, length = self.video(name).sums, len(data) // len(places)
        checked = self._checked.setdefault(self.videos[name], set())
        for i, place in enumerate(places.tolist()):
            if sums is not None and place not in checked:
                if zlib.crc32(data[i * length : (i + 1) * length]) != sums[place]:
                    raise DataError(
                        f"{path} is damaged (the checksum of map {place} differs): delete it, extract again"
                    )
                checked.add(place)

    def _places(self, name: str, numbers: Indices) -> Indices:
        stored = self.video(name).numbers
        order = np.argsort(stored)
        places = np.searchsorted(stored, numbers, sorter=order)
        absent = places == len(stored)
        absent[~absent] = stored[order[places[~absent]]] != numbers[~absent]
        if absent.any():
            raise DataError(
                f"{self.folder}: frame {numbers[absent][0]} of {name} is not stored; "
                f"maps were extracted for clips of {self.index['clip']}"
            )
        return order[places]

    def _look(self, number: int) -> StoredVideo:
        path = self.folder / f"{stem(number)}.maps"
        try:
            with path.open("rb") as file:
                size = file.seek(-TAIL.size, 2) + TAIL.size
                length, magic = TAIL.unpack(file.read(TAIL.size))
                if magic != MAGIC or length > size - TAIL.size:
                    raise ValueError("its end is missing")
                file.seek(-TAIL.size - length, 2)
                told = decode_checked(file.read(length))
            numbers = np.asarray(told["frames"], np.int64)
            if size != len(numbers) * 2 * int(np.prod(self.map)) + length + TAIL.size:
                raise ValueError(f"its size does not fit {len(numbers)} maps")
            clips = {(start, end): (np.asarray(of, np.int64), note) for start, end, of, note in told["clips"]}
            bad = tuple((split, ident, why) for split, ident, why in told["bad"])
            times = np.asarray(told["times"], np.float64) if "times" in told else None
            if times is not None and len(times) != len(numbers):
                raise ValueError(f"it has {len(times)} times of {len(numbers)} frames")
            sums = None if "sums" not in told else np.asarray(told["sums"], np.int64)
            if sums is not None and sums.shape != numbers.shape:
                raise ValueError(f"it has {sums.size} checksums of {len(numbers)} maps")
        except FileNotFoundError as error:
            raise DataError(f"{path} is missing: extract again") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged ({error}): delete it and extract again") from error
        return StoredVideo(numbers, clips, bad, times=times, sums=sums, made_of=told.get("made_of"))


class Features:
    """A data set whose maps are in a store: `annotations`, and `read` for the maps of an example.

    Examples of which something could not be read stay in the annotations; `bad` lists them, and to read them is an
    error. The size in a ClipConfig is that of the maps, or that of the frames that they were made of.
    """

    def __init__(self, folder: str | Path) -> None:
        self.store = FeatureStore(folder)
        missing = self.store.missing()
        if missing:
            raise DataError(
                f"{folder} is not complete: {len(missing)} of {len(self.store.videos)} videos are missing, "
                f"such as {missing[0]}; run horst extract again, for every part"
            )
        found = self.store.bad()
        self.bad: list[tuple[str, str]] = [(ident, why) for _, ident, why in found]
        self._bad = {(split, ident): why for split, ident, why in found}
        self.annotations = Annotations.from_dict(self.store.index.pop("annotations"), media=self.store.folder)
        self.fps = float(self.store.index["clip"].get("fps", EPIC_FPS))

    def moved(self, annotations: Annotations) -> Features:
        """The same maps, whose examples are in other splits: `annotations` has them in the same order."""
        pairs = zip(self.annotations.examples, annotations.examples, strict=True)
        place = {(old.split, old.id): (new.split, new.id) for old, new in pairs}
        found = copy(self)
        found.annotations = annotations
        found._bad = {place[key]: why for key, why in self._bad.items()}
        return found

    @property
    def map(self) -> tuple[int, int, int]:
        """Channels, height and width of a map."""
        return self.store.map

    def check(self, config: ClipConfig) -> None:
        """Refuse clips of another size. Rates and positions are compared frame by frame."""
        frames, maps = self.store.index["clip"]["size"], list(self.store.map[1:])
        if list(config.size) not in (frames, maps):
            raise ConfigError(
                f"{self.store.folder} has maps of {maps}, of frames of {frames}, and clip.size is {list(config.size)}: "
                f"set it to {maps}, or extract again"
            )

    def read(self, example: Example, config: ClipConfig) -> FeatureClip:
        """The maps of an example: the backbone's, for the frames that `read_clip` gives."""
        try:
            if self.annotations.task == "recognition":
                return self._recognition(example, config)
            return self._anticipation(example, config)
        except DataError as error:
            why = self._bad.get((example.split, example.id))
            if why is None:
                raise
            raise DamagedVideoError(
                f"{self.store.folder}, example {example.id}", f"when features were extracted: {why}"
            ) from error

    def _anticipation(self, example: Example, config: ClipConfig) -> FeatureClip:
        numbers = seen_frames(example, config)
        observed = numbers != UNOBSERVED
        maps = np.zeros((len(numbers), *self.store.map), np.float16)
        maps[observed] = self.store.read(example.video, numbers[observed])
        times = np.full(len(numbers), np.nan)
        times[observed] = self.store.times(example.video, numbers[observed])
        return FeatureClip(maps, times)

    def _recognition(self, example: Example, config: ClipConfig) -> FeatureClip:
        every = round(self.fps / config.fps)
        if every < 1 or abs(every * config.fps - self.fps) > 1e-6 * self.fps:
            raise DataError(
                f"{self.store.folder} has maps at {self.fps:g} frames a second, which is no multiple of {config.fps:g}"
            )
        clips = self.store.video(example.video).clips
        if (example.start, example.end) not in clips:
            raise DataError(f"{self.store.folder}: the clip of example {example.id} is not stored")
        numbers, note = clips[example.start, example.end]
        numbers = numbers[::every]
        numbers = numbers[: observed_frames(len(numbers), config.observe)]
        return FeatureClip(self.store.read(example.video, numbers), numbers / MICRO, note)


@dataclass(slots=True)
class Told:
    """What is learnt of a video while its frames are read."""

    clips: list[tuple[float, float | None, list[int], str]] = field(default_factory=list)
    """Recognition: start, end, frames and note of every clip."""
    bad: list[tuple[str, str, str]] = field(default_factory=list)
    """(split, id, why) of examples that could not be read."""
    times: dict[int, float] = field(default_factory=dict)
    """Anticipation: the seconds at which a frame was really shown, by its number."""
    made_of: str | None = None
    """What the video's file is; see `horst.io.stamp`."""

    def lose(self, example: Example, why: str) -> None:
        self.bad.append((example.split, example.id, why))


def write_maps(path: Path, chunks: Iterable[tuple[Sequence[int], Maps]], told: Told) -> None:
    """Write a .maps file, whole or not at all. `told` is complete when `chunks` are at their end."""
    numbers: list[int] = []
    sums: list[int] = []
    mark = path.with_suffix(".bad")
    with atomic_write(path) as partial:
        with partial.open("wb") as file:
            for some, maps in chunks:
                file.write(maps.astype("<f2").tobytes())
                numbers += some
                sums += [zlib.crc32(one.astype("<f2").tobytes()) for one in maps]
            about = {"frames": numbers, "clips": told.clips, "bad": told.bad, "sums": sums, "made_of": told.made_of}
            if told.times:
                about["times"] = [told.times[n] for n in numbers]
            text = encode_checked(about).encode()
            file.write(text + TAIL.pack(len(text), MAGIC))
            file.flush()
            os.fsync(file.fileno())
        if told.bad:  # before the rename: a .bad file too many is harmless, a missing one hides what is bad
            mark.write_text("".join(f"{split} {ident}: {why}\n" for split, ident, why in told.bad), encoding="utf-8")
    if not told.bad:
        mark.unlink(missing_ok=True)


def stem(number: int) -> str:
    """The name of a video's files, without their endings."""
    return f"{number:06d}"
