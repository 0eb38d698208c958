"""Accuracy over the observed part of a clip or over the time before an action, and the reliability diagram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.figure import Figure

from horst.errors import InputError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.formatting import TITLES
from horst.evaluation.metrics import BINS, calibration_bins
from horst.evaluation.predictions import position_name
from horst.viz import style

DASHES: dict[str, Any] = {"top1": "-", "top5": (0, (3, 2)), "recall5": (0, (1, 1.5))}
"""Line styles where a colour stands for a run."""


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
        title: Above the axes.
        width: In points.
    """
    several = evaluations if isinstance(evaluations, Mapping) else {"": evaluations}
    if not several:
        raise InputError("there is no evaluation to draw")
    first = next(iter(several.values()))
    if len({evaluation.task for evaluation in several.values()}) > 1:
        raise InputError("recognition and anticipation have different axes: draw their evaluations separately")
    recognition, alone = first.task == "recognition", len(several) == 1
    kinds = kinds or (("top1", "top5") if recognition else ("top1", "top5", "recall5"))
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
        if (value := _reference(first, task, kind)) is not None:
            what = "prior" if f"{task}/{kind}" in first.prior else "guess"
            label = f"{what} {100 * value:.1f}%" if alone else f"{what} {TITLES[kind]} {100 * value:.1f}%"
            colour = style.SERIES[order % len(style.SERIES)] if alone else style.SERIES[5]
            axes.plot(axes.get_xlim(), [value, value], color=colour, linewidth=1.2, linestyle=(0, (3, 4)), label=label)
    style.percent_axis(axes)
    style.name_curves(axes)
    return figure


def _reference(evaluation: Evaluation, task: str, kind: str) -> float | None:
    """Accuracy without a model: of the most frequent classes of training, or of a guess."""
    if f"{task}/{kind}" in evaluation.prior:
        return evaluation.prior[f"{task}/{kind}"]
    if kind == "recall5" or not evaluation.classes.get(task):
        return None
    return min(1.0, int(kind.removeprefix("top")) / evaluation.classes[task])


@style.styled
def reliability(probabilities: Any, labels: Any, *, bins: int = BINS, title: str = "", width: float = 420) -> Figure:
    """Accuracy by confidence, the expected calibration error, and a histogram of the confidence.

    Args:
        probabilities: (N, C); rows of zeros are no predictions and are left out.
        labels: (N,) true classes; -1 is unknown and left out.
        bins: Of confidence.
        title: Above the axes.
        width: In points.
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
    axes.set_title(f"calibration error {100 * found.error:.1f}%", loc="right", color=style.INK, size=11, weight=400)
    histogram.set(yticks=[max(found.count)], xlabel=f"confidence of {total} predictions, mean {confidence:.1f}%")
    histogram.grid(visible=False)
    return figure
