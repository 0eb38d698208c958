"""An evaluation for people: a table, a few lines of what to know about it, and a picture of the curve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from horst.errors import InputError, MissingExtraError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.predictions import position_name
from horst.files import whole

KINDS = {"top1": "top-1", "top5": "top-5", "recall5": "recall@5"}
CURVES = {"top5": "top-5 accuracy", "recall5": "mean top-5 recall"}
TOLD = ("25%", "50%", "1s")
"""Positions that papers report: the picture has their values."""
TASKS = ("action", "verb", "noun")
COLOURS = {"top1": "#2a5caa", "top5": "#e07b39", "action": "#2a5caa", "verb": "#3a9d77", "noun": "#e07b39"}
INK, FAINT = "#2b2b2b", "#8c8c8c"


def show(evaluation: Evaluation, console: Console | None = None) -> None:
    """Print the table and the notes."""
    console = console or Console()
    console.print(table(evaluation))
    for note in notes(evaluation):
        console.print(Text(note))


def table(evaluation: Evaluation) -> Table:
    """Percentages by position, and what the prior gives."""
    names = position_names(evaluation)
    what = "observed" if evaluation.task == "recognition" else "seconds before"
    made = Table(
        title=f"{evaluation.data}, {evaluation.split}, %",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
    )
    made.add_column(what, no_wrap=True)
    for name in names:
        made.add_column(name.removesuffix("s"), justify="right", no_wrap=True)
    if evaluation.prior:
        made.add_column("prior", justify="right", style="dim", no_wrap=True)
    for task in TASKS:
        rows = _rows(evaluation, task, names)
        for title, values, prior in rows:
            last = [_percent(prior)] if evaluation.prior else []
            made.add_row(title, *map(_percent, values), *last, end_section=title == rows[-1][0])
    return made


def notes(evaluation: Evaluation) -> list[str]:
    """One line each: single numbers, counts, and what was not by the book."""
    metrics, counts, protocol = evaluation.metrics, evaluation.counts, evaluation.protocol
    found = []
    if "area" in metrics:
        found.append(f"area under top-1 {_percent(metrics['area'])}%")
    if "decided" in metrics:
        found.append(f"answer decided after {_percent(metrics['decided'])}% of a clip")
    early = [f"{task} {metrics[key]:.2f} s" for task in TASKS if (key := f"{task}/time_to_action") in metrics]
    found += [f"time to action (top-5): {', '.join(early)}"] if early else []
    lines = ["; ".join(found)] if found else []
    left_out = counts.get("left_out", 0)
    counted = f"{counts['examples']} examples, {counts['read']} read"
    for count, what in (
        (counts["missing"] - left_out, "could not be read (misses)"),
        (left_out, "that no frame precedes (left out)"),
        (counts.get("unlabelled", 0), "without a label (left out)"),
    ):
        counted += f", {count} {what}" if count else ""
    lines.append(f"{counted}; {evaluation.seconds:.1f} s, horst {evaluation.version}")
    if "made_for" in protocol:
        lines.append(
            f"the clips are shown as {_frames(protocol)}; the model was made for {_frames(protocol['made_for'])}"
        )
    if evaluation.task == "anticipation":
        leaks = ", ".join(f"{count} at {name}" for name, count in protocol["leaks"].items())
        lines.append(
            f"protocol {protocol['mode']}: " + (f"examples that saw too much: {leaks}" if leaks else "no leak")
        )
    if protocol.get("unobserved"):
        unseen = ", ".join(f"{count} at {name}" for name, count in protocol["unobserved"].items())
        lines.append(f"nothing seen yet (misses): {unseen}")
    return lines


def position_names(evaluation: Evaluation) -> list[str]:
    return [position_name(evaluation.task, position) for position in _positions(evaluation)]


def plot(evaluation: Evaluation, path: str | Path) -> None:
    """A PNG of accuracy over the observed fraction, or over the time before the action; dashed: the prior."""
    figure_class = _figure_class()
    recognition = evaluation.task == "recognition"
    figure = figure_class(figsize=(6.6, 4.2) if recognition else (9.8, 4.2), dpi=160, layout="constrained")
    counted = evaluation.counts["examples"] - evaluation.counts.get("left_out", 0)
    title = f"{evaluation.data}, {evaluation.split}: {counted:,} examples"
    figure.suptitle(title, x=0.015, ha="left", fontsize=10.5, color=INK, weight="bold")
    known = "prior: most frequent classes" if evaluation.prior else "chance"
    figure.text(0.985, 0.985, f"dashed: {known}", ha="right", va="top", fontsize=8.5, color=FAINT)
    if recognition:
        axis = figure.subplots()
        ends = [_curve(axis, evaluation, "action", kind, kind) for kind in ("top1", "top5")]
        _dress(axis, evaluation, "accuracy", ends)
    else:
        for axis, (kind, what) in zip(figure.subplots(1, 2), CURVES.items(), strict=True):
            _dress(axis, evaluation, what, [_curve(axis, evaluation, task, kind, task) for task in TASKS])
    with whole(Path(path)) as partial:
        figure.savefig(partial, format="png")


def _rows(evaluation: Evaluation, task: str, names: list[str]) -> list[tuple[str, list[float | None], float | None]]:
    """(title, values by position, prior) of a task's rows."""
    metrics = evaluation.metrics
    rows: list[tuple[str, list[float | None], float | None]] = []
    for kind, title in KINDS.items():
        stem = f"{task}/{kind}"
        title = title if evaluation.task == "recognition" else f"{task} {title}"
        subsets = sorted(
            {key.split("/", 2)[2] for key in metrics if key.startswith(f"{stem}@") and key.count("/") == 2}
        )
        if f"{stem}@{names[0]}" in metrics:
            rows.append((title, [metrics[f"{stem}@{name}"] for name in names], evaluation.prior.get(stem)))
        for subset in subsets:
            rows.append((f"  {subset}", [metrics.get(f"{stem}@{name}/{subset}") for name in names], None))
    if task == "action" and f"calibration@{names[0]}" in metrics:
        rows.append(("calibration", [metrics[f"calibration@{name}"] for name in names], None))
    return rows


