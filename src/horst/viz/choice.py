"""Clips that are worth looking at: known early, wrong to the end, and those of which the model changed its mind."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from horst.data.batches import UNKNOWN
from horst.evaluation.metrics import probabilities
from horst.evaluation.predictions import Predictions


@dataclass(frozen=True, slots=True)
class Choice:
    """One clip, and why it was chosen."""

    index: int
    """In its split."""
    why: str


def chosen(predictions: Predictions, count: int) -> list[Choice]:
    """Up to `count` clips, the three kinds in turn; each kind has its clearest cases first."""
    labels = predictions.labels["action"]
    said = predictions.scores["action"]
    answers = said.argmax(-1)  # (N, P)
    sure = probabilities(said[:, -1].double()).amax(-1)
    usable = predictions.read & (labels != UNKNOWN) & (said[:, -1] > -torch.inf).any(-1)
    right = answers == labels[:, None]
    changes = _changes(predictions, answers)
    kinds = {
        "right early": _ranked(usable & right[:, -1], right.sum(1) - 0.1 * changes + 0.05 * sure),
        "changed its mind": _ranked(usable & right[:, -1] & (changes > 0), changes - 0.1 * right.sum(1)),
        "wrong": _ranked(usable & ~right[:, -1], sure),
    }
    found: dict[int, Choice] = {}
    while len(found) < count and any(kinds.values()):
        for why, ranked in kinds.items():
            while ranked and ranked[0] in found:
                ranked.pop(0)
            if ranked and len(found) < count:
                index = ranked.pop(0)
                found[index] = Choice(index, why)
    return sorted(found.values(), key=lambda choice: list(kinds).index(choice.why))


def _changes(predictions: Predictions, answers: Tensor) -> Tensor:
    """(N,) how often another class became the likeliest: at frames where they are known, else at positions."""
    frames = predictions.answers if predictions.answers.shape[1] else answers
    return ((frames[:, 1:] != frames[:, :-1]) & (frames[:, 1:] >= 0)).sum(1)


def _ranked(rows: Tensor, value: Tensor) -> list[int]:
    """The chosen rows, the one of the highest value first."""
    order = torch.argsort(value.double(), descending=True, stable=True)
    return [index for index in order.tolist() if rows[index]]
