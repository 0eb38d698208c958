"""Whole videos as feature vectors at a fixed rate, in .npy files: common to the layouts `lstr` and `ms_tcn`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horst.config import Task
from horst.data.clips import Clip, ClipConfig, check_number, every_nth
from horst.data.example import UNKNOWN, ActionSegment, Annotations, Example, Split
from horst.data.segments import WHOLE_VIDEOS
from horst.data.source import Depth, Source
from horst.errors import ConfigError, DamagedVideoError, DataError, HorstError, MissingVideoError, NotAVideoError
from horst.io import file_stamp

BACKGROUND_NAME = "background"
MAX_DIFFERENCE = 0.5  # seconds, but at least 2 frames, by which the features and labels of a video may differ in length
Columns = Mapping[int, int]  # the class of each column or name of a layout; the background has none


@dataclass(frozen=True, slots=True)
class VectorFiles:
    """The files of a video."""

    features: tuple[Path, ...]  # their vectors are concatenated
    labels: Path
    length: int  # of the labels, in frames


class VectorVideos(Source):
    """A data set of whole videos whose feature vectors are in .npy files, read as maps of 1 x 1.

    `fps`: rate of vectors and labels. `frames_last`: files have the shape (channels, frames), not (frames, channels).
    Files are opened when a clip is read, as a memory map.
    """

    def __init__(
        self, annotations: Annotations, files: Mapping[str, VectorFiles], *, fps: float, frames_last: bool = False
    ) -> None:
        super().__init__(annotations)
        self.files, self.fps, self.frames_last = files, fps, frames_last
        self.channels = self._channels()
        self.map = (sum(self.channels), 1, 1)

    def check(self, config: ClipConfig) -> None:
        """ConfigError for another size, or a frame rate that needs more than every n-th vector."""
        if config.size != (1, 1):
            name, size = self.annotations.name, list(config.size)
            raise ConfigError(f"{name} has vectors, maps of [1, 1], and clip.size is {size}: set it to [1, 1]")
        self._every(config)

    def lengths(self, examples: Sequence[Example], config: ClipConfig) -> list[int | None]:
        every = self._every(config)
        return [max(1, -(-self.files[example.video].length // every)) for example in examples]

    def read(self, example: Example, config: ClipConfig) -> Clip:
        """The vectors (T, channels, 1, 1) of the frames that have both features and labels."""
        every, files, parts = self._every(config), self.files[example.video], []
        arrays = self._open(files)
        count = min(files.length, *(len(array) for array in arrays))
        for path, array in zip(files.features, arrays, strict=True):
            part = np.ascontiguousarray(array[:count:every])
            if not (finite := np.isfinite(part).all(1)).all():
                frame = int(np.flatnonzero(~finite)[0]) * every
                raise DamagedVideoError(path, f"the vector of frame {frame} holds NaN or infinity")
            parts.append(part if part.dtype in (np.float16, np.float32) else part.astype(np.float32))
        maps = np.concatenate(parts, 1)[..., None, None]
        lost = files.length - count
        note = f"{files.features[0]}: the last {lost} of {files.length} labelled frames have no features"
        return Clip(maps, np.arange(len(maps)) * every / self.fps, note if lost else "")

    def problems(self, config: ClipConfig, depth: Depth = "headers") -> list[tuple[str, str]]:
        """(video, reason) of videos whose features are missing, damaged or do not fit the labels."""
        self.check(config)
        found = []
        for example in self.annotations.examples:
            try:
                if depth == "frames":
                    self.read(example, config)
                elif depth == "headers":
                    self._open(self.files[example.video])
                else:
                    for path in self.files[example.video].features:
                        if not path.exists():
                            raise MissingVideoError(path, "there is no such file")
            except HorstError as error:
                found.append((example.video, str(error)))
        return found

    def media_stamps(self, examples: Sequence[Example]) -> dict[Path, tuple[str, str]]:
        """The stamp of a video is that of all its feature files."""
        found = super().media_stamps(examples)
        for example in examples:
            _, *others = self.files[example.video].features
            name, first = found[example.media]
            found[example.media] = name, "; ".join((first.partition(";")[0], *map(file_stamp, others)))
        return found

    def _every(self, config: ClipConfig) -> int:
        if (every := every_nth(self.fps, config.fps)) is None:
            why = f"has features at {self.fps:g} fps, which is no multiple of clip.fps = {config.fps:g}"
            remedy = f"set clip.fps to {self.fps:g}, or to a whole part of it (augment.speed reads 3 times clip.fps)"
            raise ConfigError(f"{self.annotations.name} {why}: {remedy}")
        return every

    def _channels(self) -> tuple[int, ...]:
        """The width of each feature file of the first video that opens."""
        first: HorstError | None = None
        for files in self.files.values():
            try:
                return tuple(array.shape[1] for array in (self._array(path) for path in files.features))
            except HorstError as error:
                first = first or error
        raise first or DataError(f"{self.annotations.name}: there are no videos in its lists of training and test")

    def _open(self, files: VectorFiles) -> list[NDArray[Any]]:
        """(frames, channels) of each feature file. DataError if shapes do not fit the labels or the other videos."""
        arrays = [self._array(path) for path in files.features]
        allowed = max(2, int(MAX_DIFFERENCE * self.fps))
        for path, array, width in zip(files.features, arrays, self.channels, strict=True):
            (frames, channels), shape = array.shape, "(channels, frames)" if self.frames_last else "(frames, channels)"
            if abs(frames - files.length) > allowed:
                swapped = f" Its axes may be swapped: this layout has {shape}." if channels == files.length else ""
                counts = f"it has {frames} frames, and {files.labels} has {files.length}"
                raise DataError(
                    f"{path}: {counts}; they may differ by {allowed}.{swapped} Do both have {self.fps:g} fps?"
                )
            if channels != width:
                raise DataError(f"{path}: it has {channels} channels, and other videos have {width}: extract it again")
        return arrays

    def _array(self, path: Path) -> NDArray[Any]:
        array = open_array(path)
        if array.ndim != 2 or array.dtype.kind != "f" or not array.size:
            shape = "(channels, frames)" if self.frames_last else "(frames, channels)"
            kind = f"it holds {array.dtype} of shape {array.shape}"
            raise DamagedVideoError(path, f"{kind}; features are floats of shape {shape}")
        return array.T if self.frames_last else array


def open_array(path: Path) -> NDArray[Any]:
    """The array in an .npy file, as a memory map. MissingVideoError, or NotAVideoError if it is no such file."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except FileNotFoundError as error:
        raise MissingVideoError(path, "there is no such file") from error
    except (OSError, ValueError, EOFError) as error:
        raise NotAVideoError(path, f"it cannot be read as an .npy file, or is cut off: {error}") from error