def _frames(about: dict[str, Any]) -> str:
    return f"{about['size'][0]}x{about['size'][1]} at {about['fps']:g} frames a second"


def _positions(evaluation: Evaluation) -> list[float]:
    return evaluation.protocol["fractions" if evaluation.task == "recognition" else "taus"]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _curve(axis: Any, evaluation: Evaluation, task: str, kind: str, line: str) -> tuple[str, str, float] | None:
    """Draw one line, and its prior dashed; its name, colour and last value. None where there is nothing to draw."""
    names = position_names(evaluation)
    if f"{task}/{kind}@{names[0]}" not in evaluation.metrics:
        return None
    x = _places(evaluation)
    y = [100 * evaluation.metrics[f"{task}/{kind}@{name}"] for name in names]
    colour = COLOURS[line]
    axis.plot(x, y, color=colour, marker="o", markersize=4, linewidth=2, clip_on=False, zorder=3)
    for place, value, name in zip(x[:-1], y[:-1], names[:-1], strict=True):
        if name in TOLD:
            axis.annotate(
                f"{value:.1f}", (place, value), (0, 6), textcoords="offset points", ha="right", color=colour, fontsize=8
            )
    prior = evaluation.prior.get(f"{task}/{kind}")
    if prior is None and kind != "recall5" and task in evaluation.classes:
        prior = min(1.0, int(kind.removeprefix("top")) / evaluation.classes[task])
    if prior is not None:
        axis.axhline(100 * prior, color=colour, linewidth=1.2, linestyle=(0, (4, 3)), alpha=0.55, zorder=2)
    return f"{KINDS.get(line, line)} {y[-1]:.1f}", colour, y[-1]


def _dress(axis: Any, evaluation: Evaluation, what: str, ends: list[tuple[str, str, float] | None]) -> None:
    """Names at the ends of lines, labels, limits and a quiet grid."""
    drawn = sorted((end for end in ends if end is not None), key=lambda end: end[2])
    if not drawn:
        raise InputError(f"the evaluation of {evaluation.data} has nothing to draw: no example has a label")
    x = _places(evaluation)
    if evaluation.task == "recognition":
        axis.set_xlim(0, 100)
        axis.set_xticks(range(0, 101, 10))
        axis.set_xlabel("% of the clip observed", color=INK)
    else:
        pad = 0.06 * (x[0] - x[-1]) or 0.1
        axis.set_xlim(x[0] + pad, x[-1] - pad)
        axis.set_xticks(x, [f"{tau:g}" for tau in x])
        axis.set_xlabel("seconds before the action", color=INK)
    top = min(100, max(10, 1.15 * axis.dataLim.y1))
    axis.set_ylim(0, top)
    axis.set_ylabel(f"{what}, %", color=INK)
    height = -top
    for name, colour, value in drawn:
        height = max(value, height + 0.055 * top)  # names of close lines stand above each other
        axis.annotate(
            name, (x[-1], height), (9, 0), textcoords="offset points", va="center", color=colour, fontsize=9,
            weight="bold", annotation_clip=False,
        )  # fmt: skip
    axis.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(colors=FAINT, labelsize=9, length=0)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.spines["bottom"].set_color("#c8c8c8")


def _places(evaluation: Evaluation) -> list[float]:
    """Of the positions on the x axis: percentages, or seconds."""
    return [(100 if evaluation.task == "recognition" else 1) * position for position in _positions(evaluation)]


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("pictures need matplotlib: pip install 'horst[plot]'") from error
    return Figure
