"""The results of a study: results.json with every number, results.md for people, and the plots beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import horst
from horst.console import visible
from horst.evaluation.formatting import MINUS, markdown_head, markdown_row, metric_title, metric_value
from horst.evaluation.paper import paper_table
from horst.io import write_text
from horst.studies.compare import OVER_BOTH, OVER_EXAMPLES, OVER_SEEDS, Estimate, Row, rows
from horst.studies.config import Study
from horst.studies.outcomes import Outcome, Sample, read_outcomes, samples
from horst.studies.plan import Job
from horst.studies.plots import curves, differences
from horst.studies.statistics import RESAMPLES
from horst.studies.values import LOWER_IS_BETTER
from horst.viz import save_svg

JSON, MARKDOWN = "results.json", "results.md"
CURVE, CALIBRATION, DIFFERENCES = "curve.svg", "calibration.svg", "differences.svg"


@dataclass(frozen=True, slots=True)
class Results:
    """All that a study has found so far."""

    study: Study
    outcomes: list[Outcome]
    found: dict[str, list[Sample]]
    rows: list[Row]
    missing: list[str]
    """Runs that are not done."""
    command: str
    """That made them."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "study": self.study.name,
            "title": self.study.title,
            "question": self.study.question,
            "command": self.command,
            "horst": horst.__version__,
            "data": data_words(self),
            "against": self.study.against,
            "rows": [row.to_dict() for row in self.rows],
            "runs": [outcome.to_dict() for outcome in self.outcomes],
            "missing": self.missing,
        }


def read_results(study: Study, jobs: Sequence[Job], folder: Path, command: str) -> Results:
    """Of the jobs that are done."""
    outcomes, missing = read_outcomes(jobs)
    found = samples(study, outcomes, folder)
    return Results(study, outcomes, found, rows(study, outcomes, found), missing, command)


def write_results(results: Results, folder: Path) -> list[Path]:
    """The files that were written; none where no run is done."""
    if not results.rows:
        return []
    made, study = [], results.study
    labels = {run.name: run.label for run in study.runs}
    metrics = {run: [sample.metrics for sample in found] for run, found in results.found.items()}
    for name, figure in (
        (CURVE, curves(study.title, labels, metrics) if study.curve else None),
        (CALIBRATION, curves(study.title, labels, metrics, "calibration") if study.curve else None),
        (DIFFERENCES, differences(results.rows, results.study.metrics, metric_title)),
    ):
        if figure is not None:
            made.append(save_svg(figure, folder / name))
        else:
            (folder / name).unlink(missing_ok=True)  # of other results
    write_text(folder / JSON, json.dumps(results.to_dict(), indent=1, ensure_ascii=False) + "\n")
    write_text(folder / MARKDOWN, markdown(results, [path.name for path in made]))
    return [folder / MARKDOWN, folder / JSON, *made]


def markdown(results: Results, plots: Sequence[str] = ()) -> str:
    study, title = results.study, visible(results.study.title, lines=False)
    lines = [f"## {title}", "", study.question, "", f"    {results.command}", "", f"{data_words(results)}.", ""]
    lines += values_table(results)
    if compared := [row for row in results.rows if row.differences]:
        lines += ["", *differences_table(results, compared)]
    lines += ["", *(f"- {note}" for note in notes(results))]
    lines += [line for plot in plots for line in ("", f"![{Path(plot).stem} of {title}]({plot})")]
    if paper := paper_lines(study):
        lines += ["", *paper]
    return visible("\n".join(lines)) + "\n"


def values_table(results: Results) -> list[str]:
    """Means and intervals, and what each model costs."""
    metrics = [metric for metric in results.study.metrics if any(metric in row.values for row in results.rows)]
    headers = ["", *map(metric_title, metrics), "parameters", "GFLOP a frame", "seeds", "training"]
    lines = markdown_head(headers)
    for row in results.rows:
        values = [said(row.values.get(metric), metric) for metric in metrics]
        costs = [f"{row.parameters / 1e6:.2f} M", f"{row.gflop:.3f}", str(len(row.seeds)), f"{row.seconds:.0f} s"]
        lines.append(markdown_row([row.title, *values, *costs]))
    return lines


