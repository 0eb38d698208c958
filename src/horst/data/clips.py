"""From an example to its frames: which ones the task looks at, decoded from wherever they are.

Shapes: T frames, H x W pixels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from horst.config import check_type
from horst.data.example import Example, Task
from horst.data.readers.pictures import is_pictures, open_pictures
from horst.errors import ConfigError, DamagedVideoError
from horst.video.sampling import (
    SLACK,
    UNOBSERVED,
    Anticipation,
    Indices,
    anticipation_frames,
    frames_at,
    observed_frames,
    start_frame,
    ticks,
)

EPIC_FPS = 30.0
"""Anticipation: positions are counted at this rate, as RULSTM does, whatever the rate of the media."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipConfig:
    """What a clip looks like to a model."""

    size: tuple[int, int] = (224, 224)
    """Height and width that frames are stretched to."""
    fps: float = 12.0
    """Recognition: frames a second that clips are resampled to."""
    observe: float = 1.0
    """Recognition: the fraction of a clip that is seen, from its start; rounded up to whole frames."""
    steps: int = 14
    """Anticipation: positions before the action."""
    stride: float = 0.25
    """Anticipation: seconds between them."""
    mode: Anticipation = "rulstm"
    """Anticipation: what positions before the video's start show; see `anticipation_frames`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", tuple(self.size))
        if len(self.size) != 2 or not all(type(v) is int and v > 0 for v in self.size):
            raise ConfigError(f"size is {self.size}; it takes [height, width] in pixels")
        for name in ("fps", "observe", "stride"):
            check_number(name, getattr(self, name))
        if self.observe > 1:
            raise ConfigError(f"observe is {self.observe}; it is a fraction, from above 0 to 1")
        if type(self.steps) is not int or self.steps < 1:
            raise ConfigError(f"steps is {self.steps!r}; it takes a whole number from 1 on")
        check_type("mode", self.mode, Anticipation)


@dataclass(frozen=True, slots=True)
class Clip:
    """The frames that a model is shown."""

    frames: NDArray[np.uint8]
    """(T, H, W, 3), RGB; black where unobserved."""
    times: NDArray[np.float64]
    """(T,) seconds in the media at which each frame that is shown begins, not those that were wanted; NaN where
    unobserved."""
    note: str = ""
    """What was lost on the way, where something was."""

    @property
    def observed(self) -> NDArray[np.bool_]:
        """(T,): which positions show a frame."""
        return ~np.isnan(self.times)


def check_number(name: str, value: object) -> None:
    """Refuse what is no finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ConfigError(f"{name} is {value!r}; it takes a number above 0")


def read_clip(example: Example, task: Task, config: ClipConfig) -> Clip:
    """The clip of an example, from a video, a folder or a tar file of frames."""
    return _recognition(example, config) if task == "recognition" else _anticipation(example, config)


def wanted_times(start: float, end: float, config: ClipConfig) -> NDArray[np.float64]:
    """Recognition: the times that a clip of an action is made of, up to the fraction that is observed."""
    times = ticks(start, end, config.fps)
    return times[: observed_frames(len(times), config.observe)]


def seen_frames(example: Example, config: ClipConfig) -> Indices:
    """Anticipation: the positions before the action of an example, as frames numbered from 1 at EPIC_FPS."""
    start = example.start_frame if example.start_frame is not None else start_frame(example.start, EPIC_FPS)
    return anticipation_frames(start, EPIC_FPS, config.steps, config.stride, config.mode)


def frame_times(numbers: Indices) -> NDArray[np.float64]:
    """Seconds of positions that `seen_frames` gives; NaN where unobserved."""
    return np.where(numbers != UNOBSERVED, (numbers - 1) / EPIC_FPS, np.nan)


