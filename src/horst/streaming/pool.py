"""Many live streams on one model. They come and go; each step asks the model once, for all that have a frame.

    pool = Pool(model, capacity=32)
    seat = pool.open()
    seat.push(image, time)              # cheap: the frame waits for the next step
    for seat, prediction in pool.step():
        ...
    seat.close()

Memory is that of `capacity` states and of a few waiting frames a stream. A stream that sends nonsense is told so by its
own `push`, and nobody else notices.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from horst.errors import BusyError, InputError
from horst.models.batched_step import BatchedStep, StepOutput
from horst.models.predictor import Predictor
from horst.streaming.attention import Attention
from horst.streaming.horizon import horizon_of
from horst.streaming.prediction import Prediction
from horst.streaming.restarts import Never, Restarts
from horst.streaming.ticks import OnGap, Tick, Ticker
from horst.video.frame import Image, check_number
from horst.video.resizing import resize_image

WAITING = 8
"""Frames of one stream that may wait. When more come, the oldest go: a late answer is worth less than a fresh one."""


LATE = 0.5
"""Seconds after which a waiting frame is left out where a newer one waits too: who fell behind catches up at once."""


class Seat:
    """One stream of a pool."""

    def __init__(
        self,
        pool: Pool,
        places: list[int],
        restarts: Restarts,
        ticker: Ticker[Image],
        threshold: float,
        attention: bool,
    ) -> None:
        self._pool, self._places, self._restarts, self._ticker = pool, places, restarts, ticker
        self.threshold, self.attention = threshold, attention
        self.skipped = 0
        """Ticks that were left out, as the model could not keep up."""
        self.latest: Prediction | None = None
        self._waiting: deque[tuple[Tick[Image], float]] = deque()
        self._again = False
        order = pool.model.core.order
        self._past: list[deque[float]] = [deque(maxlen=order) for _ in places]  # times that each state remembers

    def push(self, image: Image, time: float) -> None:
        """A frame (H, W, 3) uint8 RGB of any size, and its time in seconds. It is asked about in the next step.

        The caller may use the memory of `image` again: a camera often does, and a frame may be asked about much later.
        """
        self._check()
        frame = resize_image(image, self._pool.streams.size)
        self._queue(list(self._ticker.push(frame.copy() if frame is image else frame, time)))

    def finish(self, end: float) -> None:
        """The video ends at `end`: until then its last frame is shown."""
        self._check()
        self._queue(list(self._ticker.finish(end)))

    def reset(self) -> None:
        """The next frame is the first of something new."""
        self._check()
        self._ticker.reset()
        self._waiting.clear()

    def close(self) -> None:
        """Leave; another stream may have the place."""
        if self._places:
            self._pool._leave(self)
            self._places = []

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def keep(self, ticks: int) -> None:
        """Of the waiting ticks leave all but the newest out."""
        while len(self._waiting) > ticks:
            gone, _ = self._waiting.popleft()
            self.skipped += 1
            self._again |= gone.fresh  # what it started must start all the same

    def _hurry(self) -> None:
        """Leaves out what is late."""
        while len(self._waiting) > 1 and time.perf_counter() - self._waiting[0][1] > LATE:
            self.keep(len(self._waiting) - 1)

    def _queue(self, ticks: list[Tick[Image]]) -> None:
        now = time.perf_counter()
        self._waiting.extend((tick, now) for tick in ticks)
        if self._pool.drop_late:
            self.keep(WAITING)

    def _check(self) -> None:
        if not self._places:
            raise InputError("the stream is closed: open another one")


class Pool:
    """A model and the streams that it serves."""

    def __init__(self, model: Predictor, capacity: int = 16, *, drop_late: bool = True) -> None:
        """
        Args:
            model: In evaluation mode.
            capacity: States; a stream takes as many as its policy has `places`.
            drop_late: Leave ticks out where more than a few wait; without it they wait, as those of a file may.
        """
        self.streams = BatchedStep(model, capacity)
        self.model, self.drop_late = model, drop_late
        self.names, self.horizon = _names(model), horizon_of(model)
        self._free = list(range(capacity))
        self._seats: list[Seat] = []

    def __len__(self) -> int:
        return len(self._seats)

    def open(
        self,
        restarts: Restarts | None = None,
        *,
        threshold: float = 0.0,
        gap: float = 2.0,
        on_gap: OnGap = "reset",
        attention: bool = False,
    ) -> Seat:
        """A new stream. Where there is no room for it: BusyError.

        Args:
            restarts: When it starts afresh by itself, an object of its own; never by default.
            threshold: The probability below which there is no answer.
            gap: Seconds of silence that end what was going on; see `Ticker`.
            on_gap: What happens then.
            attention: Predictions say which past frames they rest on, where the model can tell. On a GPU the kernels
                are left for that, which makes all streams of the pool slower from then on.
        """
        restarts = restarts or Never()
        if check_number("threshold", threshold, zero=True) > 1:
            raise InputError(f"threshold is {threshold}; it is a probability, from 0 to 1")
        if restarts.places > len(self._free):
            raise BusyError(f"all {len(self.streams)} places are taken: close a stream, or make the pool larger")
        ticker: Ticker[Image] = Ticker(self.model.fps, gap=gap, on_gap=on_gap)
        places = [self._free.pop(0) for _ in range(restarts.places)]
        seat = Seat(self, places, restarts, ticker, threshold, attention and self.model.core.order > 0)
        self._seats.append(seat)
        return seat

    def step(self) -> list[tuple[Seat, Prediction]]:
        """Asks the model about the oldest waiting frame of every stream that has one."""
        for seat in self._seats if self.drop_late else ():
            seat._hurry()
        asked = [(seat, *seat._waiting.popleft()) for seat in self._seats if seat._waiting]
        if not asked:
            return []
        size = self.streams.size
        frames = np.zeros((len(self.streams), *size, 3), np.uint8)
        for seat, tick, _ in asked:
            frames[seat._places] = tick.frame
            starts = seat._restarts.before(tick.frame, tick.time, fresh=tick.fresh or seat._again)
            seat._again = False
            for place in starts:
                self.streams.reset(seat._places[place])
                seat._past[place].clear()
        active = [place for seat, _, _ in asked for place in seat._places]
        horizon, attention = self.horizon, any(seat.attention for seat, _, _ in asked)
        out = self.streams(
            torch.from_numpy(frames).permute(0, 3, 1, 2),
            active,
            unroll=horizon.steps or None,
            attention=attention,
        )
        chances = {task: torch.softmax(out.logits[task].float(), -1).cpu().numpy() for task in out.logits}
        ahead = {} if not horizon.steps else chances  # (B, U, classes)
        if ahead:
            chances = {task: rows[:, horizon.main] for task, rows in ahead.items()}
        weights = _weights(out) if attention else None
        ages, now = self.streams.frame_counts, time.perf_counter()
        said = []
        for seat, tick, pushed in asked:
            chosen = seat._restarts.choose(chances["action"][seat._places])
            place = seat._places[chosen]
            seat.latest = Prediction(
                tick.time,
                ages[place],
                {task: rows[place].copy() for task, rows in chances.items()},
                self.names,
                seat.threshold,
                now - pushed,
                horizon.seconds,
                {
                    seconds: {task: rows[place, i].copy() for task, rows in ahead.items()}
                    for i, seconds in enumerate(horizon.several)
                },
                _attention(weights, place, seat._past[chosen]) if seat.attention and weights else None,
            )
            for past in seat._past:
                past.append(tick.time)
            said.append((seat, seat.latest))
        return said

    def _leave(self, seat: Seat) -> None:
        self._seats.remove(seat)
        self._free += seat._places


def _weights(out: StepOutput) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Temporal (B, S) and spatial (B, S, h, w)."""
    assert out.temporal is not None
    assert out.spatial is not None
    return out.temporal.float().cpu().numpy(), out.spatial.float().cpu().numpy()


def _attention(
    weights: tuple[NDArray[np.float32], NDArray[np.float32]], place: int, past: Sequence[float]
) -> Attention:
    temporal, spatial = weights
    times = np.full(temporal.shape[1], np.nan)
    if past:
        times[-len(past) :] = past
    return Attention(temporal[place].copy(), times, spatial[place].copy())


def _names(model: Predictor) -> dict[str, Sequence[str]]:
    labels = model.labels or {}
    return {task: labels.get(task) or [f"{task} {i}" for i in range(n)] for task, n in model.head.classes.items()}
