"""Live sources over a real connection on loopback: frames arrive, a dead server is an error or is waited for."""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import videos

from horst.errors import InputError, VideoError
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


def test_a_stream_that_ends_is_opened_again(server: ThreadingHTTPServer) -> None:
    source = LiveSource(source=f"http://127.0.0.1:{server.server_port}/clip.webm", patience=5)
    found = []
    for frame in source.frames():
        found.append(videos.number_of(frame.image))
        if len(found) == 15:
            break
    assert found == [*range(10), *range(5)]


def test_nobody_answers() -> None:
    for source in ("http://127.0.0.1:9/clip.webm", "rtsp://127.0.0.1:9/camera", "camera:99"):
        with pytest.raises(VideoError) as error:
            next(LiveSource(source=source, timeout=1).frames())
        assert source in str(error.value)
    start = time.monotonic()
    with pytest.raises(VideoError):
        next(LiveSource(source="http://127.0.0.1:9/clip.webm", timeout=1, patience=1).frames())
    assert 0.5 < time.monotonic() - start < 5
    with pytest.raises(InputError, match="camera:0"):
        next(LiveSource(source="camera:").frames())


def test_what_is_live() -> None:
    assert is_live("camera:0")
    assert is_live("rtsp://kitchen/1")
    assert not is_live("clips/camera.mp4")
