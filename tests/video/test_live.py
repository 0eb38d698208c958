"""Live sources over a loopback connection: frames arrive; a dead server is an error, or is waited for."""

from __future__ import annotations

import functools
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import av
import containers
import pytest
import videos

from horst.errors import InputError, MissingVideoError, VideoError
from horst.video import live
from horst.video.live import LiveSource, is_live


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    videos.clip(tmp_path / "clip.webm", frames=10)
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_http(server: ThreadingHTTPServer) -> None:
    frames = list(LiveSource(source=f"http://127.0.0.1:{server.server_port}/clip.webm", size=(24, 32)).frames())
    assert [videos.number_of(f.image) for f in frames] == list(range(10))
    assert frames[0].image.shape == (24, 32, 3)
    assert all(a.time <= b.time for a, b in itertools.pairwise(frames))


def test_a_stream_that_ends_is_reopened(server: ThreadingHTTPServer) -> None:
    source = LiveSource(source=f"http://127.0.0.1:{server.server_port}/clip.webm", patience=5)
    found = []
    for frame in source.frames():
        found.append(videos.number_of(frame.image))
        if len(found) == 15:
            break
    assert found == [*range(10), *range(5)]


def test_no_server() -> None:
    for source in ("http://127.0.0.1:9/clip.webm", "rtsp://127.0.0.1:9/camera", "camera:99"):
        with pytest.raises(VideoError) as error:
            next(LiveSource(source=source, timeout=1).frames())
        assert source in str(error.value)
    start = time.monotonic()
    with pytest.raises(VideoError):
        next(LiveSource(source="http://127.0.0.1:9/clip.webm", timeout=1, patience=1).frames())
    assert 0.5 < time.monotonic() - start < 5


@pytest.fixture
def silent(tmp_path: Path) -> Path:
    """A file without a frame: the header of a fragmented mp4."""
    form = containers.Form("mp4", "libx264", containers.FRAGMENTED)
    path = containers.write(tmp_path / "silent.mp4", form, containers.GOPS["libx264"]["12"], frames=5)
    path.write_bytes(path.read_bytes().split(b"moof")[0][:-4])
    with av.open(str(path)) as container:
        assert not [packet for packet in container.demux(video=0) if packet.size]
    return path


def test_a_source_that_sends_nothing_is_given_up(silent: Path, server: ThreadingHTTPServer) -> None:
    """It opens and ends without an error each time."""
    address = f"http://127.0.0.1:{server.server_port}/{silent.name}"
    with pytest.raises(VideoError, match="it opens but sends no frame: check"):
        list(LiveSource(source=address).frames())
    start = time.monotonic()
    with pytest.raises(VideoError, match=r"sends no frame for 0\.8 s"):
        list(LiveSource(source=address, patience=0.8).frames())
    assert 0.3 < time.monotonic() - start < 5


def test_patience_counts_from_the_last_frame(silent: Path, server: ThreadingHTTPServer) -> None:
    """It is counted from the last frame, also if the source still opens."""
    clip, name = silent.with_name("clip.webm"), f"http://127.0.0.1:{server.server_port}/clip.webm"
    found, times = [], []

    def watch() -> None:
        for frame in LiveSource(source=name, patience=0.8).frames():
            found.append(videos.number_of(frame.image))
            time.sleep(0.09)  # the caller's time is not the source's
            times.append(time.monotonic())
            if len(found) == 15:
                clip.write_bytes(silent.read_bytes())

    with pytest.raises(VideoError, match=r"sends no frame for 0\.8 s"):
        watch()
    assert found == [*range(10), *range(10)]
    assert 0.3 < time.monotonic() - times[-1] < 5


@pytest.mark.parametrize("value", [float("nan"), -1.0, True, "5"])
def test_invalid_times(value: object) -> None:
    for name in ("timeout", "patience"):
        with pytest.raises(InputError, match=f"{name} is {value!r}; it takes a number"):
            LiveSource(source="camera:0", **{name: value})  # type: ignore[arg-type]


