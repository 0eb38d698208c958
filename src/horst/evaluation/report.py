"""How metrics are shown: their titles, formats of numbers and tables, and an evaluation in the terminal."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from horst.console import Console, visible
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.sequences import SAMPLES
from horst.heads import TASKS

TITLES = {
    "top1": "top-1",
    "top5": "top-5",
    "recall1": "class-mean top-1",
    "recall5": "recall@5",
    "map": "mAP",
    "mcap": "mcAP",
    "calibration": "calibration error",
}
"""Title of a metric by its kind, the part of its name between "/" and "@"."""
ACCURACIES = ("map", "mcap", "top1", "top5", "recall1", "recall5")
EDIT_DISTANCE = r"action/ed@\d+"  # of the next actions; lower is better. Shown as a fraction of 1, as the field does.
SECONDS = "time_to_action"  # the kind of metric that is in seconds. All others are fractions of 1.
MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric at every position."""

    title: str
    values: list[float | None]
    prior: float | None = None


def show(evaluation: Evaluation, console: Console | None = None) -> None:
    """Print the table and the notes."""
    console = console or Console()
    console.print(table(evaluation))
    for note in notes(evaluation):
        console.print(Text(visible(note)))


def table(evaluation: Evaluation) -> Table:
    """Percentages by position, and those of the prior."""
    title = f"{evaluation.data}, {evaluation.split}, %"
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    first = {"recognition": "observed", "detection": "seconds ahead"}.get(evaluation.task, "seconds before")
    made.add_column(first, no_wrap=True)
    for name in evaluation.position_names:
        made.add_column(name.removesuffix("s"), justify="right", no_wrap=True)
    if evaluation.prior:
        made.add_column("prior", justify="right", style="dim", no_wrap=True)
    for task in TASKS:
        found = rows(evaluation, task)
        for row in found:
            cells = [*row.values, *([row.prior] if evaluation.prior else [])]
            short = [percent(cell).replace("100.0", "100") for cell in cells]  # 11 positions fit into 80 columns
            made.add_row(row.title, *short, end_section=row is found[-1])
    return made


def notes(evaluation: Evaluation) -> list[str]:
    """Single numbers, counts, and departures from the protocol, one line each."""
    metrics, counts, protocol = evaluation.metrics, evaluation.counts, evaluation.protocol
    single = [f"area under top-1 {percent(metrics['area'])}%"] if "area" in metrics else []
    single += [f"answer decided after {percent(metrics['decided'])}% of a clip"] if "decided" in metrics else []
    single += [_edit_distance(evaluation, key) for key in metrics if re.fullmatch(EDIT_DISTANCE, key)]
    times = [f"{task} {metrics[key]:.2f} s" for task in TASKS if (key := f"{task}/time_to_action") in metrics]
    single += [f"time to action (top-5): {', '.join(times)}"] if times else []
    lines = [f"note: {notice}" for notice in evaluation.notices] + (["; ".join(single)] if single else [])
    left_out = counts.get("left_out", 0)
    what = "frames" if evaluation.task == "detection" else "examples"
    counted = f"{counts['examples']} {what}, {counts['read']} read"
    for count, what in (
        (counts["missing"] - left_out, "could not be read (misses)"),
        (left_out, "that no frame precedes (left out)"),
        (counts.get("unlabelled", 0), "without a label (left out)"),
    ):
        counted += f", {count} {what}" if count else ""
    lines.append(f"{counted}; {evaluation.seconds:.1f} s, horst {evaluation.version}")
    if "made_for" in protocol:
        lines.append(f"the clips have {_frames(protocol)}; the model was made for {_frames(protocol['made_for'])}")
    if evaluation.task != "recognition":
        leaks = f"examples that saw too much: {_by_position(protocol['leaks'])}" if protocol["leaks"] else "no leak"
        lines.append(f"protocol {protocol['mode']}: {leaks}")
    lines += [f"not measured: {name} ({why})" for name, why in evaluation.unmeasured.items()]
    if protocol.get("unobserved"):
        counted_as = "left out" if evaluation.task == "online" else "misses"
        lines.append(f"no frame observed yet ({counted_as}): {_by_position(protocol['unobserved'])}")
    return lines


