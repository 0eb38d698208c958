"""The WebSocket: every accepted frame is answered once and in order; bad ones harm nobody."""

from __future__ import annotations

import contextlib
import json
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import videos
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers import FPS, Running, frame, hear, honest, metrics, picture, running, tell
from websockets.exceptions import ConnectionClosed

from horst.serving import Limits
from horst.streaming import PeriodicReset


def test_the_stream_says_what_the_model_says(server: Running) -> None:
    """Frames without loss, of another size and beat than the model's: the very probabilities of a local stream."""
    with server.socket({"top": 4, "restarts": "every", "seconds": 1, "states": 2}) as client:
        local = server.model.stream(reset=PeriodicReset(1, 2))
        for number in range(25):
            image, at = videos.picture(number, 30, 50), 100 + number / 8
            client.send(frame(number, at, picture(number, "png", (30, 50))))
            answer, said = hear(client), list(local.feed(image, at))
            assert answer["frame"] == number
            assert answer["status"] == ("predicted" if said else "held")
            if said:
                wanted = said[-1].to_dict(4)
                told = answer["prediction"]
                assert told["latency"] > 0
                assert {**told, "latency": 0, "attention": 0} == {**wanted, "latency": 0, "attention": 0}
            else:
                assert "prediction" not in answer


def test_ready_and_attention(server: Running) -> None:
    with server.socket() as client:
        tell(client, {"type": "start", "attention": True, "restarts": "never", "model": None})
        ready = hear(client)
        assert ready["type"] == "ready"
        assert (ready["model"], ready["size"], ready["fps"]) == ("tiny", [24, 32], FPS)
        assert ready["tasks"] == {"action": 4}
        assert ready["order"] == 3
        assert ready["limits"]["in_flight"] == 8
        client.send(frame(7, 0.0))
        attention = hear(client)["prediction"]["attention"]
        assert len(attention["temporal"]) == ready["order"]
        assert np.isclose(sum(attention["temporal"]), 1, atol=1e-3)


def test_frames_under_way_are_answered_in_order(server: Running) -> None:
    with server.socket({}) as client:
        for number in range(40):
            client.send(frame(number, number / FPS) if number % 5 else frame(number, number / FPS, b"nothing"))
        answers = [hear(client) for _ in range(40)]
        assert [answer["frame"] for answer in answers] == list(range(40))
        assert {answer["status"] for answer in answers} <= {"predicted", "held", "skipped", "refused"}
        assert answers[1]["status"] == "predicted"
        tell(client, {"type": "reset"})
        assert hear(client) == {"type": "reset"}
        client.send(frame(40, 0.0))
        assert hear(client)["prediction"]["age"] == 1
        tell(client, {"type": "stop"})
        assert hear(client) == {"type": "stopped"}
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(timeout=5)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1000


def test_a_reset_keeps_its_place_among_the_frames(server: Running) -> None:
    with server.socket({"restarts": "never"}) as client:
        for number in range(3):
            client.send(frame(number, number / FPS))
        tell(client, {"type": "reset"})
        client.send(frame(3, 3 / FPS))
        tell(client, {"type": "stop"})
        told = [hear(client) for _ in range(6)]
        assert [one["prediction"]["age"] for one in told[:3]] == [1, 2, 3]
        assert told[3] == {"type": "reset"}
        assert told[4]["prediction"]["age"] == 1
        assert told[5] == {"type": "stopped"}


