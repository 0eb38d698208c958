"""Live streams on one model: frames in, predictions out.

A `StreamSession` has one stream. Many streams share a pool and open and close at any time:

    pool = SessionPool(model, capacity=32)
    slot = pool.open()
    slot.push(image, time)                      # cheap: the frame waits for the next step
    for slot, prediction in pool.step():        # runs the model once for all streams that have a frame
        ...
    slot.close()

Memory is bounded by `capacity` states and a few waiting frames per stream. An invalid frame raises an error in its own
`push`; other streams are not affected.
"""

import threading
import time as clock
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from horst.data.segments import EARLIEST
from horst.errors import BusyError, InputError
from horst.heads import Unroller
from horst.models.batched_step import BatchedStep
from horst.models.engines import EngineName
from horst.models.predictor import Predictor
from horst.streaming.late import MAX_AGE, MAX_WAITING, FrameQueue
from horst.streaming.prediction import AttentionMaps, Prediction
from horst.streaming.reset import NeverReset, ResetPolicy
from horst.streaming.sampler import FrameSampler, OnGap, SampledFrame
from horst.video.decode import resize_image
from horst.video.frame import Frame, Image, check_number

DEFAULT_HORIZON = 1.0  # seconds: the horizon of the answer if a head predicts several, as in the tables of the field


class Slot:
    """One stream of a pool; see `SessionPool.open`. `rows` are its states in the pool."""

    def __init__(
        self, pool: "SessionPool", reset: ResetPolicy, sampler: FrameSampler[Image], threshold: float, attention: bool
    ) -> None:
        self._pool, self.policy, self._sampler, self.threshold = pool, reset, sampler, threshold
        self.attention = attention and pool.model.core.order > 0
        self.rows = [pool._free.pop(0) for _ in range(reset.states)]
        self.latest: Prediction | None = None
        self.queue: FrameQueue[SampledFrame[Image]] = FrameQueue(*(MAX_WAITING, MAX_AGE) if pool.skip_late else ())
        self._sequence = 0  # of the last sample
        self._past = [deque[float](maxlen=pool.model.core.order) for _ in self.rows]  # frame times by state

    def push(self, image: Image, time: float) -> int:
        """Add a frame (H, W, 3) uint8 RGB of any size, with its time in seconds; returns the number of new samples.

        `image` is copied, so the caller may reuse its memory.
        """
        self._check_open()
        frame = resize_image(image, self._pool.batched_step.size)
        samples = list(self._sampler.push(frame.copy() if frame is image else frame, time))
        self.queue.push(samples)
        return len(samples)

    def finish(self, end: float) -> None:
        """The video ends at `end`: its last frame is repeated until then."""
        self._check_open()
        self.queue.push(self._sampler.finish(end))

    def reset(self) -> None:
        """Forget all frames; the next frame is the first one."""
        self._check_open()
        self._sampler.reset()
        self.queue.clear()

    def close(self) -> None:
        """Free the slot for another stream; from any thread, after the step that runs."""
        with self._pool._lock:
            if self.rows:
                self._pool.slots.remove(self)
                self._pool._free += self.rows
                self.rows = []

    @property
    def waiting(self) -> int:
        """Samples that wait for a step."""
        return len(self.queue)

    @property
    def skipped(self) -> int:
        """Samples that were skipped because the model was too slow."""
        return self.queue.skipped

    def _check_open(self) -> None:
        if not self.rows:
            raise InputError("the stream is closed: open another one")


