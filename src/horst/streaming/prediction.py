"""What a model says of a live stream at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horst.errors import InputError
from horst.streaming.attention import Attention

Probabilities = Mapping[str, NDArray[np.float32]]
"""(classes,) by task."""


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The answer at one tick. It is a value: the stream goes on without it."""

    time: float
    """Seconds, in the clock of the frames: the moment at which it is made."""
    age: int
    """Frames that the model had seen since its last start, this one included."""
    probabilities: Probabilities
    """(classes,) by task, at `horizon`."""
    names: Mapping[str, Sequence[str]]
    """Of the classes, by task."""
    threshold: float = 0.0
    """Below it there is no answer."""
    latency: float = 0.0
    """Seconds that it took from the frame to the answer."""
    horizon: float = 0.0
    """Seconds that it looks ahead. 0: what is being done. Anticipation: the action begins within this time, or, where
    there are several `horizons`, in this time."""
    horizons: Mapping[float, Probabilities] = field(default_factory=dict)
    """Where the head is asked for several, by seconds ahead, the farthest first."""
    attention: Attention | None = None
    """Where the stream was opened with it."""

    def top(self, k: int = 5, task: str = "action", *, horizon: float | None = None) -> list[tuple[str, float]]:
        """The k likeliest classes and their probabilities; `horizon`: one of several, in seconds."""
        chances = self._of(task, horizon)
        best = np.argsort(-chances, kind="stable")[:k]
        return [(self.names[task][i], float(chances[i])) for i in best]

    def answer(self, task: str = "action", *, horizon: float | None = None) -> str | None:
        """The likeliest class; None where its probability is below the threshold."""
        ((name, chance),) = self.top(1, task, horizon=horizon)
        return name if chance >= self.threshold else None

    def to_dict(self, k: int = 5) -> dict[str, Any]:
        """Plain data for JSON. `horizons` and `attention` are there where the prediction has them."""
        told: dict[str, Any] = {
            "time": round(self.time, 6),
            "age": self.age,
            "answer": self.answer(),
            "top": self._best(k, None),
            "latency": round(self.latency, 6),
            "horizon": self.horizon,
        }
        if self.horizons:
            told["horizons"] = [{"seconds": seconds, "top": self._best(k, seconds)} for seconds in self.horizons]
        if self.attention is not None:
            told["attention"] = self.attention.to_dict()
        return told

    def _best(self, k: int, horizon: float | None) -> dict[str, list[dict[str, Any]]]:
        return {
            task: [{"name": name, "probability": round(p, 4)} for name, p in self.top(k, task, horizon=horizon)]
            for task in self.names
        }

    def _of(self, task: str, horizon: float | None) -> NDArray[np.float32]:
        if task not in self.probabilities:
            raise InputError(f"there is no {task!r}; this model predicts {', '.join(self.probabilities)}")
        if horizon is None or abs(horizon - self.horizon) < 1e-6:
            return self.probabilities[task]
        for seconds, chances in self.horizons.items():
            if abs(horizon - seconds) < 1e-6:
                return chances[task]
        known = ", ".join(f"{seconds:g}" for seconds in self.horizons or [self.horizon])
        raise InputError(f"horizon is {horizon:g} s; this model looks {known} s ahead")
