"""The WebSocket: every frame is answered once, in order; invalid messages affect no other session."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import videos
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from servers import FPS, Running, check_serving, frame, metrics, picture, receive, running, send, wait_for
from websockets.exceptions import ConnectionClosed

from horst.errors import InputError
from horst.serving import Limits
from horst.serving.frames import join_frame
from horst.serving.websocket import StreamOptions, WebSocketSession
from horst.streaming import PeriodicReset


def test_predictions_equal_a_local_stream(server: Running) -> None:
    """Lossless frames, of another size and rate than the model's."""
    with server.socket({"top": 4, "reset": "every", "seconds": 1, "states": 2}) as client:
        local = server.model.stream(reset=PeriodicReset(1, 2))
        for number in range(25):
            image, at = videos.picture(number, 30, 50), 100 + number / 8
            client.send(frame(number, at, picture(number, "png", (30, 50))))
            answer, predictions = receive(client), list(local.feed(image, at))
            assert answer["frame"] == number
            assert answer["status"] == ("predicted" if predictions else "not_due")
            if predictions:
                expected = predictions[-1].to_dict(4)
                prediction = answer["prediction"]
                assert prediction["latency"] > 0
                assert {**prediction, "latency": 0, "attention": 0} == {**expected, "latency": 0, "attention": 0}
            else:
                assert "prediction" not in answer


def test_ready_and_attention(server: Running) -> None:
    with server.socket() as client:
        send(client, {"type": "start", "attention": True, "reset": "never", "model": None})
        ready = receive(client)
        assert ready["type"] == "ready"
        assert (ready["model"], ready["size"], ready["fps"]) == ("tiny", [24, 32], FPS)
        assert ready["tasks"] == {"action": 4}
        assert ready["order"] == 3
        assert ready["limits"]["in_flight"] == 8
        client.send(frame(7, 0.0))
        attention = receive(client)["prediction"]["attention"]
        assert len(attention["temporal"]) == ready["order"]
        assert np.isclose(sum(attention["temporal"]), 1, atol=1e-3)


def test_frames_in_flight_are_answered_in_order(server: Running) -> None:
    with server.socket({}) as client:
        for number in range(40):
            client.send(frame(number, number / FPS) if number % 5 else frame(number, number / FPS, b"nothing"))
        answers = [receive(client) for _ in range(40)]
        assert [answer["frame"] for answer in answers] == list(range(40))
        statuses = {answer["status"] for answer in answers}
        assert {"predicted", "rejected"} <= statuses <= {"predicted", "not_due", "skipped", "rejected"}
        send(client, {"type": "reset"})
        assert receive(client) == {"type": "reset"}
        client.send(frame(40, 0.0))
        assert receive(client)["prediction"]["age"] == 1
        send(client, {"type": "stop"})
        assert receive(client) == {"type": "stopped"}
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(timeout=5)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1000


def test_reset_keeps_its_place_among_the_frames(server: Running) -> None:
    with server.socket({"reset": "never"}) as client:
        for number in range(3):
            client.send(frame(number, number / FPS))
        send(client, {"type": "reset"})
        client.send(frame(3, 3 / FPS))
        send(client, {"type": "stop"})
        answers = [receive(client) for _ in range(6)]
        assert [one["prediction"]["age"] for one in answers[:3]] == [1, 2, 3]
        assert answers[3] == {"type": "reset"}
        assert answers[4]["prediction"]["age"] == 1
        assert answers[5] == {"type": "stopped"}


