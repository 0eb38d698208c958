"""A Python client: one live stream to a server. Needs the package `websockets`, from the extra `serve`."""

import contextlib
import json
import random
import time as clock
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from horst.config import check_type
from horst.errors import BusyError, ConfigError, HorstError, InputError
from horst.extras import require
from horst.serving.frames import ImageFormat, encode_image, join_frame
from horst.video.frame import Frame, Image
from horst.video.sampling import SLACK


class ServerError(HorstError):
    """The server cannot be reached, rejected a message, or closed the connection."""


class ConnectionLostError(ServerError):
    """The connection ended, or cannot be opened."""


LOST = (BusyError, ConnectionLostError)  # another attempt may succeed
FIRST_WAIT, LONGEST_WAIT = 0.2, 3.0  # seconds between two attempts to connect
MAX_LOSSES = 5  # of the connection without an answer in between


class Client:
    """A stream. Use it as a context manager, from one thread at a time.

    with Client("http://127.0.0.1:8000") as client:
        answer = client.push(image, time)               # {"status": "predicted", "prediction": {...}, ...}
        for prediction in client.watch("clip.mp4"):     # a file, or frames with their times
            print(prediction["time"], prediction["answer"])
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        model: str | None = None,
        image_format: ImageFormat = "jpeg",
        timeout: float = 30.0,
        reconnect: float = 0.0,
        **options: Any,
    ) -> None:
        """
        Args:
            address: Address of the server, as `horst serve` prints it.
            token: Token, if the server requires one; may also be part of the address.
            model: Name of the model; the server's default model by default.
            image_format: Encoding of the frames; "png" is lossless.
            timeout: Seconds to wait for an answer.
            reconnect: Seconds to try again if the server is busy or the connection is lost. The new stream has
                forgotten the past frames; frames that were not answered are sent again.
            options: Further options of the stream: reset, seconds, states, top, threshold, attention.
        """
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https", "ws", "wss") or not parts.netloc:
            raise ConfigError(f"{address!r} is not the address of a server; it looks like http://127.0.0.1:8000")
        check_type("image_format", image_format, ImageFormat)
        if token is None and parts.fragment.startswith("token="):
            token = unquote(parts.fragment[6:])
        self.url = f"{'wss' if parts.scheme in ('https', 'wss') else 'ws'}://{parts.netloc}/ws"
        self.image_format, self.timeout, self.reconnect = image_format, timeout, reconnect
        self._token = token
        self._start = {"type": "start", "model": model, **options}
        self._stack = contextlib.ExitStack()
        self._socket: Any = None
        self._number = 0
        self._unanswered: deque[bytes] = deque()  # frames
        self._losses = 0  # of the connection, since the last answer
        self._sent: deque[float] = deque(maxlen=1000)  # when frames were sent
        self.ready: dict[str, Any] = {}  # facts from the server: model, size, fps, tasks, order, limits

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Open the stream. Raises BusyError if the server is full."""
        end, wait = clock.monotonic() + self.reconnect, FIRST_WAIT
        while True:
            try:
                self._connect()
                return
            except LOST:
                if clock.monotonic() + wait > end:
                    raise
                clock.sleep(wait * random.uniform(0.5, 1.0))  # not all clients at the same time
                wait = min(2 * wait, LONGEST_WAIT)

    def _connect(self) -> None:
        require("websockets", "serve")
        from websockets.exceptions import InvalidHandshake, InvalidStatus
        from websockets.sync.client import connect

        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        options: Any = {"open_timeout": self.timeout, "compression": None, "max_size": 1 << 22}
        try:
            self._socket = self._stack.enter_context(connect(self.url, additional_headers=headers, **options))
        except InvalidStatus as error:
            if error.response.status_code == 503:
                raise BusyError(_reason(error.response.body)) from error
            raise ServerError(f"cannot connect to {self.url}: {error}") from error
        except (OSError, InvalidHandshake) as error:
            raise ConnectionLostError(f"cannot connect to {self.url}: {error}") from error
        try:
            self._send(json.dumps(self._start))
            self.ready = self._receive("ready")
            for data in self._unanswered:  # of a connection that was lost
                self._send(data)
        except BaseException:
            self._disconnect()
            raise

    def push(self, image: Image, time: float) -> dict[str, Any]:
        """Send a frame (H, W, 3) uint8 RGB with its time in seconds, and wait for its answer."""
        self.send(image, time)
        while self._unanswered:
            answer = self.receive()
        return answer

    def send(self, image: Image, time: float) -> int:
        """Send a frame without waiting; returns its number. `receive` returns the answers, in order."""
        self._number = (self._number + 1) % (1 << 32)
        data = join_frame(self._number, float(time), encode_image(image, self.image_format))
        self._opened()
        self._unanswered.append(data)
        try:
            self._send(data)
        except LOST as error:
            self._lost(error)  # sends it
        return self._number

    def receive(self) -> dict[str, Any]:
        """The next answer."""
        if not self._unanswered:
            raise InputError("no frame waits for an answer: send one first")
        while True:
            try:
                answer = self._receive("answer")
            except LOST as error:
                self._lost(error)
            else:
                self._unanswered.popleft()
                self._losses = 0
                return answer

    def watch(self, source: str | Path | Iterable[Frame], end: float | None = None) -> Iterator[dict[str, Any]]:
        """All predictions for a video file, or for frames with their times, as fast as the server allows.

        Several frames are in flight at once. Wrap the frames of a camera in `horst.streaming.LatestFrames`, which skips
        late ones. Raises ServerError if the server rejects a frame.
        """
        if isinstance(source, str | Path):
            from horst.video.decode import VideoFile

            with VideoFile(source, size=tuple(self.ready["size"])) as video:
                yield from self.watch(video.frames(), video.info.duration)
            return
        last: Frame | None = None
        for frame in source:
            last = frame
            yield from self._send_paced(frame)
        if last is not None and end is not None and end > last.time:  # the last frame is shown until then
            # shortly before the end, by more than the slack of sampling: no prediction is due at the end itself
            yield from self._send_paced(Frame(last.image, max(last.time, end - 2 * SLACK), last.index + 1))
        while self._unanswered:
            yield from self._predictions()

    def reset(self) -> None:
        """The model forgets all frames."""
        while self._unanswered:
            self.receive()
        try:
            self._send(json.dumps({"type": "reset"}))
            self._receive("reset")
        except LOST as error:
            self._lost(error)  # the new stream has no past frames either

    def close(self) -> None:
        """End the stream; frames in flight are dropped."""
        self._disconnect()
        self._unanswered.clear()

    def _disconnect(self) -> None:
        self._stack.close()
        self._socket = None

    def _lost(self, error: BusyError | ConnectionLostError) -> None:
        """Connect again and send what was not answered; or raise the error."""
        self._disconnect()
        self._losses += 1
        if not self.reconnect or self._losses > MAX_LOSSES:
            self._unanswered.clear()
            raise error
        self.connect()

    def _send_paced(self, frame: Frame) -> Iterator[dict[str, Any]]:
        """Send a frame within the limits of the server on frames in flight and frames per second."""
        limits = self.ready["limits"]
        while len(self._unanswered) >= int(limits["in_flight"]):
            yield from self._predictions()
        now = clock.monotonic()
        while self._sent and now - self._sent[0] >= 1:
            self._sent.popleft()
        if len(self._sent) >= 0.9 * float(limits["rate"]):
            clock.sleep(max(0.0, self._sent[0] + 1 - now))
        self._sent.append(clock.monotonic())
        self.send(frame.image, frame.time)

    def _predictions(self) -> Iterator[dict[str, Any]]:
        answer = self.receive()
        if answer["status"] == "rejected":
            raise ServerError(f"frame {answer['frame']} was rejected: {answer.get('message')}")
        if answer["status"] == "predicted":
            yield answer["prediction"]

    def _opened(self) -> Any:
        if self._socket is None:
            raise InputError("the stream is closed: use the client in a with block, or call connect")
        return self._socket

    def _send(self, message: str | bytes) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            self._opened().send(message)
        except ConnectionClosed:
            self._receive("answer")  # the last message tells why
            raise ConnectionLostError(f"{self.url} closed the stream") from None

    def _receive(self, kind: str) -> dict[str, Any]:
        from websockets.exceptions import ConnectionClosed

        try:
            message: dict[str, Any] = json.loads(self._opened().recv(timeout=self.timeout))
        except TimeoutError as error:
            raise ConnectionLostError(f"{self.url} sent nothing for {self.timeout:g} s") from error
        except ConnectionClosed as error:
            raise ConnectionLostError(f"{self.url} closed the stream: {error}") from error
        if message["type"] == "busy":
            raise BusyError(message["message"])
        if message["type"] == "error":
            raise ServerError(f"{message['code']}: {message['message']}")
        if message["type"] != kind:
            raise ServerError(f"the server sent {message['type']!r} instead of {kind!r}")
        return message


def _reason(body: bytes | bytearray) -> str:
    """The message of an error response."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return str(json.loads(body)["error"]["message"])
    return "the server is busy"
