"""The part of `horst demo` that recognises early: the package's model on fresh clips, all of them and some in full."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

from horst.console import Console, visible
from horst.data.example import Annotations
from horst.evaluation.evaluate import predict_and_evaluate
from horst.evaluation.predictions import Predictions
from horst.evaluation.report import show
from horst.models import open_model
from horst.synth.fresh import fresh_somethings
from horst.viz.evaluated import accuracy_section
from horst.viz.page import section
from horst.viz.streamed import Streamed, clip_section, stream

AT = (0.25, 0.5, 1.0)
"""Observed parts at which answers are printed."""
PAIRS = 3
"""Of actions that are mistaken for each other."""


def somethings(folder: Path, clips: int, seed: int, streams: int, console: Console) -> list[str]:
    """Print what the model makes of fresh clips; sections for the page."""
    model, fresh = open_model("somethings"), fresh_somethings(folder, clips, seed)
    names = fresh.annotations.classes["action"]
    predictions, evaluation = predict_and_evaluate(model, fresh)
    show(evaluation, console)
    for part in AT:
        if pairs := _mistaken(predictions, names, part):
            console.print(f"mistaken most often after {100 * part:g}%: {'; '.join(pairs)}", highlight=False)
    streamed = [stream(model, fresh, "val", index) for index in _chosen(fresh.annotations.split("val"), streams)]
    console.print(_answers(streamed, names))
    cards = (clip_section(clip, (len(clip.frames) // 2,)) for clip in streamed)
    intro = "What the model holds likely at each frame; and, half way through, where it looks."
    unseen = " that the model has never seen"
    return [accuracy_section(evaluation, unseen), section("Clips, streamed frame by frame", intro, *cards)]


def _mistaken(predictions: Predictions, names: tuple[str, ...], part: float) -> list[str]:
    """What is done and what is said instead: the pairs that occur most often, and more than once."""
    labels = predictions.labels["action"].tolist()
    said = predictions.scores["action"][:, predictions.positions.index(part)].argmax(-1).tolist()
    wrong = Counter((a, b) for a, b in zip(labels, said, strict=True) if a != b)
    return [f"{names[a]} → {names[b]} ({n})" for (a, b), n in wrong.most_common(PAIRS) if n > 1]


def _chosen(annotations: Annotations, count: int) -> list[int]:
    """Clips of different actions."""
    first = {example.labels["action"]: index for index, example in reversed(list(enumerate(annotations.examples)))}
    return list(first.values())[:count]


def _answers(streamed: list[Streamed], names: tuple[str, ...]) -> Table:
    table = Table(title="Streams, frame by frame", title_justify="left")
    table.add_column("what is done")
    for part in AT:
        table.add_column(f"said after {100 * part:g}%")
    for clip in streamed:
        cells = []
        for part in AT:
            at = clip.probabilities[max(1, int(np.ceil(part * len(clip.frames)))) - 1]
            colour = "green" if at.argmax() == clip.label else "red"
            cells.append(Text.assemble((visible(names[int(at.argmax())]), colour), f" {100 * at.max():.0f}%"))
        table.add_row("" if clip.label is None else names[clip.label], *cells)
    return table