def bomb(width: int, height: int) -> bytes:
    """A small PNG file with a large size in its header."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0" * 100_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


INVALID = {
    "empty": (b"", "header"),
    "no image": (b"\x07\0\0\0" + bytes(8), "header"),
    "garbage": (frame(7, 0.2, b"garbage"), "not an image"),
    "truncated JPEG": (frame(7, 0.2, picture(0, "jpeg")[:200]), "decode|not an image"),
    "truncated PNG": (frame(7, 0.2, picture(0, "png", (64, 64))[:90]), "decode|not an image"),
    "another kind": (frame(7, 0.2, picture(0, "gif")), "not an image"),
    "bomb": (frame(7, 0.2, bomb(60_000, 60_000)), "pixels|not an image"),
    "large": (frame(7, 0.2, bomb(4000, 4000)), "pixels"),
    "time is NaN": (frame(7, float("nan")), "time"),
    "infinite time": (frame(7, float("inf")), "time"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_frame_is_rejected_and_the_stream_continues(server: Running, name: str) -> None:
    data, reason = INVALID[name]
    with server.socket({}) as client:
        client.send(frame(1, 0.0))
        assert receive(client)["status"] == "predicted"
        client.send(data)
        answer = receive(client)
        assert answer["status"] == "rejected"
        assert any(word in answer["message"] for word in reason.split("|"))
        client.send(frame(2, 1 / FPS))
        assert receive(client)["prediction"]["age"] == 2


def test_frames_out_of_order(server: Running) -> None:
    with server.socket({"reset": "never"}) as client:
        statuses = []
        for number, at in enumerate((10.0, 10.2, 10.1, 10.15, 10.4, 3.0)):
            client.send(frame(number, at))
            statuses.append(receive(client)["status"])
        assert statuses == ["predicted", "predicted", "not_due", "not_due", "predicted", "predicted"]


INVALID_STARTS: dict[str, tuple[Any, str, int]] = {
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
    "unknown policy": ('{"type": "start", "reset": "sometimes"}', "start", 1008),
    "infinite": ('{"type": "start", "seconds": Infinity}', "start", 1008),
}


@pytest.mark.parametrize("name", INVALID_STARTS)
def test_invalid_first_message_ends_the_session(server: Running, name: str) -> None:
    message, code, close = INVALID_STARTS[name]
    with server.socket() as client:
        client.send(message)
        error = receive(client)
        assert (error["type"], error["code"]) == ("error", code)
        assert set(error) == {"type", "code", "message"}
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(timeout=5)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == close
    check_serving(server)


@pytest.mark.parametrize("message", ['{"type": "start"}', '{"type": "dance"}', '{"kind": 1}', "null"])
def test_invalid_message_after_the_start(server: Running, message: str) -> None:
    with server.socket({}) as client:
        client.send(message)
        assert receive(client)["type"] == "error"
        with pytest.raises(ConnectionClosed):
            client.recv(timeout=5)


def test_too_large_message(tmp_path: Path) -> None:
    with running(tmp_path, Limits(load=1000, frame_bytes=20_000)) as server:
        with server.socket({}) as client:
            client.send(frame(1, 0.0, bytes(21_000)))
            assert "bytes" in receive(client)["message"]
            client.send(bytes(100_000))
            with pytest.raises(ConnectionClosed) as closed:
                client.recv(timeout=5)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
        check_serving(server)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(("model", "reset", "seconds", "states", "top", "threshold", "attention", "type"))
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
@given(sent=st.lists(messages, max_size=12), started=st.booleans())
def test_server_survives_any_messages(server: Running, sent: list[str | bytes], started: bool) -> None:
    with server.socket() as client:
        with contextlib.suppress(ConnectionClosed):
            if started:
                send(client, {"type": "start", "reset": "never"})
            for message in sent:
                client.send(message)
            send(client, {"type": "stop"})
        received = []
        with contextlib.suppress(ConnectionClosed):
            while True:  # until the server closes; `receive` has a timeout
                received.append(receive(client)["type"])
        assert set(received) <= {"ready", "answer", "reset", "stopped", "error"}
        assert len(received) <= len(sent) + 3
        assert client.close_code in (1000, 1008)


def test_server_still_works_after_all_of_the_above(server: Running) -> None:
    check_serving(server)
    wait_for(lambda: "horst_streams 0\n" in metrics(server))
    assert "horst_failures_total 0\n" in metrics(server)


OPTIONS = Limits(states=4)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("seconds", [0.001, 1, 3600], [0, -1, 3600.5, "3", True, float("nan"), float("inf")]),
        ("states", [1, 4], [0, 5, 1.0, True]),
        ("top", [1, 1000], [0, 1001, 2.5, 2.0, False]),
        ("threshold", [0, 0.5, 1], [-0.01, 1.01, "0", True, False]),
        ("attention", [True, False], [1, 0, "yes"]),
        ("model", ["tiny"], [3, True]),
        ("reset", ["every"], [1, True, "sometimes"]),
    ],
)
def test_stream_options(name: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(StreamOptions.parse({"type": "start", name: value}, OPTIONS), name) == value
    for value in bad:
        with pytest.raises(InputError, match=name):
            StreamOptions.parse({"type": "start", name: value}, OPTIONS)
    assert StreamOptions.parse({"type": "start", name: None}, OPTIONS) == StreamOptions.parse({}, OPTIONS)


def test_default_options_fit_the_limits() -> None:
    assert [StreamOptions.parse({}, Limits(states=n)).states for n in (1, 2, 3, 4)] == [1, 2, 3, 3]
    with pytest.raises(InputError, match="speed"):
        StreamOptions.parse({"speed": 1}, OPTIONS)


def statuses(times: list[float], monkeypatch: pytest.MonkeyPatch, answered: bool = True, **limits: float) -> list[str]:
    """Statuses of frames that arrive at these times: submitted, rejected or skipped."""
    now = 0.0
    monkeypatch.setattr("horst.serving.rate_limiter.monotonic", lambda: now)
    decoders = SimpleNamespace(pool=lambda large: SimpleNamespace(submit=lambda *_: None))
    image = picture(0)

    async def run() -> list[str]:
        nonlocal now
        manager = SimpleNamespace(limits=Limits(**limits), metrics=None)  # type: ignore[arg-type]
        session = WebSocketSession(None, manager, decoders)  # type: ignore[arg-type]
        for time in times:
            now = time
            session._take_frame(join_frame(7, time, image))
            session._requests[-1].submitted &= not answered
        assert {request.number for request in session._requests} == {7}
        return [request.status or "submitted" for request in session._requests]

    return asyncio.run(run())


@pytest.mark.parametrize("rate", [10.0, 30.0])
def test_frames_within_the_rate(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames of one second may arrive at once. Unused ones may be sent later, up to those of one second."""
    assert statuses([i / rate for i in range(200)], monkeypatch, rate=rate) == ["submitted"] * 200
    burst = statuses([0.0] * 40 + [0.5] * 40 + [10.0] * 40, monkeypatch, rate=rate)
    assert [burst[i : i + 40].count("submitted") for i in (0, 40, 80)] == [rate, rate / 2, rate]
    assert set(burst) == {"submitted", "rejected"}


