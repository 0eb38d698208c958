"""Clips: the frames of an example that the task observes, from a video or images. Shapes: T frames, H x W pixels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horst.config import Task, check_positive, check_type
from horst.data.example import Annotations, Example, SequenceTiming
from horst.errors import ConfigError, DamagedVideoError, DataError, InputError, MissingVideoError, VideoError
from horst.video import sampling
from horst.video.frame import Frame, Image, Size, is_image_sequence
from horst.video.images import ImageSequence
from horst.video.sampling import SLACK, UNOBSERVED, Anticipation, Indices

EPIC_FPS = 30.0  # anticipation: positions are counted at this rate, as RULSTM does, whatever the rate of the media
MAX_EXCESS = 0.5  # seconds by which images may end later than their video: EPIC's own end up to 0.25 s later
BETTER_FIT = 1 / 60  # seconds by which another frame rate must fit better to be suggested
MAX_GAP = 10.0  # seconds without a needed frame that are skipped by seeking instead of decoded
Timed = tuple[int, float, Image | VideoError]
"""The number of a frame, the seconds at which it begins, and its image or why it could not be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipConfig:
    """The form of a clip."""

    size: tuple[int, int] = (224, 224)  # height and width that frames are resized to, whatever their aspect ratio
    fps: float = 12.0  # recognition and online: frame rate that clips and videos are resampled to
    observe: float = 1.0  # recognition: observed fraction of a clip, from its start; rounded up to whole frames
    steps: int = 14  # anticipation: number of positions before the action; online: those that are evaluated
    stride: float = 0.25  # anticipation: seconds between positions
    sequence: int | None = None  # online: how many of the next actions are predicted, Z; None: no sequence
    mode: Anticipation = "rulstm"  # anticipation: what positions before the video show; see `anticipation_frames`

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", tuple(self.size))
        if len(self.size) != 2 or not all(type(v) is int and v > 0 for v in self.size):
            raise ConfigError(f"size is {self.size}; it takes [height, width] in pixels")
        for name in ("fps", "observe", "stride"):
            check_number(name, getattr(self, name))
        if self.observe > 1:
            raise ConfigError(f"observe is {self.observe}; it is a fraction, from above 0 to 1")
        check_positive(steps=self.steps, **({} if self.sequence is None else {"sequence": self.sequence}))
        check_type("mode", self.mode, Anticipation)


@dataclass(frozen=True, slots=True)
class Clip:
    """The frames of an example, or their precomputed feature maps."""

    frames: NDArray[Any]  # (T, H, W, 3) uint8, RGB, or maps (T, C, h, w) as floats; zeros where unobserved
    times: NDArray[np.float64]  # (T,) seconds at which the shown frames begin in the media; NaN where unobserved
    note: str = ""  # what could not be read; empty if nothing is missing

    @property
    def observed(self) -> NDArray[np.bool_]:
        """(T,): which positions have a frame."""
        return ~np.isnan(self.times)


def check_number(name: str, value: object) -> None:
    """ConfigError unless `value` is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigError(f"{name} is {value!r}; it takes a number above 0")


def read_clip(example: Example, task: Task, config: ClipConfig) -> Clip:
    """The clip of an example, from a video, or from a folder or tar file of images."""
    return _anticipation(example, config) if task == "anticipation" else _recognition(example, config)


def clip_times(start: float, end: float, config: ClipConfig) -> NDArray[np.float64]:
    """Recognition: the times of a clip's frames, up to the observed fraction."""
    times = sampling.ticks(start, end, config.fps)
    return times[: sampling.observed_frames(len(times), config.observe)]


def every_nth(stored: float, wanted: float) -> int | None:
    """Every how many frames of the rate `stored` the rate `wanted` needs; None if it is no whole number."""
    every = round(stored / wanted)
    return every if every >= 1 and abs(every * wanted - stored) <= 1e-6 * stored else None


def seen_frames(example: Example, config: ClipConfig) -> Indices:
    """Anticipation: the positions before the action, as frame numbers from 1 at EPIC_FPS."""
    start = example.start_frame
    if start is None:
        start = sampling.start_frame(example.start, EPIC_FPS)
    return sampling.anticipation_frames(start, EPIC_FPS, config.steps, config.stride, config.mode)


def nothing_precedes(example: Example, config: ClipConfig) -> bool:
    """Anticipation: whether an action is too early, which is no fault of the data."""
    try:
        return not len(seen_frames(example, config))
    except InputError:
        return True


def early_actions(annotations: Annotations, config: ClipConfig) -> list[int]:
    """Anticipation: which examples no frame precedes."""
    if annotations.task != "anticipation":
        return []
    return [i for i, example in enumerate(annotations.examples) if nothing_precedes(example, config)]


