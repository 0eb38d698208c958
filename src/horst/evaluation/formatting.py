"""Titles of metrics and formats of numbers, for every table, page and plot."""

from collections.abc import Sequence

from horst.console import visible

TITLES = {"top1": "top-1", "top5": "top-5", "recall5": "recall@5", "calibration": "calibration error"}
"""Title of a metric by its kind, the part of its name between "/" and "@"."""
ACCURACIES = ("top1", "top5", "recall5")
SECONDS = "time_to_action"  # the kind of metric that is in seconds. All others are fractions of 1.
MINUS = "\N{MINUS SIGN}"


def metric_title(metric: str, *, action: bool = False) -> str:
    """top-1 at 25%; verb recall@5 at 1s (tail). `action`: name the task "action" too."""
    stem, _, place = metric.partition("@")
    task, _, kind = stem.rpartition("/")
    place, _, subset = place.partition("/")
    words = [task] if task and (action or task != "action") else []
    words += [TITLES.get(kind, kind.replace("_", " ")), *(["at", place] if place else [])]
    return " ".join([*words, f"({subset})"] if subset else words)


def percent(value: float | None, decimals: int = 1, *, signed: bool = False) -> str:
    """61.2 for 0.612; empty for None."""
    return "" if value is None else number(100 * value, decimals, signed=signed)


def number(value: float, decimals: int, *, signed: bool = False) -> str:
    return f"{value:{'+' if signed else ''}.{decimals}f}".replace("-", MINUS)


def metric_value(
    metric: str, value: float, low: float | None = None, high: float | None = None, *, signed: bool = False
) -> str:
    """Per cent, or seconds with two decimals, with the interval if there is one: 61.2 [59.0, 63.4]."""
    scale, decimals = (1, 2) if metric.endswith(SECONDS) else (100, 1)
    ends = [] if low is None or high is None else [low, high]
    value_text, *end_texts = (number(scale * v, decimals, signed=signed) for v in (value, *ends))
    return f"{value_text} [{', '.join(end_texts)}]" if end_texts else value_text


def markdown_row(cells: Sequence[str]) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(visible(cell, lines=False).replace("|", "\\|") for cell in cells) + " |"


def markdown_head(headers: Sequence[str]) -> list[str]:
    """The first two rows of a Markdown table: names are left-aligned, numbers right-aligned."""
    return [markdown_row(headers), markdown_row(["---", *["---:"] * (len(headers) - 1)])]
