"""The WebSocket `/ws`: frames in, answers out. Each frame is answered once, in order.

`docs/guides/serving.md` describes the messages. Everything is bounded: a session has a few frames in flight, more are
answered "skipped" at once, and while many answers wait to be sent, no further message is read.
"""

import asyncio
import contextlib
import json
import logging
import math
from collections import deque
from dataclasses import asdict
from functools import partial
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from horst.errors import BusyError, HorstError, InputError
from horst.models import Predictor
from horst.serving.decoding import DecodeQueue, Decoders
from horst.serving.errors import error_response, validation_message
from horst.serving.frames import count_pixels, decode_image, split_frame
from horst.serving.guard import PROTOCOL
from horst.serving.limits import Limits
from horst.serving.manager import ModelManager
from horst.serving.rate_limiter import RateLimiter
from horst.serving.scheduler import FrameRequest, Session
from horst.streaming import ResetPolicy, reset_policy

MAX_ANSWERS = 64  # requests without an answer at which reading pauses
MAX_TEXT = 4096  # characters of a text message
STOP = FrameRequest(0, 0.0, status="reset")  # marks the end of the requests
ResetName = Literal["auto", "never", "every", "motion"]
log = logging.getLogger("horst.serving")


class _CloseError(Exception):
    """Ends a session: a message, then the close code."""

    def __init__(self, code: str, message: str, close: int = 1008) -> None:
        super().__init__(message)
        busy = code == "busy"
        self.message = {"type": "busy" if busy else "error", "message": message} | ({} if busy else {"code": code})
        self.close = close


