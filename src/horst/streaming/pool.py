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

import av
import numpy as np
import torch

from horst.errors import BusyError, InputError
from horst.models.predictor import Predictor
from horst.models.streams import Streams
from horst.streaming.prediction import Prediction
from horst.streaming.restarts import Never, Restarts
from horst.streaming.ticks import OnGap, Tick, Ticker
from horst.video.frame import Image

WAITING = 8
"""Frames of one stream that may wait. When more come, the oldest go: a late answer is worth less than a fresh one."""


class Seat:
    """One stream of a pool."""

    def __init__(
        self, pool: Pool, places: list[int], restarts: Restarts, ticker: Ticker[Image], threshold: float
    ) -> None:
        self._pool, self._places, self._restarts, self._ticker = pool, places, restarts, ticker
        self.threshold = threshold
        self.skipped = 0
        """Ticks that were left out, as the model could not keep up."""
        self.latest: Prediction | None = None
        self._waiting: deque[tuple[Tick[Image], float]] = deque()
        self._again = False

    def push(self, image: Image, time: float) -> None:
        """A frame (H, W, 3) uint8 RGB of any size, and its time in seconds. It is asked about in the next step."""
        self._check()
        self._queue(list(self._ticker.push(fitted(image, self._pool.streams.size), time)))

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

    def _queue(self, ticks: list[Tick[Image]]) -> None:
        now = time.perf_counter()
        self._waiting.extend((tick, now) for tick in ticks)
        while len(self._waiting) > WAITING and self._pool.drop_late:
            gone, _ = self._waiting.popleft()
            self.skipped += 1
            self._again |= gone.fresh  # what it started must start all the same

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
        self.streams = Streams(model, capacity)
        self.model, self.drop_late = model, drop_late
        self.names = _names(model)
        self._free = list(range(capacity))
        self._seats: list[Seat] = []

    def __len__(self) -> int:
        return len(self._seats)

    def open(
        self, restarts: Restarts | None = None, *, threshold: float = 0.0, gap: float = 2.0, on_gap: OnGap = "reset"
    ) -> Seat:
        """A new stream. Where there is no room for it: BusyError.

        Args:
            restarts: When it starts afresh by itself, an object of its own; never by default.
            threshold: The probability below which there is no answer.
            gap: Seconds of silence that end what was going on; see `Ticker`.
            on_gap: What happens then.
        """
        restarts = restarts or Never()
        if not 0 <= threshold <= 1:
            raise InputError(f"threshold is {threshold}; it is a probability")
        if restarts.places > len(self._free):
            raise BusyError(f"all {len(self.streams)} places are taken: close a stream, or make the pool larger")
        places = [self._free.pop(0) for _ in range(restarts.places)]
        seat = Seat(self, places, restarts, Ticker(self.model.fps, gap=gap, on_gap=on_gap), threshold)
        self._seats.append(seat)
        return seat

    def step(self) -> list[tuple[Seat, Prediction]]:
        """Asks the model about the oldest waiting frame of every stream that has one."""
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
        active = [place for seat, _, _ in asked for place in seat._places]
        logits = self.streams(torch.from_numpy(frames).permute(0, 3, 1, 2), active)
        chances = {task: torch.softmax(logits[task].float(), -1).cpu().numpy() for task in logits}
        ages, now = self.streams.ages, time.perf_counter()
        said = []
        for seat, tick, pushed in asked:
            place = seat._places[seat._restarts.choose(chances["action"][seat._places])]
            told = {task: rows[place].copy() for task, rows in chances.items()}
            seat.latest = Prediction(tick.time, ages[place], told, self.names, seat.threshold, now - pushed)
            said.append((seat, seat.latest))
        return said

    def _leave(self, seat: Seat) -> None:
        self._seats.remove(seat)
        self._free += seat._places


def fitted(image: Image, size: tuple[int, int]) -> Image:
    """A picture in the size of the model, stretched as videos are."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        found = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
        raise InputError(f"the frame is {found}; a picture (H, W, 3) of uint8, RGB, is needed")
    if image.shape[:2] == size:
        return image
    if 0 in image.shape:
        raise InputError(f"the frame has shape {image.shape}: it is empty")
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
    return np.asarray(frame.reformat(width=size[1], height=size[0], format="rgb24").to_ndarray(), np.uint8)


def _names(model: Predictor) -> dict[str, Sequence[str]]:
    labels = model.labels or {}
    return {task: labels.get(task) or [f"{task} {i}" for i in range(n)] for task, n in model.head.classes.items()}
