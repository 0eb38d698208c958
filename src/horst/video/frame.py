"""Frames with timestamps, what a file promises and delivers, and which files hold video or images."""

import math
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from horst.errors import InputError

Image = NDArray[np.uint8]  # (H, W, 3) uint8, RGB
Size = tuple[int, int]  # height, width
MAX_PIXELS = 2**26  # 8192 x 8192. Larger images are rejected, so that a damaged header cannot exhaust the memory.
VIDEO_SUFFIXES = (".mp4", ".webm", ".mkv", ".mov", ".avi", ".m4v", ".mpg", ".mpeg", ".ts")  # in lower case
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")


@dataclass(frozen=True, slots=True)
class Frame:
    """One image of a video."""

    image: Image
    time: float  # seconds since the start of the video
    index: int  # position among the decoded frames, from 0


class Closing:
    """A context manager that closes itself."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what reading needs."""


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """The metadata of a container, before anything is decoded. Values that it does not state are None."""

    width: int  # as stored, before a rotation that the file may request
    height: int
    fps: float | None
    duration: float | None  # seconds
    frames: int | None


@dataclass(frozen=True, slots=True)
class DecodeReport:
    """What was decoded of a file, compared with what its container announces."""

    decoded: int  # frames
    corrupt: int  # packets or frames that did not decode, or whose timestamp is invalid
    skipped: int  # frames missing before the end, by the container's frame count or by gaps in a constant rate
    missing: float  # announced seconds at the end that were not decoded
    promised: float | None  # the duration in seconds that the container announces

    @property
    def complete(self) -> bool:
        return not (self.corrupt or self.skipped or self.missing)

    def __str__(self) -> str:
        if self.complete:
            return f"{self.decoded} frames"
        lost = [f"{self.corrupt} packets or frames are corrupt"] if self.corrupt else []
        if self.skipped:
            lost.append(f"{self.skipped} frames are missing at the start or in between")
        if self.missing:
            lost.append(f"the last {self.missing:.2f} of {self.promised:.2f} s are missing")
        return f"{self.decoded} frames were recovered; {' and '.join(lost)}"


def check_number(name: str, value: float, *, zero: bool = False, negative: bool = False) -> float:
    """`value` as a float. InputError unless it is finite and above 0; `zero` and `negative` allow more."""
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not (negative or value > 0 or (zero and value == 0)):
        kind = "a finite number" if negative else "a number from 0 on" if zero else "a number above 0"
        raise InputError(f"{name} is {value!r}; it takes {kind}")
    return float(value)


def check_size(size: Size | None) -> None:
    """InputError unless `size` is None or (height, width) in pixels."""
    if size is not None and (len(size) != 2 or not all(type(side) is int and side > 0 for side in size)):
        raise InputError(f"size is {size}; it takes (height, width) in pixels")


def fit_within(size: Size, side: int) -> Size:
    """The size with the same aspect ratio whose longer side is at most `side`."""
    scale = min(1.0, side / max(size))
    return max(1, round(scale * size[0])), max(1, round(scale * size[1]))


def check_image(image: Image) -> None:
    """InputError unless `image` is an array (H, W, 3) of uint8."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        found = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
        raise InputError(f"the frame is {found}; it must be an image (H, W, 3) of uint8, RGB")


def is_image_sequence(path: Path) -> bool:
    """Whether a video is stored as a folder or a tar file of images."""
    return path.suffix == ".tar" or path.is_dir()
