"""A model at work: one thread owns its pool of streams and asks it, once for all streams that have a frame.

The event loop hands frames over and is told when their answers are there; it never waits for the model. Each frame is a
`Ticket`, which gets exactly one status:

    predicted   the model was asked; the newest prediction
    held        no tick fell due: the model asks at its own pace
    skipped     the model could not keep up
    refused     no picture, or not one that is taken; `message` says why
    reset       (of a request to start afresh, which keeps its place among the frames)
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal

from horst.errors import BusyError, HorstError
from horst.models import Predictor
from horst.serving.load import Cost
from horst.serving.metrics import Metrics
from horst.streaming import Prediction, ResetPolicy, SessionPool, Slot
from horst.video.frame import Image

Status = Literal["predicted", "held", "skipped", "refused", "reset"]
FAILURES = 3
"""Steps that may fail one after the other before all streams of the model are sent away."""

log = logging.getLogger("horst.serving")


@dataclass(slots=True, eq=False)
class Ticket:
    """One frame on its way through the server, or a request to start afresh."""

    number: int
    moment: float
    """Seconds, in the clock of the client."""
    arrived: float = field(default_factory=time.perf_counter)
    image: Image | None = None
    """None until it is decoded."""
    reset: bool = False
    under_way: bool = False
    """Whether it was handed to the engine."""
    status: Status | None = None
    prediction: Prediction | None = None
    message: str | None = None
    answered: float = 0.0
    last: int = 0
    """Of its ticks, counted over the whole stream."""

    def settle(self, status: Status, message: str | None = None) -> None:
        self.image, self.message, self.answered = None, message, time.perf_counter()
        self.status = status  # last: another thread looks at it


class Guest:
    """One stream of an engine. `notify` is called, from the engine's thread, when tickets are settled."""

    def __init__(self, seat: Slot, places: int, notify: Callable[[], None]) -> None:
        self.seat, self.places, self.notify = seat, places, notify
        self.opened = time.monotonic()
        self.left = False
        """It takes no time from now on, though the thread may not have let it go yet."""
        self.queue: deque[Ticket] = deque()
        """Handed over, not yet shown to the stream."""
        self.sent_away: str | None = None
        """Why the engine gave it up."""
        self._asked: deque[Ticket] = deque()
        self._ticks = 0

    def advance(self) -> bool:
        """Shows decoded frames to the stream, in order; whether any ticket was settled."""
        settled = False
        while self.queue:
            ticket = self.queue[0]
            if ticket.status is None and ticket.image is None and not ticket.reset:
                break  # still being decoded
            if ticket.reset and self.seat.waiting:
                break  # what came before is still to be said
            self.queue.popleft()
            if ticket.status is None:
                self._show(ticket)
            settled |= ticket.status is not None
        return settled

    def _show(self, ticket: Ticket) -> None:
        if ticket.reset:
            self.seat.reset()
            ticket.settle("reset")
            return
        assert ticket.image is not None
        before = self.seat.waiting + self.seat.skipped
        try:
            self.seat.push(ticket.image, ticket.moment)
        except HorstError as error:
            ticket.settle("refused", str(error))
            return
        new = self.seat.waiting + self.seat.skipped - before
        self._ticks += new
        ticket.last, ticket.image = self._ticks, None
        if new:
            self._asked.append(ticket)
        else:
            ticket.settle("held")

    def collect(self, prediction: Prediction | None) -> bool:
        """After a step, in which it was asked about its oldest tick or not; whether any ticket was settled."""
        done, settled = self._ticks - self.seat.waiting, False
        if prediction is not None:
            for ticket in self._asked:
                if ticket.last >= done:
                    ticket.prediction = prediction
                    break
        while self._asked and self._asked[0].last <= done:
            ticket = self._asked.popleft()
            ticket.settle("predicted" if ticket.prediction is not None else "skipped")
            settled = True
        return settled

    def dismiss(self, why: str) -> None:
        """All that waits is skipped; its socket is told why."""
        for ticket in (*self._asked, *self.queue):
            if ticket.status is None:
                ticket.settle("skipped")
        self._asked.clear()
        self.queue.clear()
        self.sent_away = why
        self.notify()


