"""Clips: every layout of EPIC-Kitchens gives the same clip, and damage is detected."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import videos
from PIL import Image

from horst.data.clips import Clip, ClipConfig, _missing_end, check_end, read_clip, shown_time
from horst.data.config import DataConfig
from horst.data.example import Example, SequenceTiming
from horst.data.readers.epic import find_media
from horst.data.readers.folder import read_csv
from horst.data.source import open_source
from horst.errors import ConfigError, DamagedVideoError, DataError, InputError, MissingVideoError
from horst.video.sampling import SLACK

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
        timing=SequenceTiming(fps=30, first=1),
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
def test_a_strict_clip_has_no_later_frames(tmp_path: Path, start: float) -> None:
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


@pytest.mark.parametrize("first", [0, 1, 7])
@pytest.mark.parametrize("rate", [12, 20])
def test_a_folder_of_images_as_a_clip(tmp_path: Path, rate: float, first: int) -> None:
    """Three seconds at any rate, from any number on, shown at any rate: each moment shows the picture of its time."""
    (tmp_path / "clip").mkdir()
    for i in range(round(3 * rate)):
        Image.fromarray(videos.picture(i)).save(tmp_path / "clip" / f"{first + i}.png")
    (tmp_path / "list.csv").write_text(f"path,split,label,fps\nclip,val,x,{rate}\n")
    (example,) = read_csv(tmp_path / "list.csv").examples
    for fps in (6, 10, 12, 24):
        clip = read_clip(example, "recognition", ClipConfig(size=(48, 64), fps=fps))
        assert len(clip.times) == 3 * fps
        wanted = np.arange(3 * fps) / fps
        assert (clip.times <= wanted + 1e-3).all()
        assert (wanted - clip.times < 1 / rate).all()
        assert numbers(clip) == [round(t * rate) for t in clip.times]


def test_images_without_a_frame_rate_are_rejected(tmp_path: Path) -> None:
    """In every source that may read them: nothing tells 12 from 30 a second."""
    frames_folder(tmp_path / "train" / "wave" / "1", count=3)
    frames_folder(tmp_path / "val" / "wave" / "2", count=3)
    (tmp_path / "list.csv").write_text("path,split,label\ntrain/wave/1,train,wave\n")
    (tmp_path / "labels.json").write_text('{"wave": "0"}')
    (tmp_path / "train.json").write_text('[{"id": "1", "template": "wave"}]')
    sources: list[dict[str, Any]] = [
        {"source": "csv", "path": str(tmp_path / "list.csv")},
        {"source": "folder", "root": str(tmp_path)},
        {"source": "ssv2", "annotations": str(tmp_path), "videos": str(tmp_path / "train/wave"), "suffix": ""},
    ]
    for options in sources:
        with pytest.raises(DataError, match=r"wave/1 holds numbered images.*set frames_fps.*column fps"):
            open_source(DataConfig.from_dict(options))
        for wrong in (0, -1, True, "12", float("nan")):
            with pytest.raises(ConfigError, match=r"frames_fps'? .*is "):
                open_source(DataConfig.from_dict({**options, "frames_fps": wrong}))
        source = open_source(DataConfig.from_dict({**options, "frames_fps": 12}))
        clip = source.read(source.annotations.examples[0], SMALL)
        np.testing.assert_allclose(clip.times, np.arange(3) / 12)
    with pytest.raises(DataError, match="set frames_fps"):
        read_clip(Example(id="0", split="val", media=tmp_path / "train/wave/1", labels={}), "recognition", SMALL)


def test_images_that_end_too_early(tmp_path: Path) -> None:
    """As with videos, what is observed must be there."""
    folder = frames_folder(tmp_path / "clip", count=24)
    example = Example(id="0", split="val", media=folder, labels={}, end=4.0, timing=SequenceTiming(fps=12))
    assert len(read_clip(example, "recognition", replace(SMALL, observe=0.25)).frames) == 12
    with pytest.raises(DamagedVideoError, match="it is cut off"):
        read_clip(example, "recognition", SMALL)


@pytest.mark.parametrize("kind", ["pictures", "video"])
@pytest.mark.parametrize("start_frame", [7, 8, 9, 40, 60])
def test_before_the_first_frame(tmp_path: Path, kind: str, start_frame: int) -> None:
    """Positions before the video's start: no frame in mode strict, the earliest sampled one in mode rulstm."""
    if kind == "video":
        media = videos.clip(tmp_path / "P01_01.mp4", frames=60, fps=30)
    else:
        media = frames_folder(tmp_path / "P01_01")
    example = segment(media, start_frame)
    wanted = (start_frame - 1) / 30 - np.arange(14, 0, -1) / 4
    strict = replace(SMALL, mode="strict")
    if start_frame < 9:  # 0.25 s are 7.5 frames
        for config in (SMALL, strict):
            with pytest.raises(InputError, match="leave it out"):
                read_clip(example, "anticipation", config)
        return
    loose, clip = (read_clip(example, "anticipation", config) for config in (SMALL, strict))
    there = wanted > -1e-9
    assert clip.observed.tolist() == there.tolist()
    assert loose.observed.all()
    assert (clip.times[there] <= wanted[there] + 1e-9).all()
    np.testing.assert_array_equal(loose.times[there], clip.times[there])
    assert (loose.times[~there] == loose.times[there][0]).all()
    assert not clip.frames[~there].any()


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


@pytest.mark.parametrize("fps", [2, 5, 12])
def test_a_complete_slow_video_has_no_note(tmp_path: Path, fps: int) -> None:
    path = videos.clip(tmp_path / "v.mp4", frames=4 * fps, fps=fps)
    clip = read_clip(
        Example(id="v", media=path, split="val", labels={"action": 0}), "recognition", ClipConfig(fps=12, size=(24, 32))
    )
    assert clip.note == ""
    assert len(clip.frames) == pytest.approx(48, abs=1)


def test_where_a_clip_is_cut_off() -> None:
    """At 10 frames a second of a clip of 5 s: 0.15 s are nothing, up to 0.65 s are noted, more is an error."""
    wanted = np.array([0.0, 5.0])
    for missing, note in ((0.14, ""), (0.16, "v: the last frame replaces 0.16 s"), (0.64, "v: the last frame")):
        found = _missing_end(Path("v"), 5.0 - missing, wanted, 0.1, ClipConfig(fps=12.0))
        assert found.startswith(note)
        assert bool(found) == bool(note)
    with pytest.raises(DamagedVideoError, match=r"it ends at 4\.34 s, before 5\.00 s: it is cut off"):
        _missing_end(Path("v"), 4.34, wanted, 0.1, ClipConfig(fps=12.0))
    assert _missing_end(Path("v"), 3.6, wanted, 0.1, ClipConfig(fps=1.0)) == ""


def test_where_a_video_ends_too_early() -> None:
    for beat, fine in ((0.1, 1.0), (0.6, 1.2)):
        check_end(Path("v"), 2.0, 2.0 + fine - 1e-6, beat)
        with pytest.raises(DamagedVideoError, match=r"v: it ends at 2\.00 s"):
            check_end(Path("v"), 2.0, 2.0 + fine + 1e-3, beat)
    assert shown_time(Path("v"), 1.0, 1.5) == 1.0
    assert shown_time(Path("v"), 1.5 + SLACK / 2, 1.5) == 1.5
    with pytest.raises(DamagedVideoError, match=r"no frame decodes at 1\.50 s; the next one is at 1\.60 s"):
        shown_time(Path("v"), 1.6, 1.5)
