"""From an example to its frames: which ones the task looks at, decoded from wherever they are.

Shapes: T frames, H x W pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horst.data.example import Example, Task
from horst.errors import ConfigError, DamagedVideoError
from horst.registry import check_type
from horst.video.images import ImageSequence
from horst.video.sampling import (
    UNOBSERVED,
    Anticipation,
    anticipation_frames,
    frames_at,
    observed_frames,
    start_frame,
    ticks,
)

EPIC_FPS = 30.0


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
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; it takes a number above 0")
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
    """(T,) seconds in the media at which each frame is shown; NaN where unobserved."""
    note: str = ""
    """What was lost on the way, where something was."""

    @property
    def observed(self) -> NDArray[np.bool_]:
        """(T,): which positions show a frame."""
        return ~np.isnan(self.times)


def read_clip(example: Example, task: Task, config: ClipConfig) -> Clip:
    """The clip of an example, from a video, a folder or a tar file of frames."""
    return _recognition(example, config) if task == "recognition" else _anticipation(example, config)


def wanted_times(start: float, end: float, config: ClipConfig) -> NDArray[np.float64]:
    """Recognition: the times that a clip of an action is made of, up to the fraction that is observed."""
    times = ticks(start, end, config.fps)
    return times[: observed_frames(len(times), config.observe)]


def _recognition(example: Example, config: ClipConfig) -> Clip:
    if _is_pictures(example.media):
        sequence = _sequence(example.media, config.size, "")
        numbers = sequence.numbers
        begins = (np.asarray(numbers) - numbers[0]) / sequence.fps
        wanted = wanted_times(example.start, example.end or begins[-1] + 1 / sequence.fps, config)
        chosen = frames_at(begins, wanted)
        return Clip(np.stack([sequence.read(numbers[i]) for i in chosen]), begins[chosen])
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
    beat = 1.5 / (video.info.fps or config.fps)
    note = ""
    if wanted[-1] - begins[-1] > max(beat, 1.5 / config.fps):
        if wanted[-1] - begins[-1] > 0.1 * (wanted[-1] - wanted[0]) + beat:
            raise DamagedVideoError(
                example.media, f"it ends at {begins[-1]:.2f} s; {wanted[-1]:.2f} s are to be seen: it is cut off"
            )
        note = f"{example.media}: the last frame stands for {wanted[-1] - begins[-1]:.2f} s that are missing"
    chosen = frames_at(begins, wanted)
    return Clip(np.stack([frames[i].image for i in chosen]), begins[chosen], note)


def _anticipation(example: Example, config: ClipConfig) -> Clip:
    start = example.start_frame if example.start_frame is not None else start_frame(example.start, EPIC_FPS)
    numbers = anticipation_frames(start, EPIC_FPS, config.steps, config.stride, config.mode)
    observed = numbers != UNOBSERVED
    frames = np.zeros((len(numbers), *config.size, 3), np.uint8)
    if _is_pictures(example.media):
        sequence = _sequence(example.media, config.size, frame_prefix(example))
        pictures = {n: sequence.read(int(n)) for n in set(numbers[observed].tolist())}
    else:
        from horst.video.decode import VideoFile

        shown = sorted(set(numbers[observed].tolist()))
        with VideoFile(example.media, size=config.size, threads=1) as video:
            found = video.at([(n - 1) / EPIC_FPS for n in shown])
            beat = 1 / (video.info.fps or EPIC_FPS)
        late = (shown[-1] - 1) / EPIC_FPS - found[-1].time
        if late > max(1.0, 2 * beat):
            raise DamagedVideoError(
                example.media,
                f"it ends at {found[-1].time:.2f} s; frame {shown[-1]} is {late:.2f} s later: it is cut off",
            )
        pictures = {n: frame.image for n, frame in zip(shown, found, strict=True)}
    for i in np.flatnonzero(observed):
        frames[i] = pictures[int(numbers[i])]
    return Clip(frames, np.where(observed, (numbers - 1) / EPIC_FPS, np.nan))


def frame_prefix(example: Example) -> str:
    """How the names of a video's frames begin where those of several videos lie in one folder; else empty."""
    flat = example.media.is_dir() and example.video and example.media.name != example.video
    return f"{example.video}_frame_" if flat else ""


def _is_pictures(media: Path) -> bool:
    return media.is_dir() or media.suffix == ".tar"


@lru_cache(maxsize=32)
def _sequence(media: Path, size: tuple[int, int], prefix: str) -> Any:
    """Listing a folder of a hundred thousand frames takes a while: once a process is enough."""
    return ImageSequence(media, fps=EPIC_FPS, size=size, prefix=prefix)
