"""From examples to frames: every layout of EPIC-Kitchens gives the same clip, edges are named, damage is noticed."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import videos
from PIL import Image

from horst.data.clips import Clip, ClipConfig, read_clip
from horst.data.example import Example
from horst.data.folder import read_csv
from horst.data.media import find_media
from horst.errors import DamagedVideoError, InputError, MissingVideoError

SMALL = ClipConfig(size=(48, 64))


def frames_folder(folder: Path, count: int = 60, prefix: str = "") -> Path:
    folder.mkdir(parents=True)
    for n in range(1, count + 1):
        Image.fromarray(videos.picture(n)).save(folder / f"{prefix}frame_{n:010d}.jpg", quality=95)
    return folder


def segment(media: Path, start_frame: int) -> Example:
    return Example(
        id="0",
        split="val",
        media=media,
        labels={},
        start_frame=start_frame,
        start=(start_frame - 1) / 30,
        video="P01_01",
    )


def numbers(clip: Clip) -> list[int]:
    return [videos.number_of(image) for image in clip.frames]


@pytest.fixture(params=["official", "participant", "flat", "tar", "video"])
def media(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The frames 1 to 60 of P01_01 in one of the layouts; another video lies beside it."""
    if request.param == "official":
        frames_folder(tmp_path / "P01_01")
    elif request.param == "participant":
        frames_folder(tmp_path / "P01" / "rgb_frames" / "P01_01")
    elif request.param == "flat":
        frames_folder(tmp_path / "flat", prefix="P01_01_")
        Image.fromarray(videos.picture(63)).save(tmp_path / "flat" / "P01_02_frame_0000000001.jpg")
        return find_media(tmp_path / "flat", "P01_01")
    elif request.param == "tar":
        folder = frames_folder(tmp_path / "loose" / "P01_01")
        with tarfile.open(tmp_path / "P01_01.tar", "w") as archive:
            archive.add(folder, ".")
    else:
        from horst.video.encode import write_video

        write_video(tmp_path / "P01_01.MP4".lower(), (videos.picture(n) for n in range(1, 61)), 30)
        (tmp_path / "p01_01.mp4").rename(tmp_path / "P01_01.MP4")
    return find_media(tmp_path, "P01_01")


def test_all_layouts_give_the_same_clip(media: Path) -> None:
    """An action at frame 50: positions from 3.5 s before have no frame and take the earliest one, or none."""
    loose = read_clip(segment(media, 50), "anticipation", SMALL)
    wanted = [5, 5, 5, 5, 5, 5, 5, 5, 5, 12, 20, 27, 35, 42]
    assert np.abs(np.array(numbers(loose)) - wanted).max() <= 1
    assert loose.times[-1] == pytest.approx(41 / 30)
    assert loose.observed.all()
    strict = read_clip(segment(media, 50), "anticipation", ClipConfig(size=(48, 64), mode="strict"))
    assert strict.observed.tolist() == [False] * 8 + [True] * 6
    assert not strict.frames[:8].any()
    assert np.isnan(strict.times[:8]).all()
    with pytest.raises(InputError, match="leave it out"):
        read_clip(segment(media, 3), "anticipation", SMALL)


@pytest.mark.parametrize("start", [0.5, 0.5499, 0.583, 0.617, 0.85, 0.99])
def test_a_strict_clip_shows_nothing_later_than_its_times(tmp_path: Path, start: float) -> None:
    """Also where the action starts between two of EPIC's frames: the nearest of them may begin after it."""
    videos.clip(tmp_path / "a.mp4", frames=60, fps=60)
    (tmp_path / "list.csv").write_text(f"path,split,label,start\na.mp4,val,x,{start}\n")
    (example,) = read_csv(tmp_path / "list.csv", task="anticipation").examples
    config = ClipConfig(size=(48, 64), steps=2, stride=0.25, mode="strict")
    for said in (example, replace(example, start_frame=None)):
        clip = read_clip(said, "anticipation", config)
        for shown, time, tau in zip(numbers(clip), clip.times, (0.5, 0.25), strict=True):
            assert np.isnan(time) or shown / 60 <= time + 1e-3 <= start - tau + 2e-3
        assert start - 0.25 - clip.times[-1] < 2 / 30  # nor much earlier: start and 0.25 s are rounded down


def test_missing_media_is_named(tmp_path: Path) -> None:
    media = find_media(tmp_path, "P09_09")
    with pytest.raises(MissingVideoError, match="P09_09"):
        read_clip(segment(media, 50), "anticipation", SMALL)


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5, 1.0])
def test_recognition_observes_a_fraction(tmp_path: Path, fraction: float) -> None:
    path = videos.clip(tmp_path / "clip.webm", frames=30)
    example = Example(id="0", split="val", media=path, labels={})
    for fps, total in ((12, 30), (6, 15), (24, 60)):
        clip = read_clip(example, "recognition", ClipConfig(size=(24, 32), fps=fps, observe=fraction))
        count = -(-total * round(100 * fraction) // 100)
        assert numbers(clip) == [int(i * 12 / fps + 1e-6) for i in range(count)]


def test_an_action_within_a_video(tmp_path: Path) -> None:
    path = videos.clip(tmp_path / "long.mp4", frames=48)
    example = Example(id="0", split="val", media=path, labels={}, start=1.0, end=2.0)
    clip = read_clip(example, "recognition", ClipConfig(size=(48, 64), fps=12))
    assert numbers(clip) == list(range(12, 24))
    assert clip.times[0] == pytest.approx(1.0, abs=1e-3)


def test_a_folder_of_pictures_as_a_clip(tmp_path: Path) -> None:
    folder = frames_folder(tmp_path / "clip", count=30)
    example = Example(id="0", split="val", media=folder, labels={})
    assert numbers(read_clip(example, "recognition", ClipConfig(size=(48, 64), fps=10))) == list(range(1, 31, 3))


def test_anticipation_from_a_video_that_is_cut_off(tmp_path: Path) -> None:
    path = videos.clip(tmp_path / "P01_01.webm", frames=120, fps=30)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 4])
    assert read_clip(segment(path, 30), "anticipation", SMALL).observed.all()
    with pytest.raises(DamagedVideoError, match="it is cut off"):
        read_clip(segment(path, 120), "anticipation", SMALL)


def test_a_clip_that_is_cut_off(tmp_path: Path) -> None:
    """What is observed must be there; what comes after it is nobody's business."""
    path = videos.clip(tmp_path / "clip.webm", frames=60)
    data = path.read_bytes()
    path.write_bytes(data[: int(0.7 * len(data))])
    example = Example(id="0", split="val", media=path, labels={})
    assert len(read_clip(example, "recognition", ClipConfig(size=(24, 32), observe=0.1)).frames) == 6
    with pytest.raises(DamagedVideoError, match="it is cut off"):
        read_clip(example, "recognition", ClipConfig(size=(24, 32)))
