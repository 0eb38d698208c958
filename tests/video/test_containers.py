"""Every read gives the frames of a sequential decode, for many containers, codecs and key frame intervals."""

from __future__ import annotations

import itertools
from pathlib import Path

import av
import containers
import numpy as np
import pytest
from containers import FORMS, FPS, FRAMES, GOPS, Form
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horst.errors import DamagedVideoError, HorstError, InputError, NotAVideoError
from horst.video.decode import VideoFile
from horst.video.live import LiveSource


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_reads_equal_the_sequential_decode(tmp_path: Path, form: Form) -> None:
    bad = [f"{what}: {why}" for what, path in containers.files(tmp_path, form) for why in tried(path)]
    assert not bad, "\n".join(bad)


def tried(path: Path) -> list[str]:
    try:
        return problems(path)
    except (HorstError, av.FFmpegError) as error:
        return [repr(error)]


def problems(path: Path) -> list[str]:
    truth = containers.sequential(path)
    found = []
    if [containers.decoded(image) for image in truth] != list(range(FRAMES)):
        return [f"FFmpeg shows {[containers.decoded(image) for image in truth]}"]

    def compare(read: str, frames: list, numbers: list[int]) -> None:
        wanted = [truth[number] for number in numbers]
        if len(frames) != len(wanted) or not all(map(np.array_equal, [frame.image for frame in frames], wanted)):
            shown = [containers.decoded(frame.image) for frame in frames]
            found.append(f"{read} shows {'other pixels' if shown == numbers else f'{shown}, not {numbers}'}")
        elif any(abs(frame.time - n / FPS) > 2e-3 for frame, n in zip(frames, numbers, strict=True)):
            found.append(f"{read} has times {[round(frame.time, 3) for frame in frames]} for {numbers}")

    with VideoFile(path, threads=1) as video:
        if video.info.duration is not None and abs(video.info.duration - FRAMES / FPS) > 0.5 / FPS:
            found.append(f"its duration is {video.info.duration}")
        compare("a first pass", list(video.frames()), list(range(FRAMES)))
        if not video.report.complete:
            found.append(f"the report says: {video.report}")
        compare("at", video.at([1.1, 0.0, 0.5, 5.0]), [27, 0, 12, FRAMES - 1])
        compare("at 0.9 s", video.at([0.9]), [22])
        for start, first in ((0.5, 12), (1.94, 48)):
            some = list(video.frames(start, (first + 5) / FPS))
            compare(f"from {start} s", some, list(range(first, min(first + 5, FRAMES))))
        compare("from 1.5 s to the end", list(video.frames(1.5)), list(range(37, FRAMES)))
        compare("a second pass", list(video.frames()), list(range(FRAMES)))
    live = list(LiveSource(source=str(path)).frames())
    if [containers.decoded(frame.image) for frame in live] != list(range(FRAMES)):
        found.append("a live source shows others")
    return found


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files whose seeks fail in different ways."""
    folder = tmp_path_factory.mktemp("awkward")
    kinds = [
        ("ts", "libx264", "12 B"),
        ("mp4", "libx264", "refresh"),
        ("avi", "mpeg4", "open B"),
        ("webm", "libvpx", "12"),
    ]
    return [
        containers.write(
            folder / f"clip.{suffix}", Form(suffix, codec), GOPS[codec][gop], 0.0 if suffix == "avi" else 7.0
        )
        for suffix, codec, gop in kinds
    ]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 3), st.lists(st.floats(0, 3, allow_subnormal=False), min_size=1, max_size=4))
def test_at_any_times_in_any_order(awkward: list[Path], which: int, times: list[float]) -> None:
    """Each is the last frame that started by then, also for repeated reads of one file."""
    wanted = [min(int((time + 1e-3) * FPS + 1e-9), FRAMES - 1) for time in times]
    with VideoFile(awkward[which], threads=1) as video:
        assert [containers.decoded(frame.image) for frame in video.at(times)] == wanted
        assert [containers.decoded(video.at([time])[0].image) for time in times] == wanted


@pytest.mark.parametrize("codec", ["libx264", "mpeg2video", "mpeg4"])
def test_recording_that_starts_between_key_frames(tmp_path: Path, codec: str) -> None:
    """Time 0 is the first packet. Undecodable frames are reported; before the first frame the first one is shown."""
    gop = "refresh" if codec == "libx264" else "open B"
    path = containers.write(tmp_path / "clip.ts", Form("ts", codec), GOPS[codec][gop])
    path.write_bytes(path.read_bytes()[188 * 30 :])
    with VideoFile(path) as video:
        frames = list(video.frames())
        shown = [containers.decoded(frame.image) for frame in frames]
        assert shown == list(range(shown[0], FRAMES))
        assert frames[0].time > 1.5 / FPS
        assert video.report.skipped == (round(frames[0].time * FPS) if video.info.fps else 1)
        assert not video.report.complete
        for time in (0.0, frames[0].time / 2):
            assert containers.decoded(video.at([time])[0].image) == shown[0]
            assert containers.decoded(next(video.frames(time, time + 1.0)).image) == shown[0]
        assert video.at([0.0, 1.0])[1].time <= 1.001
    assert video.info.duration == pytest.approx(frames[-1].time + 1 / FPS, abs=0.1 / FPS)


def test_no_key_frame_at_all(tmp_path: Path) -> None:
    path = containers.write(tmp_path / "clip.ts", Form("ts", "libx264"), GOPS["libx264"]["250"])
    path.write_bytes(path.read_bytes()[188 * 30 :])
    with VideoFile(path) as video, pytest.raises(DamagedVideoError, match="no frame decodes"):
        list(video.frames())


@pytest.mark.parametrize("gop", ["12 B", "250"])
def test_clock_overflow(tmp_path: Path, gop: str) -> None:
    """MPEG's clock has 33 bits at 90 kHz: it overflows after 26.5 hours."""
    path = containers.write(
        tmp_path / "clip.ts", Form("ts", "libx264"), GOPS["libx264"][gop], start=2**33 / 90_000 - 0.7
    )
    assert not tried(path)


