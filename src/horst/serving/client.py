"""A client in Python: one live stream to a server.

    with Client("http://127.0.0.1:8000") as client:
        answer = client.push(image, time)               # {"status": "predicted", "prediction": {...}, ...}
        for prediction in client.watch("clip.mp4"):     # a file, or frames with their times
            print(prediction["time"], prediction["answer"])

Needs the package `websockets`, of the extra `serve`.
"""

from __future__ import annotations

import contextlib
import io
import json
import time as clock
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np
from PIL import Image as Pictures

from horst.errors import BusyError, ConfigError, HorstError, InputError
from horst.extras import require
from horst.serving.wire import join_frame
from horst.video.frame import Frame, Image

Picture = Literal["jpeg", "png", "webp"]


class ServerError(HorstError):
    """The server cannot be reached, refused what was sent, or went away."""


class Client:
    """A stream. Use it as a context manager; one thread may use it at a time."""

    def __init__(
        self,
        address: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        model: str | None = None,
        picture: Picture = "jpeg",
        timeout: float = 30.0,
        **options: Any,
    ) -> None:
        """
        Args:
            address: Of the server, as `horst serve` prints it.
            token: Where the server needs one; also taken from the address.
            model: Which of its models; the served one by default.
            picture: How frames are sent. PNG loses nothing.
            timeout: Seconds to wait for an answer.
            options: Further entries of the start message: restarts, seconds, states, top, threshold, attention.
        """
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https", "ws", "wss") or not parts.netloc:
            raise ConfigError(f"the address {address!r} is none: it looks like http://127.0.0.1:8000")
        if picture not in ("jpeg", "png", "webp"):
            raise ConfigError(f"picture is {picture!r}; choose from 'jpeg', 'png', 'webp'")
        if token is None and parts.fragment.startswith("token="):
            token = parts.fragment[6:]
        self.url = f"{'wss' if parts.scheme in ('https', 'wss') else 'ws'}://{parts.netloc}/ws"
        self.picture, self.timeout = picture, timeout
        self._token = token
        self._start = {"type": "start", "model": model, **options}
        self._stack = contextlib.ExitStack()
        self._socket: Any = None
        self._number = 0
        self._waiting: deque[int] = deque()
        self._sent: deque[float] = deque()
        self.ready: dict[str, Any] = {}
        """What the server said at the start: model, size, fps, tasks, order, limits."""

    def __enter__(self) -> Client:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Opens the stream. BusyError where the server has no room."""
        require("websockets", "serve")
        from websockets.exceptions import InvalidHandshake
        from websockets.sync.client import connect

        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            opened = connect(
                self.url, additional_headers=headers, open_timeout=self.timeout, compression=None, max_size=1 << 22
            )
            self._socket = self._stack.enter_context(opened)
        except (OSError, InvalidHandshake) as error:
            raise ServerError(f"{self.url} does not let us in: {error}") from error
        try:
            self._send(json.dumps(self._start))
            self.ready = self._receive("ready")
        except BaseException:
            self.close()
            raise

    def push(self, image: Image, time: float) -> dict[str, Any]:
        """A frame (H, W, 3) uint8 RGB and its time in seconds; what the server says of it."""
        self.send(image, time)
        while True:
            answer = self.receive()
            if not self._waiting:
                return answer

    def send(self, image: Image, time: float) -> int:
        """A frame whose answer is not waited for; its number. `receive` gives the answers, in order."""
        self._number = (self._number + 1) % (1 << 32)
        self._send(join_frame(self._number, float(time), encode(image, self.picture)))
        self._waiting.append(self._number)
        return self._number

    def receive(self) -> dict[str, Any]:
        """The next answer."""
        if not self._waiting:
            raise InputError("no frame waits for an answer: send one first")
        answer = self._receive("answer")
        self._waiting.popleft()
        return answer

    def watch(self, source: str | Path | Iterable[Frame], end: float | None = None) -> Iterator[dict[str, Any]]:
        """Predictions of a video file, or of frames, as fast as the server allows.

        Several frames are under way at once. Where a frame was refused, ServerError says why.
        """
        if isinstance(source, str | Path):
            from horst.video.decode import VideoFile

            with VideoFile(source, size=tuple(self.ready["size"])) as video:
                yield from self.watch(video.frames(), video.info.duration)
            return
        most = int(self.ready["limits"]["in_flight"])
        last: Frame | None = None
        for frame in source:
            last = frame
            yield from self._paced(frame, most)
        if last is not None and end is not None and end > last.time:  # until then the last frame is shown
            yield from self._paced(Frame(last.image, end - 1e-3, last.index + 1), most)
        while self._waiting:
            yield from self._predicted()

    def reset(self) -> None:
        """Something new begins with the next frame."""
        while self._waiting:
            self.receive()
        self._send(json.dumps({"type": "reset"}))
        self._receive("reset")

    def close(self) -> None:
        """Ends the stream; what it still waits for is forgotten."""
        if self._socket is not None:
            self._stack.close()
            self._socket = None
            self._waiting.clear()

    def _paced(self, frame: Frame, most: int) -> Iterator[dict[str, Any]]:
        """Keeps to the server's limits: so many frames under way, so many a second."""
        while len(self._waiting) >= most:
            yield from self._predicted()
        rate = 0.9 * float(self.ready["limits"]["rate"])
        now = clock.monotonic()
        while self._sent and now - self._sent[0] >= 1:
            self._sent.popleft()
        if len(self._sent) >= rate:
            clock.sleep(max(0.0, self._sent[0] + 1 - now))
        self._sent.append(clock.monotonic())
        self.send(frame.image, frame.time)

    def _predicted(self) -> Iterator[dict[str, Any]]:
        answer = self.receive()
        if answer["status"] == "refused":
            raise ServerError(f"frame {answer['frame']} was refused: {answer.get('message')}")
        if answer["status"] == "predicted":
            yield answer["prediction"]

    def _send(self, message: str | bytes) -> None:
        from websockets.exceptions import ConnectionClosed

        if self._socket is None:
            raise InputError("the stream is closed: use the client in a with block, or call connect")
        try:
            self._socket.send(message)
        except ConnectionClosed:
            self._receive("answer")  # the server's last words say why
            raise ServerError(f"{self.url} closed the stream") from None

    def _receive(self, kind: str) -> dict[str, Any]:
        from websockets.exceptions import ConnectionClosed

        if self._socket is None:
            raise InputError("the stream is closed: use the client in a with block, or call connect")
        try:
            message: dict[str, Any] = json.loads(self._socket.recv(timeout=self.timeout))
        except TimeoutError as error:
            raise ServerError(f"{self.url} said nothing for {self.timeout:g} s") from error
        except ConnectionClosed as error:
            raise ServerError(f"{self.url} closed the stream: {error}") from error
        if message["type"] == "busy":
            raise BusyError(message["message"])
        if message["type"] == "error":
            raise ServerError(f"{message['code']}: {message['message']}")
        if message["type"] != kind:
            raise ServerError(f"the server said {message['type']!r} where {kind!r} was due")
        return message


def encode(image: Image, kind: Picture = "jpeg") -> bytes:
    """A picture as the bytes of a file."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise InputError("a frame is a picture (H, W, 3) of uint8, RGB")
    buffer = io.BytesIO()
    Pictures.fromarray(image).save(buffer, kind, **({"quality": 90} if kind != "png" else {"compress_level": 1}))
    return buffer.getvalue()
