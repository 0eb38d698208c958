"""An evaluation for people: a table, and a few lines of what to know about it. `horst.viz` draws it."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from horst.console import Console, visible
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.predictions import position_name

KINDS = {"top1": "top-1", "top5": "top-5", "recall5": "recall@5"}
TASKS = ("action", "verb", "noun")


def show(evaluation: Evaluation, console: Console | None = None) -> None:
    """Print the table and the notes."""
    console = console or Console()
    console.print(table(evaluation))
    for note in notes(evaluation):
        console.print(Text(visible(note)))


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
        found = rows(evaluation, task)
        for title, values, prior in found:
            last = [percent(prior)] if evaluation.prior else []
            made.add_row(title, *map(percent, values), *last, end_section=title == found[-1][0])
    return made


def notes(evaluation: Evaluation) -> list[str]:
    """One line each: single numbers, counts, and what was not by the book."""
    metrics, counts, protocol = evaluation.metrics, evaluation.counts, evaluation.protocol
    found = []
    if "area" in metrics:
        found.append(f"area under top-1 {percent(metrics['area'])}%")
    if "decided" in metrics:
        found.append(f"answer decided after {percent(metrics['decided'])}% of a clip")
    early = [f"{task} {metrics[key]:.2f} s" for task in TASKS if (key := f"{task}/time_to_action") in metrics]
    found += [f"time to action (top-5): {', '.join(early)}"] if early else []
    lines = [f"note: {notice}" for notice in evaluation.notices] + (["; ".join(found)] if found else [])
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
    lines += [f"not measured: {name} ({why})" for name, why in evaluation.unmeasured.items()]
    if protocol.get("unobserved"):
        unseen = ", ".join(f"{count} at {name}" for name, count in protocol["unobserved"].items())
        lines.append(f"nothing seen yet (misses): {unseen}")
    return lines


def position_names(evaluation: Evaluation) -> list[str]:
    return [position_name(evaluation.task, position) for position in _positions(evaluation)]


def rows(evaluation: Evaluation, task: str) -> list[tuple[str, list[float | None], float | None]]:
    """(title, values by position, prior) of a task's rows."""
    metrics, names = evaluation.metrics, position_names(evaluation)
    found: list[tuple[str, list[float | None], float | None]] = []
    for kind, title in KINDS.items():
        stem = f"{task}/{kind}"
        title = title if evaluation.task == "recognition" else f"{task} {title}"
        subsets = sorted(
            {key.split("/", 2)[2] for key in metrics if key.startswith(f"{stem}@") and key.count("/") == 2}
        )
        if f"{stem}@{names[0]}" in metrics:
            found.append((title, [metrics[f"{stem}@{name}"] for name in names], evaluation.prior.get(stem)))
        for subset in subsets:
            found.append((f"  {subset}", [metrics.get(f"{stem}@{name}/{subset}") for name in names], None))
    if task == "action" and f"calibration@{names[0]}" in metrics:
        found.append(("calibration", [metrics[f"calibration@{name}"] for name in names], None))
    return found


def _frames(about: dict[str, Any]) -> str:
    return f"{about['size'][0]}x{about['size'][1]} at {about['fps']:g} frames a second"


def _positions(evaluation: Evaluation) -> list[float]:
    return evaluation.protocol["fractions" if evaluation.task == "recognition" else "taus"]


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"
