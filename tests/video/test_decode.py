"""Decoding of difficult and damaged files: losses are reported, unreadable files are typed errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import containers
import numpy as np
import pytest
import videos

from horst.errors import (
    DamagedVideoError,
    EmptyVideoError,
    InputError,
    MissingVideoError,
    NotAVideoError,
    NoVideoStreamError,
    VideoError,
)
from horst.video.decode import MAX_GAP, VideoFile, _PassCounts, to_rgb
from horst.video.encode import write_video
from horst.video.frame import VideoInfo
from horst.video.live import LiveSource


def numbers(path: Path, start: float = 0.0, end: float | None = None) -> list[int]:
    with VideoFile(path) as video:
        return [videos.number_of(frame.image) for frame in video.frames(start, end)]


@pytest.mark.parametrize("suffix", [".webm", ".mp4"])
def test_frames_have_timestamps(tmp_path: Path, suffix: str) -> None:
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
    """From any time, the first frame is the one shown then, however far back its key frame is."""
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
    """A phone's display matrix rotates the image clockwise. No two corners are alike."""
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
def test_invalid_times(tmp_path: Path, value: object) -> None:
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


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
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


def test_truncated_webm_is_reported(tmp_path: Path) -> None:
    """It decodes without an error, to fewer frames."""
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
    with pytest.raises(NotAVideoError, match="truncated"):
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
        with pytest.raises(InputError, match="read all frames before"):
            _ = video.report


def broken(path: Path, *which: int) -> Path:
    """25 frames of MJPEG, each a key frame; some packets are all zeros."""
    containers.write(path, containers.Form("mkv", "mjpeg"), {}, frames=25)
    with av.open(str(path)) as container:
        packets = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    data = path.read_bytes()
    for number in which:
        assert data.count(packets[number]) == 1
        data = data.replace(packets[number], bytes(len(packets[number])))
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("which", [(4,), (4, 5, 6), (1, 10, 20)])
def test_every_corrupt_packet_counts_once(tmp_path: Path, which: tuple[int, ...]) -> None:
    with VideoFile(broken(tmp_path / "clip.mkv", *which)) as video:
        frames = list(video.frames())
        assert [round(frame.time * containers.FPS) for frame in frames] == [i for i in range(25) if i not in which]
        assert [frame.index for frame in frames] == list(range(25 - len(which)))
        assert (video.report.decoded, video.report.corrupt) == (25 - len(which), len(which))
        assert video.report.missing == 0
        assert not video.report.complete


