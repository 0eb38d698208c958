"""What a model's step costs here and now, to tell how many streams can be held.

A step of n states costs about a + b * n seconds. The two are measured before the first stream comes, and a factor that
follows the steps as they are measured later says how much dearer the machine is while others use it too. It is a
median: a single slow step, while something else had the processor for a moment, says nothing of those to come.
"""

from __future__ import annotations

import statistics
import time
from collections import deque

import torch

from horst.streaming import SessionPool

PROBES = 4
"""Steps of each size that are timed at the start; the quickest counts."""
PATIENCE = 0.8
"""Seconds that this may take, one step of each size apart: on a machine that is busy, later steps tell it better."""
MANY = 16
"""States in the larger of the two sizes: about where a small model on a few cores is full. Beyond what the caches of a
processor hold, a state costs more than below it."""
WINDOW = 50
"""Steps that the factor is taken from."""
FRESH = 60.0
"""Seconds after which a step is forgotten: the machine may have become quicker while nobody asked."""
TRUST = 5
"""What was measured at the start counts as so many steps: fewer than that many slow ones change nothing."""


class Cost:
    """Of one pool's steps."""

    def __init__(self, base: float, each: float) -> None:
        self.base, self.each = base, each
        self._steps: deque[tuple[float, float]] = deque(maxlen=WINDOW)  # when, and how much dearer than was measured

    @classmethod
    def measured(cls, pool: SessionPool) -> Cost:
        """Times steps of one state and of several, and leaves the pool as it was."""
        count = min(len(pool.batched_step), MANY)
        frames = torch.zeros(len(pool.batched_step), 3, *pool.batched_step.size, dtype=torch.uint8)
        quickest, end = {}, time.perf_counter() + PATIENCE
        for places in (1, count):
            taken: list[float] = []
            while len(taken) < PROBES and (not taken or time.perf_counter() < end):
                start = time.perf_counter()
                pool.batched_step(frames, range(places))
                taken.append(time.perf_counter() - start)
            quickest[places] = min(taken)
        pool.batched_step.reset()
        each = (quickest[count] - quickest[1]) / (count - 1) if count > 1 else quickest[1]
        each = max(each, 0.1 * quickest[count] / count)
        return cls(max(quickest[1] - each, 0.0), each)

    @property
    def factor(self) -> float:
        """How much dearer steps are than they were at the start."""
        since = time.monotonic() - FRESH
        return statistics.median([1.0] * TRUST + [ratio for when, ratio in tuple(self._steps) if when >= since])

    def step(self, places: int) -> float:
        """Seconds that a step of so many states takes, as far as is known."""
        return self.factor * (self.base + self.each * places) if places else 0.0

    def learn(self, places: int, seconds: float) -> None:
        """A step was measured."""
        self._steps.append((time.monotonic(), seconds / (self.base + self.each * places)))