@pytest.mark.parametrize("rate", [10.0, 30.0])
@pytest.mark.parametrize("times", [1.1, 2.0, 5.0])
def test_client_above_the_rate_gets_the_rate(times: float, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """For 20 seconds: those of one second at once, then the rate. Rejected frames cost nothing."""
    found = statuses([i / (times * rate) for i in range(round(20 * times * rate))], monkeypatch, rate=rate)
    assert found.count("submitted") == pytest.approx(min(21 * rate, len(found)), abs=2)
    assert set(found[-round(2 * times * rate) :]) == {"submitted", "rejected"}


def test_frames_above_the_in_flight_limit_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skipped frames count for the rate."""
    assert statuses([0.0] * 8, monkeypatch, answered=False, in_flight=4, rate=6.0) == (
        ["submitted"] * 4 + ["skipped"] * 2 + ["rejected"] * 2
    )


def test_rejected_frame_is_answered_by_its_number() -> None:
    async def run() -> list[tuple[int, Any]]:
        manager = SimpleNamespace(limits=Limits(frame_bytes=4), metrics=None)
        session = WebSocketSession(None, manager, None)  # type: ignore[arg-type]
        for message in (join_frame(258, 0.0, b"large"), b"\x03\0\0\0", b"\x03\0\0", b"\x01\x02\0\0\xff"):
            session._take_frame(message)
        return [(request.number, request.status) for request in session._requests]

    assert asyncio.run(run()) == [(258, "rejected"), (3, "rejected"), (0, "rejected"), (513, "rejected")]
