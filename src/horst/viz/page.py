"""The page that a demo leaves: how often the model is right, and how its answers grow while a clip unfolds."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures

from horst.evaluation.evaluate import Evaluation
from horst.viz.svg import Line, chart

SHOWN = 8
"""Frames of a clip on the page."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """A clip as a model saw it, frame by frame."""

    name: str
    """What is really done in it."""
    label: int
    frames: Sequence[NDArray[np.uint8]]
    probabilities: NDArray[np.float64]
    """(frames, classes)"""


def page(title: str, intro: str, sections: Sequence[str]) -> str:
    """A whole HTML page of parts that are HTML already."""
    style = (files("horst") / "assets" / "page.css").read_text(encoding="utf-8")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = f"<h1>{escape(title)}</h1><p class=soft>{escape(intro)}</p>" + "".join(sections)
    return f"<!doctype html><html lang=en><head>{head}<style>{style}</style></head><body>{body}</body></html>\n"


def curve_section(evaluation: Evaluation) -> str:
    """Accuracy over the observed part of a clip, as a chart and a table."""
    fractions = evaluation.protocol["fractions"]
    metrics = evaluation.metrics
    rows = {k: [metrics[f"action/top{k}@{100 * f:g}%"] for f in fractions] for k in (1, 5)}
    lines = [
        Line("the true action is the first guess", list(zip(fractions, rows[1], strict=True))),
        Line("it is among the first five", list(zip(fractions, rows[5], strict=True)), "#f59e0b"),
    ]
    chance = 1 / evaluation.classes["action"]
    lines.append(Line("guessing", [(0, chance), (1, chance)], "#9ca3af", dashed=True))
    head = "".join(f"<th>{100 * f:g}%</th>" for f in fractions)
    cells = "".join(
        f"<tr><td>top-{k}</td>{''.join(f'<td>{100 * v:.1f}</td>' for v in values)}</tr>" for k, values in rows.items()
    )
    count = evaluation.counts["examples"]
    return (
        f"<h2>How much of a clip it takes</h2><p class=soft>{count} clips that the model has never seen.</p>"
        f"{chart(lines, x_name='observed part of the clip')}"
        f"<table><tr><th>observed</th>{head}</tr>{cells}</table>"
    )


def clip_section(clip: Streamed, names: Sequence[str]) -> str:
    """Frames with the answer at each, and how likely the model held the true action over time."""
    count = len(clip.frames)
    shown = np.unique(np.linspace(0, count - 1, SHOWN).round().astype(int))
    figures = []
    for i in shown:
        answer = int(clip.probabilities[i].argmax())
        mark = "right" if answer == clip.label else "wrong"
        sure = f"{100 * clip.probabilities[i, answer]:.0f}%"
        figures.append(
            f'<figure><img alt="" src="{picture(clip.frames[i])}"><figcaption class={mark}><b>{sure} after '
            f"{100 * (i + 1) / count:.0f}%</b>{escape(names[answer])}</figcaption></figure>"
        )
    places = [(i + 1) / count for i in range(count)]
    rival = int(np.argmax(np.where(np.arange(len(names)) == clip.label, 0, clip.probabilities.mean(0))))
    lines = [
        Line(names[clip.label], list(zip(places, clip.probabilities[:, clip.label], strict=True)), "#16a34a"),
        Line(names[rival], list(zip(places, clip.probabilities[:, rival], strict=True)), "#dc2626"),
    ]
    return (
        f"<div class=card><b>{escape(clip.name)}</b><div class=strip>{''.join(figures)}</div>"
        f"{chart(lines, height=180, x_name='observed part of the clip')}</div>"
    )


def picture(image: NDArray[np.uint8]) -> str:
    """A frame as a data address."""
    buffer = io.BytesIO()
    Pictures.fromarray(image).save(buffer, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