def differences_table(results: Results, compared: Sequence[Row]) -> list[str]:
    """Bold: those that are sure."""
    metrics = [metric for metric in results.study.metrics if any(metric in row.differences for row in compared)]
    headers = ["difference", *map(metric_title, metrics)]
    lines = markdown_head(headers)
    for row in compared:
        rival = results.study.run(row.against).label if row.against else ""
        values = [said(row.differences.get(metric), metric, signed=True) for metric in metrics]
        lines.append(markdown_row([f"{row.title} {MINUS} {rival}", *values]))
    return lines


def notes(results: Results) -> list[str]:
    """How to read the numbers, and what is missing."""
    kinds = {e.over for row in results.rows for e in row.values.values()}
    found = ["All but seconds in per cent; in brackets intervals of 95%."]
    if OVER_SEEDS in kinds:
        found.append("Means over seeds, with Student's t interval over seeds: what another seed may give.")
    if OVER_EXAMPLES in kinds:
        found.append(
            f"Of a single seed: the bootstrap over validation examples ({RESAMPLES:,} resamples), which does not tell "
            "how far seeds differ."
        )
    if any(row.differences for row in results.rows):
        several = any(e.over == OVER_BOTH for row in results.rows for e in row.differences.values())
        what = "seeds and examples" if several else "examples"
        too = ", and Student's t over the differences of the seeds does too" if several else ""
        few = " A few seeds tell little of others: results.json has the difference of each." if several else ""
        found.append(
            f"Differences are of the seeds that both have, with the paired bootstrap over {what} ({RESAMPLES:,} "
            f"resamples; the same {what} for both); bold where the interval leaves out 0{too}, but for calibration, "
            f"whose intervals are rough.{few}"
        )
    lower = [
        metric_title(m) for m in results.study.metrics if m.partition("@")[0].rpartition("/")[2] in LOWER_IS_BETTER
    ]
    if lower:
        found.append(f"Lower is better: {', '.join(lower)}.")
    if results.study.folds:
        found.append(
            f"{len(results.study.folds)} folds: each example is predicted once, by the model that did not train on it."
        )
    commits = sorted({outcome.commit for outcome in results.outcomes if outcome.commit})
    if commits:
        found.append(f"Trained at commit {', '.join(commit[:12] + commit[40:] for commit in commits)}.")
    if results.missing:
        found.append(f"Not done yet: {', '.join(results.missing)}.")
    return found


def data_words(results: Results) -> str:
    """What was learnt from and what it was tried on."""
    first = results.outcomes[0].evaluation
    count = len(next(iter(results.found.values()))[0].predictions)
    classes = ", ".join(f"{n} {task}s" for task, n in first.classes.items())
    return f"{first.data}, {count:,} validation examples, {classes}"


def paper_lines(study: Study) -> list[str]:
    """What the paper has of the same methods: on other data, so in a list of its own."""
    lines = []
    for run in study.runs:
        for table_name, row in run.known.rows.items() if run.known else ():
            table = paper_table(table_name)
            values = table.values(table.row(row))
            told = ", ".join(f"{header} {values[m]:g}" for header, m in table.columns.items() if m in values)
            lines.append(f"- {run.label}: {told} (Table {table.number}, {table.data})")
    return ["The paper has, on its own data, in per cent:", "", *lines] if lines else []


def said(estimate: Estimate | None, metric: str, *, signed: bool = False) -> str:
    """61.2 [59.0, 63.4]; bold if a difference is significant."""
    if estimate is None:
        return ""
    text = metric_value(metric, estimate.value, estimate.low, estimate.high, signed=signed)
    return f"**{text}**" if signed and estimate.sure and not metric.startswith("calibration") else text
