"""Bounds to the last byte: what is at a limit passes, one more is refused. One server with small limits, one stream."""

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
from servers import FPS, SIZE, Running, frame, hear, http, metrics, picture, recording, running, tell
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from horst.errors import InputError
from horst.serving import Limits
from horst.serving.engine import Engine
from horst.serving.pictures import read_picture
from horst.serving.socket import TEXT
from horst.serving.wire import HEADER, join_frame, split_frame
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
    """The only stream, once the one before has left."""
    end = time.monotonic() + 10
    while "horst_streams 0\n" not in metrics(server):
        assert time.monotonic() < end
        time.sleep(0.02)
    with server.socket({"restarts": "never", "states": 1, **start}) as client:
        yield client


def test_bytes_of_a_picture(server: Running) -> None:
    most = LIMITS.frame_bytes
    assert split_frame(join_frame(7, 0.5, bytes(most)), most) == (7, 0.5, bytes(most))
    with pytest.raises(InputError, match=f"{most + 1} bytes; at most {most}"):
        split_frame(join_frame(7, 0.5, bytes(most + 1)), most)
    with stream(server) as client:
        for size, why in ((most, "no picture"), (most + 1, "bytes")):
            client.send(frame(1, 0.0, bytes(size)))
            assert why in hear(client)["message"]


def test_bytes_of_a_message(server: Running) -> None:
    """Beyond what a frame may have there is room for the answer that says so, and an end to it."""
    most = LIMITS.frame_bytes + 4096
    with stream(server) as client:
        client.send(bytes(most))
        assert hear(client)["status"] == "refused"
        client.send(bytes(most + 1))
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


def test_the_shortest_frame() -> None:
    with pytest.raises(InputError, match="header"):
        split_frame(bytes(HEADER.size), 10)
    assert split_frame(join_frame(1, 0.0, b"x"), 10)[2] == b"x"


def test_characters_of_a_text(server: Running) -> None:
    text = json.dumps({"type": "reset"})
    with stream(server) as client:
        client.send(text + " " * (TEXT - len(text)))
        assert hear(client) == {"type": "reset"}
        client.send(text + " " * (TEXT + 1 - len(text)))
        assert hear(client)["code"] == "json"


def test_pixels_of_a_picture() -> None:
    height, width = SIZE
    assert read_picture(picture(0), height * width).shape == (*SIZE, 3)
    with pytest.raises(InputError, match=f"at most {height * width - 1} pixels"):
        read_picture(picture(0), height * width - 1)


@pytest.mark.parametrize("told", [True, False], ids=["length", "no length"])
def test_bytes_of_a_body(server: Running, told: bool) -> None:
    most = LIMITS.upload_bytes
    for size, status in ((most, 422), (most + 1, 413)):
        body = bytes(size)
        sent = body if told else (body[i : i + 10_000] for i in range(0, size, 10_000))
        assert http.post(f"{server.url}/api/predict", content=sent).status_code == status
        sent = body if told else (body[i : i + 10_000] for i in range(0, size, 10_000))
        assert http.post(f"{server.url}/api/recordings/wave", content=sent).status_code == status


def test_frames_of_a_recording(server: Running) -> None:
    most = LIMITS.recording_frames
    url = f"{server.url}/api/recordings/wave"
    assert http.post(url, content=recording(most)).json()["frames"] == most
    more = http.post(url, content=recording(most + 1))
    assert more.status_code == 422
    assert f"more than the {most} frames" in more.json()["error"]["message"]
    assert http.delete(url).json() == {"removed": 1}


def test_a_rest_earns_no_more_frames_than_a_second_has(server: Running) -> None:
    """Frames are refused by their rate alone: these are no pictures, which is told in other words."""
    rate, rest, count = LIMITS.rate, 0.5, 250
    with stream(server) as client:
        time.sleep(rest)
        begin = time.monotonic()
        for number in range(count):
            client.send(frame(number, 0.0, b"x"))
        answers = [hear(client) for _ in range(count)]
        taken = time.monotonic() - begin
    refused = sum("a second" in answer.get("message", "") for answer in answers)
    assert rate - 1 <= count - refused <= rate * (1 + taken) + 1


