"""A store of feature maps that a backbone computed once. `horst extract` writes it, and training reads it.

    index.json       the backbone and its settings, and the annotations of the data set
    000012.maps      the maps of video 12, fp16, one after the other; then, as JSON, which frames they are, and which
                     examples could not be read and why
    000012.bad       exists if some could not be read, and lists them for people

A .maps file is written atomically, so processes and machines that work on different videos need no locks. Maps are
found by video and frame number: for anticipation the frame from 1 at 30 fps; for recognition, where videos have any
frame rate, the time of the frame in microseconds.
"""

import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from horst.data.clips import EPIC_FPS, Clip, ClipConfig, every_nth, frame_times, seen_frames
from horst.data.example import Annotations, ClipId, Example, Task
from horst.data.segments import as_detection
from horst.data.source import Depth, Source
from horst.errors import ConfigError, DamagedVideoError, DataError
from horst.io import INDEX, MISSING, atomic_write, decode_checked, encode_checked, read_checked
from horst.video.sampling import UNOBSERVED, Indices, observed_frames

FORMAT = 1
MICROSECONDS = 1e6
TAIL = struct.Struct("<Q8s")  # the end of a .maps file: the length of its JSON, and MAGIC
MAGIC = b"horstmap"

Maps = NDArray[np.float16]  # (T, C, h, w)


@dataclass(frozen=True, slots=True)
class StoredVideo:
    """The contents of a .maps file."""

    numbers: Indices  # of the frames, in the order of the maps
    clips: Mapping[tuple[float, float | None], tuple[Indices, str]]
    """Recognition: (frames, note) of the clip with a start and an end, at the frame rate of the store."""
    bad: tuple[tuple[str, str, str], ...]  # (split, id, reason) of the examples that could not be read
    # The others are None in older stores.
    times: NDArray[np.float64] | None  # anticipation: the seconds at which each frame begins, if not at its number
    checksums: NDArray[np.int64] | None  # CRC-32 of each map
    media_stamp: str | None  # the `file_stamp` of the video