@pytest.mark.skipif(sys.platform != "linux", reason="cameras have other names elsewhere")
def test_missing_cameras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a camera only the errors can be tested."""
    with pytest.raises(MissingVideoError, match=r"camera:99 \(/dev/video99\): there is no such file or device"):
        next(LiveSource(source="camera:99").frames())
    for name in ("camera:", "camera:front", "camera:../null"):
        with pytest.raises(InputError, match=f"{name}: cameras are named camera:0"):
            next(LiveSource(source=name).frames())
    (tmp_path / "video0").touch()
    monkeypatch.setitem(live.CAMERAS, "linux", ("v4l2", str(tmp_path / "video{}")))
    with pytest.raises(VideoError, match=r"camera:0 .*video0\): FFmpeg cannot open it: .*ioctl"):
        next(LiveSource(source="camera:0").frames())
    monkeypatch.setitem(live.CAMERAS, "linux", ("avfoundation", "{}"))
    with pytest.raises(VideoError, match=r"this build of FFmpeg .* does not support cameras: avfoundation"):
        next(LiveSource(source="camera:0").frames())


def test_what_is_live() -> None:
    assert is_live("camera:0")
    assert is_live("rtsp://kitchen/1")
    assert not is_live("clips/camera.mp4")


PUBLISH = """
import sys, time
from fractions import Fraction
import av, videos

address, frames, beat, pauses = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
while True:
    try:
        out = av.open(address, "w", format="rtsp", options={"rtsp_transport": "tcp"})
        stream = out.add_stream("libx264", rate=12, options={"tune": "zerolatency", "g": "6", "crf": "10"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        out.start_encoding()
        break
    except ConnectionRefusedError:  # nobody listens yet
        time.sleep(0.05)
for number in range(frames):
    if str(number) in pauses:
        sys.stdin.readline()
    frame = av.VideoFrame.from_ndarray(videos.picture(number), format="rgb24")
    frame.pts, frame.time_base = number, Fraction(1, 12)
    out.mux(stream.encode(frame))
    time.sleep(beat)
out.mux(stream.encode())
out.close()
"""


@pytest.fixture
def publish() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a process that sends H.264 to an address as soon as someone listens there.

    Before each frame of `pauses` it waits for a line.
    """
    started: list[subprocess.Popen[bytes]] = []

    def start(address: str, frames: int, beat: float, *pauses: int) -> subprocess.Popen[bytes]:
        where = {**os.environ, "PYTHONPATH": str(Path(videos.__file__).parent)}
        command = [sys.executable, "-c", PUBLISH, address, str(frames), str(beat), *map(str, pauses)]
        process = subprocess.Popen(command, env=where, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"rtsp://127.0.0.1:{probe.getsockname()[1]}/camera"


LISTEN = {"rtsp_flags": "listen"}


def test_rtsp(publish: Callable[..., subprocess.Popen[bytes]]) -> None:
    """H.264 over RTSP, from a process that publishes to one that listens. Frames arrive as they are sent.

    The sender waits for the receiver instead of the clock, which says nothing on a busy machine. FFmpeg looks at some
    frames before it gives the first, here at fewer than 40; then it keeps fewer than 10. Else both would wait in vain.
    """
    address, frames = free_address(), []
    sender = publish(address, 60, 0.01, 40, 50)
    assert sender.stdin is not None
    for frame in LiveSource(source=address, size=(24, 32), timeout=30, options=LISTEN).frames():
        frames.append(frame)
        if frame.index in (0, 40):
            sender.stdin.write(b"go on\n")
            sender.stdin.flush()
    assert [videos.number_of(frame.image) for frame in frames] == list(range(60))
    assert [frame.index for frame in frames] == list(range(60))
    assert frames[0].image.shape == (24, 32, 3)
    assert all(a.time <= b.time for a, b in itertools.pairwise(frames))


def test_rtsp_continues_with_another_sender(publish: Callable[..., subprocess.Popen[bytes]]) -> None:
    address = free_address()
    sender, found = publish(address, 60, 0.05), []
    for frame in LiveSource(source=address, patience=20, options=LISTEN).frames():
        found.append(videos.number_of(frame.image))
        if len(found) == 30:
            sender.kill()
            publish(address, 30, 0.01)
        if len(found) > 30 and found[-1] == 20:
            break
    cut = found.index(0, 1)
    assert cut >= 30
    assert found == [*range(cut), *range(21)]


def test_rtsp_without_a_sender() -> None:
    start = time.monotonic()
    address = free_address()
    with pytest.raises(VideoError, match=address):
        next(LiveSource(source=address, timeout=1, options=LISTEN).frames())
    assert time.monotonic() - start < 5