def test_no_more_frames_are_under_way_than_are_granted(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the model is at work. The others are skipped without being decoded, and later ones are taken again."""
    step, gate, handed = SessionPool.step, threading.Event(), []
    hand_over = Engine.hand_over

    def blocked(self: SessionPool) -> object:
        assert gate.wait(20)
        return step(self)

    def watched(self: Engine, guest: Any, ticket: Any) -> None:
        handed.append(ticket.number)
        hand_over(self, guest, ticket)

    with stream(server) as client:
        monkeypatch.setattr(SessionPool, "step", blocked)
        monkeypatch.setattr(Engine, "hand_over", watched)
        for number in range(8):
            client.send(frame(number, number / FPS))
        end = time.monotonic() + 10
        while len(handed) < LIMITS.in_flight and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)  # in which all are read
        assert handed == [0, 1, 2]
        gate.set()
        answers = [hear(client) for _ in range(8)]
        assert [answer["frame"] for answer in answers] == list(range(8))
        assert [answer["status"] for answer in answers[LIMITS.in_flight :]] == ["skipped"] * 5
        assert answers[0]["status"] == "predicted"
        client.send(frame(8, 8 / FPS))
        assert hear(client)["status"] == "predicted"
        assert handed == [0, 1, 2, 8]


@pytest.mark.parametrize("leaves", ["stop", "goes away", "too large a message"])
def test_a_stream_starts_afresh_in_the_place_of_another(server: Running, leaves: str) -> None:
    """There is one place. What the client before has shown must not change what the next one is told."""
    with stream(server) as client:
        for number in range(5):
            client.send(frame(90 - number, number / FPS))
            assert hear(client)["prediction"]["age"] == number + 1
        if leaves == "stop":
            tell(client, {"type": "stop"})
            assert hear(client) == {"type": "stopped"}
        elif leaves == "too large a message":
            client.send(bytes(100_000))
    local = server.model.stream()
    with stream(server, top=4) as client:
        for number in range(3):
            client.send(frame(number, number / FPS))
            (wanted,) = local.feed(videos.picture(number, *SIZE), number / FPS)
            told = hear(client)["prediction"]
            assert told["age"] == number + 1
            assert told["top"] == wanted.to_dict(4)["top"]


TYPES = [
    {"top": True},
    {"states": True},
    {"seconds": True},
    {"threshold": False},
    {"threshold": True},
    {"attention": 1},
    {"attention": 0},
    {"model": True},
    {"restarts": 1},
    {"top": 2.0},
    {"states": 1.0},
    {"seconds": "3"},
]


@pytest.mark.parametrize("given", TYPES, ids=str)
def test_a_start_of_the_wrong_type_is_refused(server: Running, given: dict[str, Any]) -> None:
    with server.socket() as client:
        tell(client, {"type": "start", "states": 1, **given})
        error = hear(client)
        assert (error["type"], error.get("code")) == ("error", "start")
        assert "of the wrong type" in error["message"]
        assert next(iter(given)) in error["message"]


@pytest.mark.parametrize("text", ["true", '"1"', "NaN", "Infinity", "-Infinity", "0", "61", "null", "[1]"])
def test_minutes_are_a_number(server: Running, text: str) -> None:
    """Not what Python takes for one. With a number it is the clips that are missing."""
    headers = {"content-type": "application/json"}
    for minutes, where in ((text, True), ("1", False), ("0.5", False)):
        body = f'{{"minutes": {minutes}}}'
        told = http.post(f"{server.url}/api/teach", content=body, headers=headers)
        assert told.status_code == 422
        assert ("minutes" in told.json()["error"]["message"]) == where, told.text


@pytest.mark.parametrize("top", ["true", "1.5", "0", "1001", "", "nan"])
def test_top_is_a_whole_number(server: Running, top: str) -> None:
    told = http.post(f"{server.url}/api/predict?top={top}", content=b"x")
    assert told.status_code == 422
    assert "top" in told.json()["error"]["message"]


def test_no_answer_holds_nan(server: Running) -> None:
    """A stream's answers are JSON that any client reads."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    with stream(server, top=4, attention=True) as client:
        client.send(frame(0, 0.0))
        said = json.loads(client.recv(timeout=10), parse_constant=refuse)
        assert np.isfinite([one["probability"] for one in said["prediction"]["top"]["action"]]).all()