def shown_time(media: Path, time: float, wanted: float) -> float:
    """The time of a decoded frame that stands for `wanted`; an error where it shows what comes after it."""
    if time > wanted + SLACK:
        raise DamagedVideoError(media, f"no frame decodes at {wanted:.2f} s; the next one is at {time:.2f} s")
    return min(time, wanted)  # containers round time stamps by up to SLACK


def check_end(media: Path, last: float, wanted: float, beat: float) -> None:
    """Refuse to let the last frame of a video stand for what is missing after it. `beat`: seconds between frames."""
    if wanted - last > max(1.0, 2 * beat):
        raise DamagedVideoError(
            media, f"it ends at {last:.2f} s; {wanted:.2f} s is {wanted - last:.2f} s later: it is cut off"
        )


def _recognition(example: Example, config: ClipConfig) -> Clip:
    if is_pictures(example.media):
        pictures = open_pictures(example, config.size)
        over = example.end if example.end is not None else pictures.end
        begins, wanted = pictures.times, wanted_times(example.start, max(over, example.start), config)
        note = _cut_off(example.media, begins[-1], wanted, 1 / pictures.fps, config)
        chosen = frames_at(begins, wanted)
        return Clip(np.stack([pictures.read(pictures.numbers[i]) for i in chosen]), begins[chosen], note)
    from horst.video.decode import VideoFile  # packed data is read where FFmpeg is not

    with VideoFile(example.media, size=config.size, threads=1) as video:
        end = example.end if example.end is not None else video.info.duration
        if end is None:  # a file that does not tell its length is decoded to its end
            frames = list(video.frames(example.start))
            end = (frames[-1].time if frames else example.start) + 1 / (video.info.fps or config.fps)
        else:
            last = wanted_times(example.start, max(end, example.start), config)[-1]
            frames = list(video.frames(example.start, last + 2 / config.fps))
    if not frames:
        raise DamagedVideoError(example.media, f"no frame decodes from {example.start:g} s on")
    begins = np.asarray([frame.time for frame in frames])
    wanted = wanted_times(example.start, max(end, example.start), config)
    note = _cut_off(example.media, begins[-1], wanted, 1 / (video.info.fps or config.fps), config)
    chosen = frames_at(begins, wanted)
    return Clip(np.stack([frames[i].image for i in chosen]), begins[chosen], note)


def _cut_off(media: Path, last: float, wanted: NDArray[np.float64], beat: float, config: ClipConfig) -> str:
    """What the last frame stands for, as a note; an error where that is too much."""
    beat, missing = 1.5 * beat, wanted[-1] - last
    if missing <= max(beat, 1.5 / config.fps):
        return ""
    if missing > 0.1 * (wanted[-1] - wanted[0]) + beat:
        raise DamagedVideoError(media, f"it ends at {last:.2f} s; {wanted[-1]:.2f} s are to be seen: it is cut off")
    return f"{media}: the last frame stands for {missing:.2f} s that are missing"


def _anticipation(example: Example, config: ClipConfig) -> Clip:
    numbers = seen_frames(example, config)
    observed = numbers != UNOBSERVED
    wanted = frame_times(numbers)
    frames, times = np.zeros((len(numbers), *config.size, 3), np.uint8), np.full(len(numbers), np.nan)
    if is_pictures(example.media):
        pictures = open_pictures(example, config.size)
        shown = {t: pictures.number_at(t) for t in wanted[observed].tolist()}
        found = {t: (pictures.time_of(number), pictures.read(number)) for t, number in shown.items()}
    else:
        from horst.video.decode import VideoFile

        at = sorted(set(wanted[observed].tolist()))
        with VideoFile(example.media, size=config.size, threads=1) as video:
            decoded = video.at(at)
            check_end(example.media, decoded[-1].time, at[-1], 1 / (video.info.fps or EPIC_FPS))
        found = {t: (shown_time(example.media, f.time, t), f.image) for t, f in zip(at, decoded, strict=True)}
    for i in np.flatnonzero(observed):
        times[i], frames[i] = found[float(wanted[i])]
    return Clip(frames, times)
