"""The client, and the command that serves."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import videos
from servers import SIZE, Running, http, running
from websockets.sync.server import ServerConnection, serve

from horst.cli import main
from horst.errors import BusyError, ConfigError, InputError
from horst.models import save
from horst.serving import Client, Limits
from horst.serving.client import MAX_LOSSES, ConnectionLostError, ServerError
from horst.serving.frames import encode_image, split_frame
from horst.video.decode import VideoFile
from horst.video.frame import Frame


def test_watch_equals_a_local_stream(server: Running, tmp_path: Path) -> None:
    path = videos.clip(tmp_path / "clip.mp4", frames=33, fps=10)
    with VideoFile(path, size=SIZE) as video:
        wanted = [p.to_dict(3) for p in server.model.stream().watch(video.frames(), video.info.duration)]
    with Client(server.url, image_format="png", top=3, reset="never") as client:
        messages = list(client.watch(path))
    assert [{**one, "latency": 0} for one in messages] == [{**one, "latency": 0} for one in wanted]


def test_push(server: Running) -> None:
    with Client(server.url, reset="never") as client:
        assert client.ready["model"] == "tiny"
        answers = [client.push(videos.picture(i, *SIZE), i / 5) for i in range(3)]
        assert [answer["prediction"]["age"] for answer in answers] == [1, 2, 3]
        client.send(videos.picture(3, *SIZE), 0.6)
        client.reset()
        assert client.push(videos.picture(0, *SIZE), 9.0)["prediction"]["age"] == 1
        with pytest.raises(InputError, match="no frame waits"):
            client.receive()
        with pytest.raises(InputError, match="uint8"):
            client.push(videos.picture(0, *SIZE).astype(float), 9.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="closed"):
        client.push(videos.picture(0, *SIZE), 9.0)


def test_connection_errors(server: Running, tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="no model 'other'"):
        Client(server.url, model="other").connect()
    with pytest.raises(ServerError, match="cannot connect"):
        Client("http://127.0.0.1:9").connect()
    with pytest.raises(ConfigError, match="looks like"):
        Client("somewhere")
    with running(tmp_path, Limits(load=1000, streams=1), token="long-enough") as full:
        with pytest.raises(ServerError, match="401"):
            Client(full.url).connect()
        with Client(f"{full.url}/#token=long-enough"), pytest.raises(BusyError):
            Client(full.url, token="long-enough").connect()


READY = {"type": "ready", "limits": {"in_flight": 2, "rate": 1000.0}}


@contextmanager
def scripted(script: Callable[[ServerConnection, dict[str, Any]], None]) -> Iterator[str]:
    """The address of a server that receives the start message and then runs the script."""

    def handler(socket: ServerConnection) -> None:
        script(socket, json.loads(socket.recv()))

    with serve(handler, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


def say(socket: ServerConnection, *messages: dict[str, Any]) -> None:
    for message in messages:
        socket.send(json.dumps(message))


def test_messages_of_the_client() -> None:
    """The start message, then numbered frames. The last frame of a video is repeated at its end."""
    got: list[Any] = []

    def script(socket: ServerConnection, start: dict[str, Any]) -> None:
        request = socket.request
        assert request is not None
        got.extend([start, request.path, request.headers.get("Authorization")])
        say(socket, READY)
        for number, status in enumerate(["predicted", "not_due", "skipped", "predicted"] * 2, 1):
            got.append(split_frame(socket.recv(), 1 << 20))  # type: ignore[arg-type]
            about = {"prediction": {"time": got[-1][1]}} if status == "predicted" else {}
            say(socket, {"type": "answer", "frame": number, "status": status, **about})

    image = videos.picture(3, *SIZE)
    frames = [Frame(image, time, i) for i, time in enumerate((0.0, 0.1, 0.2))]
    with scripted(script) as url, Client(f"{url}#token=secret", image_format="png", model="mine", top=2) as client:
        assert list(client.watch(iter(frames), 0.5)) == [{"time": 0.0}, {"time": 0.498}]
        assert list(client.watch(iter(frames), 0.2)) == [{"time": 0.0}]  # it ends with the last frame
        assert client.push(image, 9.0)["status"] == "predicted"
    assert got[:3] == [{"type": "start", "model": "mine", "top": 2}, "/ws", "Bearer secret"]
    assert [frame[0] for frame in got[3:]] == list(range(1, 9))
    assert [frame[1] for frame in got[3:]] == pytest.approx([0.0, 0.1, 0.2, 0.498, 0.0, 0.1, 0.2, 9.0])
    assert {frame[2] for frame in got[3:]} == {encode_image(image, "png")}


BUSY: list[tuple[list[dict[str, Any]], type[Exception], str]] = [
    ([{"type": "busy", "message": "full"}], BusyError, "^full$"),
    ([{"type": "error", "code": "start", "message": "no"}], ServerError, "^start: no$"),
    ([{"type": "answer"}], ServerError, "the server sent 'answer' instead of 'ready'"),
    ([], ServerError, "closed the stream"),
]


@pytest.mark.parametrize(("messages", "kind", "message"), BUSY)
def test_unexpected_first_message(messages: list[dict[str, Any]], kind: type[Exception], message: str) -> None:
    with scripted(lambda socket, start: say(socket, *messages)) as url:
        client = Client(url)
        with pytest.raises(kind, match=message):
            client.connect()
        with pytest.raises(InputError, match="closed"):  # the connection is closed
            client.send(videos.picture(0, *SIZE), 0.0)


def test_rejected_frame_and_timeout() -> None:
    def script(socket: ServerConnection, start: dict[str, Any]) -> None:
        say(socket, READY)
        socket.recv()
        say(socket, {"type": "answer", "frame": 1, "status": "rejected", "message": "too dark"})
        socket.recv()
        time.sleep(0.5)

    frames = [Frame(videos.picture(0, *SIZE), 0.0, 0)]
    with scripted(script) as url, Client(url, timeout=0.2) as client:
        with pytest.raises(ServerError, match="frame 1 was rejected: too dark"):
            list(client.watch(iter(frames)))
        with pytest.raises(ServerError, match=r"sent nothing for 0\.2 s"):
            list(client.watch(iter(frames)))


def test_reconnect_sends_what_was_not_answered() -> None:
    """The first connection answers one of three frames, the second is busy, the third one answers all."""
    got: list[list[int]] = []

    def script(socket: ServerConnection, start: dict[str, Any]) -> None:
        got.append([])
        if len(got) == 2:
            say(socket, {"type": "busy", "message": "full"})
            return
        say(socket, READY)
        for count in itertools.count():
            if len(got) == 1 and count == 3:
                return
            number = split_frame(socket.recv(), 1 << 20)[0]  # type: ignore[arg-type]
            got[-1].append(number)
            if len(got) > 1 or count == 0:
                say(socket, {"type": "answer", "frame": number, "status": "not_due"})

    image = videos.picture(3, *SIZE)
    with scripted(script) as url, Client(url, reconnect=10) as client:
        for time_ in (0.0, 0.1, 0.2):
            client.send(image, time_)
        assert [client.receive()["frame"] for _ in range(3)] == [1, 2, 3]
        assert client.push(image, 0.3)["frame"] == 4
    assert got == [[1, 2, 3], [], [2, 3, 4]]


@pytest.mark.parametrize("reconnect", [0.0, 60.0])
def test_a_connection_that_is_always_lost(reconnect: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horst.serving.client.FIRST_WAIT", 0.01)
    tries: list[Any] = []

    def script(socket: ServerConnection, start: dict[str, Any]) -> None:
        tries.append(start)
        say(socket, READY)
        socket.recv()

    with scripted(script) as url, Client(url, reconnect=reconnect) as client:
        with pytest.raises(ConnectionLostError):
            client.push(videos.picture(3, *SIZE), 0.0)
        with pytest.raises(InputError, match="closed"):
            client.send(videos.picture(3, *SIZE), 0.1)
    assert len(tries) == (1 + MAX_LOSSES if reconnect else 1)


@pytest.mark.parametrize(("rate", "granted"), [(10.0, 9), (20.0, 18), (2.0, 2)])
def test_watch_keeps_below_the_rate(rate: float, granted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """90% of the rate, on a clock of its own: first all frames of one second at once."""
    now, sent = 100.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        assert seconds >= 0
        now += seconds

    monkeypatch.setattr("horst.serving.client.clock.monotonic", lambda: now)
    monkeypatch.setattr("horst.serving.client.clock.sleep", sleep)
    monkeypatch.setattr(Client, "send", lambda *_: sent.append(now))
    client = Client("http://127.0.0.1:1")
    client.ready = {"limits": {"in_flight": 8, "rate": rate}}
    frame = Frame(videos.picture(0, *SIZE), 0.0, 0)
    list(client.watch(itertools.repeat(frame, 3 * granted + 1)))
    assert sent == [100.0] * granted + [101.0] * granted + [102.0] * granted + [103.0]
    now += 0.5
    list(client.watch([frame] * granted))  # one was sent half a second ago
    assert sent[-granted:] == [103.5] * (granted - 1) + [104.0]


def test_addresses() -> None:
    for address, url in {
        "http://host:1": "ws://host:1/ws",
        "ws://host/other?x=1": "ws://host/ws",
        "https://host": "wss://host/ws",
        "wss://host:2/": "wss://host:2/ws",
    }.items():
        assert Client(address).url == url
    for address in ("ftp://host", "http://", "host:8000", ""):
        with pytest.raises(ConfigError, match="looks like http"):
            Client(address)
    with pytest.raises(ConfigError, match="image_format is 'gif'"):
        Client("http://host", image_format="gif")  # type: ignore[arg-type]


def test_serve_command(server: Running, tmp_path: Path) -> None:
    save(server.model, tmp_path / "saved")
    command = [sys.executable, "-m", "horst", "serve", str(tmp_path / "saved"), "--port=0", f"--folder={tmp_path}/live"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert child.stdout is not None
    line = child.stdout.readline()
    url = next(word for word in line.split() if word.startswith("http")).rstrip("/")
    end = time.monotonic() + 20
    while True:
        try:
            assert http.get(f"{url}/healthz").status_code == 200
            break
        except httpx.ConnectError:
            assert time.monotonic() < end
    with Client(url) as client:
        assert client.ready["model"] == "saved"
        client.push(videos.picture(0, *SIZE), 0.0)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=20) == 0
    assert child.stderr is not None
    assert "Traceback" not in child.stderr.read()


def test_errors_of_the_serve_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "somethings", "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "--token" in capsys.readouterr().err
    assert main(["serve", "--port", "99999999"]) == 2
    assert "port" in capsys.readouterr().err
    assert main(["serve", "nothing-there", "--port", "0"]) == 2
