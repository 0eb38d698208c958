"""An RTSP server on loopback that dies and comes back while predictions continue."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import pytest
import torch

import horst
from horst.errors import VideoError
from horst.video.live import LiveSource

SYSTEM, SERVER = "/usr/bin/python3", Path(__file__).parent / "rtsp_server.py"
INSTALL = "apt-get install -y --no-install-recommends python3-gi gir1.2-gst-rtsp-server-1.0 gstreamer1.0-plugins-good"


def missing() -> str | None:
    """Why the server cannot run."""
    if not Path(SYSTEM).exists():
        return f"there is no {SYSTEM}"
    tried = subprocess.run([SYSTEM, SERVER, "check"], capture_output=True, text=True, timeout=60, env=bare())
    return None if tried.returncode == 0 else (tried.stderr.strip().splitlines() or ["it does not start"])[-1]


def bare() -> dict[str, str]:
    """The environment without the variables of the tests' Python."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


WHY = missing()
pytestmark = pytest.mark.skipif(WHY is not None, reason=f"no RTSP server ({WHY}); {INSTALL}")
Start = Callable[[], subprocess.Popen[str]]


@pytest.fixture
def address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"rtsp://127.0.0.1:{probe.getsockname()[1]}/camera"


@pytest.fixture
def start(address: str) -> Iterator[Start]:
    """Starts the server; can be called repeatedly."""
    started: list[subprocess.Popen[str]] = []
    port = address.split(":")[-1].split("/")[0]

    def again() -> subprocess.Popen[str]:
        process = subprocess.Popen([SYSTEM, SERVER, port], stdout=subprocess.PIPE, text=True, env=bare())
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield again
    for process in started:
        process.kill()
        process.wait()


def test_server_that_dies_and_comes_back(address: str, start: Start) -> None:
    server = start()
    times, died = [], 0.0
    source = LiveSource(source=address, size=(24, 32), timeout=2, patience=60)
    for frame in source.frames():
        assert frame.image.shape == (24, 32, 3)
        times.append(frame.time)
        if len(times) == 20:
            server.kill()
            server.wait()
            died = frame.time
            time.sleep(0.5)
            start()
        if len(times) >= 60:
            break
    assert times == sorted(times)
    assert times[-1] > died + 1


def test_without_patience_a_dead_server_ends_the_stream(address: str, start: Start) -> None:
    server = start()

    def watch() -> None:
        for frame in LiveSource(source=address, timeout=2).frames():
            if frame.index == 5:
                server.kill()
                server.wait()

    begin = time.monotonic()
    with contextlib.suppress(VideoError):  # FFmpeg may take a closed connection for the end
        watch()
    assert time.monotonic() - begin < 30
    with pytest.raises(VideoError, match=address):
        watch()  # nobody is there


@pytest.mark.slow
def test_predict_continues_and_writes_a_video(address: str, start: Start, tmp_path: Path) -> None:
    """`horst predict` across an interruption, until Ctrl-C: it continues, and the video is complete."""
    torch.manual_seed(0)
    small = {"backbone": {"name": "stem", "widths": [4, 6]}, "hidden": [6], "stride": [2], "order": 3}
    model = horst.create_model("horst_tiny", num_classes=3, size=(24, 32), fps=5.0, **small)
    model.save_pretrained(tmp_path / "model")
    server, video = start(), tmp_path / "out.mp4"
    command = [sys.executable, "-m", "horst", "predict", str(tmp_path / "model"), address, "--json"]
    watcher = subprocess.Popen(
        [*command, "--patience", "60", "--render", str(video)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert watcher.stdout is not None
        before = [json.loads(watcher.stdout.readline()) for _ in range(5)]
        server.kill()
        server.wait()
        time.sleep(0.5)
        start()
        after = [json.loads(watcher.stdout.readline()) for _ in range(10)]
        assert not video.exists()  # it appears when it is complete
        watcher.send_signal(signal.SIGINT)
        _, errors = watcher.communicate(timeout=60)
    finally:
        watcher.kill()
        watcher.wait()
    assert watcher.returncode == 0, errors
    times = [line["time"] for line in [*before, *after]]
    assert times == sorted(times)
    assert all(line["answer"] for line in after)
    with av.open(str(video)) as container:
        frames = sum(1 for _ in container.decode(video=0))
        assert container.streams.video[0].codec_context.width == 1280
    assert frames >= 12 * (times[-1] - times[0]) / 2
