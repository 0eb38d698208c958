"""Limits to the last byte: a value at the limit is accepted, one more is rejected."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import videos
from servers import FPS, SIZE, Running, frame, http, metrics, picture, receive, recording, running, send, wait_for
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from horst.errors import InputError
from horst.serving import Limits
from horst.serving.frames import HEADER, decode_image, join_frame, split_frame
from horst.serving.scheduler import FrameRequest, Session
from horst.serving.websocket import MAX_TEXT
from horst.streaming import SessionPool

LIMITS = Limits(
    load=1000,
    streams=1,
    states=1,
    frame_bytes=20_000,
    frame_pixels=SIZE[0] * SIZE[1],
    upload_bytes=50_000,
    recording_frames=8,
    rate=100,
    in_flight=3,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("bounds"), LIMITS) as server:
        yield server


@contextmanager
def stream(server: Running, **start: Any) -> Iterator[ClientConnection]:
    """The only stream, after the previous one was closed."""
    wait_for(lambda: "horst_streams 0\n" in metrics(server))
    with server.socket(start) as client:
        yield client


def test_frame_bytes(server: Running) -> None:
    most = LIMITS.frame_bytes
    assert split_frame(join_frame(7, 0.5, bytes(most)), most) == (7, 0.5, bytes(most))
    with pytest.raises(InputError, match=f"{most + 1} bytes; the limit is {most}"):
        split_frame(join_frame(7, 0.5, bytes(most + 1)), most)
    with stream(server) as client:
        for size, reason in ((most, "not an image"), (most + 1, "bytes")):
            client.send(frame(1, 0.0, bytes(size)))
            assert reason in receive(client)["message"]


def test_message_bytes(server: Running) -> None:
    """Slightly too large frames are rejected, larger ones close the connection."""
    most = LIMITS.frame_bytes + 4096
    with stream(server) as client:
        client.send(bytes(most))
        assert receive(client)["status"] == "rejected"
        client.send(bytes(most + 1))
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


def test_shortest_frame() -> None:
    with pytest.raises(InputError, match="header"):
        split_frame(bytes(HEADER.size), 10)
    assert split_frame(join_frame(1, 0.0, b"x"), 10)[2] == b"x"


def test_text_characters(server: Running) -> None:
    text = json.dumps({"type": "reset"})
    with stream(server) as client:
        client.send(text + " " * (MAX_TEXT - len(text)))
        assert receive(client) == {"type": "reset"}
        client.send(text + " " * (MAX_TEXT + 1 - len(text)))
        assert receive(client)["code"] == "json"


def test_frame_pixels() -> None:
    height, width = SIZE
    assert decode_image(picture(0), height * width).shape == (*SIZE, 3)
    with pytest.raises(InputError, match=f"the limit is {height * width - 1}"):
        decode_image(picture(0), height * width - 1)


@pytest.mark.parametrize("announced", [True, False], ids=["length", "no length"])
def test_body_bytes(server: Running, announced: bool) -> None:
    most = LIMITS.upload_bytes
    for size, status in ((most, 422), (most + 1, 413)):
        body = bytes(size)
        sent = body if announced else (body[i : i + 10_000] for i in range(0, size, 10_000))
        assert http.post(f"{server.url}/api/predict", content=sent).status_code == status
        sent = body if announced else (body[i : i + 10_000] for i in range(0, size, 10_000))
        assert http.post(f"{server.url}/api/recordings/wave", content=sent).status_code == status


def test_recording_frames(server: Running) -> None:
    most = LIMITS.recording_frames
    url = f"{server.url}/api/recordings/wave"
    assert http.post(url, content=recording(most)).json()["frames"] == most
    more = http.post(url, content=recording(most + 1))
    assert more.status_code == 422
    assert f"more than {most} frames" in more.json()["error"]["message"]
    assert http.delete(url).json() == {"removed": 1}


def test_pause_allows_no_more_than_the_frames_of_one_second(server: Running) -> None:
    """These frames are not images, which is another message than that of the rate."""
    rate, count = LIMITS.rate, 250
    with stream(server) as client:
        time.sleep(0.5)
        begin = time.monotonic()
        for number in range(count):
            client.send(frame(number, 0.0, b"x"))
        answers = [receive(client) for _ in range(count)]
        taken = time.monotonic() - begin
    rejected = sum("per second" in answer.get("message", "") for answer in answers)
    assert rate - 1 <= count - rejected <= rate * (1 + taken) + 1


def test_frames_in_flight(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the model runs, further frames are skipped without being decoded. Later ones are accepted again."""
    step, gate, submitted, submit = SessionPool.step, threading.Event(), [], Session.submit

    def blocked(self: SessionPool) -> object:
        assert gate.wait(20)
        return step(self)

    def watched(self: Session, request: FrameRequest) -> None:
        submitted.append(request.number)
        submit(self, request)

    with stream(server) as client:
        monkeypatch.setattr(SessionPool, "step", blocked)
        monkeypatch.setattr(Session, "submit", watched)
        for number in range(8):
            client.send(frame(number, number / FPS))
        wait_for(lambda: len(submitted) >= LIMITS.in_flight)
        time.sleep(0.2)  # until all are read
        assert submitted == [0, 1, 2]
        gate.set()
        answers = [receive(client) for _ in range(8)]
        assert [answer["frame"] for answer in answers] == list(range(8))
        assert [answer["status"] for answer in answers[LIMITS.in_flight :]] == ["skipped"] * 5
        assert answers[0]["status"] == "predicted"
        client.send(frame(8, 8 / FPS))
        assert receive(client)["status"] == "predicted"
        assert submitted == [0, 1, 2, 8]


@pytest.mark.parametrize("end", ["stop", "disconnect", "too large message"])
def test_next_session_starts_empty(server: Running, end: str) -> None:
    """There is one slot: the frames of the previous client must not affect the next one."""
    with stream(server) as client:
        for number in range(5):
            client.send(frame(90 - number, number / FPS))
            assert receive(client)["prediction"]["age"] == number + 1
        if end == "stop":
            send(client, {"type": "stop"})
            assert receive(client) == {"type": "stopped"}
        elif end == "too large message":
            client.send(bytes(100_000))
    local = server.model.stream()
    with stream(server, top=4) as client:
        for number in range(3):
            client.send(frame(number, number / FPS))
            (expected,) = local.feed(videos.picture(number, *SIZE), number / FPS)
            answer = receive(client)["prediction"]
            assert answer["age"] == number + 1
            assert answer["top"] == expected.to_dict(4)["top"]


@pytest.mark.parametrize("top", ["true", "1.5", "0", "1001", "", "nan"])
def test_top_must_be_an_integer(server: Running, top: str) -> None:
    answer = http.post(f"{server.url}/api/predict?top={top}", content=b"x")
    assert answer.status_code == 422
    assert "top" in answer.json()["error"]["message"]


def test_answers_are_strict_json(server: Running) -> None:

    def refuse(name: str) -> None:
        raise AssertionError(name)

    with stream(server, top=4, attention=True) as client:
        client.send(frame(0, 0.0))
        answer = json.loads(client.recv(timeout=10), parse_constant=refuse)
        assert np.isfinite([one["probability"] for one in answer["prediction"]["top"]["action"]]).all()
