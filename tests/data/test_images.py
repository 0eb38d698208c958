"""Numbered images: the time of each, and numbers that do not fit the frame rate."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import videos
from PIL import Image

from horst.data.clips import check_timing, frame_prefix, gaps, open_images
from horst.data.example import Example, SequenceTiming
from horst.errors import DataError, MissingVideoError
from horst.video.frame import is_image_sequence
from horst.video.images import ImageSequence


def put(folder: Path, *numbers: int, prefix: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        Image.fromarray(videos.picture(number)).save(folder / f"{prefix}frame_{number:04d}.png")
    return folder


def example(media: Path, video: str = "", **about: Any) -> Example:
    timing = SequenceTiming(**about) if about else None
    return Example(id="e", split="train", media=media, labels={}, video=video, timing=timing)


@pytest.mark.parametrize(("first", "offset"), [(None, 3), (1, 1)])
def test_times_of_numbers(tmp_path: Path, first: int | None, offset: int) -> None:
    """Time 0 is that of number `first`, or of the lowest one; every picture lasts until the next number."""
    images = ImageSequence(put(tmp_path / "v", 3, 4, 7), fps=10, first=first)
    assert images.numbers == [3, 4, 7]
    assert images.first == offset
    assert images.times.tolist() == pytest.approx([(n - offset) / 10 for n in (3, 4, 7)])
    assert images.duration == pytest.approx((8 - offset) / 10)
    for number in (3, 4, 5, 7, 9):
        time = images.time_of(number)
        assert time == pytest.approx((number - offset) / 10)
        assert images.number_at(time) == number
        assert images.number_at(time + 0.099) == number
        assert images.number_at(time - 0.001) == number - 1
        assert images.number_at(time - 1e-9) == number  # rounding
    assert images.read(4).shape == videos.picture(4).shape
    with pytest.raises(MissingVideoError, match="no frame 5"):
        images.read(5)
    assert ImageSequence(tmp_path / "v", fps=10, size=(8, 12)).read(7).shape == (8, 12, 3)


RATES = SequenceTiming(fps=60.0, first=1, duration=10.0, others=(("rulstm", 30.0), ("native", 59.94)))


@pytest.mark.parametrize(
    ("last", "about", "says"),
    [
        (600, RATES, ""),
        (630, RATES, ""),  # 0.5 s later than the video
        (
            631,
            RATES,
            "image 631 at 60 fps ends at 10.52 s; the video has only 10.00 s: these are 63.10 fps",
        ),
        (631, replace(RATES, duration=None), ""),
        (300, RATES, "ends at 5.00 s; the video has 10.00 s, which fits 30 fps: set frames: rulstm"),
        (315, RATES, "fits 30 fps: set frames: rulstm"),
        (285, RATES, "fits 30 fps: set frames: rulstm"),
        (284, RATES, ""),  # no rate fits: the end is missing
        (316, RATES, ""),
        (599, RATES, ""),  # 59.94 fits better, by less than a picture
        (3000, replace(RATES, duration=50.0), ""),
        (2997, replace(RATES, duration=50.0), "fits 59.94 fps: set frames: native"),
        (300, replace(RATES, others=()), ""),
        (630, replace(RATES, first=None), "these are 63.10 fps"),  # numbers from 0 on
        (629, replace(RATES, first=None), ""),
    ],
)
def test_the_highest_number_must_fit_the_duration(last: int, about: SequenceTiming, says: str) -> None:
    if not says:
        check_timing(Path("v"), [1, last], about)
        return
    with pytest.raises(DataError) as error:
        check_timing(Path("v"), [1, last], about)
    assert says in str(error.value)


def test_the_lowest_number() -> None:
    check_timing(Path("v"), [2, 5], SequenceTiming(fps=10, first=2))
    check_timing(Path("v"), [0, 5], SequenceTiming(fps=10))
    with pytest.raises(DataError, match="v has an image 1; such images are numbered from 2 on"):
        check_timing(Path("v"), [1, 5], SequenceTiming(fps=10, first=2))


@pytest.mark.parametrize(
    ("numbers", "duration", "told"),
    [
        ((1, 2, 3), None, ""),
        ((1, 2, 3), 0.8, ""),
        ((1, 2, 3), 0.9, "they end at 0.30 s of 0.90 s"),
        ((2, 3), None, "the first image is 2, not 1"),
        ((1, 3), None, "1 numbers are missing, the first is 2"),
        ((1, 2, 5, 9), None, "5 numbers are missing, the first is 3"),
        (
            (2, 4),
            3.0,
            "the first image is 2, not 1; 1 numbers are missing, the first is 3; they end at 0.40 s of 3.00 s",
        ),
    ],
)
def test_gaps_are_described(tmp_path: Path, numbers: tuple[int, ...], duration: float | None, told: str) -> None:
    about = example(put(tmp_path / "v", *numbers), fps=10.0, first=1, duration=duration)
    assert gaps(about, open_images(about)) == told


def test_images_of_several_videos_in_a_folder(tmp_path: Path) -> None:
    flat = put(tmp_path / "flat", 1, 2, prefix="P01_01_")
    put(flat, 1, 2, 3, prefix="P01_02_")
    one = example(flat, "P01_02", fps=30.0)
    assert frame_prefix(one) == "P01_02_frame_"
    assert open_images(one).numbers == [1, 2, 3]
    assert open_images(example(flat, "P01_01", fps=30.0)).numbers == [1, 2]
    own = put(tmp_path / "P01_01", 1)
    assert frame_prefix(example(own, "P01_01")) == frame_prefix(example(own)) == ""
    assert frame_prefix(example(tmp_path / "v.tar", "P01_01")) == ""
    assert [is_image_sequence(tmp_path / name) for name in ("flat", "none.tar", "none.mp4")] == [True, True, False]


def test_a_listing_is_cached_until_the_folder_changes(tmp_path: Path) -> None:
    about = example(put(tmp_path / "v", 1, 2), fps=10.0)
    first = open_images(about)
    assert open_images(about) is first
    assert open_images(about, (8, 8)) is not first
    assert open_images(example(tmp_path / "v", fps=5.0)).fps == 5
    put(tmp_path / "v", 3)
    os.utime(tmp_path / "v", ns=(1, 1))
    assert open_images(about).numbers == [1, 2, 3]
    with pytest.raises(DataError, match="set frames_fps"):
        open_images(example(tmp_path / "v"))
    with pytest.raises(MissingVideoError, match="no such folder"):
        open_images(example(tmp_path / "gone", fps=10.0))
