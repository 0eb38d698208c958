"""Parts of a page about a run: what it is, and how it learnt."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

from horst.errors import DataError
from horst.models import Predictor
from horst.training.run import Run
from horst.viz.chart import Axis, Line, chart, number_axis, percent_axis
from horst.viz.figure import Figure, escape
from horst.viz.page import facts, row, section

CURVES = {
    "recognition": ("action/top1@25%", "action/top1@50%", "action/top1@100%", "area"),
    "anticipation": ("action/top1@1s", "action/top5@1s", "action/recall5@1s"),
}
"""Validation metrics that have a curve."""


def run_section(run: Run | None, model: Predictor, entries: dict[str, str]) -> str:
    """What was run where. `entries` come first."""
    parameters = sum(value.numel() for value in model.parameters())
    entries = entries | {
        "model": f"{parameters / 1e6:.2f} M parameters; {model.core.config.about}",
        "frames": f"{model.size[0]} x {model.size[1]} pixels, {model.fps:g} a second",
    }
    if run is None:
        return section("The model", "", facts(entries))
    about = _json(run.folder / "environment.json")
    packages = about.get("packages", {})
    entries |= {
        "commit": _commit(str(about.get("commit") or "")),
        "horst": str(about.get("horst") or ""),
        "packages": ", ".join(f"{name} {version}" for name, version in packages.items() if version),
        "python": " on ".join(str(about[key]) for key in ("python", "system") if about.get(key)),
        "devices": ", ".join(map(str, about.get("devices", []))),
        "command": " ".join(map(str, about.get("command", []))),
    }
    config = escape(run.config.read_text(encoding="utf-8"))
    whole = f"<details><summary>config.yaml</summary><pre>{config}</pre></details>"
    return section("The run", "", facts(entries), whole)


def training_section(run: Run, task: str) -> str:
    """Loss, accuracy and learning rate over the epochs; empty where none is finished."""
    if not run.metrics.is_file():
        return ""
    with run.metrics.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        return ""
    intro = f"{len(rows)} epochs in {_duration(sum(_number(row.get('seconds')) or 0 for row in rows))}."
    return section("How it learnt", intro, row(*training_figures(rows, task)))


def training_figures(rows: list[dict[str, str]], task: str) -> list[Figure]:
    """From the rows of a run's metrics.csv."""
    epochs = [(_number(entry.get("epoch")) or 0) + 1 for entry in rows]

    def points(name: str) -> list[tuple[float, float]]:
        pairs = zip(epochs, (_number(entry.get(name)) for entry in rows), strict=True)
        return [(epoch, value) for epoch, value in pairs if value is not None]

    whole = number_axis([0, epochs[-1]], "epoch")
    x = Axis(0, max(epochs[-1], 1), [tick for tick in whole.ticks if tick[0] <= epochs[-1]], "epoch")
    losses = [Line("", points("train/loss"))]
    shares = [("training top-1", points("train/top1"))]
    shares += [(name.replace("action/", "").replace("top", "top-"), points(f"val/{name}")) for name in CURVES[task]]
    lines = [Line(name, found, str(i), dots=i > 0) for i, (name, found) in enumerate(shares) if found]
    highest = max((value for line in lines for _, value in line.points), default=1.0)
    figures = [chart(losses, x, number_axis([0, *(y for _, y in losses[0].points)]), title="training loss", width=310)]
    if lines:
        y = percent_axis(high=1.0 if highest > 0.55 else max(0.05, 1.15 * highest))
        figures.append(chart(lines, x, y, title="accuracy", width=400))
    if rates := points("lr"):
        figures.append(
            chart([Line("", rates, "5")], x, number_axis([0, *(y for _, y in rates)]), title="learning rate", width=290)
        )
    return figures


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    return found if isinstance(found, dict) else {}


def _number(text: str | None) -> float | None:
    """None where the cell is empty, or no number."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _commit(name: str) -> str:
    return f"{name[:12]}, with changes" if name.endswith("+") else name[:12]


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
