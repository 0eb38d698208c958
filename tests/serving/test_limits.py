"""Full servers, and clients that are too fast, too slow or silent: other sessions continue."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from servers import FPS, Running, check_serving, frame, http, metrics, picture, receive, running, send, wait_for
from websockets.exceptions import ConnectionClosed, InvalidStatus

from horst.errors import ConfigError
from horst.models import save
from horst.serving import Limits
from horst.serving.cost import StepCost
from horst.streaming import SessionPool, Slot


def closed_with(client: object) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        client.recv(timeout=10)  # type: ignore[attr-defined]
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def refused(server: Running) -> str:
    """The reason why a handshake is refused as busy."""
    with pytest.raises(InvalidStatus) as found, server.socket():
        pass
    assert found.value.response.status_code == 503
    return str(json.loads(found.value.response.body)["error"]["message"])


def test_full_server_rejects(tmp_path: Path) -> None:
    with running(tmp_path, Limits(load=1000, streams=2)) as server:
        with server.socket({}), server.socket({}) as second:
            assert refused(server) == "server full"
            second.send(frame(1, 0.0))
            assert receive(second)["status"] == "predicted"
        wait_for(lambda: "horst_streams 0\n" in metrics(server))
        check_serving(server)


def test_loaded_server_rejects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state takes 30 ms and runs 5 times per second: five fit into a load of 0.8."""
    monkeypatch.setattr(StepCost, "measure", classmethod(lambda cls, pool: cls(0.01, 0.03)))
    monkeypatch.setattr(StepCost, "update", lambda self, states, frames, seconds: None)
    with running(tmp_path, Limits()) as server, ExitStack() as sockets:
        for _ in range(4):
            sockets.enter_context(server.socket({"reset": "never"}))
        with server.socket() as client:
            send(client, {"type": "start", "reset": "every", "states": 3})
            assert receive(client)["type"] == "busy"
            assert closed_with(client) == 1013
        sockets.enter_context(server.socket({"reset": "never"}))
        assert refused(server) == "server full"


def test_room_is_reserved_at_the_handshake(tmp_path: Path) -> None:
    with running(tmp_path, Limits(load=1000, streams=1, head=1.0)) as server:
        with server.socket() as silent:
            assert refused(server) == "server full"
            assert http.get(f"{server.url}/healthz").json() == {"status": "ok", "full": True}
            assert receive(silent)["code"] == "idle"
            assert closed_with(silent) == 1001
        check_serving(server)


def test_a_replaced_default_model_is_no_full_server(tmp_path: Path) -> None:
    """A taught model may have the name of the default one: its scheduler is stopped until the next session."""
    with running(tmp_path, Limits(load=1000)) as server:
        save(server.model, server.folder / "models" / "tiny")
        assert http.get(f"{server.url}/api/info").status_code == 200
        check_serving(server)


def test_overloaded_server_evicts_the_newest_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horst.serving.manager.OVERLOAD_SECONDS", 0.5)
    with running(tmp_path, Limits(streams=8)) as server, server.socket({}) as first, server.socket({}) as second:
        monkeypatch.setattr(StepCost, "seconds", lambda self, states, frames: 10.0 if states > 3 else 0.01)
        answer = receive(second)
        assert (answer["type"], set(answer)) == ("busy", {"type", "message"})
        assert closed_with(second) == 1013
        first.send(frame(1, 0.0))
        assert receive(first)["status"] == "predicted"


def test_idle_session_is_closed(tmp_path: Path) -> None:
    with running(tmp_path, Limits(load=1000, idle=0.4, head=0.4)) as server:
        with server.socket() as client:
            assert receive(client)["code"] == "idle"
            assert closed_with(client) == 1001
        with server.socket({}) as client:
            client.send(frame(1, 0.0))
            assert receive(client)["status"] == "predicted"
            assert receive(client)["code"] == "idle"


def test_too_many_frames_per_second_are_rejected(tmp_path: Path) -> None:
    with running(tmp_path, Limits(load=1000, rate=10, in_flight=100)) as server, server.socket({}) as client:
        for number in range(30):
            client.send(frame(number, number / 100))
        answers = [receive(client) for _ in range(30)]
        assert [answer["frame"] for answer in answers] == list(range(30))
        rejected = [answer for answer in answers if answer["status"] == "rejected"]
        assert 15 <= len(rejected) <= 21
        assert "per second" in rejected[0]["message"]


def test_client_that_does_not_read_is_closed(tmp_path: Path) -> None:
    """It sends and never reads: the server stops reading, then closes the connection."""
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
        wait_for(lambda: "horst_streams 0\n" in metrics(server))
        check_serving(server)
        raw.close()


def test_bug_in_one_session_affects_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push = Slot.push

    def broken(self: Slot, image: object, time: float) -> int:
        if time == 666:
            raise RuntimeError("a bug")
        return push(self, image, time)  # type: ignore[arg-type]

    monkeypatch.setattr(Slot, "push", broken)
    with running(tmp_path) as server, server.socket({}) as good, server.socket({}) as bad:
        bad.send(frame(1, 666.0))
        assert receive(bad)["type"] in ("answer", "busy")
        for number in range(3):
            good.send(frame(number, number / FPS))
            assert receive(good)["status"] == "predicted"


def test_frames_of_failed_steps_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path) as server:
        check_serving(server)
        step, left = SessionPool.step, [2]

        def failing(self: SessionPool) -> object:
            predictions = step(self)
            if left[0]:
                left[0] -= 1
                raise RuntimeError("out of memory")
            return predictions

        with server.socket({}) as client:
            monkeypatch.setattr(SessionPool, "step", failing)
            statuses = []
            for number in range(4):
                client.send(frame(number, number / FPS))
                statuses.append(receive(client)["status"])
        assert statuses == ["skipped", "skipped", "predicted", "predicted"]


def test_limits_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="streams is 0"):
        Limits(streams=0)
