"""How far ahead a model speaks.

Early recognition names what is being done: 0 seconds ahead. Anticipation names the next action. A plain head was
trained to do so from 2 s before it on and does not know how far off it is: the action begins within that time. An
unrolling head is asked for each time by itself: its LSTM runs tau_a * fps steps ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

from horst.evaluation.predictions import EARLIEST
from horst.heads import Unroller
from horst.models.predictor import Predictor

USUAL = 1.0
"""Seconds: of several horizons the one that is meant where none is named, as in the tables of the field."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """What the head of a model offers."""

    seconds: float
    """Of the answer."""
    steps: tuple[int, ...] = ()
    """Of an unrolling head: LSTM steps of each horizon, the farthest first."""
    fps: float = 1.0

    @property
    def several(self) -> tuple[float, ...]:
        """Seconds of each horizon; none where there is one alone."""
        return tuple(step / self.fps for step in self.steps)

    @property
    def main(self) -> int:
        """Which of several is that of the answer."""
        return self.several.index(self.seconds)


def horizon_of(model: Predictor) -> Horizon:
    if model.head.task == "recognition":
        return Horizon(0.0)
    if not isinstance(model.head, Unroller):
        return Horizon(EARLIEST)
    farthest = max(1, min(model.head.steps, round(EARLIEST * model.fps)))
    usual = max(1, min(farthest, round(USUAL * model.fps)))
    return Horizon(usual / model.fps, tuple(range(farthest, 0, -1)), model.fps)
