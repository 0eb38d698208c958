"""The frame rates of EPIC-Kitchens' images, by video and option."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from horst.data.example import SequenceTiming
from horst.data.readers.epic import epic_timing, official_fps, read_video_info
from horst.errors import DataError

INFO = (48.0, 12.5)


@pytest.mark.parametrize(
    ("video", "fps"),
    [
        ("P01_01", 60),
        ("P01_19", 60),
        ("P12_101", 50),
        ("P01_199", 50),
        ("P01_201", 60),
        ("P01_1011", 60),
        ("P1_100", 50),
    ],
)
def test_videos_of_ek100_have_50_fps(video: str, fps: float) -> None:
    assert official_fps(video) == fps


@pytest.mark.parametrize(
    ("video", "frames", "fps", "others"),
    [
        ("P01_01", "rulstm", 30.0, {"official": 60.0, "native": 48.0}),
        ("P01_01", "official", 60.0, {"rulstm": 30.0, "native": 48.0}),
        ("P01_101", "official", 50.0, {"rulstm": 30.0, "native": 48.0}),
        ("P01_101", "native", 48.0, {"rulstm": 30.0, "official": 50.0}),
    ],
)
@pytest.mark.parametrize("tar", [False, True])
def test_the_option_chooses_the_rate(
    tmp_path: Path, video: str, frames: Any, fps: float, others: dict[str, float], tar: bool
) -> None:
    media = tmp_path / (f"{video}.tar" if tar else video)
    if not tar:
        media.mkdir()
    found = epic_timing(video, media, frames, INFO, tmp_path, "ek100")
    assert found == SequenceTiming(fps=fps, first=1, duration=12.5, others=tuple(others.items()))
    if frames != "native":
        known = tuple((name, rate) for name, rate in others.items() if name != "native")
        found = epic_timing(video, media, frames, None, tmp_path, "ek100")
        assert found == SequenceTiming(fps=fps, first=1, duration=None, others=known)
    else:
        with pytest.raises(DataError, match=rf"EPIC_100_video_info\.csv has no frame rate of {video}.*100-annotations"):
            epic_timing(video, media, frames, None, tmp_path, "ek100")
    with pytest.raises(DataError, match="Set the option frames"):
        epic_timing(video, media, None, INFO, tmp_path, "ek100")
    assert epic_timing(video, tmp_path / f"{video}.mp4", frames, INFO, tmp_path, "ek100") is None


def test_flat_frames_have_30_fps(tmp_path: Path) -> None:
    for frames in (None, "rulstm"):
        found = epic_timing("P01_01", tmp_path, frames, INFO, tmp_path, "ek55")  # type: ignore[arg-type]
        assert found is not None
        assert (found.fps, found.first) == (30.0, 1)
    for frames in ("official", "native"):
        with pytest.raises(DataError, match=f"frames is '{frames}', but names such as P01_01_frame_0000000001.jpg"):
            epic_timing("P01_01", tmp_path, frames, INFO, tmp_path, "ek55")  # type: ignore[arg-type]


def test_video_info(tmp_path: Path) -> None:
    assert read_video_info(tmp_path, "ek55") == read_video_info(tmp_path, "ek100") == {}
    (tmp_path / "EPIC_video_info.csv").write_text("video,fps,duration\nP01_01,59.94,100.5\nP01_02,50,3\n")
    (tmp_path / "EPIC_100_video_info.csv").write_text("video_id,duration,fps\nP01_101,7,50\n")
    assert read_video_info(tmp_path, "ek55") == {"P01_01": (59.94, 100.5), "P01_02": (50.0, 3.0)}
    assert read_video_info(tmp_path, "ek100") == {"P01_101": (50.0, 7.0)}
    (tmp_path / "EPIC_video_info.csv").write_text("video,fps,duration\nP01_01,50,3\nP01_02,50,3\nP01_01,50,3\n")
    with pytest.raises(DataError, match="line 4: video 'P01_01' occurs twice"):
        read_video_info(tmp_path, "ek55")
