"""Decoding: real files of every awkward kind; what is lost is said, what cannot be read is a typed error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import videos

from horst.errors import (
    EmptyVideoError,
    InputError,
    MissingVideoError,
    NotAVideoError,
    NoVideoStreamError,
    VideoError,
)
from horst.video.decode import VideoFile
from horst.video.encode import write_video
from horst.video.live import LiveSource


def numbers(path: Path, start: float = 0.0, end: float | None = None) -> list[int]:
    with VideoFile(path) as video:
        return [videos.number_of(frame.image) for frame in video.frames(start, end)]


@pytest.mark.parametrize("suffix", [".webm", ".mp4"])
def test_frames_carry_their_times(tmp_path: Path, suffix: str) -> None:
    path = videos.clip(tmp_path / f"clip{suffix}")
    with VideoFile(path) as video:
        frames = list(video.frames())
        assert [videos.number_of(f.image) for f in frames] == [f.index for f in frames] == list(range(30))
        np.testing.assert_allclose([f.time for f in frames], np.arange(30) / 12, atol=1e-3)
        assert video.report.complete
        assert str(video.report) == "30 frames"
        assert (video.info.width, video.info.height, video.info.fps) == (64, 48, 12.0)
        assert len(list(video.frames())) == 30  # a second pass is the same


@pytest.mark.parametrize("suffix", [".webm", ".mp4"])
def test_seeks_are_exact(tmp_path: Path, suffix: str) -> None:
    """From any time, the first frame is the one shown then, however far back its key frame lies."""
    path = videos.clip(tmp_path / f"clip{suffix}", frames=60)
    with VideoFile(path) as video:
        for start in (0.0, 0.04, 1 / 12, 0.99, 2.5, 3.33, 4.9, 4.95):
            frames = list(video.frames(start))
            assert [videos.number_of(f.image) for f in frames] == list(range(int(start * 12 + 1e-3), 60)), start
        assert [videos.number_of(f.image) for f in video.frames(1.0, 1.5)] == [12, 13, 14, 15, 16, 17]
        wanted = [3.0, 0.0, 0.5, 0.54, 99.0, 3.0]
        assert [videos.number_of(f.image) for f in video.at(wanted)] == [36, 0, 6, 6, 59, 36]
        assert video.at([]) == []


def test_variable_frame_rate(tmp_path: Path) -> None:
    times = [0.0, 0.1, 0.15, 0.9, 1.0, 2.5, 2.6]
    path = videos.with_times(tmp_path / "variable.mp4", times)
    with VideoFile(path) as video:
        np.testing.assert_allclose([f.time for f in video.frames()], times, atol=1e-3)
        assert [videos.number_of(f.image) for f in video.at([0.5, 0.95, 2.0, 2.55])] == [2, 3, 4, 5]


def test_late_start_is_time_zero(tmp_path: Path) -> None:
    path = videos.with_times(tmp_path / "late.mkv", [10.0, 10.5, 11.0])
    with VideoFile(path) as video:
        np.testing.assert_allclose([f.time for f in video.frames()], [0.0, 0.5, 1.0], atol=1e-3)
        assert [videos.number_of(f.image) for f in video.at([0.6])] == [1]


def test_sizes(tmp_path: Path) -> None:
    path = videos.clip(tmp_path / "odd.webm", frames=3, height=35, width=51)
    with VideoFile(path) as video:
        assert next(video.frames()).image.shape == (35, 51, 3)
    with VideoFile(path, size=(20, 31)) as video:
        assert next(video.frames()).image.shape == (20, 31, 3)
    with pytest.raises(InputError, match="size is"):
        VideoFile(path, size=(0, 3))


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_rotation(tmp_path: Path, degrees: int) -> None:
    """A phone's display matrix turns the picture clockwise. No two corners are alike."""
    corners = np.zeros((48, 64, 3), np.uint8)
    for colour, (rows, columns) in zip([40, 100, 160, 220], [(0, 0), (0, 32), (24, 0), (24, 32)], strict=True):
        corners[rows : rows + 24, columns : columns + 32] = colour
    write_video(tmp_path / "phone.mp4", [corners] * 5, 12)
    with VideoFile(tmp_path / "phone.mp4") as video:
        stored = next(video.frames()).image
    path = videos.turn(tmp_path / "phone.mp4", degrees)
    upright = np.rot90(stored, -degrees // 90)  # numpy turns the other way round
    with VideoFile(path) as video, VideoFile(path, size=upright.shape[:2]) as sized:
        first = next(video.frames()).image
        assert np.array_equal(first, upright)
        assert np.array_equal(video.at([0.2])[0].image, upright)
        assert np.abs(next(sized.frames()).image.astype(int) - upright).mean() < 2
    (live,) = [frame.image for frame in LiveSource(source=str(path)).frames() if frame.index == 0]
    assert np.array_equal(live, upright)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5, True, "1", None])