class Engine:
    """The thread of one model."""

    def __init__(self, name: str, model: Predictor, places: int, metrics: Metrics) -> None:
        self.name, self.model, self.metrics = name, model, metrics
        self._places = places
        self._guests: list[Guest] = []
        self._commands: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._stir = self._stopping = False
        self._failed, self._why = 0, ""
        self._pool: SessionPool
        self.cost: Cost
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name=f"model {name}", daemon=True)
        self._thread.start()
        self._ready.result()

    def __len__(self) -> int:
        return len(self._guests)

    def load(self, more: int = 0) -> float:
        """The part of the time that its streams need, and a further one of so many places.

        Each is asked at the pace of the model, however many frames its client sends, and all of them in one step: those
        whose frames come while it is at work wait for the next one together.
        """
        there = sum(guest.places for guest in tuple(self._guests) if not guest.left)
        return self.model.fps * self.cost.step(there + more)

    @property
    def newest(self) -> float:
        """When the last of its streams came."""
        return max((guest.opened for guest in tuple(self._guests)), default=-math.inf)

    def open(self, restarts: ResetPolicy, threshold: float, attention: bool, notify: Callable[[], None]) -> Guest:
        """A new stream, from any thread but the event loop's. BusyError where all places are taken."""
        told: Future[Guest] = Future()

        def enter() -> None:
            try:
                seat = self._pool.open(restarts, threshold=threshold, attention=attention)
            except BaseException as error:
                told.set_exception(error)
                return
            guest = Guest(seat, restarts.states, notify)
            self._guests.append(guest)
            told.set_result(guest)

        self._do(enter)
        return told.result()

    def close(self, guest: Guest) -> None:
        """The stream ends; what it still waits for is forgotten."""

        def leave() -> None:
            if guest in self._guests:
                self._guests.remove(guest)
                guest.seat.close()

        guest.left = True
        self._do(leave)

    def send_away_newest(self, why: str) -> None:
        """Makes room for the others."""
        self._do(lambda: self._send_away(self._guests[-1:], why))

    def hand_over(self, guest: Guest, ticket: Ticket) -> None:
        ticket.under_way = True
        guest.queue.append(ticket)

    def stir(self) -> None:
        """Something was decoded or handed over."""
        with self._wake:
            self._stir = True
            self._wake.notify()

    def stop(self, why: str = "the server is stopping") -> None:
        """Ends the thread; streams that are open are sent away."""
        with self._wake:
            self._stopping, self._why = True, why
            self._wake.notify()
        self._thread.join(timeout=10)

    def _do(self, command: Callable[[], None]) -> None:
        with self._wake:
            if self._stopping:
                raise BusyError("the server is stopping")
            self._commands.append(command)
            self._wake.notify()

    def _run(self) -> None:
        try:
            self._pool = SessionPool(self.model, self._places)
            self.cost = Cost.measured(self._pool)
        except BaseException as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(None)
        while True:
            with self._wake:
                self._wake.wait_for(self._has_work)
                if self._stopping:
                    break
                commands, self._commands, self._stir = self._commands, deque(), False
            for command in commands:
                command()
            try:
                self._round()
            except Exception:  # a mistake of ours: nobody waits for ever, and the next ones are served
                log.exception("model %s", self.name)
                self.metrics.add(failures=1)
                self._send_away(self._guests, "the server made a mistake")
        self._send_away(self._guests, self._why)
        for command in self._commands:
            command()  # their callers wait

    def _has_work(self) -> bool:
        return self._stopping or self._stir or bool(self._commands) or any(guest.seat.waiting for guest in self._guests)

    def _round(self) -> None:
        """Shows what came, asks once, and tells."""
        settled = {guest for guest in tuple(self._guests) if self._advance(guest)}
        places = sum(guest.places for guest in self._guests if guest.seat.waiting)
        said: dict[Slot, Prediction] = {}
        if places:
            start = time.perf_counter()
            try:
                said = dict(self._pool.step())
                self._failed = 0
                if 2 * places >= sum(guest.places for guest in self._guests):
                    # Small steps come where there is time left; dear by the state, they say little of full ones.
                    self.cost.learn(places, time.perf_counter() - start)
            except Exception:
                log.exception("a step of model %s", self.name)
                self.metrics.add(failures=1)
                self._failed += 1
                if self._failed >= FAILURES:
                    self._send_away(self._guests, "the model fails: see the server's log")
        for guest in tuple(self._guests):
            told = guest.collect(said.get(guest.seat))
            if self._advance(guest) or told:  # a reset may have waited for what was just said
                settled.add(guest)
        for guest in settled:
            guest.notify()

    def _advance(self, guest: Guest) -> bool:
        try:
            return guest.advance()
        except Exception:  # one stream's trouble is no other's
            log.exception("a stream of model %s", self.name)
            self.metrics.add(failures=1)
            self._send_away([guest], "the server made a mistake")
            return False

    def _send_away(self, guests: list[Guest], why: str) -> None:
        for guest in tuple(guests):
            self._guests.remove(guest)
            guest.seat.close()
            guest.dismiss(why)
