"""Parts of a page about an evaluation: how early, what for what, how sure."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from horst.evaluation.evaluate import Evaluation
from horst.evaluation.formatting import percent
from horst.evaluation.metrics import probabilities
from horst.evaluation.predictions import Predictions, position_name
from horst.evaluation.report import notes, rows
from horst.heads.logits import TASKS
from horst.viz.calibration import reliability
from horst.viz.curves import accuracy_curve
from horst.viz.matrix import confusion, count, similarity_order
from horst.viz.page import row, section, table, tabs, tiles

MISTAKES = {"recognition": (0.25, 0.5, 1.0), "anticipation": (1.0,)}
SURENESS = {"recognition": (0.25, 0.5, 1.0), "anticipation": (2.0, 1.0, 0.25)}
"""Positions that are looked at."""


def headline(evaluation: Evaluation) -> str:
    """The numbers that people ask for first."""
    found: dict[str, str] = {}
    if evaluation.task == "recognition":
        named = {f"action/top1@{part}%": f"right after {part}% of a clip" for part in (25, 50, 100)}
        named |= {"area": "right on average over the clip", "decided": "of a clip until the answer stays"}
    else:
        named = {
            "action/top1@1s": "first guess is right, 1 s before",
            "action/top5@1s": "among five guesses, 1 s before",
        }
        named |= {"action/recall5@1s": "mean recall at 5, 1 s before"}
    found |= {what: f"{percent(evaluation.metrics[key])}%" for key, what in named.items() if key in evaluation.metrics}
    if "action/time_to_action" in evaluation.metrics:
        found["before an action it is among five guesses"] = f"{evaluation.metrics['action/time_to_action']:.2f} s"
    return tiles(found)


def accuracy_section(evaluation: Evaluation, data: str = "") -> str:
    """The curve, the table and the notes. `data` says what the clips are."""
    recognition = evaluation.task == "recognition"
    names, told = evaluation.position_names, [task for task in TASKS if rows(evaluation, task)]
    alone = len(told) < 2
    figures = [
        accuracy_curve(evaluation, task=task, title="" if alone else task, width=510 if alone else 334) for task in told
    ]
    prior = ["prior"] if evaluation.prior else []
    cells = [
        [found.title, *map(percent, [*found.values, *([found.prior] if prior else [])])]
        for task in told
        for found in rows(evaluation, task)
    ]
    what = "clips" if recognition else f"actions of {evaluation.classes['action']} kinds"
    intro = f"{evaluation.counts['examples']} {what}{data}. " + (
        "What the model says when it has seen a part of a clip."
        if recognition
        else "What the model says of each of them some time before it starts."
    )
    head = ["observed" if recognition else "before", *(name.replace("s", " s") for name in names), *prior]
    title = "How much of a clip it takes" if recognition else "How long before an action it is known"
    told_too = f"<p class=soft>{'<br>'.join(notes(evaluation))}</p>"
    return section(title, intro, row(*figures) if figures else "", table(head, cells), told_too)


def mistakes_section(predictions: Predictions, names: tuple[str, ...]) -> str:
    """Confusions at the positions that papers report."""
    labels, parts = predictions.labels["action"], {}
    order = None
    places = _there(predictions, MISTAKES)
    for position in places:
        answers = _answers(predictions, position)
        if order is None:  # one order for all, that of the first, where most mistakes are made
            order = similarity_order(count(labels, answers, len(names))[0])
        parts[_name(predictions, position)] = confusion(labels, answers, names, order=order).inline()
    intro = "Classes that are taken for each other are neighbours."
    body = tabs("confusion", parts) if len(parts) > 1 else "".join(parts.values())
    return section(f"What is taken for what{_only(predictions, places)}", intro, body)


def sureness_section(predictions: Predictions) -> str:
    """Reliability diagrams at the same positions."""
    labels = predictions.labels["action"]
    figures = []
    places = _there(predictions, SURENESS)
    for position in places:
        scores = predictions.scores["action"][:, predictions.positions.index(position)]
        if ((labels >= 0) & (scores > -torch.inf).any(-1)).any():
            chances = probabilities(scores.double())
            figures.append(reliability(chances, labels, title=_name(predictions, position), width=334))
    intro = (
        "Of the answers that the model gives with 70%, seven of ten should be right. The calibration error is how far "
        "the bars are from the diagonal, weighted by how many answers each has. Red: too sure; cyan: too modest."
    )
    return section(f"How sure it is{_only(predictions, places)}", intro, row(*figures))


def _there(predictions: Predictions, places: Mapping[str, tuple[float, ...]]) -> list[float]:
    """Those of the positions that there are; else the last."""
    wanted = places[predictions.task]
    return [place for place in predictions.positions if place in wanted] or [predictions.positions[-1]]


def _answers(predictions: Predictions, position: float) -> torch.Tensor:
    """(N,) -1 where nothing was said."""
    scores = predictions.scores["action"][:, predictions.positions.index(position)]
    return scores.argmax(-1).masked_fill(~(scores > -torch.inf).any(-1), -1)


def _name(predictions: Predictions, position: float) -> str:
    name = position_name(predictions.task, position)
    return f"{name} observed" if predictions.task == "recognition" else f"{name[:-1]} s before"


def _only(predictions: Predictions, places: list[float]) -> str:
    """The name of the one position, where there is one."""
    return f", {_name(predictions, places[0])}" if len(places) == 1 else ""