def label_columns(
    names: Sequence[str], background: Collection[int], ignored: int | None, task: Task
) -> tuple[dict[str, tuple[str, ...]], Columns]:
    """The classes of a data set, and the class of each column; ignored frames are UNKNOWN for detection."""
    if task not in WHOLE_VIDEOS:
        raise ConfigError(f"data.task is {task!r}; such a layout takes {' or '.join(WHOLE_VIDEOS)}")
    actions = [column for column in range(len(names)) if column not in background and column != ignored]
    chosen = tuple(names[column] for column in actions)
    first = 1 if task == "detection" else 0
    columns = {column: place for place, column in enumerate(actions, first)}
    if task == "online":
        return {"action": chosen, "present": chosen}, columns
    if ignored is not None:
        columns[ignored] = UNKNOWN
    return {"action": (BACKGROUND_NAME, *chosen)}, columns


def label_segments(
    frames: NDArray[np.int64], columns: NDArray[np.int64], classes: Columns, fps: float
) -> tuple[ActionSegment, ...]:
    """Runs of frames with the same column as segments. A frame may have several columns, or none."""
    order = np.lexsort((frames, columns))
    frames, columns = frames[order], columns[order]
    begins = np.flatnonzero(np.diff(frames, prepend=-2) != 1)
    begins = np.union1d(begins, np.flatnonzero(np.diff(columns, prepend=-1)))
    ends = np.append(begins[1:], len(frames))
    runs = zip(columns[begins].tolist(), frames[begins].tolist(), frames[ends - 1].tolist(), strict=True)
    return tuple(
        sorted(ActionSegment(a / fps, (b + 1) / fps, classes[column]) for column, a, b in runs if column in classes)
    )


def vector_example(video: str, split: Split, files: VectorFiles, segments: tuple[ActionSegment, ...]) -> Example:
    """A whole video. Its media is its first feature file."""
    return Example(id=video, split=split, media=files.features[0], labels={}, video=video, segments=segments)


def check_rate(fps: float) -> None:
    check_number("fps", fps)
