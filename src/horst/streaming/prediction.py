"""What a model says of a live stream at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horst.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The answer at one tick. It is a value: the stream goes on without it."""

    time: float
    """Seconds, in the clock of the frames: the moment that it is about."""
    age: int
    """Frames that the model had seen since its last start, this one included."""
    probabilities: Mapping[str, NDArray[np.float32]]
    """(classes,) by task."""
    names: Mapping[str, Sequence[str]]
    """Of the classes, by task."""
    threshold: float = 0.0
    """Below it there is no answer."""
    latency: float = 0.0
    """Seconds that it took from the frame to the answer."""

    def top(self, k: int = 5, task: str = "action") -> list[tuple[str, float]]:
        """The k likeliest classes and their probabilities."""
        chances = self._of(task)
        best = np.argsort(-chances, kind="stable")[:k]
        return [(self.names[task][i], float(chances[i])) for i in best]

    def answer(self, task: str = "action") -> str | None:
        """The likeliest class; None where its probability is below the threshold."""
        ((name, chance),) = self.top(1, task)
        return name if chance >= self.threshold else None

    def to_dict(self, k: int = 5) -> dict[str, Any]:
        """Plain data for JSON."""
        said = {
            task: [{"name": name, "probability": round(p, 4)} for name, p in self.top(k, task)] for task in self.names
        }
        return {
            "time": round(self.time, 6),
            "age": self.age,
            "answer": self.answer(),
            "top": said,
            "latency": round(self.latency, 6),
        }

    def _of(self, task: str) -> NDArray[np.float32]:
        if task not in self.probabilities:
            raise InputError(f"there is no {task!r}; this model predicts {', '.join(self.probabilities)}")
        return self.probabilities[task]
