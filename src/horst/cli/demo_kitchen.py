"""The part of `horst demo` that anticipates: the package's model on fresh videos of a cook, before every action."""

from __future__ import annotations

from pathlib import Path

import torch
from rich.table import Table
from rich.text import Text

from horst.console import Console, visible
from horst.evaluation.evaluate import predict_and_evaluate
from horst.evaluation.predictions import Predictions
from horst.evaluation.report import show
from horst.models import open_model
from horst.synth.fresh import Fresh, fresh_kitchen
from horst.viz.anticipation import ANSWERS, Moment, moments_section
from horst.viz.evaluated import accuracy_section

TAU = 1.0
"""Seconds before an action at which the answers are shown."""
MOMENTS = 8
"""Actions of the first video that are shown."""
PRINTED = 3
"""Answers that fit into a terminal; the page has all."""


def kitchen(folder: Path, videos: int, seed: int, console: Console) -> list[str]:
    """Print what the model makes of fresh videos; sections for the page."""
    model = open_model("kitchen")
    fresh = fresh_kitchen(folder, videos, seed, model.size)
    predictions, evaluation = predict_and_evaluate(model, fresh)
    show(evaluation, console)
    moments, names = _moments(fresh, predictions), fresh.annotations.classes["action"]
    console.print(_table(moments, names))
    unseen = ", in videos that the model has never seen"
    return [accuracy_section(evaluation, unseen), moments_section(moments, names, TAU)]


def _moments(fresh: Fresh, predictions: Predictions) -> list[Moment]:
    """The first actions of the first video, in their order, each with the last frame that was seen."""
    examples = fresh.annotations.split("val").examples
    clip, column = fresh.data.clip, predictions.positions.index(TAU)
    found = []
    for row, example in enumerate(examples):
        scores = predictions.scores["action"][row, column].double()
        if example.video == examples[0].video and scores.isfinite().all():  # else nothing was seen yet
            image = fresh.clip(example, clip).frames[clip.steps - round(TAU / clip.stride)]
            found.append(Moment(example.start, example.labels["action"], image, torch.softmax(scores, -1).numpy()))
    return sorted(found, key=lambda moment: moment.start)[:MOMENTS]


def _table(moments: list[Moment], names: tuple[str, ...]) -> Table:
    table = Table(title=f"What was said {TAU:g} s before each action", title_justify="left")
    table.add_column("at", justify="right")
    table.add_column("what came")
    table.add_column("the likeliest by then")
    table.add_column("place", justify="right")
    for moment in moments:
        place = moment.place
        colour = "green" if place <= ANSWERS else "red"
        answers = [Text(visible(names[i]), "green" if i == moment.label else "") for i in moment.answers()[:PRINTED]]
        cells = f"{moment.start:.1f} s", names[moment.label], Text(", ").join(answers)
        table.add_row(*cells, Text(str(place), colour))
    return table