def test_file_without_a_decodable_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three packets in a row end the pass, two do not."""
    with (
        VideoFile(broken(tmp_path / "all.mkv", *range(25))) as video,
        pytest.raises(DamagedVideoError, match=r"no frame decodes \(25 packets or frames are corrupt\)"),
    ):
        list(video.frames())
    monkeypatch.setattr("horst.video.decode.MAX_CORRUPT", 3)
    path = broken(tmp_path / "some.mkv", 2, 3, 6, 7, 10, 11, 12)
    with VideoFile(path) as video:
        shown = [round(frame.time * containers.FPS) for frame in video.frames()]
        assert shown == [0, 1, 4, 5, 8, 9]
        assert (video.report.decoded, video.report.corrupt) == (6, 7)
        assert video.report.missing == pytest.approx(1 - 10 / containers.FPS, abs=2e-3)


def account(times: list[float], corrupt: int = 0) -> _PassCounts:
    made, image = _PassCounts(), np.zeros((2, 2, 3), np.uint8)
    for i, time in enumerate(times):
        assert made.plausible(time)
        assert made.frame(image, time).index == i
    made.corrupt = corrupt
    return made


def lost(times: list[float], fps: float | None, duration: float | None, frames: int | None, **more: int) -> Any:
    """Skipped frames and missing seconds, if the end may be 0.25 s early."""
    report = account(times, **more).report(VideoInfo(2, 2, fps, duration, frames), 0.25)
    assert (report.decoded, report.promised) == (len(times), duration)
    return report.skipped, pytest.approx(report.missing)


TENTHS = [i / 10 for i in range(20)]


def test_losses_in_worked_examples() -> None:
    """Two seconds at 10 frames per second."""
    assert lost(TENTHS, 10, 2.0, 20) == lost(TENTHS, None, None, None) == (0, 0)
    # At the end: a slack of 0.25 s, unless all frames that were promised have come.
    assert lost(TENTHS, 10, 2.25, None) == (0, 0)
    assert lost(TENTHS, 10, 2.26, None) == (0, 0.26)
    assert lost(TENTHS, 10, 9.0, 20) == (0, 0)
    assert lost(TENTHS, 10, 9.0, 21)[1] == 7.0
    assert lost(TENTHS, None, 2.5, None) == (0, 0.6)  # without a rate the last frame has no length
    assert lost([], 10, 2.0, 20) == (0, 2.0)
    # In the middle: one gap of three beats in 17 is two frames; with few gaps or many odd ones there is no beat.
    assert lost(TENTHS[:9] + TENTHS[11:], 10, 2.0, None) == (2, 0)
    assert lost([0.0, 0.1, 0.2, 0.5], 10, 0.6, None) == (0, 0)
    assert lost(TENTHS[:4] + TENTHS[6:9] + TENTHS[11:], 10, 2.0, None) == (0, 0)
    # By the container's count, less what is corrupt and what is missing at the end.
    assert lost(TENTHS[:4] + TENTHS[6:9] + TENTHS[11:], 10, 2.0, 20) == (4, 0)
    assert lost(TENTHS[:4] + TENTHS[6:9] + TENTHS[11:], 10, 2.0, 20, corrupt=1) == (3, 0)
    assert lost(TENTHS[:4] + TENTHS[6:9] + TENTHS[11:17], 10, 2.0, 20) == (4, 0.3)
    assert lost(TENTHS, 10, 2.0, 25) == (0, 0)  # an edit list cuts five off
    assert lost(TENTHS, 10, None, 25) == lost(TENTHS, None, None, 25) == (5, 0)
    # At the start.
    assert lost([time + 0.3 for time in TENTHS], 10, 2.3, None) == (3, 0)
    assert lost([time + 0.3 for time in TENTHS], None, None, None) == (1, 0)
    assert lost([time + 0.01 for time in TENTHS], 10, 2.0, None) == (1, 0)
    assert lost([time + 1e-3 for time in TENTHS], 10, 2.0, None) == (0, 0)


def test_plausible_timestamps() -> None:
    made = account([5.0])
    assert [made.plausible(5.0 + step) for step in (0.0, -1.0, 1e-6, MAX_GAP - 1, MAX_GAP)] == [
        False, False, True, True, False,
    ]  # fmt: skip
    assert [_PassCounts().plausible(time) for time in (-1.0, 1e9, float("nan"), float("inf"))] == [
        True, True, False, False,
    ]  # fmt: skip


def test_every_unusable_frame_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One without a timestamp, one with a decreasing timestamp, one that does not convert; then the demuxer fails."""

    def packets(container: Any) -> Iterator[Any]:
        yield from (packet for packet in container.from_start() if packet.size)
        raise av.FFmpegError(5, "read error")

    def convert(raw: Any, *options: Any) -> Any:
        if raw is raws[7]:
            raise ValueError("no such format")
        return to_rgb(raw, *options)

    monkeypatch.setattr("horst.video.decode.to_rgb", convert)
    path = containers.write(tmp_path / "clip.mkv", containers.Form("mkv", "mjpeg"), {}, frames=10)
    with VideoFile(path, threads=1) as video:
        account = _PassCounts()
        raws = list(video._raw(packets(video._container), account))
        assert (len(raws), account.corrupt) == (10, 1)
        raws[3].pts, raws[5].pts = None, raws[2].pts
        frames = list(video._decode(iter(raws), account))
    assert [round(frame.time * containers.FPS) for frame in frames] == [0, 1, 2, 4, 6, 8, 9]
    assert account.corrupt == 4
