"""Real servers on a loopback port, and messages of clients."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
import videos
from PIL import Image as Pictures
from websockets.sync.client import ClientConnection, connect

import horst
from horst.models import Predictor
from horst.serving import Limits, create_app
from horst.serving.cost import StepCost
from horst.serving.frames import join_frame
from horst.serving.server import create_server

FPS = 5.0
SIZE = (24, 32)
http = httpx.Client(limits=httpx.Limits(max_keepalive_connections=0))
"""Shared, as creating a client takes longer than most requests; with a new connection for each request."""


def tiny(classes: int = 4) -> Predictor:
    """A small untrained model."""
    torch.manual_seed(0)
    small = {"backbone": {"name": "stem", "widths": [4, 6]}, "hidden": [6], "stride": [2], "order": 3}
    return horst.create_model("horst_tiny", num_classes=classes, size=SIZE, fps=FPS, **small).eval()


@dataclass(frozen=True, slots=True)
class Running:
    """A running server."""

    url: str
    folder: Path
    model: Predictor

    @property
    def ws(self) -> str:
        return self.url.replace("http", "ws") + "/ws"

    @contextmanager
    def socket(self, start: dict[str, Any] | None = None, **options: Any) -> Iterator[ClientConnection]:
        """A WebSocket; with `start`, the stream is ready."""
        with connect(self.ws, compression=None, close_timeout=2, **options) as client:
            if start is not None:
                send(client, {"type": "start", **start})
                assert receive(client)["type"] == "ready"
            yield client


@contextmanager
def running(folder: Path, limits: Limits | None = None, **options: Any) -> Iterator[Running]:
    """A server in a thread, on a free port or on `port`; further options: `create_app`."""
    model = options.pop("model", None) or tiny()
    limits = limits or Limits(load=1000.0)
    listener = socket.create_server(("127.0.0.1", options.pop("port", 0)))
    port = listener.getsockname()[1]
    app = create_app(model, folder, **{"name": "tiny", "base": "somethings", **options}, limits=limits)
    serving = create_server(app, host="127.0.0.1", port=port, limits=limits)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_for(lambda: serving.started or not thread.is_alive())
    assert thread.is_alive()
    try:
        yield Running(f"http://127.0.0.1:{port}", folder, model)
    finally:
        serving.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive()


def send(client: ClientConnection, message: Any) -> None:
    client.send(json.dumps(message))


def receive(client: ClientConnection, timeout: float = 20.0) -> dict[str, Any]:
    message = client.recv(timeout=timeout)
    assert isinstance(message, str)
    return json.loads(message)


def picture(number: int, kind: str = "png", size: tuple[int, int] = SIZE) -> bytes:
    buffer = io.BytesIO()
    Pictures.fromarray(videos.picture(number, *size)).save(buffer, kind)
    return buffer.getvalue()


def frame(number: int, at: float, data: bytes | None = None) -> bytes:
    return join_frame(number, at, picture(number) if data is None else data)


def recording(frames: int = 8, fps: float = 10.0, kind: str = "jpeg") -> bytes:
    """A recorded clip as a request body."""
    parts = [frame(i, i / fps, picture(i, kind)) for i in range(frames)]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def check_serving(server: Running) -> None:
    """A valid stream gets its predictions."""
    with server.socket({}) as client:
        for number in range(3):
            client.send(frame(number, number / FPS))
            answer = receive(client)
            assert (answer["frame"], answer["status"]) == (number, "predicted"), answer
            assert np.isclose(sum(one["probability"] for one in answer["prediction"]["top"]["action"]), 1, atol=1e-3)
        send(client, {"type": "stop"})
        assert receive(client) == {"type": "stopped"}


def wait_for(condition: Callable[[], bool], timeout: float = 20.0) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def slow_down(cost: StepCost, factor: float, steps: int) -> None:
    """Report steps that take `factor` times the initial duration."""
    for _ in range(steps):
        cost.update(4, 4, factor * (cost.base + 4 * cost.per_state))


def metrics(server: Running) -> str:
    return http.get(f"{server.url}/metrics").text
