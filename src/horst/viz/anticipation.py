"""Parts of the page about anticipation: how often the next action is known how early, and what was said of some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from horst.evaluation.evaluate import Evaluation
from horst.viz.page import picture
from horst.viz.svg import Line, chart

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


def anticipation_section(evaluation: Evaluation) -> str:
    """Accuracy over the time before an action, as a chart and a table."""
    taus, metrics, prior = evaluation.protocol["taus"], evaluation.metrics, evaluation.prior
    longest = max(taus)
    places = [1 - tau / longest for tau in taus]
    rows = {k: [metrics[f"action/top{k}@{tau:g}s"] for tau in taus] for k in (1, 5)}
    lines = [
        Line("the action that comes is the first guess", list(zip(places, rows[1], strict=True))),
        Line("it is among the first five", list(zip(places, rows[5], strict=True)), "#f59e0b"),
    ]
    if prior:
        always = [(x, prior["action/top5"]) for x in (0.0, 1.0)]
        lines.append(Line("the five most frequent actions, always", always, "#9ca3af", dashed=True))
    head = "".join(f"<th>{tau:g} s</th>" for tau in taus) + ("<th>prior</th>" if prior else "")
    cells = ""
    for k, values in rows.items():
        known = [*values, *([prior[f"action/top{k}"]] if prior else [])]
        cells += f"<tr><td>top-{k}</td>{''.join(f'<td>{100 * value:.1f}</td>' for value in known)}</tr>"
    ticks = [(1 - tau / longest, f"{tau:g} s") for tau in (*taus[::2], 0.0)]
    count, classes = evaluation.counts["examples"], evaluation.classes["action"]
    return (
        f"<h2>How long before an action it is known</h2><p class=soft>{count} actions of {classes} kinds, in videos "
        "that the model has never seen, each predicted from what came before it.</p>"
        f"{chart(lines, x_name='time before the action', x_ticks=ticks)}"
        f"<table><tr><th>before</th>{head}</tr>{cells}</table>"
    )


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
        f"<div class=card><div class='strip wide'>{''.join(figures)}</div></div>"
    )


def _answer(name: str, chance: float, right: bool) -> str:
    text = f"{escape(name)} {100 * chance:.0f}%"
    return f"<span class=right>{text}</span>" if right else text
