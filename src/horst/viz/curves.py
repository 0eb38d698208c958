"""Accuracy over the observed part of a clip, or over the time before an action, of one evaluation or of several."""

from __future__ import annotations

from collections.abc import Mapping

from horst.errors import InputError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.formatting import TITLES
from horst.evaluation.predictions import position_name
from horst.viz.chart import Axis, Line, chart, percent_axis
from horst.viz.figure import Figure
from horst.viz.svg import SERIES

SHOWN = {"recognition": ("top1", "top5"), "anticipation": ("top1", "top5", "recall5")}
DASHES = {"top1": "", "top5": "6 4", "recall5": "2 3"}


def accuracy_curve(
    evaluations: Evaluation | Mapping[str, Evaluation],
    *,
    task: str = "action",
    kinds: tuple[str, ...] | None = None,
    title: str = "",
    width: float = 560,
) -> Figure:
    """How early a model knows.

    Args:
        evaluations: One, or several of the same task by their names: each has a colour.
        task: action, verb or noun.
        kinds: Of top1, top5 and, for anticipation, recall5; all by default.
        title: Above it.
        width: In pixels.
    """
    several = evaluations if isinstance(evaluations, Mapping) else {"": evaluations}
    if not several:
        raise InputError("there is no evaluation to draw")
    first = next(iter(several.values()))
    if len({evaluation.task for evaluation in several.values()}) > 1:
        raise InputError("some of the evaluations are of recognition and some of anticipation: draw them apart")
    recognition = first.task == "recognition"
    kinds = SHOWN[first.task] if kinds is None else kinds
    lines = []
    for number, (name, evaluation) in enumerate(several.items()):
        for kind in kinds:
            found = [
                (place, evaluation.metrics[key])
                for place in evaluation.positions
                if (key := f"{task}/{kind}@{position_name(evaluation.task, place)}") in evaluation.metrics
            ]
            if found:
                colour = str((number if len(several) > 1 else kinds.index(kind)) % SERIES)
                named = f"{name} {TITLES[kind]} {100 * found[-1][1]:.1f}%".strip()
                dash = DASHES[kind] if len(several) > 1 else ""
                lines.append(Line(named, found, colour, dash=dash, dots=True))
    if not lines:
        raise InputError(f"the evaluation of {first.data} has nothing to draw: no example has a {task} label")
    if recognition:
        x = Axis(0, 1, percent_axis().ticks, "observed part of the clip")
    else:
        longest = max(place for line in lines for place, _ in line.points)
        x = Axis(longest, 0, [(i / 2, f"{i / 2:g}") for i in range(int(2 * longest) + 1)], "seconds before the action")
    lines += _reference(first, task, kinds, x, alone=len(several) == 1)
    highest = max(value for line in lines for _, value in line.points)
    y = percent_axis("", 1.0 if highest > 0.55 else max(0.05, 1.1 * highest))
    return chart(lines, x, y, title=title, width=width, height=290)


def _reference(evaluation: Evaluation, task: str, kinds: tuple[str, ...], x: Axis, *, alone: bool) -> list[Line]:
    """What needs no model: the most frequent classes of training, or a guess; in the colour of the curve beside it."""
    found = []
    for kind in kinds:
        value = evaluation.prior.get(f"{task}/{kind}")
        what = "prior" if alone else f"prior {TITLES[kind]}"
        if value is None and kind != "recall5" and evaluation.classes.get(task):
            value, what = (
                min(1.0, int(kind.removeprefix("top")) / evaluation.classes[task]),
                what.replace("prior", "guess"),
            )
        if value is not None:
            colour = str(kinds.index(kind) % SERIES) if alone else "5"
            points = [(x.low, value), (x.high, value)]
            found.append(Line(f"{what} {100 * value:.1f}%", points, colour, width=1.2, dash="3 4"))
    return found