class SessionPool:
    """A model and the streams that it serves."""

    def __init__(
        self,
        model: Predictor,
        capacity: int = 16,
        *,
        skip_late: bool = True,
        engine: EngineName = "auto",
        export: bool = False,
    ) -> None:
        """`model` in evaluation mode; `capacity` in states: a stream takes as many as its reset policy needs.

        `skip_late`: skip late frames as `horst.streaming.late` describes. If False, all frames wait, as for files.
        `engine`, `export`: see `horst.BatchedStep`.
        """
        self.batched_step = BatchedStep(model, capacity, engine=engine, export=export)
        self.model, self.skip_late = model, skip_late
        self.names = class_names(model)
        self.horizon, self._unroll = horizons(model)
        self._free = list(range(capacity))
        self.slots: list[Slot] = []
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.slots)

    def open(
        self,
        reset: ResetPolicy | None = None,
        *,
        threshold: float = 0.0,
        gap: float = 2.0,
        on_gap: OnGap = "reset",
        attention: bool = False,
    ) -> Slot:
        """A new stream. Raises BusyError if the pool is full.

        Args:
            reset: When its state is reset, an object of its own; never by default.
            threshold: Minimum probability of an answer.
            gap: Seconds without a frame after which `on_gap` applies; see `FrameSampler`.
            on_gap: "reset" or "continue".
            attention: Predictions include attention maps, if the model has them. On a GPU all streams of the pool then
                run without the fused kernels, which is slower.
        """
        reset = reset or NeverReset()
        sampler: FrameSampler[Image] = FrameSampler(self.model.fps, gap=gap, on_gap=on_gap)
        if check_number("threshold", threshold, zero=True) > 1:
            raise InputError(f"threshold is {threshold}; it is a probability, from 0 to 1")
        with self._lock:
            if reset.states > len(self._free):
                limit = len(self.batched_step)
                raise BusyError(f"all {limit} states are in use: close a stream, or make the pool larger")
            slot = Slot(self, reset, sampler, threshold, attention)
            self.slots.append(slot)
            return slot

    def step(self) -> list[tuple[Slot, Prediction]]:
        """Run the model once, on the oldest waiting sample of every stream that has one."""
        with self._lock:
            return self._step()

    def _step(self) -> list[tuple[Slot, Prediction]]:
        batch = [(slot, *slot.queue.pop()) for slot in self.slots if slot.waiting]
        if not batch:
            return []
        frames = np.zeros((len(self.batched_step), *self.batched_step.size, 3), np.uint8)
        for slot, sample, _ in batch:
            frames[slot.rows] = sample.frame
            first, slot._sequence = sample.sequence != slot._sequence, sample.sequence
            for state in slot.policy.resets(sample.frame, sample.time, first=first):
                self.batched_step.reset(slot.rows[state])
                slot._past[state].clear()
        out = self.batched_step(
            torch.from_numpy(frames).permute(0, 3, 1, 2),
            [row for slot, *_ in batch for row in slot.rows],
            first=[slot.rows[0] for slot, *_ in batch for _ in slot.rows],
            unroll=self._unroll or None,
            attention=any(slot.attention for slot, *_ in batch),
        )
        temporal, spatial = (None if x is None else x.float().cpu().numpy() for x in (out.temporal, out.spatial))
        probabilities = {task: torch.softmax(out.logits[task].float(), -1).cpu().numpy() for task in out.logits}
        after = out.logits.sequence
        sequences = None if after is None else torch.softmax(after.float(), -1).cpu().numpy()  # (B, Z, classes)
        seconds = [step / self.model.fps for step in self._unroll]
        ahead = probabilities if seconds else {}  # (B, horizons, classes)
        if seconds:
            probabilities = {task: rows[:, seconds.index(self.horizon)] for task, rows in ahead.items()}
        ages, now = self.batched_step.frame_counts, clock.perf_counter()
        predictions = []
        for slot, sample, arrived in batch:
            state = slot.policy.choose(probabilities["action"][slot.rows])
            row = slot.rows[state]
            maps, past = None, slot._past[state]
            if slot.attention and temporal is not None and spatial is not None:
                times = np.array([*[np.nan] * (len(temporal[row]) - len(past)), *past])
                maps = AttentionMaps(temporal[row].copy(), times, spatial[row].copy())
            own = {task: rows[row].copy() for task, rows in probabilities.items()}
            later = {s: {task: rows[row, i].copy() for task, rows in ahead.items()} for i, s in enumerate(seconds)}
            next_actions = None if sequences is None else sequences[row].copy()
            slot.latest = Prediction(
                *(sample.time, ages[row], own, self.names, slot.threshold, now - arrived, self.horizon, later),
                sequence=next_actions,
                attention=maps,
            )
            for past in slot._past:
                past.append(sample.time)
            predictions.append((slot, slot.latest))
        return predictions


class StreamSession:
    """A pool with one slot. The model runs before `push` returns."""

    def __init__(
        self,
        model: Predictor,
        *,
        reset: ResetPolicy | None = None,
        live: bool = False,
        engine: EngineName = "auto",
        **options: Any,
    ) -> None:
        """Further options: `SessionPool.open`. `engine`: see `horst.BatchedStep`.

        `live`: frames keep arriving while the model runs. If a step takes longer than the time between two samples,
        the oldest samples are skipped, so that the stream does not fall behind.
        """
        if engine == "auto" and options.get("attention"):
            engine = "torch"  # attention weights come from there: do not open another one
        self.pool = SessionPool(model, reset.states if reset else 1, skip_late=False, engine=engine)
        self.slot = self.pool.open(reset, **options)
        self.live = live
        self._last: float | None = None  # time of the last frame
        self._cost = 0.0  # seconds that the last step took

    def push(self, image: Image, time: float) -> Prediction | None:
        """A frame (H, W, 3) uint8 RGB and its time in seconds; the newest prediction, which may be an earlier one."""
        for _ in self.feed(image, time):
            pass
        return self.slot.latest

    def feed(self, image: Image, time: float) -> Iterator[Prediction]:
        """As `push`, with all predictions that the frame triggers: none, one, or several after dropped frames."""
        self.slot.push(image, time)
        if self.live and self._last is not None and self._cost:
            self.slot.queue.keep_newest(max(1, int((time - self._last) / self._cost)))
        self._last = time
        yield from self._run()

    def watch(self, frames: Iterable[Frame], end: float | None = None) -> Iterator[Prediction]:
        """All predictions of a source of frames; `end`: the time until which the last frame is shown, if known."""
        for frame in frames:
            yield from self.feed(frame.image, frame.time)
        if end is not None:
            yield from self.finish(end)

    def finish(self, end: float) -> Iterator[Prediction]:
        """The remaining predictions of a video that ends at `end`."""
        self.slot.finish(end)
        yield from self._run()

    def reset(self) -> None:
        """Forget all frames; the next frame is the first one."""
        self.slot.reset()

    def _run(self) -> Iterator[Prediction]:
        while self.slot.waiting:
            start = clock.perf_counter()
            ((_, prediction),) = self.pool.step()
            self._cost = clock.perf_counter() - start
            yield prediction


def class_names(model: Predictor) -> dict[str, list[str]]:
    """Class names by task; numbers if the model has no labels."""
    labels = model.labels or {}
    return {task: list(labels.get(task) or [f"{task} {i}" for i in range(n)]) for task, n in model.head.classes.items()}


def horizons(model: Predictor) -> tuple[float, tuple[int, ...]]:
    """Seconds ahead of a model's answer, and the LSTM steps, tau_a * fps, of all horizons of an unrolling head."""
    if model.head.current:
        return 0.0, ()
    if not isinstance(model.head, Unroller):  # trained on frames up to 2 s before the action: does not know its start
        return EARLIEST, ()
    most = max(1, min(model.head.steps, round(EARLIEST * model.fps)))
    default = max(1, min(most, round(DEFAULT_HORIZON * model.fps)))
    return default / model.fps, tuple(range(most, 0, -1))
