"""Frames before actions, each once and in order; an action that lost frames is named with the reason."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import videos
from PIL import Image as Pictures

from horst.data.clips import ClipConfig, seen_frames
from horst.data.example import Example
from horst.data.example import Pictures as Rate
from horst.data.extract_frames import moments
from horst.errors import VideoError

CONFIG = ClipConfig(size=(12, 16), steps=3, mode="strict")


class Lost:
    def __init__(self) -> None:
        self.times: dict[int, float] = {}
        self.why: dict[str, str] = {}

    def lose(self, example: Example, why: str) -> None:
        self.why[example.id] = why


def example(name: str, start_frame: int, media: Path) -> Example:
    start = (start_frame - 1) / 30
    return Example(
        id=name,
        media=media,
        video="v",
        split="val",
        start=start,
        start_frame=start_frame,
        labels={"action": 0},
        pictures=Rate(fps=30, first=1),
    )


def pictures(folder: Path, numbers: range) -> Path:
    folder.mkdir()
    for number in numbers:
        Pictures.fromarray(videos.picture(number % 50, 12, 16)).save(folder / f"frame_{number:010d}.jpg")
    return folder


def wanted(*examples: Example) -> list[int]:
    return sorted({n for one in examples for n in seen_frames(one, CONFIG).tolist()})


def test_pictures_are_read_once_and_in_order(tmp_path: Path) -> None:
    folder, told = pictures(tmp_path / "v", range(1, 91)), Lost()
    several = [example("a", 60, folder), example("b", 60, folder), example("c", 80, folder)]
    found = list(moments(None, CONFIG, several, told))  # type: ignore[arg-type]
    assert [number for number, _ in found] == wanted(*several)
    assert {image.shape for _, image in found} == {(12, 16, 3)}
    assert not told.why


def test_a_missing_picture_loses_the_actions_that_need_it(tmp_path: Path) -> None:
    folder, told = pictures(tmp_path / "v", range(1, 91)), Lost()
    first, second = example("a", 50, folder), example("b", 85, folder)
    gone = next(n for n in wanted(second) if n not in wanted(first))
    (folder / f"frame_{gone:010d}.jpg").unlink()
    found = [number for number, _ in moments(None, CONFIG, [first, second], told)]  # type: ignore[arg-type]
    assert found == [n for n in wanted(first, second) if n != gone]
    assert list(told.why) == ["b"]
    assert str(gone) in told.why["b"]


def test_a_folder_that_is_not_there_loses_all(tmp_path: Path) -> None:
    empty, told = tmp_path / "v", Lost()
    empty.mkdir()
    several = [example("a", 50, empty), example("b", 85, empty)]
    assert not list(moments(None, CONFIG, several, told))  # type: ignore[arg-type]
    assert set(told.why) == {"a", "b"}


def test_packed_frames_and_what_cannot_be_read_there(tmp_path: Path) -> None:
    """One clip is damaged: its reason is told, and the others are read. What was not observed is not given."""
    first, second, third = (example(name, start, tmp_path) for name, start in (("a", 50), ("b", 85), ("c", 70)))
    told = Lost()

    def read(one: Example, config: ClipConfig) -> Any:
        if one.id == "b":
            raise VideoError("b.mp4", "it is damaged")
        numbers = seen_frames(one, config)
        observed = np.ones(len(numbers), bool)
        observed[0] = one.id != "c"
        frames = np.zeros((len(numbers), 12, 16, 3), np.uint8) + numbers[:, None, None, None].astype(np.uint8)
        return SimpleNamespace(times=(numbers - 1) / 30, frames=frames, observed=observed)

    found = list(moments(read, CONFIG, [first, second, third], told))  # type: ignore[arg-type]
    numbers = [number for number, _ in found]
    assert set(numbers) == set(wanted(first)) | set(wanted(third)[1:])
    assert all((image == number).all() for number, image in found)
    assert set(told.why) == {"b", "c"}
    assert "it is damaged" in told.why["b"]
    assert told.why["c"] == f"frame {wanted(third)[0]} is not in the packed data set"


@pytest.mark.parametrize("fps", [30, 10])
def test_a_video_shows_the_frame_that_is_there_at_that_moment(tmp_path: Path, fps: int) -> None:
    path, told = videos.clip(tmp_path / "v.mp4", frames=3 * fps, fps=fps), Lost()
    one = example("a", 80, path)
    found = list(moments(None, CONFIG, [one], told))  # type: ignore[arg-type]
    assert [number for number, _ in found] == wanted(one)
    assert not told.why
    late = example("late", 400, path)  # ten seconds after the end: the last frame does not stand for them
    assert not list(moments(None, CONFIG, [late], told))  # type: ignore[arg-type]
    assert "it is cut off" in told.why.pop("late")
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    assert not list(moments(None, CONFIG, [example("x", 80, broken)], told))  # type: ignore[arg-type]
    assert set(told.why) == {"x"}