class FeatureStore(Source):
    """A data set whose feature maps are in a store, which may be incomplete.

    Examples that could not be read completely stay in the annotations. To read them is an error. The size in a
    ClipConfig is that of the maps, or that of the frames that they were computed from.
    """

    shared_media = True
    map: tuple[int, int, int]

    def __init__(
        self,
        folder: str | Path,
        *,
        grid: Sequence[int] | None = None,
        difference: float | Sequence[float] | None = None,
    ) -> None:
        """`grid`: average each map over height x width cells. `difference`: append to each map its difference to the
        one that many seconds before, as further channels; a list appends several. Both are for recognition and whole
        videos."""
        self.folder = Path(folder)
        self.index = read_checked(self.folder / INDEX)[0]
        if self.index.get("format") != FORMAT or "backbone" not in self.index:
            raise DataError(f"{self.folder / INDEX} is not of format {FORMAT}: it is no feature store of this version")
        super().__init__(Annotations.from_dict(self.index.pop("annotations"), media=self.folder))
        self.videos: dict[str, int] = {name: number for number, name in enumerate(self.index["videos"])}
        channels, height, width = self.index["map"]
        self.stored, self.fps = (channels, height, width), float(self.index["clip"].get("fps", EPIC_FPS))
        seconds = [difference] if isinstance(difference, int | float) else list(difference or ())
        self.lags = [round(one * self.fps) for one in seconds]  # of `difference`, in stored frames
        self.map = (channels * (1 + len(self.lags)), *(grid or (height, width)))
        if self.lags and min(self.lags) < 1:
            frame = f"{1 / self.fps:.3g} s, the time between its frames"
            raise ConfigError(f"{self.folder}: difference is {min(seconds):g} s; it takes at least {frame}")
        if (grid or self.lags) and self.annotations.task == "anticipation":
            raise ConfigError(f"{self.folder}: grid and difference are for recognition and whole videos")
        if grid and (height % grid[0] or width % grid[1]):
            raise ConfigError(
                f"{self.folder}: maps of {height} x {width} cannot be averaged over {grid[0]} x {grid[1]} cells"
            )
        self._clip_ids = {(example.split, example.id): example.clip_id for example in self.annotations.examples}
        self._known: dict[str, StoredVideo] = {}
        self._checked: dict[str, set[int]] = {}  # the maps of each video whose checksums were compared, once a process

    def path(self, name: str) -> Path:
        """The .maps file of a video."""
        if name not in self.videos:
            raise DataError(f"{self.folder} has no video {name!r}: take examples from the store's own annotations")
        return maps_file(self.folder, self.videos[name])

    def missing(self) -> list[str]:
        """The videos that are not finished."""
        there = {path.name for path in self.folder.iterdir()}
        return [name for name in self.videos if self.path(name).name not in there]

    def finished(self, name: str, media_stamp: str | None = None) -> bool:
        """Whether a video needs no more work: something of it was read, and its file is unchanged since, or gone."""
        path = self.path(name)
        if not path.exists() or (path.with_suffix(".bad").exists() and not len(self.video(name).numbers)):
            return False
        before = self.video(name).media_stamp
        return before is None or media_stamp in (None, MISSING, before)

    def bad(self) -> dict[ClipId, str]:
        """The reasons why examples of finished videos could not be read."""
        marked = {path.with_suffix(".maps").name for path in self.folder.glob("*.bad")}
        names = [name for name in self.videos if self.path(name).name in marked and self.path(name).exists()]
        return {self._clip_ids[split, ident]: why for name in names for split, ident, why in self.video(name).bad}

    def problems(self, config: ClipConfig, depth: Depth = "headers") -> list[tuple[str, str]]:
        return [(ident, why) for (ident, *_), why in self.bad().items()]

    def check(self, config: ClipConfig) -> None:
        """ConfigError for another size. Rates and positions are compared frame by frame."""
        frames, maps = self.index["clip"]["size"], list(self.map[1:])
        if list(config.size) not in (frames, maps):
            stored = f"{self.folder} has maps of {maps}, of frames of {frames}"
            raise ConfigError(f"{stored}, and clip.size is {list(config.size)}: set it to {maps}, or extract again")

    def lengths(self, examples: Sequence[Example], config: ClipConfig) -> list[int | None]:
        every, found = max(1, round(self.fps / config.fps)), []
        for example in examples:
            numbers, _ = self.video(example.video).clips.get((example.start, example.end), ((), ""))
            found.append(observed_frames(-(-len(numbers) // every), config.observe) if len(numbers) else 1)
        return list(found)

    def read(self, example: Example, config: ClipConfig) -> Clip:
        """The maps of the frames that `read_clip` gives."""
        try:
            if self.annotations.task != "anticipation":
                return self._recognition(example, config)
            return self._anticipation(example, config)
        except DataError as error:
            why = self.bad().get(example.clip_id)
            if why is None:
                raise
            name = f"{self.folder}, example {example.id}"
            raise DamagedVideoError(name, f"when features were extracted: {why}") from error

    def _anticipation(self, example: Example, config: ClipConfig) -> Clip:
        numbers = seen_frames(example, config)
        observed, times = numbers != UNOBSERVED, frame_times(numbers)
        maps = np.zeros((len(numbers), *self.map), np.float16)
        maps[observed] = self.read_maps(example.video, numbers[observed])
        if (stored := self.video(example.video).times) is not None:
            times[observed] = stored[self._places(example.video, numbers[observed])]
        return Clip(maps, times)

    def _recognition(self, example: Example, config: ClipConfig) -> Clip:
        if (every := every_nth(self.fps, config.fps)) is None:
            raise DataError(f"{self.folder} has maps at {self.fps:g} fps, which is no multiple of {config.fps:g}")
        clips = self.video(example.video).clips
        if (example.start, example.end) not in clips:
            raise DataError(f"{self.folder}: the clip of example {example.id} is not stored")
        numbers, note = clips[example.start, example.end]
        if self.map == self.stored:
            numbers = numbers[::every]
            numbers = numbers[: observed_frames(len(numbers), config.observe)]
            return Clip(self.read_maps(example.video, numbers), numbers / MICROSECONDS, note)
        maps = self._changed(self.read_maps(example.video, numbers))[::every]
        count = observed_frames(len(maps), config.observe)
        return Clip(maps[:count], numbers[::every][:count] / MICROSECONDS, note)

    def _changed(self, maps: Maps) -> Maps:
        """The options `grid` and `difference`, for all frames of a clip."""
        (_, height, width), (channels, *_) = self.map, self.stored
        cells = maps.reshape(len(maps), channels, height, maps.shape[2] // height, width, maps.shape[3] // width)
        maps = cells.mean((3, 5), dtype=np.float32).astype(np.float16)
        before = [np.maximum(np.arange(len(maps)) - lag, 0) for lag in self.lags]
        return np.concatenate([maps, *(maps - maps[earlier] for earlier in before)], 1)

    def read_maps(self, name: str, numbers: Sequence[int] | Indices) -> Maps:
        """The maps of some frames of a video, in the given order."""
        found, places = np.unique(self._places(name, np.asarray(numbers, np.int64)), return_inverse=True)
        stored = np.empty((len(found), *self.stored), "<f2")
        path, checksums, checked = self.path(name), self.video(name).checksums, self._checked.setdefault(name, set())
        with path.open("rb", buffering=0) as file:
            for run in np.split(np.arange(len(found)), np.flatnonzero(np.diff(found) != 1) + 1):
                neighbours = stored[run[0] : run[-1] + 1]  # in one read
                file.seek(int(found[run[0]]) * stored[0].nbytes)
                if file.readinto(neighbours.data) != neighbours.nbytes:
                    raise DataError(f"{path} is cut off: delete it and extract again")
        for place, one in zip(found.tolist(), stored, strict=True):
            if checksums is not None and place not in checked:
                if zlib.crc32(one.data) != checksums[place]:
                    raise DataError(f"{path} is damaged (map {place} has another checksum): delete it, extract again")
                checked.add(place)
        return stored[places]

    def _places(self, name: str, numbers: Indices) -> Indices:
        stored = self.video(name).numbers
        order = np.argsort(stored)
        places = np.searchsorted(stored, numbers, sorter=order)
        absent = places == len(stored)
        absent[~absent] = stored[order[places[~absent]]] != numbers[~absent]
        if absent.any():
            why = f"maps were extracted for clips of {self.index['clip']}"
            raise DataError(f"{self.folder}: frame {numbers[absent][0]} of {name} is not stored; {why}")
        return order[places]

    def video(self, name: str) -> StoredVideo:
        """What is stored of a video."""
        path = self.path(name)
        if name not in self._known:
            self._known[name] = self._read_video(path)
        return self._known[name]

    def _read_video(self, path: Path) -> StoredVideo:
        try:
            with path.open("rb") as file:
                size = file.seek(-TAIL.size, 2) + TAIL.size
                length, magic = TAIL.unpack(file.read(TAIL.size))
                if magic != MAGIC or length > size - TAIL.size:
                    raise ValueError("its end is missing")
                file.seek(-TAIL.size - length, 2)
                data = decode_checked(file.read(length))
            numbers = np.asarray(data["frames"], np.int64)
            if size != len(numbers) * 2 * int(np.prod(self.stored)) + length + TAIL.size:
                raise ValueError(f"its size does not fit {len(numbers)} maps")
            times = np.asarray(data["times"], np.float64) if "times" in data else None
            checksums = np.asarray(data["sums"], np.int64) if "sums" in data else None
            for what, values in (("times", times), ("checksums", checksums)):
                if values is not None and values.shape != numbers.shape:
                    raise ValueError(f"it has {values.size} {what} of {len(numbers)} maps")
            clips = {(start, end): (np.asarray(of, np.int64), note) for start, end, of, note in data["clips"]}
            bad = tuple((split, ident, why) for split, ident, why in data["bad"])
            return StoredVideo(numbers, clips, bad, times, checksums, data.get("made_of"))
        except FileNotFoundError as error:
            raise DataError(f"{path} is missing: extract again") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged ({error}): delete it and extract again") from error


def open_features(
    folder: str | Path,
    *,
    grid: Sequence[int] | None = None,
    difference: float | Sequence[float] | None = None,
    task: Task | None = None,
) -> FeatureStore:
    """The data source "features": a complete feature store. `task`: detection, for videos stored for online."""
    store = FeatureStore(folder, grid=grid, difference=difference)
    if task not in (None, stored := store.annotations.task):
        if (stored, task) != ("online", "detection"):
            raise ConfigError(f"data.task is {task!r} and {folder} was made for {stored}: leave it out")
        store.annotations = as_detection(store.annotations)
    if missing := store.missing():
        lost = f"{len(missing)} of {len(store.videos)} videos are missing, such as {missing[0]}"
        raise DataError(f"{folder} is not complete: {lost}; run horst extract again, for every part")
    return store


@dataclass(slots=True)
class ExtractedVideo:
    """What becomes known of a video while its frames are read."""

    clips: list[tuple[float, float | None, list[int], str]] = field(default_factory=list)  # start, end, frames, note
    bad: list[tuple[str, str, str]] = field(default_factory=list)  # as in `StoredVideo`
    times: dict[int, float] = field(default_factory=dict)  # anticipation: when a frame begins, by its number
    media_stamp: str | None = None

    def add_bad(self, example: Example, why: str) -> None:
        self.bad.append((example.split, example.id, why))


def write_maps(path: Path, batches: Iterable[tuple[Sequence[int], Maps]], video: ExtractedVideo) -> None:
    """Write a .maps file atomically. `video` is complete when `batches` are exhausted."""
    numbers: list[int] = []
    checksums: list[int] = []
    mark = path.with_suffix(".bad")
    with atomic_write(path) as partial:
        with partial.open("wb") as file:
            for some, maps in batches:
                stored = [one.astype("<f2").tobytes() for one in maps]
                file.writelines(stored)
                numbers += some
                checksums += map(zlib.crc32, stored)
            data = {"frames": numbers, "clips": video.clips, "bad": video.bad, "sums": checksums}
            data |= {"made_of": video.media_stamp}
            data |= {"times": [video.times[n] for n in numbers]} if video.times else {}
            text = encode_checked(data).encode()
            file.write(text + TAIL.pack(len(text), MAGIC))
            file.flush()
            os.fsync(file.fileno())
        if video.bad:  # before the rename: a .bad file too many is harmless, a missing one hides what is bad
            mark.write_text("".join(f"{split} {ident}: {why}\n" for split, ident, why in video.bad), encoding="utf-8")
    if not video.bad:
        mark.unlink(missing_ok=True)


def maps_file(folder: Path, number: int) -> Path:
    """The .maps file of a video by its number in the index."""
    return folder / f"{number:06d}.maps"
