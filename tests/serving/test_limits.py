"""Full, fast, slow and silent: every bound holds, is told, and harms no other stream."""

from __future__ import annotations

import dataclasses
import socket
import time
from pathlib import Path

import pytest
from servers import FPS, frame, hear, honest, metrics, picture, running, tell
from websockets.exceptions import ConnectionClosed

from horst.errors import ConfigError
from horst.serving import Limits
from horst.serving.load import Cost
from horst.streaming import SessionPool, Slot


def closed_with(client: object) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        client.recv(timeout=10)  # type: ignore[attr-defined]
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def test_a_full_server_says_busy(tmp_path: Path) -> None:
    with running(tmp_path, Limits(load=1000, streams=2)) as server:
        with server.socket({}), server.socket({}) as second:
            with server.socket() as third:
                tell(third, {"type": "start"})
                assert hear(third)["type"] == "busy"
                assert closed_with(third) == 1013
            second.send(frame(1, 0.0))
            assert hear(second)["status"] == "predicted"
        time.sleep(0.3)
        honest(server)


def test_a_server_without_time_says_busy_at_the_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state takes 30 ms and is asked 5 times a second: 0.8 s hold five streams of one state."""
    monkeypatch.setattr(Cost, "measured", classmethod(lambda cls, pool: cls(0.01, 0.03)))
    monkeypatch.setattr(Cost, "learn", lambda self, places, seconds: None)
    with running(tmp_path, Limits()) as server:
        sockets = [server.socket() for _ in range(8)]
        told = []
        for entered in sockets:
            client = entered.__enter__()
            tell(client, {"type": "start", "restarts": "never"})
            told.append(hear(client)["type"])
        for entered in sockets:
            entered.__exit__(None, None, None)
        assert told == ["ready"] * 5 + ["busy"] * 3


def test_where_it_gets_slower_the_newest_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horst.serving.hall.STRAINED", 0.5)
    with running(tmp_path, Limits(streams=8)) as server, server.socket({}) as first, server.socket({}) as second:
        monkeypatch.setattr(Cost, "step", lambda self, places: 10.0 if places > 3 else 0.01)
        told = hear(second)
        assert (told["type"], set(told)) == ("busy", {"type", "message"})  # an error has a code, this is none
        assert closed_with(second) == 1013
        first.send(frame(1, 0.0))
        assert hear(first)["status"] == "predicted"


def test_silence_ends_a_stream(tmp_path: Path) -> None:
    with running(tmp_path, Limits(load=1000, idle=0.4)) as server:
        with server.socket() as client:
            assert hear(client)["code"] == "idle"
            assert closed_with(client) == 1001
        with server.socket({}) as client:
            client.send(frame(1, 0.0))
            assert hear(client)["status"] == "predicted"
            assert hear(client)["code"] == "idle"


def test_too_many_frames_a_second_are_refused(tmp_path: Path) -> None:
    with running(tmp_path, Limits(load=1000, rate=10, in_flight=100)) as server, server.socket({}) as client:
        for number in range(30):
            client.send(frame(number, number / 100))
        answers = [hear(client) for _ in range(30)]
        assert [answer["frame"] for answer in answers] == list(range(30))
        refused = [answer for answer in answers if answer["status"] == "refused"]
        assert 15 <= len(refused) <= 21
        assert "a second" in refused[0]["message"]


def test_a_client_that_does_not_read_is_closed(tmp_path: Path) -> None:
    """It sends and never reads: at some point the server stops reading, then gives it up. Others go on."""
    with running(tmp_path, Limits(load=1000, slow=0.5, rate=1e6)) as server:
        port = int(server.url.rpartition(":")[2])
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        raw.connect(("127.0.0.1", port))
        raw.sendall(
            b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        start = b'{"type":"start","top":4}'
        raw.sendall(bytes([0x81, 0x80 | len(start), 0, 0, 0, 0]) + start)
        message = frame(1, 0.0, picture(0)[:20])
        piece = bytes([0x82, 0x80 | len(message), 0, 0, 0, 0]) + message
        raw.settimeout(0.2)
        sent, end = 0, time.monotonic() + 20
        try:
            while sent < 200_000 and time.monotonic() < end:
                try:
                    raw.sendall(piece * 50)
                    sent += 50
                except TimeoutError:  # the server stopped reading
                    if "horst_streams 0\n" in metrics(server):
                        break
        except OSError:
            pass  # it has closed
        while "horst_streams 0\n" not in metrics(server):
            assert time.monotonic() < end
            time.sleep(0.1)
        honest(server)
        raw.close()


def test_a_mistake_in_one_stream_is_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push = Slot.push

    def broken(self: Slot, image: object, time: float) -> None:
        if time == 666:
            raise RuntimeError("a mistake")
        push(self, image, time)  # type: ignore[arg-type]

    monkeypatch.setattr(Slot, "push", broken)
    with running(tmp_path) as server, server.socket({}) as good, server.socket({}) as bad:
        bad.send(frame(1, 666.0))
        assert hear(bad)["type"] in ("answer", "busy")
        for number in range(3):
            good.send(frame(number, number / FPS))
            assert hear(good)["status"] == "predicted"


def test_a_step_that_fails_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path) as server:
        honest(server)
        step, left = SessionPool.step, [2]

        def failing(self: SessionPool) -> object:
            said = step(self)
            if left[0]:
                left[0] -= 1
                raise RuntimeError("out of memory")
            return said

        with server.socket({}) as client:
            monkeypatch.setattr(SessionPool, "step", failing)
            statuses = []
            for number in range(4):
                client.send(frame(number, number / FPS))
                statuses.append(hear(client)["status"])
        assert statuses == ["skipped", "skipped", "predicted", "predicted"]


def test_limits_are_checked() -> None:
    assert dataclasses.asdict(Limits()) == Limits().to_dict()
    with pytest.raises(ConfigError, match="streams is 0"):
        Limits(streams=0)
