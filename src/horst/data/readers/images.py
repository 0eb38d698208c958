"""Videos stored as numbered images, in a folder or a tar file. `Example.timing` states their frame rate."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from horst.data.example import Example, SequenceTiming
from horst.errors import DataError, MissingVideoError
from horst.video.images import ImageSequence

MAX_EXCESS = 0.5
"""Seconds by which images may end later than their video: EPIC's own end up to 0.25 s later."""
BETTER_FIT = 1 / 60
"""Seconds by which another frame rate must fit better to be suggested."""


def frame_prefix(example: Example) -> str:
    """How the names of a video's images begin if one folder holds those of several videos; else empty."""
    flat = example.media.is_dir() and example.video and example.media.name != example.video
    return f"{example.video}_frame_" if flat else ""


def open_images(example: Example, size: tuple[int, int] | None = None) -> ImageSequence:
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
    media: Path, stamp: tuple[int, int, int], timing: SequenceTiming, size: tuple[int, int] | None, prefix: str
) -> ImageSequence:
    """Listing a folder of 100,000 images is slow, so it is repeated only when the folder changes."""
    images = ImageSequence(media, fps=timing.fps, first=timing.first, size=size, prefix=prefix)
    check_timing(media, images.numbers, timing)
    return images


def unknown_rate(media: Path) -> DataError:
    return DataError(
        f"{media} holds numbered images, which do not state their frame rate: set frames_fps in the data config, or "
        "give the CSV file a column fps"
    )


def check_timing(media: Path, numbers: list[int], timing: SequenceTiming) -> None:
    """DataError if the numbers of the images do not fit the frame rate and the duration of the video."""
    if timing.first is not None and numbers[0] < timing.first:
        raise DataError(f"{media} has an image {numbers[0]}; such images are numbered from {timing.first} on")
    if timing.duration is None:
        return
    count = numbers[-1] - (timing.first or 0) + 1
    error = abs(count / timing.fps - timing.duration)
    claim = f"{media}: image {numbers[-1]:,} at {timing.fps:g} fps ends at {count / timing.fps:.2f} s"
    for option, fps in timing.others:
        other = abs(count / fps - timing.duration)
        if other <= MAX_EXCESS and other + BETTER_FIT < error:
            fits = f"{timing.duration:.2f} s, which fits {fps:g} fps"
            raise DataError(f"{claim}; the video has {fits}: set frames: {option}")
    if count / timing.fps > timing.duration + MAX_EXCESS:
        raise DataError(
            f"{claim}; the video has only {timing.duration:.2f} s: these are {count / timing.duration:.2f} fps. "
            f"Extract them again at {timing.fps:g} fps, or use the video"
        )


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
