"""Fills docs/results: copies what studies wrote, draws their plots, and puts small tables into the pages.

    python tools/make_results.py table1 gestures     copies from runs/studies, where `horst study` writes them
    python tools/make_results.py                     only plots and tables, from docs/results/*/results.json

A table on a page stands below the command that made it, and is replaced by the latest one of that command.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from horst.evaluation.report import markdown_head, markdown_row, metric_title, metric_value
from horst.io import write_text
from horst.studies.compare import ENSEMBLE, SIGNIFICANT, Estimate, StudyRow, correct
from horst.studies.plots import curves, differences
from horst.studies.report import CALIBRATION, CURVE, DIFFERENCES, JSON, MARKDOWN, estimate_cell
from horst.studies.statistics import holm, t_p
from horst.viz import save_svg

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
STUDIES = RESULTS.parents[1] / "runs" / "studies"
PAGES = ("index.md", "appendix.md")
BLOCK = re.compile(r"^```sh\n(?:horst study (\w+).*|python tools/make_results.py)\n```\n\n(?:\|.*\n)+", re.M)
"""A command and the table below it."""
COLUMNS = (
    ("action/top1@25%", "area"),
    ("action/top1@1s", "action/top1@0.5s", "action/recall1@1s", "action/recall1@0.5s"),
    ("action/map@0s", "action/mcap@0s", "action/top1@0s", "action/map@1s"),
    ("action/top5@1s", "action/recall5@1s"),
)
COMPARED = ("area", "action/top1@0.5s", "action/map@0s", "action/top5@1s")


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
    rows = stored_rows(found)
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


def stored_rows(found: dict[str, Any]) -> list[StudyRow]:
    """The rows of a results.json. Those of earlier versions get an approximate p-value."""
    rows = [_row(row) for row in found["rows"]]
    if any(gap.p is not None for row in rows for gap in row.differences.values()):
        return rows
    return correct(
        [
            replace(row, differences={m: replace(gap, p=approximate_p(m, gap)) for m, gap in row.differences.items()})
            for row in rows
        ]
    )


def approximate_p(metric: str, gap: Estimate) -> float | None:
    """The larger one of the p-values of a normal distribution with the stored interval, and of t over the seeds."""
    if metric.startswith("calibration") or gap.low is None or gap.high is None:
        return None
    reach = gap.value - gap.low if gap.value > 0 else gap.high - gap.value  # to the end that is closer to 0
    p = math.erfc(1.96 * abs(gap.value) / reach / math.sqrt(2)) if reach else float(not gap.value)
    return max(p, t_p(list(gap.by_seed.values()))) if len(gap.by_seed) > 1 else p


def earlier_rule(gap: Estimate) -> bool:
    """Significant without a correction: the interval excludes 0, and so does Student's t over several seeds."""
    apart = gap.low is not None and gap.high is not None and (gap.low > 0 or gap.high < 0)
    return apart and (len(gap.by_seed) < 2 or t_p(list(gap.by_seed.values())) < SIGNIFICANT)


def _row(entry: dict[str, Any]) -> StudyRow:
    def estimates(found: dict[str, Any]) -> dict[str, Estimate]:
        return {name: Estimate(**value | {"by_seed": dict(value["by_seed"])}) for name, value in found.items()}

    return StudyRow(**entry | {key: estimates(entry[key]) for key in ("values", "differences")})


def small_table(rows: Sequence[StudyRow], baseline: str | None) -> list[str]:
    """Some metrics, the difference in one of them, and how many differences are significant. Rows of averaged seeds are
    left out; results.md has them."""
    metrics = next(columns for columns in COLUMNS if columns[-1] in rows[0].values)
    compared = next((m for m in COMPARED if any(m in row.differences for row in rows)), None)
    titles = {row.name: row.title for row in rows}
    heads = [f"difference in {metric_title(compared)}", "significant"] if compared else []
    lines = markdown_head(["", *map(metric_title, metrics), *heads])
    for row in rows:
        if row.name.endswith(ENSEMBLE):
            continue
        cells = [row.title, *(metric_value(m, row.values[m].value) for m in metrics)]
        if compared:
            gap, tested = row.differences.get(compared), _tested([row])
            against = f" to {titles[row.against]}" if row.against and row.against != baseline else ""
            cells.append(estimate_cell(gap, compared, signed=True) + against)
            cells.append(f"{sum(gap.significant for gap in tested)} of {len(tested)}" if tested else "")
        lines.append(markdown_row(cells))
    return lines


def comparisons_table(studies: dict[str, list[StudyRow]]) -> list[str]:
    """The number of comparisons of each study, and how many are significant by which rule."""
    lines, every = markdown_head(["study", "comparisons", "significant without a correction", "after Holm's"]), []
    for name, rows in studies.items():
        if tested := _tested(rows):
            every += tested
            found = sum(map(earlier_rule, tested)), sum(gap.significant for gap in tested)
            lines.append(markdown_row([f"`{name}`", *map(str, (len(tested), *found))]))
    together = sum(p <= SIGNIFICANT for p in holm([gap.p for gap in every if gap.p is not None]))
    total = len(every), sum(map(earlier_rule, every)), sum(gap.significant for gap in every)
    lines.append(markdown_row(["all", *map(str, total)]))
    return [*lines, markdown_row(["all, corrected together", "", "", f"at most {together}"])]


def _tested(rows: Sequence[StudyRow]) -> list[Estimate]:
    return [gap for row in rows for gap in row.differences.values() if gap.p is not None]


def fill(page: str) -> str:
    """The page with the tables of each study that it names, and of the number of comparisons."""
    found = {file.parent.name: json.loads(file.read_text(encoding="utf-8")) for file in _stored()}

    def block(match: re.Match[str]) -> str:
        if match[1] is None:
            command = "python tools/make_results.py"
            lines = comparisons_table({name: stored_rows(study) for name, study in found.items()})
        else:
            study = found[match[1]]
            command, lines = study["command"], small_table(stored_rows(study), study["against"])
        return "\n".join(["```sh", command, "```", "", *lines, ""])

    return BLOCK.sub(block, page)


def _stored() -> list[Path]:
    return sorted(RESULTS.glob(f"*/{JSON}"))


if __name__ == "__main__":
    for study in sys.argv[1:]:
        copy(study)
    for results in _stored():
        draw(results.parent)
    for name in PAGES:
        write_text(RESULTS / name, fill((RESULTS / name).read_text(encoding="utf-8")))
