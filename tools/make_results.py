"""Fills docs/results: copies what studies wrote, draws their plots, and puts their tables into docs/results/index.md.

    python tools/make_results.py table1 gestures     copies from runs/studies, where `horst study` writes them
    python tools/make_results.py                     only plots and tables, from docs/results/*/results.json and .md

A table on the page stands below the command that made it, and is replaced by the latest one of that command.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from horst.evaluation.report import metric_title
from horst.io import write_text
from horst.studies.compare import Estimate, StudyRow
from horst.studies.plots import curves, differences
from horst.studies.report import CALIBRATION, CURVE, DIFFERENCES, JSON, MARKDOWN
from horst.viz import save_svg

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
STUDIES = RESULTS.parents[1] / "runs" / "studies"
BLOCK = re.compile(r"^    (horst study (\w+).*)\n\n(?:\|.*\n|\n(?=\|))+", re.M)
"""A command and the tables below it."""


def copy(name: str) -> None:
    """The files of a study; those that it does not have are removed."""
    (RESULTS / name).mkdir(parents=True, exist_ok=True)
    for file in (MARKDOWN, JSON, CURVE, CALIBRATION, DIFFERENCES):
        (RESULTS / name / file).unlink(missing_ok=True)
        if (STUDIES / name / file).is_file():
            shutil.copyfile(STUDIES / name / file, RESULTS / name / file)


def draw(folder: Path) -> None:
    """The plots of a study from its results.json, where it has them. The calibration error of several folds together
    is not in there, so that plot is left as it is."""
    found = json.loads((folder / JSON).read_text(encoding="utf-8"))
    rows = [_row(row) for row in found["rows"]]
    labels, metrics = {row.name: row.title for row in rows}, _metrics(found["runs"])
    folds = any(run["fold"] is not None for run in found["runs"])
    measured = list(dict.fromkeys(metric for row in rows for metric in row.differences))
    for name, figure in (
        (CURVE, curves(found["title"], labels, metrics)),
        (CALIBRATION, None if folds else curves(found["title"], labels, metrics, "calibration")),
        (DIFFERENCES, differences(rows, measured, metric_title)),
    ):
        if figure is not None and (folder / name).is_file():
            save_svg(figure, folder / name)


def _metrics(runs: list[dict[str, Any]]) -> dict[str, list[dict[str, float]]]:
    """Of each seed, by run; accuracies of folds are averaged over their examples."""
    seeds: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for run in runs:
        seeds[run["run"], run["seed"]].append(run)
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for (name, _), folds in seeds.items():
        total = sum(fold["examples"] for fold in folds)
        mean = {key: sum(f["metrics"][key] * f["examples"] for f in folds) / total for key in folds[0]["metrics"]}
        found[name].append(mean)
    return found


def _row(entry: dict[str, Any]) -> StudyRow:
    def estimates(found: dict[str, Any]) -> dict[str, Estimate]:
        return {name: Estimate(**value | {"by_seed": dict(value["by_seed"])}) for name, value in found.items()}

    return StudyRow(**entry | {key: estimates(entry[key]) for key in ("values", "differences")})


def fill(page: str) -> str:
    """The page with the tables of each study that it names."""

    def block(found: re.Match[str]) -> str:
        written = (RESULTS / found[2] / MARKDOWN).read_text(encoding="utf-8")
        command = re.search(r"^    (horst study .*)$", written, re.M)
        tables = re.findall(r"(?:^\|.*\n)+", written, re.M)
        return f"    {command[1] if command else found[1]}\n\n" + "\n".join(tables)

    return BLOCK.sub(block, page)


if __name__ == "__main__":
    for study in sys.argv[1:]:
        copy(study)
    for results in sorted(RESULTS.glob(f"*/{JSON}")):
        draw(results.parent)
    write_text(RESULTS / "index.md", fill((RESULTS / "index.md").read_text(encoding="utf-8")))
