"""The WebSocket `/ws`: one live stream, frames up, answers down, each frame answered once and in order.

`docs/guides/serving.md` has the messages. Nothing is kept without bound: a stream has a few frames under way, more are
answered "skipped" at once, and while many answers wait to be taken nothing more is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import time
from collections import deque
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from horst.errors import BusyError, HorstError, InputError
from horst.models import Predictor
from horst.serving.engine import Engine, Guest, Ticket
from horst.serving.guard import PROTOCOL
from horst.serving.hall import Hall, choose_policy
from horst.serving.limits import Limits
from horst.serving.metrics import Metrics
from horst.serving.pictures import read_picture
from horst.serving.wire import split_frame
from horst.streaming import ResetPolicy

ANSWERS = 64
"""Answers that may wait to be taken before nothing more is read."""
TEXT = 4096
"""Characters of a text message."""

log = logging.getLogger("horst.serving")


class _RefusalError(Exception):
    """Ends a session: an error message, then the close code."""

    def __init__(self, code: str, message: str, close: int = 1008, kind: str = "error") -> None:
        super().__init__(message)
        self.told = {"type": kind, "message": message} | ({"code": code} if kind == "error" else {})
        self.close = close


@dataclass(frozen=True, slots=True)
class Start:
    """What a client asks for."""

    model: str | None = None
    restarts: str = "auto"
    seconds: float = 3.0
    states: int = 3
    top: int = 5
    threshold: float = 0.0
    attention: bool = False

    @classmethod
    def parsed(cls, message: dict[str, Any], limits: Limits) -> Start:
        given = {name: value for name, value in message.items() if name != "type" and value is not None}
        kinds: dict[str, type | tuple[type, ...]] = {
            "model": str, "restarts": str, "seconds": (int, float), "states": int, "top": int,
            "threshold": (int, float), "attention": bool,
        }  # fmt: skip
        for name, value in given.items():
            if name not in kinds:
                raise InputError(f"start has no {name!r}; it has {', '.join(kinds)}")
            if not isinstance(value, kinds[name]) or (isinstance(value, bool) and kinds[name] is not bool):
                raise InputError(f"{name} is {value!r}, which is of the wrong type")
        start = cls(**given)
        if not 0 < start.seconds <= 3600 or not 1 <= start.states <= limits.states:
            raise InputError(f"seconds lie between 0 and 3600, states between 1 and {limits.states}")
        if not 1 <= start.top <= 1000 or not 0 <= start.threshold <= 1:
            raise InputError("top lies between 1 and 1000, threshold between 0 and 1")
        return start


class Session:
    """One client."""

    def __init__(self, socket: WebSocket, hall: Hall, limits: Limits, metrics: Metrics, decoders: Executor) -> None:
        self.socket, self.hall, self.limits, self.metrics, self.decoders = socket, hall, limits, metrics, decoders
        self.start = Start()
        self._tickets: deque[Ticket] = deque()
        self._under_way = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._allowance, self._paid = limits.rate, time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._engine: Engine
        self._guest: Guest

    async def run(self) -> None:
        """From the handshake to the end, whatever the client does."""
        offered = self.socket.scope.get("subprotocols") or ()
        await self.socket.accept(PROTOCOL if PROTOCOL in offered else None)
        try:
            await self._serve()
        except _RefusalError as refusal:
            await self._end(refusal.told, refusal.close)
        except (WebSocketDisconnect, asyncio.CancelledError):
            pass
        except Exception:
            log.exception("a session")
            self.metrics.add(failures=1)
            await self._end({"type": "error", "code": "internal", "message": "the server made a mistake"}, 1011)

    async def _serve(self) -> None:
        message = await self._receive()
        if isinstance(message, bytes) or message.get("type") != "start":
            raise _RefusalError("start", "the first message is start")
        try:
            self.start = Start.parsed(message, self.limits)
            self._engine, self._guest = await asyncio.to_thread(self._open)
        except BusyError as error:
            raise _RefusalError("busy", str(error), 1013, "busy") from error
        except HorstError as error:
            raise _RefusalError("start", str(error)) from error
        try:
            await self._send(self._ready())
            answering = asyncio.create_task(self._answer())
            reading = asyncio.create_task(self._read())
            try:
                done, _ = await asyncio.wait((answering, reading), return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                if reading in done:  # a stop: what is under way is still answered
                    async with asyncio.timeout(self.limits.slow):
                        await answering
                    await self._end({"type": "stopped"}, 1000)
            except TimeoutError:
                raise _RefusalError("slow", "the last answers were not ready in time", 1011) from None
            finally:
                for task in (answering, reading):
                    task.cancel()
                await asyncio.gather(answering, reading, return_exceptions=True)
        finally:
            with contextlib.suppress(BusyError):
                self.hall.leave(self._engine, self._guest)

    def _open(self) -> tuple[Engine, Guest]:
        start = self.start

        def policy(model: Predictor) -> ResetPolicy:
            return choose_policy(model, start.restarts, start.seconds, start.states, self.limits)

        return self.hall.open(start.model, policy, start.threshold, start.attention, self._notify)

    def _notify(self) -> None:
        """From another thread."""
        with contextlib.suppress(RuntimeError):  # the loop is gone: so is the client
            self._loop.call_soon_threadsafe(self._news.set)

    def _ready(self) -> dict[str, Any]:
        model = self._engine.model
        return {
            "type": "ready",
            "model": self._engine.name,
            "size": list(model.size),
            "fps": model.fps,
            "tasks": dict(model.head.classes),
            "order": model.core.order,
            "limits": self.limits.to_dict(),
        }

    async def _read(self) -> None:
        """Until the client says stop."""
        while True:
            while len(self._tickets) >= ANSWERS:
                self._room.clear()
                await self._room.wait()
            message = await self._receive()
            if isinstance(message, bytes):
                self._take(message)
                continue
            kind = message.get("type")
            if kind == "stop":
                self._tickets.append(Ticket(0, 0.0, status="reset", last=-1))  # marks the end
                self._news.set()
                return
            if kind == "reset":
                ticket = Ticket(0, 0.0, reset=True)
                self._tickets.append(ticket)
                self._under_way += 1
                self._engine.hand_over(self._guest, ticket)
                self._engine.stir()
            elif kind == "start":
                raise _RefusalError("start", "the stream has started: reset it, or open another one")
            else:
                raise _RefusalError("type", f"there is no message {str(kind)[:40]!r}; there are start, reset, stop")

    def _take(self, message: bytes) -> None:
        """A frame: it gets its place among the answers now, whatever becomes of it."""
        try:
            number, moment, picture = split_frame(message, self.limits.frame_bytes)
        except InputError as error:
            number = int.from_bytes(message[:4], "little") if len(message) >= 4 else 0
            self._tickets.append(Ticket(number, math.nan, status="refused", message=str(error)))
            self._news.set()
            return
        ticket = Ticket(number, moment)
        self._tickets.append(ticket)
        now = time.monotonic()
        self._allowance = min(self.limits.rate, self._allowance + (now - self._paid) * self.limits.rate)
        self._paid = now
        if self._allowance < 1:
            ticket.settle("refused", f"more than {self.limits.rate:g} frames a second")
        elif self._under_way >= self.limits.in_flight:
            ticket.settle("skipped")
        else:
            self._under_way += 1
            self._engine.hand_over(self._guest, ticket)
            self.decoders.submit(self._decode, ticket, picture)
        self._allowance -= ticket.status != "refused"
        self._news.set()

    def _decode(self, ticket: Ticket, picture: bytes) -> None:
        """In a thread of its own."""
        try:
            if ticket.status is None:
                ticket.image = read_picture(picture, self.limits.frame_pixels, self._engine.model.size)
        except HorstError as error:
            ticket.settle("refused", str(error))
        except Exception as error:  # a decoder's own trouble with a stranger's bytes
            ticket.settle("refused", f"the picture does not decode: {type(error).__name__}")
        self._notify()
        self._engine.stir()

    async def _answer(self) -> None:
        """Sends answers as they come, in the order of the frames; ends with the ticket that marks the end."""
        while True:
            await self._news.wait()
            self._news.clear()
            told: list[tuple[str, float | None]] = []
            while self._tickets and self._tickets[0].status is not None:
                ticket = self._tickets.popleft()
                self._room.set()
                if ticket.last == -1:
                    return
                self._under_way -= ticket.under_way
                await self._send({"type": "reset"} if ticket.reset else self._told(ticket))
                if not ticket.reset:
                    taken = ticket.answered - ticket.arrived if ticket.status == "predicted" else None
                    told.append((ticket.status or "", taken))
            self.metrics.answered(told)
            if self._guest.sent_away is not None:
                raise _RefusalError("busy", self._guest.sent_away, 1013, "busy")

    def _told(self, ticket: Ticket) -> dict[str, Any]:
        answer: dict[str, Any] = {"type": "answer", "frame": ticket.number, "status": ticket.status}
        if ticket.prediction is not None and ticket.status == "predicted":
            said = ticket.prediction.to_dict(self.start.top)
            answer["prediction"] = said | {"latency": round(ticket.answered - ticket.arrived, 6)}
        if ticket.message is not None:
            answer["message"] = ticket.message
        return answer

    async def _receive(self) -> Any:
        """The next message: a JSON object or bytes."""
        try:
            # Not `wait_for`: that of Python 3.11 forgets a cancellation that comes together with the message.
            async with asyncio.timeout(self.limits.idle):
                message = await self.socket.receive()
        except TimeoutError:
            raise _RefusalError("idle", f"nothing came for {self.limits.idle:g} s", 1001) from None
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        if message.get("bytes") is not None:
            if self.socket.client_state != WebSocketState.CONNECTED:
                raise WebSocketDisconnect(1005)
            return message["bytes"]
        text = message.get("text") or ""
        try:
            if len(text) > TEXT:
                raise ValueError("too long")
            data = json.loads(text)
            if not isinstance(data, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError):
            raise _RefusalError("json", "a text message is a JSON object, such as {'type': 'start'}") from None
        return data

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(self.limits.slow):
                await self.socket.send_text(json.dumps(message))
        except TimeoutError:
            raise _RefusalError("slow", f"answers were not taken for {self.limits.slow:g} s", 1008) from None

    async def _end(self, message: dict[str, Any], code: int) -> None:
        """A last word, if the client still listens."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(2.0):
                await self.socket.send_text(json.dumps(message))
        with contextlib.suppress(Exception):
            async with asyncio.timeout(2.0):
                await self.socket.close(code)