@pytest.mark.parametrize("suffix", ["mp4", "mov"])
@pytest.mark.parametrize("gop", ["12 B", "250"])
def test_edit_list(tmp_path: Path, suffix: str, gop: str) -> None:
    """The first half second is in the file but not shown, as after trimming on a phone. Nothing is missing."""
    whole = containers.write(tmp_path / "whole.mp4", Form("mp4", "libx264"), GOPS["libx264"][gop])
    path = tmp_path / f"trimmed.{suffix}"
    with av.open(str(whole)) as old, av.open(str(path), "w", options={"avoid_negative_ts": "disabled"}) as new:
        stream = new.add_stream_from_template(old.streams.video[0])
        for packet in old.demux(video=0):
            if packet.pts is not None:
                shift = round(0.5 / packet.time_base)
                packet.pts, packet.dts, packet.stream = packet.pts - shift, packet.dts - shift, stream
                new.mux(packet)
    shown = [containers.decoded(image) for image in containers.sequential(path)]
    assert len(shown) < FRAMES - 10
    with VideoFile(path) as video:
        for _ in range(2):
            assert [containers.decoded(frame.image) for frame in video.frames()] == shown
        assert video.report.complete, video.report
        assert video.info.duration == pytest.approx(len(shown) / FPS, abs=1 / FPS)
        for number, time in itertools.islice(enumerate(np.arange(len(shown)) / FPS + 0.01), 0, None, 7):
            assert containers.decoded(video.at([time])[0].image) == shown[number]


@pytest.mark.parametrize(("suffix", "codec"), [("h264", "libx264"), ("m2v", "mpeg2video"), ("h265", "libx265")])
def test_streams_without_timestamps_are_rejected(tmp_path: Path, suffix: str, codec: str) -> None:
    """FFmpeg would assume 25 frames per second."""
    path = containers.write(tmp_path / f"clip.{suffix}", Form(suffix, codec), GOPS[codec]["12 B"])
    with pytest.raises(NotAVideoError, match=rf"without timestamps .* ffmpeg -framerate 30 -i clip.{suffix} -c copy"):
        VideoFile(path)


@pytest.mark.parametrize("clock", [0.0, 100.0])
@pytest.mark.parametrize("suffix", ["webm", "flv"])
def test_truncated_files_are_reported_for_any_clock(tmp_path: Path, suffix: str, clock: float) -> None:
    codec = {"webm": "libvpx", "flv": "flv"}[suffix]
    path = containers.write(tmp_path / f"clip.{suffix}", Form(suffix, codec), GOPS[codec]["12"], clock)
    path.write_bytes(path.read_bytes()[: int(0.7 * path.stat().st_size)])
    with VideoFile(path) as video:
        frames = list(video.frames())
        shown = [containers.decoded(frame.image) for frame in frames[:-1]]  # half of the last one's packet is there
        assert shown == list(range(len(shown)))
        assert len(shown) < 45
        assert video.report.missing == pytest.approx((FRAMES - len(frames)) / FPS, abs=0.1)


def test_one_pass_at_a_time(awkward: list[Path]) -> None:
    """Two passes would mix their frames; PyAV crashes if the file is closed during a pass."""
    with VideoFile(awkward[0]) as video:
        first = video.frames()
        next(first)
        assert len(list(video.frames())) == FRAMES
        with pytest.raises(InputError, match="open it twice"):
            list(first)
        last = video.frames(1.0)
        next(last)
    with pytest.raises(InputError, match="it was closed or read again"):
        list(last)
    with pytest.raises(InputError, match="it is closed"):
        list(video.frames())
    with pytest.raises(InputError, match="it is closed"):
        video.at([1.0])


@pytest.mark.parametrize(("suffix", "codec"), [("mp4", "mpeg4"), ("mkv", "libvpx"), ("avi", "mpeg4")])
def test_every_packet_marked_as_key_frame(tmp_path: Path, suffix: str, codec: str) -> None:
    """Some muxers do that. Decoding from between key frames gives garbage."""
    whole = containers.write(tmp_path / f"whole.{suffix}", Form(suffix, codec), GOPS[codec]["12"])
    path = tmp_path / f"flags.{suffix}"
    with av.open(str(whole)) as old, av.open(str(path), "w") as new:
        stream = new.add_stream_from_template(old.streams.video[0])
        for packet in old.demux(video=0):
            if packet.pts is not None:
                packet.is_keyframe, packet.stream = True, stream
                new.mux(packet)
    assert not tried(path)