def rows(evaluation: Evaluation, task: str) -> list[MetricRow]:
    """The rows of a task."""
    metrics, names, found = evaluation.metrics, evaluation.position_names, list[MetricRow]()
    for kind in ACCURACIES:
        stem = f"{task}/{kind}"
        title = TITLES[kind] if evaluation.task == "recognition" else f"{task} {TITLES[kind]}"
        if f"{stem}@{names[0]}" in metrics:
            found.append(MetricRow(title, [metrics[f"{stem}@{name}"] for name in names], evaluation.prior.get(stem)))
        subsets = {key.split("/", 2)[2] for key in metrics if key.startswith(f"{stem}@") and key.count("/") == 2}
        for subset in sorted(subsets):
            found.append(MetricRow(f"  {subset}", [metrics.get(f"{stem}@{name}/{subset}") for name in names]))
    if task == "action" and f"calibration@{names[0]}" in metrics:
        found.append(MetricRow("calibration", [metrics[f"calibration@{name}"] for name in names]))
    return found


def _edit_distance(evaluation: Evaluation, key: str) -> str:
    """Fractions of 1, as the field reports them."""
    z, prior = key.partition("@")[2], evaluation.prior
    values = f"{evaluation.metrics[key]:.3f} (most likely ones: {evaluation.metrics[f'{key}/greedy']:.3f})"
    chain = f"; training bigrams {prior[key]:.3f} ({prior[f'{key}/greedy']:.3f})" if key in prior else ""
    return f"edit distance of the next {z} actions, closest of {SAMPLES} samples: {values}{chain}"


def _frames(about: dict[str, Any]) -> str:
    return f"{about['size'][0]}x{about['size'][1]} pixels at {about['fps']:g} fps"


def _by_position(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} at {name}" for name, count in counts.items())


def metric_title(metric: str, *, action: bool = False) -> str:
    """top-1 at 25%; verb recall@5 at 1s (tail); edit distance, next 4. `action`: name the task "action" too."""
    stem, _, place = metric.partition("@")
    task, _, kind = stem.rpartition("/")
    place, _, subset = place.partition("/")
    if re.match(EDIT_DISTANCE, metric):  # here the place is a number of actions
        return f"edit distance, next {place}" + (f" ({subset})" if subset else "")
    words = [task] if task and (action or task != "action") else []
    words += [TITLES.get(kind, kind.replace("_", " ")), *(["at", place] if place else [])]
    return " ".join([*words, f"({subset})"] if subset else words)


def metric_format(metric: str) -> tuple[int, int, str]:
    """What a value is multiplied by, its decimals, and its unit."""
    if metric.endswith(SECONDS):
        return 1, 2, " s"
    return (1, 3, "") if re.match(EDIT_DISTANCE, metric) else (100, 1, "%")


def percent(value: float | None) -> str:
    """61.2 for 0.612; empty for None."""
    return "" if value is None else metric_value("", value)


def metric_value(
    metric: str, value: float, low: float | None = None, high: float | None = None, *, signed: bool = False
) -> str:
    """Per cent, seconds, or a fraction for edit distances, with the interval if there is one: 61.2 [59.0, 63.4]."""
    scale, decimals, _ = metric_format(metric)
    ends = [] if low is None or high is None else [low, high]
    texts = [f"{scale * v:{'+' if signed else ''}.{decimals}f}".replace("-", MINUS) for v in (value, *ends)]
    return f"{texts[0]} [{', '.join(texts[1:])}]" if ends else texts[0]


def value_with_unit(metric: str, value: float) -> str:
    """61.2%, 1.23 s, or 0.869 for an edit distance."""
    return metric_value(metric, value) + metric_format(metric)[2]


def markdown_row(cells: Sequence[str]) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(visible(cell, lines=False).replace("|", "\\|") for cell in cells) + " |"


def markdown_head(headers: Sequence[str]) -> list[str]:
    """The first two rows of a Markdown table: names are left-aligned, numbers right-aligned."""
    return [markdown_row(headers), markdown_row(["---", *["---:"] * (len(headers) - 1)])]