def early_notice(count: int, split: str, config: ClipConfig) -> str:
    """How many of the actions of a split are left out."""
    actions = f"{count:,} {split}{'action starts' if count == 1 else 'actions start'}"
    them = "it" if count == 1 else "them"
    where = f"in the first {config.stride:g} s of a video, so no frame precedes {them}"
    return f"{actions} {where}: training leaves {them} out"


def frame_times(numbers: Indices) -> NDArray[np.float64]:
    """The seconds of `seen_frames`; NaN where unobserved."""
    return np.where(numbers != UNOBSERVED, (numbers - 1) / EPIC_FPS, np.nan)


def _recognition(example: Example, config: ClipConfig) -> Clip:
    start, end = example.start, example.end
    sequence = open_images(example, config.size) if is_image_sequence(example.media) else None
    if sequence is not None:
        begins, interval = sequence.times, 1 / sequence.fps
        end = sequence.duration if end is None else end
    else:
        from horst.video import VideoFile  # packed data is read without FFmpeg

        with VideoFile(example.media, size=config.size, threads=1) as video:
            end, interval = video.info.duration if end is None else end, 1 / (video.info.fps or config.fps)
            if end is None:  # the file does not state its duration, so all of it is decoded
                frames = list(video.frames(start))
                end = (frames[-1].time if frames else start) + interval
            else:
                last = clip_times(start, max(end, start), config)[-1]
                frames = list(video.frames(start, last + 2 / config.fps))
        if not frames:
            raise DamagedVideoError(example.media, f"no frame decodes from {start:g} s on")
        begins = np.asarray([frame.time for frame in frames])
    wanted = clip_times(start, max(end, start), config)
    note = _missing_end(example.media, begins[-1], wanted, interval, config)
    chosen = sampling.frames_at(begins, wanted)
    images = [sequence.read(sequence.numbers[i]) if sequence is not None else frames[i].image for i in chosen]
    return Clip(np.stack(images), begins[chosen], note)


def _missing_end(media: Path, last: float, wanted: NDArray[np.float64], interval: float, config: ClipConfig) -> str:
    """A note if the last frame stands for a short missing end; DamagedVideoError if more is missing."""
    interval, missing = 1.5 * interval, wanted[-1] - last
    if missing <= max(interval, 1.5 / config.fps):
        return ""
    if missing > 0.1 * (wanted[-1] - wanted[0]) + interval:
        raise DamagedVideoError(media, f"it ends at {last:.2f} s, before {wanted[-1]:.2f} s: it is cut off")
    return f"{media}: the last frame replaces {missing:.2f} s that are missing"


def _anticipation(example: Example, config: ClipConfig) -> Clip:
    numbers = seen_frames(example, config)
    frames, times = np.zeros((len(numbers), *config.size, 3), np.uint8), np.full(len(numbers), np.nan)
    wanted = np.unique(numbers[numbers != UNOBSERVED]).tolist()
    for number, time, image in read_frames(example, wanted, config.size, threads=1):
        if isinstance(image, VideoError):
            raise image
        times[numbers == number], frames[numbers == number] = time, image
    return Clip(frames, times)


def read_frames(example: Example, numbers: list[int], size: Size, threads: int | None = None) -> Iterator[Timed]:
    """Anticipation: the frames of an example's media with these numbers, which increase, or why they are missing."""
    left = list(numbers)
    try:
        if is_image_sequence(example.media):
            images = open_images(example, size)
            while left:
                yield _image_at(images, left.pop(0))
        else:
            yield from _from_video(example.media, size, left, threads)
    except VideoError as error:
        yield from ((number, math.nan, error) for number in left)


def _image_at(images: ImageSequence, number: int) -> Timed:
    place = images.number_at((number - 1) / EPIC_FPS)
    try:
        return number, images.time_of(place), images.read(place)
    except VideoError as error:
        return number, math.nan, error


def _from_video(media: Path, size: Size, left: list[int], threads: int | None) -> Iterator[Timed]:
    """As `VideoFile.at`, but frame by frame: those of a long video do not fit into memory."""
    from horst.video import VideoFile  # packed data and images are read without FFmpeg

    with VideoFile(media, size=size, threads=threads) as video:
        while left:
            begin, shown = (left[0] - 1) / EPIC_FPS, None
            for frame in video.frames(begin):
                while shown is not None and left and frame.time > (left[0] - 1) / EPIC_FPS + SLACK:
                    yield _take(media, shown, left.pop(0))
                if not left or (shown is not None and (left[0] - 1) / EPIC_FPS > frame.time + MAX_GAP):
                    break
                shown = frame
            else:
                if shown is None:
                    raise DamagedVideoError(media, f"no frame decodes at {begin:g} s")
                while left:  # the last frame stays, but not for long
                    check_end(media, shown.time, (left[0] - 1) / EPIC_FPS, 1 / (video.info.fps or EPIC_FPS))
                    yield _take(media, shown, left.pop(0))


