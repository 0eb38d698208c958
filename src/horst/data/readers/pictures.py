"""Videos kept as numbered pictures, in a folder or a tar file: at which time each picture is shown.

Pictures do not say how many there are a second. `Example.pictures` says so, and where the length of the video is known
too, the highest number has to agree with it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from horst.data.example import Example, Pictures
from horst.errors import DataError, MissingVideoError
from horst.video.frame import Image
from horst.video.images import ImageSequence

SPARE = 0.5
"""Seconds by which pictures may end later than their video: EPIC's own end up to 0.25 s later."""
CLOSE = 1 / 60
"""Seconds by which another rate must fit better to be taken for the true one."""
ROUNDING = 1e-6


def is_pictures(media: Path) -> bool:
    """Whether a path is a folder or a tar file of pictures."""
    return media.suffix == ".tar" or media.is_dir()


def frame_prefix(example: Example) -> str:
    """How the names of a video's frames begin where those of several videos lie in one folder; else empty."""
    flat = example.media.is_dir() and example.video and example.media.name != example.video
    return f"{example.video}_frame_" if flat else ""


class TimedPictures:
    """The pictures of one video by time.

    Args:
        media: The folder or tar file.
        about: The rate of the pictures.
        size: (height, width) that they are stretched to.
        prefix: Only names that begin with it.
    """

    def __init__(self, media: Path, about: Pictures, size: tuple[int, int] | None = None, prefix: str = "") -> None:
        self._sequence = ImageSequence(media, fps=about.fps, size=size, prefix=prefix)
        self.media, self.fps, self.numbers = media, about.fps, self._sequence.numbers
        self.first = self.numbers[0] if about.first is None else about.first
        check_numbers(media, self.numbers, about)

    @property
    def times(self) -> NDArray[np.float64]:
        """The seconds at which each of `numbers` is shown first."""
        return (np.asarray(self.numbers) - self.first) / self.fps

    @property
    def end(self) -> float:
        """The seconds at which the last picture ends."""
        return (self.numbers[-1] + 1 - self.first) / self.fps

    def number_at(self, time: float) -> int:
        """The number of the last picture at or before `time`, whether or not it exists."""
        return self.first + math.floor(time * self.fps + ROUNDING)

    def time_of(self, number: int) -> float:
        return (number - self.first) / self.fps

    def read(self, number: int) -> Image:
        """The picture of a number; MissingVideoError where it does not exist."""
        return self._sequence.read(number)


def open_pictures(example: Example, size: tuple[int, int] | None = None) -> TimedPictures:
    """The pictures of an example whose media is a folder or a tar file. DataError where nothing says their rate."""
    if example.pictures is None:
        raise no_rate(example.media)
    try:
        now = example.media.stat()
    except OSError as error:
        raise MissingVideoError(example.media, "there is no such folder or tar file") from error
    stamp = (now.st_dev, now.st_ino, now.st_mtime_ns)
    return _opened(example.media, stamp, example.pictures, size, frame_prefix(example))


@lru_cache(maxsize=32)
def _opened(
    media: Path, stamp: tuple[int, int, int], about: Pictures, size: tuple[int, int] | None, prefix: str
) -> TimedPictures:
    """Listing a folder of a hundred thousand frames takes a while: it is done again when the folder changes."""
    return TimedPictures(media, about, size, prefix)


def no_rate(media: Path) -> DataError:
    return DataError(
        f"{media} holds numbered pictures, which do not say how many there are a second: set frames_fps in the data "
        "config, or give the CSV file a column fps"
    )


def check_numbers(media: Path, numbers: list[int], about: Pictures) -> None:
    """Refuse pictures whose numbers cannot be at the rate that is claimed for them."""
    if about.first is not None and numbers[0] < about.first:
        raise DataError(f"{media} has a picture {numbers[0]}; such pictures are numbered from {about.first} on")
    if about.duration is None:
        return
    count = numbers[-1] - (about.first or 0) + 1
    error = abs(count / about.fps - about.duration)
    claim = f"{media}: picture {numbers[-1]:,} at {about.fps:g} a second ends at {count / about.fps:.2f} s"
    for option, fps in about.others:
        other = abs(count / fps - about.duration)
        if other <= SPARE and other + CLOSE < error:
            raise DataError(
                f"{claim}; the video has {about.duration:.2f} s, which fits {fps:g} a second: set frames: {option}"
            )
    if count / about.fps > about.duration + SPARE:
        rate = count / about.duration
        raise DataError(
            f"{claim}; the video has only {about.duration:.2f} s: these are {rate:.2f} a second. Extract them again at "
            f"{about.fps:g} a second, or use the video"
        )


def gaps(example: Example, pictures: TimedPictures) -> str:
    """What is missing among the numbers, in words; empty where nothing is."""
    numbers = pictures.numbers
    found = []
    if numbers[0] > pictures.first:
        found.append(f"the first picture is {numbers[0]:,}, not {pictures.first}")
    if missing := numbers[-1] - numbers[0] + 1 - len(numbers):
        place = next(a for a, b in pairwise(numbers) if b != a + 1)
        found.append(f"{missing:,} numbers are missing, the first of them {place + 1:,}")
    duration = example.pictures.duration if example.pictures is not None else None
    if duration is not None and duration - pictures.end > SPARE:
        found.append(f"they end at {pictures.end:.2f} s of {duration:.2f} s")
    return "; ".join(found)
