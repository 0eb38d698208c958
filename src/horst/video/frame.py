"""Frames with timestamps, what a file promises and delivers, and which files hold video or images."""

import math
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from horst.errors import InputError

Image = NDArray[np.uint8]  # (H, W, 3) uint8, RGB
Size = tuple[int, int]  # height, width
MAX_PIXELS = 2**26  # 8192 x 8192. Larger images are rejected, so that a damaged header cannot exhaust the memory.
VIDEO_SUFFIXES = (".mp4", ".webm", ".mkv", ".mov", ".avi", ".m4v", ".mpg", ".mpeg", ".ts")
"""File name endings of videos, in lower case."""
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")  # file name endings of images, in lower case


@dataclass(frozen=True, slots=True)
class Frame:
    """One image of a video."""

    image: Image
    time: float
    """Seconds since the start of the video."""
    index: int
    """Position among the decoded frames, from 0."""


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """The metadata of a container, before anything is decoded. Values that it does not state are None."""

    width: int
    height: int
    """Width and height as stored, before a rotation that the file may request."""
    fps: float | None
    duration: float | None
    """Seconds."""
    frames: int | None


@dataclass(frozen=True, slots=True)
class DecodeReport:
    """What was decoded of a file, compared with what its container announces."""

    decoded: int
    """Frames."""
    corrupt: int
    """Packets or frames that did not decode, or whose timestamp is invalid."""
    skipped: int
    """Frames missing at the start or in between, by the container's frame count or by gaps in a constant rate."""
    missing: float
    """Announced seconds at the end that were not decoded."""
    promised: float | None
    """The duration in seconds that the container announces; None if it does not."""

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


def is_image_sequence(path: Path) -> bool:
    """Whether a video is stored as a folder or a tar file of images."""
    return path.suffix == ".tar" or path.is_dir()
