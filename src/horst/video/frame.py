"""What decoding gives: pictures that carry their time, and a report of what was lost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from horst.errors import InputError

Image = NDArray[np.uint8]
"""(H, W, 3) uint8, RGB."""
Size = tuple[int, int]
"""Height, width."""
MAX_PIXELS = 2**26
"""8192 x 8192: larger pictures are taken for damage, so that a broken header cannot ask for all memory."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture of a video."""

    image: Image
    time: float
    """Seconds since the start of the video."""
    index: int
    """Its number among the decoded frames, from 0."""


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """What a container says of its video, before anything is decoded. What it does not say is None."""

    width: int
    height: int
    """As stored: before a rotation that the file may ask for."""
    fps: float | None
    duration: float | None
    """Seconds."""
    frames: int | None


@dataclass(frozen=True, slots=True)
class Report:
    """What came out of a file, beside what it promised."""

    decoded: int
    """Frames."""
    corrupt: int
    """Packets or frames that did not decode, or whose time makes no sense."""
    skipped: int
    """Frames that are missing before or between others, by the container's count or by gaps in a regular beat."""
    missing: float
    """Seconds at the end that were promised and did not come."""
    promised: float | None
    """Seconds that the container announces; None where it does not."""

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
    """`value` as a float; InputError where it is not a finite number above 0 (or 0, or below, where that may be)."""
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not (negative or value > 0 or (zero and value == 0)):
        kind = "a finite number" if negative else "a number from 0 on" if zero else "a number above 0"
        raise InputError(f"{name} is {value!r}; it takes {kind}")
    return float(value)


def check_size(size: Size | None) -> None:
    """InputError where `size` is not (height, width) in pixels."""
    if size is not None and (len(size) != 2 or not all(type(side) is int and side > 0 for side in size)):
        raise InputError(f"size is {size}; it takes (height, width) in pixels")