def bomb(width: int, height: int) -> bytes:
    """A small PNG that says that it is large."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0" * 100_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


BAD = {
    "empty": (b"", "header"),
    "no picture": (b"\x07\0\0\0" + bytes(8), "header"),
    "garbage": (frame(7, 0.2, b"garbage"), "no picture"),
    "truncated JPEG": (frame(7, 0.2, picture(0, "jpeg")[:200]), "picture"),
    "truncated PNG": (frame(7, 0.2, picture(0, "png", (64, 64))[:90]), "picture"),
    "another kind": (frame(7, 0.2, picture(0, "gif")), "no picture"),
    "bomb": (frame(7, 0.2, bomb(60_000, 60_000)), "pixels|no picture"),
    "large": (frame(7, 0.2, bomb(4000, 4000)), "pixels"),
    "time is none": (frame(7, float("nan")), "time"),
    "endless time": (frame(7, float("inf")), "time"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_frame_is_refused_and_the_stream_goes_on(server: Running, name: str) -> None:
    data, why = BAD[name]
    with server.socket({}) as client:
        client.send(frame(1, 0.0))
        assert hear(client)["status"] == "predicted"
        client.send(data)
        answer = hear(client)
        assert answer["status"] == "refused"
        assert any(word in answer["message"] for word in why.split("|"))
        client.send(frame(2, 1 / FPS))
        assert hear(client)["prediction"]["age"] == 2


def test_frames_in_the_wrong_order_are_held(server: Running) -> None:
    with server.socket({"restarts": "never"}) as client:
        statuses = []
        for number, at in enumerate((10.0, 10.2, 10.1, 10.15, 10.4, 3.0)):
            client.send(frame(number, at))
            statuses.append(hear(client)["status"])
        assert statuses == ["predicted", "predicted", "held", "held", "predicted", "predicted"]


NONSENSE: dict[str, tuple[Any, str, int]] = {
    "binary before start": (frame(0, 0.0), "start", 1008),
    "text": ("hello", "json", 1008),
    "a list": ("[1]", "json", 1008),
    "deep": ("[" * 4000, "json", 1008),
    "long": (json.dumps({"type": "start", "model": "x" * 5000}), "json", 1008),
    "another type": ('{"type": "dance"}', "start", 1008),
    "stop first": ('{"type": "stop"}', "start", 1008),
    "unknown model": ('{"type": "start", "model": "../../etc"}', "start", 1008),
    "unknown option": ('{"type": "start", "speed": 3}', "start", 1008),
    "wrong type": ('{"type": "start", "top": "many"}', "start", 1008),
    "wrong value": ('{"type": "start", "threshold": 7}', "start", 1008),
    "too many states": ('{"type": "start", "states": 100}', "start", 1008),
    "unknown policy": ('{"type": "start", "restarts": "sometimes"}', "start", 1008),
    "endless": ('{"type": "start", "seconds": Infinity}', "start", 1008),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_ends_the_session(server: Running, name: str) -> None:
    message, code, close = NONSENSE[name]
    with server.socket() as client:
        client.send(message)
        error = hear(client)
        assert (error["type"], error["code"]) == ("error", code)
        assert set(error) == {"type", "code", "message"}
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(timeout=5)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == close
    honest(server)


@pytest.mark.parametrize("message", ['{"type": "start"}', '{"type": "dance"}', '{"kind": 1}', "null"])
def test_nonsense_after_the_start(server: Running, message: str) -> None:
    with server.socket({}) as client:
        client.send(message)
        assert hear(client)["type"] == "error"
        with pytest.raises(ConnectionClosed):
            client.recv(timeout=5)


def test_a_message_that_is_too_large(tmp_path: Path) -> None:
    with running(tmp_path, Limits(load=1000, frame_bytes=20_000)) as server:
        with server.socket({}) as client:
            client.send(frame(1, 0.0, bytes(21_000)))
            assert "bytes" in hear(client)["message"]
            client.send(bytes(100_000))
            with pytest.raises(ConnectionClosed) as closed:
                client.recv(timeout=5)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
        honest(server)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(("model", "restarts", "seconds", "states", "top", "threshold", "attention", "type"))
messages = st.one_of(
    st.text(max_size=60),
    st.binary(max_size=200),
    json_values.map(json.dumps),
    st.dictionaries(names, json_values, max_size=4).map(lambda d: json.dumps({"type": "start", **d})),
    st.sampled_from(('{"type": "start"}', '{"type": "reset"}', '{"type": "stop"}')),
    st.builds(
        lambda n, at, data: struct.pack("<Id", n, at) + data,
        st.integers(0, 2**32 - 1),
        st.floats(),
        st.sampled_from((picture(0), picture(1, "jpeg"), picture(0)[:80], b"x", bomb(9000, 9000))),
    ),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(messages, max_size=12), begun=st.booleans())
def test_no_messages_bring_the_server_down(server: Running, said: list[str | bytes], begun: bool) -> None:
    with server.socket() as client:
        with contextlib.suppress(ConnectionClosed):
            if begun:
                tell(client, {"type": "start", "restarts": "never"})
            for message in said:
                client.send(message)
            tell(client, {"type": "stop"})
        told = []
        with contextlib.suppress(ConnectionClosed):
            while True:  # until the server closes; were it to hang, `hear` would end it
                told.append(hear(client)["type"])
        assert set(told) <= {"ready", "answer", "reset", "stopped", "error"}
        assert len(told) <= len(said) + 3
        assert client.close_code in (1000, 1008)


def test_the_next_client_is_served(server: Running) -> None:
    """After all of the above."""
    honest(server)
    end = time.monotonic() + 5
    while (text := metrics(server)) and "horst_streams 0\n" not in text:
        assert time.monotonic() < end, "a stream was left open"
        time.sleep(0.05)
    assert "horst_failures_total 0\n" in text
