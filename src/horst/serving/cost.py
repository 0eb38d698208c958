"""What a step of a model costs here and now.

A step of n states that see m frames takes about `base + per_state * n + per_frame * m` seconds. The states of a
session see the same frame. All three are measured before the first session. A factor follows later steps and tells how
much slower the machine has become. It is a median, so single slow steps do not count.
"""

import statistics
import time
from collections import deque
from typing import Self

import torch

from horst.streaming import SessionPool

PROBES = 4  # steps of each size that are timed at the start; the fastest counts
PROBE_SECONDS = 0.8  # maximum time for all probes but the first one of each size
PROBE_STATES = 16  # states of the larger size: about what a small model on a few cores can serve
WINDOW = 50  # number of steps that the factor is based on
MAX_AGE = 60.0  # seconds after which a step no longer counts: the machine may be faster now
PRIOR = 5  # the initial measurement counts as this many steps


class StepCost:
    """Duration of a step by its number of states and frames."""

    def __init__(self, base: float, per_state: float, per_frame: float = 0.0) -> None:
        self.base, self.per_state, self.per_frame = base, per_state, per_frame
        self._ratios: deque[tuple[float, float]] = deque(maxlen=WINDOW)  # time, and measured / expected duration

    @classmethod
    def measure(cls, pool: SessionPool) -> Self:
        """Times steps of one state, and of several with one frame and with a frame each; resets the pool."""
        step = pool.batched_step
        frames = torch.zeros(len(step), 3, *step.size, dtype=torch.uint8)
        end = time.perf_counter() + PROBE_SECONDS

        def fastest_of(states: int, *, shared: bool) -> float:
            durations: list[float] = []
            while len(durations) < PROBES and (not durations or time.perf_counter() < end):
                start = time.perf_counter()
                step(frames, range(states), first=[0] * states if shared else range(states))
                durations.append(time.perf_counter() - start)
            return min(durations)

        one = fastest_of(1, shared=True)
        count = min(len(step), PROBE_STATES, max(2, int(PROBE_SECONDS / one)))  # a session waits for it
        several, shared = (fastest_of(count, shared=shared) for shared in (False, True))
        step.reset()
        if count == 1:
            return cls(0.0, one)
        per_state = max((shared - one) / (count - 1), 0.1 * several / count)
        per_frame = max((several - one) / (count - 1) - per_state, 0.0)
        return cls(max(one - per_state - per_frame, 0.0), per_state, per_frame)

    @property
    def factor(self) -> float:
        """How much slower steps are than at the start."""
        oldest = time.monotonic() - MAX_AGE
        return statistics.median([1.0] * PRIOR + [ratio for when, ratio in tuple(self._ratios) if when >= oldest])

    def seconds(self, states: int, frames: int) -> float:
        """Expected duration of a step."""
        return self.factor * self._expected(states, frames) if states else 0.0

    def update(self, states: int, frames: int, seconds: float) -> None:
        """Take a measured step into account."""
        self._ratios.append((time.monotonic(), seconds / self._expected(states, frames)))

    def _expected(self, states: int, frames: int) -> float:
        return self.base + self.per_state * states + self.per_frame * frames
