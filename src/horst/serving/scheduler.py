"""Sessions of one model share its steps. One thread runs a step for all sessions that have a frame.

The event loop submits frames and is notified when they are answered; it never waits for the model. Each frame is a
`FrameRequest` and gets exactly one status:

    predicted   the model ran: the newest prediction
    not_due     no prediction is due: the model runs at its own frame rate
    skipped     the model could not keep up
    rejected    the frame is invalid or too much; `message` tells why
    reset       (of a reset request, which keeps its place among the frames)
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, perf_counter
from typing import Any, Literal, TypeVar

from horst.errors import BusyError, HorstError
from horst.models import Predictor
from horst.serving.cost import StepCost
from horst.serving.metrics import Metrics
from horst.streaming import Prediction, ResetPolicy, SessionPool, Slot
from horst.video.frame import Image

Status = Literal["predicted", "not_due", "skipped", "rejected", "reset"]
MAX_FAILURES = 3  # steps that may fail in a row before all sessions of the model are evicted
T = TypeVar("T")
log = logging.getLogger("horst.serving")


@dataclass(slots=True, eq=False)
class FrameRequest:
    """One frame of a client, or a request to reset."""

    number: int
    time: float  # seconds, on the clock of the client
    arrived: float = field(default_factory=perf_counter)
    image: Image | None = None  # None until it is decoded
    reset: bool = False
    submitted: bool = False
    status: Status | None = None
    prediction: Prediction | None = None
    message: str | None = None
    answered: float = 0.0
    last_sample: int = 0  # the last sample that this frame decided, counted over the whole stream

    def answer(self, status: Status, message: str | None = None) -> None:
        self.image, self.message, self.answered = None, message, perf_counter()
        self.status = status  # last: another thread waits for it


class Session:
    """One client and its stream. The scheduler's thread calls all methods but `submit`.

    A request is in `_queue` until its image is decoded and pushed to the slot, then in `_pending` until the model has
    run on the samples that it decided.
    """

    scheduler: "Scheduler"
    slot: Slot
    opened: float  # when it got its slot, by `time.monotonic`

    def __init__(self) -> None:
        self.closed = False
        self.evicted: str | None = None  # why the server ended the session
        self._queue: deque[FrameRequest] = deque()
        self._pending: deque[FrameRequest] = deque()
        self._samples = 0

    def notify(self) -> None:
        """Called when requests may have been answered."""

    def submit(self, request: FrameRequest) -> None:
        """Add a request, from any thread. Its image may be set later; then wake the scheduler."""
        request.submitted = True
        self._queue.append(request)

    def push_ready(self) -> bool:
        """Push decoded frames to the slot, in order; whether there were any."""
        pushed = False
        while self._queue:
            request = self._queue[0]
            if request.status is None:
                if request.image is None and not request.reset:
                    break  # not decoded yet
                if request.reset and self.slot.waiting:
                    break  # earlier frames come first
                self._push(request)
            self._queue.popleft()
            pushed = True
        return pushed

    def _push(self, request: FrameRequest) -> None:
        if request.image is None:
            self.slot.reset()
            return request.answer("reset")
        try:
            new = self.slot.push(request.image, request.time)
        except HorstError as error:
            return request.answer("rejected", str(error))
        if not new:
            return request.answer("not_due")
        self._samples += new
        request.last_sample, request.image = self._samples, None
        self._pending.append(request)

    def answer_pending(self, prediction: Prediction | None) -> bool:
        """Answer requests after a step, which predicted the oldest sample or nothing; whether any was answered."""
        done, before = self._samples - self.slot.waiting, len(self._pending)
        owner = next((request for request in self._pending if request.last_sample >= done), None)
        if owner is not None and prediction is not None:
            owner.prediction = prediction
        while self._pending and self._pending[0].last_sample <= done:
            request = self._pending.popleft()
            request.answer("predicted" if request.prediction is not None else "skipped")
        return len(self._pending) < before

    def evict(self, reason: str) -> None:
        """End the session; all waiting requests are skipped."""
        self.slot.close()
        for request in (*self._pending, *self._queue):
            if request.status is None:
                request.answer("skipped")
        self._pending.clear()
        self._queue.clear()
        self.evicted = reason
        self.notify()


class Scheduler:
    """Runs the steps of one model for its sessions. All work is done in one thread."""

    def __init__(self, name: str, model: Predictor, states: int, metrics: Metrics) -> None:
        self.name, self.model, self.metrics = name, model, metrics
        self.sessions: list[Session] = []  # only its thread changes it
        self._failures = 0
        self._scheduled = False
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"model {name}")
        self.pool = self._executor.submit(partial(SessionPool, model, states, export=True)).result()
        log.info("model %s: engine %s, %s", name, self.pool.batched_step.engine, self.pool.batched_step.why)
        self.cost = self._executor.submit(StepCost.measure, self.pool).result()

    def load(self, more_states: int = 0) -> float:
        """Fraction of time that its sessions need, and one more with `more_states` states: all are in one batch."""
        states = [len(session.slot.rows) for session in tuple(self.sessions) if not session.closed]
        states += [more_states] if more_states else []
        return self.model.fps * self.cost.seconds(sum(states), len(states))

    def open(self, session: Session, reset: ResetPolicy, **options: Any) -> None:
        """Give the session a slot (`SessionPool.open`). Blocks: not for the event loop. BusyError if there is none."""

        def attach() -> None:
            session.slot = self.pool.open(reset, **options)
            session.scheduler, session.opened = self, monotonic()
            self.sessions.append(session)

        self._submit(attach).result()

    def close(self, session: Session) -> None:
        """The client left; waiting requests are dropped."""

        def detach() -> None:
            if session in self.sessions:
                self.sessions.remove(session)
                session.slot.close()

        session.closed = True
        self._submit(detach)

    def evict(self, session: Session, reason: str) -> None:
        self._submit(lambda: self._evict([session], reason))

    def wake(self) -> None:
        """Run a round soon; from any thread."""
        if not self._scheduled:
            self._scheduled = True
            with suppress(BusyError):
                self._submit(self._round)

    def stop(self, reason: str = "the server is stopping") -> None:
        """End the thread and evict all sessions."""
        with suppress(BusyError, TimeoutError):
            evicted = self._submit(lambda: self._evict(self.sessions, reason))
            self._executor.shutdown(wait=False)
            evicted.result(timeout=10)

    def _submit(self, command: Callable[[], T]) -> Future[T]:
        try:
            return self._executor.submit(command)
        except RuntimeError as error:
            raise BusyError("the server is stopping") from error

    def _round(self) -> None:
        """Push new frames, run one step, and answer. Repeats while samples wait."""
        self._scheduled = False
        try:
            changed = self._push_all()
            predictions = self._step()
            changed |= {session for session in self.sessions if session.answer_pending(predictions.get(session.slot))}
            changed |= self._push_all()  # a reset may have waited for this step
            for session in changed:
                session.notify()
        except Exception:  # a bug: nobody waits forever, and new sessions are served
            self._failed("model %s", self.sessions)
        if any(session.slot.waiting for session in self.sessions):
            self.wake()

    def _push_all(self) -> set[Session]:
        """Push the frames of all sessions; returns those that had any."""
        pushed = set()
        for session in tuple(self.sessions):
            try:
                if session.push_ready():
                    pushed.add(session)
            except Exception:  # other sessions go on
                self._failed("a session of model %s", [session])
        return pushed

    def _step(self) -> dict[Slot, Prediction]:
        start = perf_counter()
        try:
            predictions = dict(self.pool.step())
        except Exception:
            self._failures += 1
            failed = self.sessions if self._failures >= MAX_FAILURES else []
            self._failed("a step of model %s", failed, "the model fails: see the server's log")
            return {}
        self._failures = 0 if predictions else self._failures
        active, states = (sum(len(slot.rows) for slot in slots) for slots in (predictions, self.pool.slots))
        if active and 2 * active >= states:  # small steps occur when there is time left; they tell little of full ones
            self.cost.update(active, len(predictions), perf_counter() - start)
        return predictions

    def _failed(self, what: str, sessions: list[Session], reason: str = "internal server error") -> None:
        """Log the error that is being handled, and evict sessions."""
        log.exception(what, self.name)
        self.metrics.add(failures=1)
        self._evict(sessions, reason)

    def _evict(self, sessions: Iterable[Session], reason: str) -> None:
        for session in tuple(sessions):
            if session in self.sessions:  # the client may have left meanwhile
                self.sessions.remove(session)
                session.evict(reason)