class StreamOptions(BaseModel):
    """The options of the message `start`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    model: str | None = None
    reset: ResetName = "auto"
    seconds: float = Field(3.0, gt=0, le=3600, allow_inf_nan=False)
    states: int = Field(3, ge=1)
    top: int = Field(5, ge=1, le=1000)
    threshold: float = Field(0.0, ge=0, le=1, allow_inf_nan=False)
    attention: bool = False

    @classmethod
    def parse(cls, message: dict[str, Any], limits: Limits) -> Self:
        options = {name: value for name, value in message.items() if name != "type" and value is not None}
        try:
            parsed = cls.model_validate({"states": min(3, limits.states), **options})
        except ValidationError as error:
            raise InputError(validation_message(error.errors())) from error
        if parsed.states > limits.states:
            raise InputError(f"states is {parsed.states}; the limit is {limits.states}")
        return parsed

    def policy(self, model: Predictor) -> ResetPolicy:
        return reset_policy(self.reset, model.head.classes, seconds=self.seconds, states=self.states)


class WebSocketSession(Session):
    """One client over a WebSocket."""

    options: StreamOptions

    def __init__(self, socket: WebSocket, manager: ModelManager, decoders: Decoders) -> None:
        super().__init__()
        self.socket, self.manager, self._decoding = socket, manager, DecodeQueue(decoders)
        self.limits, self.metrics = manager.limits, manager.metrics
        self._requests: deque[FrameRequest] = deque()  # without an answer, in order
        self._changed = asyncio.Event()
        self._room = asyncio.Semaphore(MAX_ANSWERS)
        self._frames = RateLimiter(self.limits.rate)
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """From the handshake to the end."""
        offered = self.socket.scope.get("subprotocols") or ()
        try:
            with self.manager.expect_session():
                await self.socket.accept(PROTOCOL if PROTOCOL in offered else None)
                await self._open()  # raises no BusyError
            try:
                await self._exchange()
            finally:
                with contextlib.suppress(BusyError):
                    self.manager.close(self)
        except BusyError as error:  # no handshake
            await self.socket.send_denial_response(error_response(503, str(error), "busy"))
        except _CloseError as error:
            await self._end(error.message, error.close)
        except (WebSocketDisconnect, asyncio.CancelledError):
            pass
        except Exception:
            log.exception("a session")
            self.metrics.add(failures=1)
            await self._end({"type": "error", "code": "internal", "message": "internal server error"}, 1011)

    async def _open(self) -> None:
        """Start the session that the first message asks for."""
        message = await self._receive(self.limits.head)
        if isinstance(message, bytes) or message.get("type") != "start":
            raise _CloseError("start", "the first message must be start")
        try:
            self.options = o = StreamOptions.parse(message, self.limits)
            options = o.model_dump(include={"threshold", "attention"})
            await asyncio.to_thread(self.manager.open, self, o.model, o.policy, **options)
        except BusyError as error:
            raise _CloseError("busy", str(error), 1013) from error
        except HorstError as error:
            raise _CloseError("start", str(error)) from error

    async def _exchange(self) -> None:
        """Answer the frames that the client sends, until it stops."""
        name, model = self.scheduler.name, self.scheduler.model
        facts = {"size": model.size, "fps": model.fps, "tasks": dict(model.head.classes), "order": model.core.order}
        await self._send({"type": "ready", "model": name, **facts, "limits": asdict(self.limits)})
        answering, reading = asyncio.create_task(self._send_answers()), asyncio.create_task(self._read())
        try:
            done, _ = await asyncio.wait((answering, reading), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if reading in done:  # after stop, frames in flight are still answered
                async with asyncio.timeout(self.limits.slow):
                    await answering
                await self._end({"type": "stopped"}, 1000)
        except TimeoutError:
            raise _CloseError("slow", "the last answers were not ready in time", 1011) from None
        finally:
            answering.cancel()
            reading.cancel()
            await asyncio.gather(answering, reading, return_exceptions=True)

    def notify(self) -> None:
        """From another thread."""
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._changed.set)

    async def _read(self) -> None:
        """Read messages until the client sends stop."""
        while True:
            await self._room.acquire()  # each message adds one request
            message = await self._receive(self.limits.idle)
            if isinstance(message, bytes):
                self._take_frame(message)
                continue
            kind = message.get("type")
            if kind == "stop":
                self._add(STOP)
                return
            if kind == "reset":
                self._add(FrameRequest(0, 0.0, reset=True))
                self.scheduler.wake()
            elif kind == "start":
                raise _CloseError("start", "the stream has already started: reset it, or open another one")
            else:
                raise _CloseError("type", f"unknown message {str(kind)[:40]!r}; known are start, reset, stop")

    def _take_frame(self, message: bytes) -> None:
        """A frame: it is added to the requests now, whatever its status will be."""
        try:
            number, moment, image = split_frame(message, self.limits.frame_bytes)
        except InputError as error:
            number = int.from_bytes(message[:4], "little") if len(message) >= 4 else 0
            self._add(FrameRequest(number, math.nan, status="rejected", message=str(error)))
            return
        request, pixels = FrameRequest(number, moment), 0
        if not self._frames.take():
            request.answer("rejected", f"more than {self.limits.rate:g} frames per second")
        elif sum(earlier.submitted for earlier in self._requests) >= self.limits.in_flight:
            request.answer("skipped")
        elif self._decoding.overdrawn:
            request.answer("rejected", "the images of this stream take too long to decode: send smaller ones")
        else:
            try:
                pixels = count_pixels(image, self.limits.frame_pixels)
            except InputError as error:
                request.answer("rejected", str(error))
        self._add(request)
        if request.status is None:
            self._decoding.add(pixels, partial(self._decode, request, image))

    def _add(self, request: FrameRequest) -> None:
        """A request that waits for its answer, or has one that waits to be sent."""
        self._requests.append(request)
        if request.status is None:
            self.submit(request)
        self._changed.set()

    def _decode(self, request: FrameRequest, image: bytes) -> None:
        """In another thread."""
        try:
            if request.status is None:
                request.image = decode_image(image, self.limits.frame_pixels, self.scheduler.model.size)
        except HorstError as error:
            request.answer("rejected", str(error))
        except Exception as error:  # a decoder that fails on invalid data
            request.answer("rejected", f"the image does not decode: {type(error).__name__}")
        self.notify()
        self.scheduler.wake()

    async def _send_answers(self) -> None:
        """Send answers as they are ready, in the order of the requests, until `STOP`."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._requests and self._requests[0].status is not None:
                request = self._requests.popleft()
                self._room.release()
                if request is STOP:
                    return
                await self._send({"type": "reset"} if request.reset else self._message(request))
                if not request.reset:
                    self.metrics.count(request.status or "", request.answered - request.arrived)
            if self.evicted is not None:
                raise _CloseError("busy", self.evicted, 1013)

    def _message(self, request: FrameRequest) -> dict[str, Any]:
        message: dict[str, Any] = {"type": "answer", "frame": request.number, "status": request.status}
        if request.prediction is not None and request.status == "predicted":
            latency = round(request.answered - request.arrived, 6)
            message["prediction"] = request.prediction.to_dict(self.options.top) | {"latency": latency}
        if request.message is not None:
            message["message"] = request.message
        return message

    async def _receive(self, seconds: float) -> Any:
        """The next message within this time: a JSON object or bytes."""
        try:
            # Not `wait_for`: in Python 3.11 it loses a cancellation that coincides with the message.
            async with asyncio.timeout(seconds):
                message = await self.socket.receive()
        except TimeoutError:
            raise _CloseError("idle", f"no message for {seconds:g} s", 1001) from None
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        if message.get("bytes") is not None:
            if self.socket.client_state != WebSocketState.CONNECTED:
                raise WebSocketDisconnect(1005)
            return message["bytes"]
        text, data = message.get("text") or "", None
        with contextlib.suppress(ValueError, RecursionError):
            data = json.loads(text) if len(text) <= MAX_TEXT else None
        if not isinstance(data, dict):
            raise _CloseError("json", "a text message must be a JSON object, such as {'type': 'start'}")
        return data

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(self.limits.slow):
                await self.socket.send_text(json.dumps(message))
        except TimeoutError:
            raise _CloseError("slow", f"the client did not accept a message for {self.limits.slow:g} s") from None

    async def _end(self, message: dict[str, Any], code: int) -> None:
        """The last message, if the client still listens, and the close code."""
        for last in (self.socket.send_text(json.dumps(message)), self.socket.close(code)):
            with contextlib.suppress(Exception):
                async with asyncio.timeout(2.0):
                    await last
