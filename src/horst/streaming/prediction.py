"""Predictions of a live stream, and which past frames they are based on."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horst.errors import InputError

Probabilities = Mapping[str, NDArray[np.float32]]  # (classes,) by task


@dataclass(frozen=True, slots=True, eq=False)
class AttentionMaps:
    """Attention of the last layer over S past frames, oldest first; its maps have h x w cells."""

    temporal: NDArray[np.float32]  # (S,) T(Q, K), which sums to 1; at the first frame the zero state has all of it
    times: NDArray[np.float64]  # (S,) seconds; NaN where there is no frame yet
    spatial: NDArray[np.float32]  # (S, h, w) S(Q, K), the weight of each cell, in 0..1; 0 where there is no frame yet

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON. The maps are base64 of uint8 values, row by row; 255 stands for the weight 1."""
        maps = np.clip(np.rint(255 * self.spatial), 0, 255).astype(np.uint8)
        return {
            "temporal": [round(float(weight), 4) for weight in self.temporal],
            "times": [None if np.isnan(time) else round(float(time), 6) for time in self.times],
            "spatial": base64.b64encode(maps.tobytes()).decode(),
            "shape": list(maps.shape),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The prediction at one sampled frame."""

    time: float  # seconds, on the clock of the frames
    age: int  # number of frames since the last reset, including this one
    probabilities: Probabilities  # at `horizon`
    names: Mapping[str, Sequence[str]]  # of the classes, by task
    threshold: float = 0.0  # minimum probability of an answer
    latency: float = 0.0  # seconds from the frame's arrival to the prediction
    horizon: float = 0.0
    """Seconds ahead. 0: the current action. Anticipation: the action starts within this time, or, if there are several
    `horizons`, in this time."""
    horizons: Mapping[float, Probabilities] = field(default_factory=dict)  # by seconds ahead, largest first
    sequence: NDArray[np.float32] | None = (
        None  # (Z, classes): probabilities of the next Z actions, if it predicts them
    )
    attention: AttentionMaps | None = None  # if the stream was opened with `attention=True`

    def top(self, k: int = 5, task: str = "action", *, horizon: float | None = None) -> list[tuple[str, float]]:
        """The k most likely classes and their probabilities; `horizon`: one of several, in seconds."""
        if task not in self.probabilities:
            raise InputError(f"there is no task {task!r}; this model predicts {', '.join(self.probabilities)}")
        known = {self.horizon: self.probabilities, **self.horizons}
        wanted = self.horizon if horizon is None else horizon
        found = [by_task[task] for seconds, by_task in known.items() if abs(wanted - seconds) < 1e-6]
        if not found:
            listed = ", ".join(f"{seconds:g}" for seconds in self.horizons or known)
            raise InputError(f"horizon is {horizon:g} s; this model predicts {listed} s ahead")
        probabilities = found[0]
        best = np.argsort(-probabilities, kind="stable")[:k]
        return [(self.names[task][i], float(probabilities[i])) for i in best]

    def answer(self, task: str = "action", *, horizon: float | None = None) -> str | None:
        """The most likely class; None if its probability is below the threshold."""
        ((name, probability),) = self.top(1, task, horizon=horizon)
        return name if probability >= self.threshold else None

    def next_actions(self) -> list[tuple[str, float]]:
        """The next Z actions, the most likely of each with its probability."""
        if self.sequence is None:
            raise InputError("this model predicts no sequence of actions: train it with clip.sequence")
        best = self.sequence.argmax(1)
        return [(self.names["action"][i], float(p[i])) for i, p in zip(best, self.sequence, strict=True)]

    def to_dict(self, k: int = 5) -> dict[str, Any]:
        """Data for JSON, with the top k classes; `horizons`, `sequence` and `attention` only if it has them."""
        data: dict[str, Any] = {
            "time": round(self.time, 6),
            "age": self.age,
            "answer": self.answer(),
            "top": self._top_by_task(k, None),
            "latency": round(self.latency, 6),
            "horizon": self.horizon,
        }
        if self.horizons:
            data["horizons"] = [{"seconds": seconds, "top": self._top_by_task(k, seconds)} for seconds in self.horizons]
        if self.sequence is not None:
            data["sequence"] = [{"name": name, "probability": round(p, 4)} for name, p in self.next_actions()]
        if self.attention is not None:
            data["attention"] = self.attention.to_dict()
        return data

    def _top_by_task(self, k: int, horizon: float | None) -> dict[str, list[dict[str, Any]]]:
        best = {task: self.top(k, task, horizon=horizon) for task in self.names}
        return {task: [{"name": name, "probability": round(p, 4)} for name, p in top] for task, top in best.items()}