def _take(media: Path, frame: Frame, number: int) -> Timed:
    try:
        return number, shown_time(media, frame.time, (number - 1) / EPIC_FPS), frame.image
    except VideoError as error:
        return number, math.nan, error


def shown_time(media: Path, time: float, wanted: float) -> float:
    """The time of the frame that was decoded for the time `wanted`; DamagedVideoError if it is a later one."""
    if time > wanted + SLACK:
        raise DamagedVideoError(media, f"no frame decodes at {wanted:.2f} s; the next one is at {time:.2f} s")
    return min(time, wanted)  # containers round timestamps by up to SLACK


def check_end(media: Path, last: float, wanted: float, interval: float) -> None:
    """DamagedVideoError if `wanted` is long after the last frame. `interval`: seconds between frames."""
    if (late := wanted - last) > max(1.0, 2 * interval):
        raise DamagedVideoError(media, f"it ends at {last:.2f} s; {wanted:.2f} s is {late:.2f} s later: it is cut off")


def frame_prefix(example: Example) -> str:
    """How the names of a video's images begin if one folder holds those of several videos; else empty."""
    flat = example.media.is_dir() and example.video and example.media.name != example.video
    return f"{example.video}_frame_" if flat else ""


def open_images(example: Example, size: Size | None = None) -> ImageSequence:
    """The images of an example whose media is a folder or a tar file; DataError if their frame rate is unknown."""
    if example.timing is None:
        raise unknown_rate(example.media)
    try:
        now = example.media.stat()
    except OSError as error:
        raise MissingVideoError(example.media, "there is no such folder or tar file") from error
    stamp = (now.st_dev, now.st_ino, now.st_mtime_ns)
    return _open_images(example.media, stamp, example.timing, size, frame_prefix(example))


@lru_cache(maxsize=32)
def _open_images(
    media: Path, stamp: tuple[int, int, int], timing: SequenceTiming, size: Size | None, prefix: str
) -> ImageSequence:
    """Listing a folder of 100,000 images is slow, so it is repeated only when the folder changes."""
    images = ImageSequence(media, fps=timing.fps, first=timing.first, size=size, prefix=prefix)
    check_timing(media, images.numbers, timing)
    return images


def unknown_rate(media: Path) -> DataError:
    remedy = "set frames_fps in the data config, or give the CSV file a column fps"
    return DataError(f"{media} holds numbered images, which do not state their frame rate: {remedy}")


def check_timing(media: Path, numbers: list[int], timing: SequenceTiming) -> None:
    """DataError if the numbers of the images do not fit the frame rate and the duration of the video."""
    if timing.first is not None and numbers[0] < timing.first:
        raise DataError(f"{media} has an image {numbers[0]}; such images are numbered from {timing.first} on")
    if timing.duration is None:
        return
    count = numbers[-1] - (timing.first or 0) + 1
    error = abs(count / timing.fps - timing.duration)
    claim = f"{media}: image {numbers[-1]:,} at {timing.fps:g} fps ends at {count / timing.fps:.2f} s; the video has"
    for option, fps in timing.others:
        other = abs(count / fps - timing.duration)
        if other <= MAX_EXCESS and other + BETTER_FIT < error:
            raise DataError(f"{claim} {timing.duration:.2f} s, which fits {fps:g} fps: set frames: {option}")
    if count / timing.fps > timing.duration + MAX_EXCESS:
        these = f"{timing.duration:.2f} s: these are {count / timing.duration:.2f} fps"
        raise DataError(f"{claim} only {these}. Extract them again at {timing.fps:g} fps, or use the video")


def gaps(example: Example, images: ImageSequence) -> str:
    """A description of missing images; empty if none is missing."""
    numbers, found = images.numbers, []
    if numbers[0] > images.first:
        found.append(f"the first image is {numbers[0]:,}, not {images.first}")
    if missing := numbers[-1] - numbers[0] + 1 - len(numbers):
        place = next(a for a, b in pairwise(numbers) if b != a + 1)
        found.append(f"{missing:,} numbers are missing, the first is {place + 1:,}")
    duration = example.timing.duration if example.timing is not None else None
    if duration is not None and duration - images.duration > MAX_EXCESS:
        found.append(f"they end at {images.duration:.2f} s of {duration:.2f} s")
    return "; ".join(found)
