"""Frames before actions are read once and in order; actions with missing frames are listed with the reason."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import videos
from PIL import Image as Pictures

from horst.data.clips import ClipConfig, seen_frames
from horst.data.example import Example, SequenceTiming
from horst.data.extract import anticipation_stream
from horst.data.features import ExtractedVideo
from horst.errors import VideoError

CONFIG = ClipConfig(size=(12, 16), steps=3, mode="strict")


def reasons(video: ExtractedVideo) -> dict[str, str]:
    return {ident: why for _, ident, why in video.bad}


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
        timing=SequenceTiming(fps=30, first=1),
    )


def images(folder: Path, numbers: range) -> Path:
    folder.mkdir()
    for number in numbers:
        Pictures.fromarray(videos.picture(number % 50, 12, 16)).save(folder / f"frame_{number:010d}.jpg")
    return folder


def wanted(*examples: Example) -> list[int]:
    return sorted({n for one in examples for n in seen_frames(one, CONFIG).tolist()})


def test_images_are_read_once_and_in_order(tmp_path: Path) -> None:
    folder, video = images(tmp_path / "v", range(1, 91)), ExtractedVideo()
    several = [example("a", 60, folder), example("b", 60, folder), example("c", 80, folder)]
    found = list(anticipation_stream(None, CONFIG, several, video))
    assert [number for number, _ in found] == wanted(*several)
    assert {image.shape for _, image in found} == {(12, 16, 3)}
    assert not reasons(video)


def test_actions_with_a_missing_image_are_bad(tmp_path: Path) -> None:
    folder, video = images(tmp_path / "v", range(1, 91)), ExtractedVideo()
    first, second = example("a", 50, folder), example("b", 85, folder)
    gone = next(n for n in wanted(second) if n not in wanted(first))
    (folder / f"frame_{gone:010d}.jpg").unlink()
    found = [number for number, _ in anticipation_stream(None, CONFIG, [first, second], video)]
    assert found == [n for n in wanted(first, second) if n != gone]
    assert list(reasons(video)) == ["b"]
    assert str(gone) in reasons(video)["b"]


def test_all_actions_of_an_empty_folder_are_bad(tmp_path: Path) -> None:
    empty, video = tmp_path / "v", ExtractedVideo()
    empty.mkdir()
    several = [example("a", 50, empty), example("b", 85, empty)]
    assert not list(anticipation_stream(None, CONFIG, several, video))
    assert set(reasons(video)) == {"a", "b"}


def test_packed_frames_and_damaged_clips(tmp_path: Path) -> None:
    """One clip is damaged: its reason is video, and the others are read. What was not observed is not given."""
    first, second, third = (example(name, start, tmp_path) for name, start in (("a", 50), ("b", 85), ("c", 70)))
    video = ExtractedVideo()

    def read(one: Example, config: ClipConfig) -> Any:
        if one.id == "b":
            raise VideoError("b.mp4", "it is damaged")
        numbers = seen_frames(one, config)
        observed = np.ones(len(numbers), bool)
        observed[0] = one.id != "c"
        frames = np.zeros((len(numbers), 12, 16, 3), np.uint8) + numbers[:, None, None, None].astype(np.uint8)
        return SimpleNamespace(times=(numbers - 1) / 30, frames=frames, observed=observed)

    found = list(anticipation_stream(read, CONFIG, [first, second, third], video))
    numbers = [number for number, _ in found]
    assert set(numbers) == set(wanted(first)) | set(wanted(third)[1:])
    assert all((image == number).all() for number, image in found)
    assert set(reasons(video)) == {"b", "c"}
    assert "it is damaged" in reasons(video)["b"]
    assert reasons(video)["c"] == f"frame {wanted(third)[0]} is not in the packed data set"


@pytest.mark.parametrize("fps", [30, 10])
def test_frames_of_a_video(tmp_path: Path, fps: int) -> None:
    path, video = videos.clip(tmp_path / "v.mp4", frames=3 * fps, fps=fps), ExtractedVideo()
    one = example("a", 80, path)
    found = list(anticipation_stream(None, CONFIG, [one], video))
    assert [number for number, _ in found] == wanted(one)
    assert not reasons(video)
    late = example("late", 400, path)  # ten seconds after the end: the last frame does not stand for them
    assert not list(anticipation_stream(None, CONFIG, [late], video))
    assert "it is cut off" in reasons(video).pop("late")
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    assert not list(anticipation_stream(None, CONFIG, [example("x", 80, broken)], video))
    assert set(reasons(video)) == {"late", "x"}
