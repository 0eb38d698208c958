"""Figures of an evaluation: accuracy curves, the reliability diagram, the confusion matrix.

Shapes: N examples, C classes. Titles are above the axes, widths are in points.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from horst.console import visible
from horst.errors import InputError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.metrics import BINS, calibration_bins
from horst.evaluation.predictions import position_name
from horst.evaluation.report import TITLES
from horst.viz import style

NAMED = 80  # the most classes that have room for their names
SIDE, NAMES = 470.0, 240.0  # points for the matrix and for a name
DASHES: dict[str, Any] = {"top1": "-", "top5": (0, (3, 2)), "recall5": (0, (1, 1.5))}  # where a colour is a run


@style.styled
def accuracy_curve(
    evaluations: Evaluation | Mapping[str, Evaluation],
    *,
    task: str = "action",
    kinds: tuple[str, ...] | None = None,
    title: str = "",
    width: float = 560,
) -> Figure:
    """Accuracy over the observed part of a clip, or over the time before the action.

    Args:
        evaluations: One, or several of the same task by their names. Each has a colour.
        task: action, verb or noun.
        kinds: Of top1, top5 and, for anticipation, recall5; all by default.
    """
    several = evaluations if isinstance(evaluations, Mapping) else {"": evaluations}
    if not several:
        raise InputError("there is no evaluation to draw")
    first = next(iter(several.values()))
    if len({evaluation.task for evaluation in several.values()}) > 1:
        raise InputError("recognition and anticipation have different axes: draw their evaluations separately")
    recognition, alone = first.task == "recognition", len(several) == 1
    default = {"recognition": ("top1", "top5"), "detection": ("map", "mcap", "top1")}
    kinds = kinds or default.get(first.task, ("top1", "top5", "recall5"))
    figure, axes = style.new_chart(title, width=width, height=290, label=title or "accuracy")
    for number, (name, evaluation) in enumerate(several.items()):
        for order, kind in enumerate(kinds):
            keys = {place: f"{task}/{kind}@{position_name(evaluation.task, place)}" for place in evaluation.positions}
            values = {place: evaluation.metrics[key] for place, key in keys.items() if key in evaluation.metrics}
            if values:
                shares = list(values.values())
                label = f"{name} {TITLES[kind]} {100 * shares[-1]:.1f}%".strip()
                colour = style.SERIES[(order if alone else number) % len(style.SERIES)]
                (line,) = axes.plot(list(values), shares, marker="o", color=colour, label=label, clip_on=False)
                line.set_linestyle("-" if alone else DASHES[kind])
    if not axes.lines:
        raise InputError(f"no example of {first.data} has a label for the {task}, so there is no accuracy to draw")
    style.position_axis(axes, recognition=recognition)
    for order, kind in enumerate(kinds):
        if found := _reference(first, task, kind):
            what, value = found
            label = f"{what} {100 * value:.1f}%" if alone else f"{what} {TITLES[kind]} {100 * value:.1f}%"
            colour = style.SERIES[order % len(style.SERIES)] if alone else style.SERIES[5]
            axes.plot(axes.get_xlim(), [value, value], color=colour, linewidth=1.2, linestyle=(0, (3, 4)), label=label)
    style.percent_axis(axes)
    style.name_curves(axes)
    return figure


def _reference(evaluation: Evaluation, task: str, kind: str) -> tuple[str, float] | None:
    """Accuracy without a model, and its name: of the most frequent classes of training (prior), or of a guess."""
    classes = evaluation.classes.get(task)
    chance = min(1.0, int(kind.removeprefix("top")) / classes) if classes and kind in ("top1", "top5") else None
    value = evaluation.prior.get(f"{task}/{kind}", chance)
    if value is None:
        return None
    return "chance" if chance is not None and math.isclose(value, chance) else "prior", value


@style.styled
def reliability(probabilities: Any, labels: Any, *, bins: int = BINS, title: str = "", width: float = 420) -> Figure:
    """Accuracy by confidence, the expected calibration error, and a histogram of the confidence.

    Args:
        probabilities: (N, C); rows of zeros are no predictions and are left out.
        labels: (N,) true classes; -1 is unknown and left out.
        bins: Of confidence.
    """
    scores = torch.as_tensor(probabilities).double().log()
    found = calibration_bins(scores, torch.as_tensor(labels), bins)
    total, middles = sum(found.count), [(i + 0.5) / bins for i in range(bins)]
    label = f"reliability diagram, expected calibration error {100 * found.error:.1f}%"
    figure = style.new_figure(width, width + 26, label, layout="constrained")
    axes, histogram = figure.subplots(2, 1, sharex=True, height_ratios=(5, 1))
    for middle, n, sure, right in zip(middles, found.count, found.confidence, found.right, strict=True):
        if n:
            tip = f"{n} predictions, mean confidence {100 * sure / n:.1f}%, accuracy {100 * right / n:.1f}%"
            low, high = sorted((right / n, sure / n))
            colour = style.WRONG if sure > right else style.SERIES[3]
            for bar in (
                *axes.bar(middle, low, 0.86 / bins, color=style.SERIES[0], alpha=0.85),
                *axes.bar(middle, high - low, 0.86 / bins, low, color=colour, alpha=0.4),
                *histogram.bar(middle, n, 0.86 / bins, color=style.SERIES[5], alpha=0.6),
            ):
                style.add_tooltip(bar, tip)
    axes.plot([0, 1], [0, 1], color=style.SERIES[5], linewidth=1.2, linestyle=(0, (4, 4)))
    style.percent_axis(axes)
    accuracy, confidence = 100 * sum(found.right) / total, 100 * sum(found.confidence) / total
    axes.set(xlim=(0, 1), xticks=style.QUARTERS, title=title or "reliability", ylabel=f"accuracy, mean {accuracy:.1f}%")
    axes.xaxis.set_major_formatter(style.PERCENT)
    error = f"calibration error {100 * found.error:.1f}%"
    axes.set_title(error, loc="right", color=style.INK, size=11, weight="normal")
    histogram.set(yticks=[max(found.count)], xlabel=f"confidence of {total} predictions, mean {confidence:.1f}%")
    histogram.grid(visible=False)
    return figure


@style.styled
def confusion(
    labels: Any,
    predicted: Any,
    names: Sequence[str],
    *,
    order: Sequence[int] | None = None,
    pairs: int = 12,
    title: str = "",
) -> Figure:
    """Rows are true classes, columns predicted ones; opacity is the square root of the share of the row.

    Classes that neither occur nor are predicted are left out.

    Args:
        labels: (N,) true classes; -1 is unknown and left out.
        predicted: (N,) predicted classes; -1 is no prediction, which is a miss.
        names: (C,).
        order: Of the classes; by default classes that are mistaken for each other are neighbours.
        pairs: How many of the most frequent mistakes are listed.
    """
    counts, missed = count(labels, predicted, len(names))
    order = similarity_order(counts) if order is None else order
    known = {int(i) for i in np.flatnonzero(counts.sum(0) + counts.sum(1) + missed)}
    rows = [index for index in order if index in known]
    if not rows:
        raise InputError("no example has a label, so there is no confusion matrix")
    total = counts.sum(1) + missed
    shares = counts[np.ix_(rows, rows)] / np.maximum(total[rows][:, None], 1)
    image = np.empty((len(rows), len(rows), 4))
    image[..., :3] = np.where(np.eye(len(rows), dtype=bool)[..., None], to_rgb(style.SERIES[0]), to_rgb(style.WRONG))
    image[..., 3] = np.where(shares > 0, 0.12 + 0.88 * np.sqrt(shares), 0)
    named = len(rows) <= NAMED
    cell = max(8.5, min(26.0, SIDE / len(rows))) if named else SIDE / len(rows)
    shown = [style.fit(names[index], NAMES) for index in rows] if named else []
    worst = worst_pairs(counts, pairs)
    lines = [f"{np.trace(counts)} of {total.sum()} right", "rows: true class; blue: right, red: wrong", ""]
    lines.append("most frequent mistakes:" if worst else "no mistakes")
    for true, wrong, times in worst:
        mistake = style.fit(f"\N{NO-BREAK SPACE}→ {names[wrong]}", NAMES)
        lines += [style.fit(names[true], NAMES), f"{mistake}, {times} of {total[true]}"]
    left, side = 12 + max(map(style.text_width, shown), default=0), cell * len(rows)
    width = left + side + max(map(style.text_width, lines)) + 24
    height = max(side, 15.5 * len(lines)) + 50
    figure = style.new_figure(width, height, title or "confusion matrix")
    axes = figure.add_axes((left / width, 1 - (side + 26) / height, side / width, side / height), title=visible(title))
    axes.imshow(image, aspect="auto", interpolation="none")
    axes.set_yticks(range(len(shown)), shown, color=style.INK, size=min(11.0, 0.86 * cell + 1))
    axes.set_xticks([])
    axes.grid(visible=False)
    edges = np.arange(len(rows) + 1) - 0.5
    edges = edges if cell >= 8 else edges[[0, -1]]
    axes.hlines(edges, -0.5, len(rows) - 0.5, style.LINE, linewidth=1)
    axes.vlines(edges, -0.5, len(rows) - 0.5, style.LINE, linewidth=1)
    axes.set_xlabel("predicted")
    axes.text(1 + 16 / side, 1, "\n".join(lines), transform=axes.transAxes, va="top", color=style.INK)
    return figure


def count(labels: Any, predicted: Any, classes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(C, C) how often each class (row) is predicted as each (column), and (C,) how often there is no prediction."""
    true, given = (np.asarray(values, np.int64).reshape(-1) for values in (labels, predicted))
    if true.shape != given.shape:
        raise InputError(f"there are {len(true)} labels and {len(given)} predictions: one each is needed")
    if len(true) and not (min(true.min(), given.min()) >= -1 and max(true.max(), given.max()) < classes):
        raise InputError(f"labels and predictions go from -1 (unknown) to {classes - 1}; some do not")
    known = true >= 0
    both = known & (given >= 0)
    counts = np.bincount(true[both] * classes + given[both], minlength=classes**2).reshape(classes, classes)
    return counts, np.bincount(true[known & (given < 0)], minlength=classes)


def similarity_order(counts: NDArray[np.int64]) -> list[int]:
    """Classes in an order in which those that are mistaken for each other are near.

    A row starts with the class that is mistaken most. The class most similar to one of its ends is added to that end;
    if none is similar, another row starts.
    """
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    similarity = shares + shares.T
    np.fill_diagonal(similarity, 0)
    mistaken = np.argsort(-similarity.sum(1), kind="stable").tolist()
    order: list[int] = []
    for begin in mistaken:
        if begin in order:
            continue
        row = deque([begin])
        similarity[:, begin] = 0  # it is taken
        while True:
            ends = similarity[[row[-1], row[0]]]
            end, nearest = divmod(int(ends.argmax()), len(similarity))
            if ends[end, nearest] == 0:
                break
            (row.append, row.appendleft)[end](nearest)
            similarity[:, nearest] = 0
        order += row
    return order


def worst_pairs(counts: NDArray[np.int64], most: int) -> list[tuple[int, int, int]]:
    """(true, predicted, count) of the most frequent mistakes."""
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    best = np.argsort(-wrong, axis=None, kind="stable")[:most]
    return [(*divmod(i, len(counts)), int(wrong.flat[i])) for i in best.tolist() if wrong.flat[i]]