def test_times_that_are_none(tmp_path: Path, value: object) -> None:
    with VideoFile(videos.clip(tmp_path / "clip.mp4", frames=3)) as video:
        with pytest.raises(InputError, match=f"start is {value!r}; it takes a number from 0 on"):
            list(video.frames(value))  # type: ignore[arg-type]
        with pytest.raises(InputError, match=f"a time is {value!r}; it takes a number from 0 on"):
            video.at([0.1, value])  # type: ignore[list-item]
        if value is not None:
            with pytest.raises(InputError, match=f"end is {value!r}; it takes a number from 0 on"):
                list(video.frames(0.0, value))  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"start is 2 s and end is 1 s"):
            list(video.frames(2.0, 1.0))
        assert len(video.at([np.float32(0.1), np.int64(1), 0])) == 3  # type: ignore[list-item]


def test_transparency_is_black(tmp_path: Path) -> None:
    with VideoFile(videos.transparent(tmp_path / "alpha.mov")) as video:
        image = next(video.frames()).image
    assert image[:, :32].min() == 255
    assert image[:, 32:].max() == 0


def test_one_frame(tmp_path: Path) -> None:
    assert numbers(videos.clip(tmp_path / "one.webm", frames=1)) == [0]


def test_8k(tmp_path: Path) -> None:
    path = videos.clip(tmp_path / "huge.mp4", frames=2, height=4320, width=7680)
    with VideoFile(path, size=(27, 48)) as video:
        assert [f.image.shape for f in video.frames()] == [(27, 48, 3)] * 2


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    cases: dict[Path, type[VideoError]] = {
        tmp_path / "nowhere.mp4": MissingVideoError,
        tmp_path / "empty.mp4": EmptyVideoError,
        tmp_path / "text.mp4": NotAVideoError,
        tmp_path / "zeros.webm": NotAVideoError,
        tmp_path: NotAVideoError,
        videos.sound_only(tmp_path / "sound.m4a"): NoVideoStreamError,
    }
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("this is not a video\n" * 100)
    (tmp_path / "zeros.webm").write_bytes(bytes(10_000))
    for path, kind in cases.items():
        with pytest.raises(kind) as error:
            VideoFile(path)
        assert str(path) in str(error.value)
        assert error.value.source == str(path)


def test_truncated_webm_is_noticed(tmp_path: Path) -> None:
    """It decodes without any error, to fewer frames."""
    path = videos.clip(tmp_path / "clip.webm", frames=60)
    data = path.read_bytes()
    path.write_bytes(data[: int(0.7 * len(data))])
    with VideoFile(path) as video:
        frames = list(video.frames())
        assert 0 < len(frames) < 60
        assert [videos.number_of(f.image) for f in frames] == list(range(len(frames)))
        assert not video.report.complete
        assert video.report.missing == pytest.approx(5.0 - len(frames) / 12, abs=0.01)
        assert "of 5.00 s are missing" in str(video.report)


def test_truncated_mp4_without_its_index(tmp_path: Path) -> None:
    path = videos.clip(tmp_path / "clip.mp4")
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(NotAVideoError, match="cut off"):
        VideoFile(path)


def test_corruption_in_the_middle_is_counted(tmp_path: Path) -> None:
    path = videos.clip(tmp_path / "clip.webm", frames=60)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 60] = bytes(60)
    path.write_bytes(bytes(data))
    with VideoFile(path) as video:
        frames = list(video.frames())
        report = video.report
    assert frames
    assert not report.complete
    assert "recovered" in str(report)


def test_no_report_before_the_end(tmp_path: Path) -> None:
    with VideoFile(videos.clip(tmp_path / "clip.webm")) as video:
        next(video.frames())
        with pytest.raises(InputError, match="before all frames"):
            _ = video.report
