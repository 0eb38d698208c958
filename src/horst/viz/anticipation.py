"""The part of a page about moments before actions: what a model had seen, what it expected, and what came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from horst.viz.figure import escape
from horst.viz.picture import picture

ANSWERS = 5
"""An action that is among so many counts as foreseen."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a model said before an action."""

    start: float
    """Seconds into the video at which the action starts."""
    label: int
    image: NDArray[np.uint8]
    """The last frame that the model had seen."""
    probabilities: NDArray[np.float64]
    """(classes,)"""

    @property
    def place(self) -> int:
        """Of what came, among the answers: 1 is the first."""
        return 1 + int((self.probabilities > self.probabilities[self.label]).sum())

    def answers(self) -> list[int]:
        """The likeliest classes, the first one first."""
        return np.argsort(-self.probabilities, kind="stable")[:ANSWERS].tolist()


def moments_section(moments: Sequence[Moment], names: Sequence[str], tau: float) -> str:
    """Frames before actions, with what came and what was expected."""
    figures = []
    for moment in moments:
        said = "<br>".join(_answer(names[i], moment.probabilities[i], i == moment.label) for i in moment.answers())
        mark = "right" if moment.place <= ANSWERS else "wrong"
        figures.append(
            f'<figure><img alt="" src="{picture(moment.image)}"><figcaption><b class={mark}>{moment.start:.1f} s: '
            f"{escape(names[moment.label])}</b>{said}</figcaption></figure>"
        )
    return (
        f"<h2>What it expects {tau:g} s before</h2><p class=soft>The first actions of a video: the last frame that the "
        "model has seen, in bold when what came (green: among its five likeliest), and the five.</p>"
        f"<div class=card><div class=strip>{''.join(figures)}</div></div>"
    )


def _answer(name: str, chance: float, right: bool) -> str:
    text = f"{escape(name)} {100 * chance:.0f}%"
    return f"<span class=right>{text}</span>" if right else text
