"""The kinds of examples that tools/draw_examples.py draws, each a rule: they were named with the clips in view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PARTS, TAUS = (0.25, 0.5, 1.0), (2.0, 1.0, 0.5, 0.25)
"""Where answers are told: observed parts, and seconds before the action."""
POSITIONS = {"somethings": PARTS, "kitchen": TAUS}

Ranks = dict[float, int]
"""By position: the place of the true action among the answers, 1 is the first."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What an example is an example of."""

    name: str
    """Of its picture too."""
    rule: str
    """In words, and below in code."""
    holds: Callable[[Ranks], bool]
    at: float
    """The position at which its attention is shown."""
    looks: Callable[[NDArray[np.float64]], bool] = lambda weights: True
    """What must hold of its temporal weights (S,) there, the oldest state first."""


def _right(*positions: float, of: tuple[float, ...]) -> Callable[[Ranks], bool]:
    """Right at these positions, and wrong at the others that are told."""
    return lambda ranks: all((ranks[position] == 1) == (position in positions) for position in of)


def _always(first: float) -> Callable[[Ranks], bool]:
    """Right at this observed part and at all later ones."""
    return lambda ranks: all(rank == 1 for position, rank in ranks.items() if position >= first)


SOMETHINGS = (
    Kind("early", "right at 25% and at every later position", _always(0.25), 0.5),
    Kind("late", "wrong at 25%, right at 50% and 100%", _right(0.5, 1.0, of=PARTS), 0.5),
    Kind("end", "wrong at 25% and 50%, right at 100%", _right(1.0, of=PARTS), 1.0),
    Kind(
        "back",
        "right at 100%, where more than half of the attention is on the two oldest of the eight states",
        lambda ranks: ranks[1.0] == 1,
        1.0,
        lambda weights: bool(weights[:2].sum() > 0.5),
    ),
    Kind("lost", "right at 50%, wrong at 100%", lambda ranks: ranks[0.5] == 1 and ranks[1.0] > 1, 1.0),
    Kind("wrong", "wrong at 25%, 50% and 100%", _right(of=PARTS), 1.0),
)
KITCHEN = (
    Kind("early", "right at 2 s and at every later position", lambda ranks: set(ranks.values()) == {1}, 1.0),
    Kind("late", "wrong at 2 s and 1 s, right at 0.5 s and 0.25 s", _right(0.5, 0.25, of=TAUS), 0.25),
    Kind(
        "recent",
        "right at 1 s, where more than half of the attention is on the two latest of the eight states",
        lambda ranks: ranks[1.0] == 1,
        1.0,
        lambda weights: bool(weights[-2:].sum() > 0.5),
    ),
    Kind("lost", "right at 1 s, wrong at 0.25 s", lambda ranks: ranks[1.0] == 1 and ranks[0.25] > 1, 0.25),
    Kind(
        "second",
        "the second guess at 1 s, and right at none of 2, 1, 0.5 and 0.25 s",
        lambda ranks: ranks[1.0] == 2 and _right(of=TAUS)(ranks),
        1.0,
    ),
    Kind("wrong", "not among the five likeliest at any position", lambda ranks: min(ranks.values()) > 5, 1.0),
)
KINDS = {"somethings": SOMETHINGS, "kitchen": KITCHEN}
