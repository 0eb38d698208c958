"""The results of a study as files: results.json with every number, results.md with tables, and plots."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import horst
from horst.console import visible
from horst.evaluation.measure import lower_is_better
from horst.evaluation.paper import paper_table
from horst.evaluation.report import MINUS, markdown_head, markdown_row, metric_title, metric_value
from horst.io import write_text
from horst.studies.compare import BOOTSTRAP, GROUPS, OVER_SEEDS, SIGNIFICANT, Estimate, StudyRow, study_rows
from horst.studies.config import Study
from horst.studies.plan import Job, state
from horst.studies.plots import curves, differences
from horst.studies.results import RunResult, SeedResult, read_result, seed_results
from horst.studies.statistics import RESAMPLES
from horst.viz import save_svg

JSON, MARKDOWN = "results.json", "results.md"
CURVE, CALIBRATION, DIFFERENCES = "curve.svg", "calibration.svg", "differences.svg"


@dataclass(frozen=True, slots=True)
class StudyResults:
    """The results of a study so far."""

    study: Study
    runs: list[RunResult]
    seeds: dict[str, list[SeedResult]]  # by run
    rows: list[StudyRow]
    missing: list[str]  # runs that are not done
    command: str  # made them

    @classmethod
    def read(cls, study: Study, jobs: Sequence[Job], folder: Path, command: str) -> Self:
        """The results of the jobs that are done."""
        missing = [job.name for job in jobs if state(job) != "done"]
        runs = [read_result(job) for job in jobs if job.name not in missing]
        seeds = seed_results(study, runs, folder)
        return cls(study, runs, seeds, study_rows(study, runs, seeds), missing, command)

    @property
    def data(self) -> str:
        """The data in words."""
        first = self.runs[0].evaluation
        predictions = next(iter(self.seeds.values()))[0].predictions
        count, groups = len(predictions), len(set(predictions.groups))
        classes = ", ".join(f"{n} {task}s" for task, n in first.classes.items())
        grouped = f" in {groups:,} groups" if 0 < groups < count else ""
        return f"{first.data}, {count:,} validation examples{grouped}, {classes}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "study": self.study.name,
            "title": self.study.title,
            "question": self.study.question,
            "command": self.command,
            "horst": horst.__version__,
            "data": self.data,
            "against": self.study.against,
            "rows": [asdict(row) for row in self.rows],
            "runs": [run.to_dict() for run in self.runs],
            "missing": self.missing,
        }


def write_results(results: StudyResults, folder: Path) -> list[Path]:
    """Write the files; none if no run is done."""
    if not results.rows:
        return []
    made, study = [], results.study
    labels = {run.name: run.label for run in study.runs}
    metrics = {run: [one.metrics for one in several] for run, several in results.seeds.items()}
    for name, figure in (
        (CURVE, curves(study.title, labels, metrics) if study.curve else None),
        (CALIBRATION, curves(study.title, labels, metrics, "calibration") if study.curve else None),
        (DIFFERENCES, differences(results.rows, study.metrics, metric_title)),
    ):
        if figure is not None:
            made.append(save_svg(figure, folder / name))
        else:
            (folder / name).unlink(missing_ok=True)  # of earlier results
    write_text(folder / JSON, json.dumps(results.to_dict(), indent=1, ensure_ascii=False) + "\n")
    write_text(folder / MARKDOWN, markdown(results, [path.name for path in made]))
    return [folder / MARKDOWN, folder / JSON, *made]


def markdown(results: StudyResults, plots: Sequence[str] = ()) -> str:
    study, title = results.study, visible(results.study.title, lines=False)
    lines = [f"## {title}", "", study.question, "", f"    {results.command}", "", f"{results.data}.", ""]
    lines += values_table(results)
    if compared := [row for row in results.rows if row.differences]:
        lines += ["", *differences_table(results, compared)]
    lines += ["", *(f"- {note}" for note in notes(results))]
    lines += [line for plot in plots for line in ("", f"![{Path(plot).stem} of {title}]({plot})")]
    if paper := paper_lines(study):
        lines += ["", *paper]
    return visible("\n".join(lines)) + "\n"


def values_table(results: StudyResults) -> list[str]:
    """Means and intervals, and the costs of each model."""
    metrics = [metric for metric in results.study.metrics if any(metric in row.values for row in results.rows)]
    lines = markdown_head(["", *map(metric_title, metrics), "parameters", "GFLOP a frame", "seeds", "training"])
    for row in results.rows:
        values = [estimate_cell(row.values.get(metric), metric) for metric in metrics]
        costs = [f"{row.parameters / 1e6:.2f} M", f"{row.gflop:.3f}", str(len(row.seeds)), f"{row.seconds:.0f} s"]
        lines.append(markdown_row([row.title, *values, *costs]))
    return lines


def differences_table(results: StudyResults, compared: Sequence[StudyRow]) -> list[str]:
    """Differences and intervals; those that are significant after the correction are bold."""
    metrics = [metric for metric in results.study.metrics if any(metric in row.differences for row in compared)]
    lines = markdown_head(["difference", *map(metric_title, metrics)])
    for row in compared:
        baseline = results.study.run(row.against).label if row.against else ""
        values = [estimate_cell(row.differences.get(metric), metric, signed=True) for metric in metrics]
        lines.append(markdown_row([f"{row.title} {MINUS} {baseline}", *values]))
    return lines


def estimate_cell(estimate: Estimate | None, metric: str, *, signed: bool = False) -> str:
    """61.2 [59.0, 63.4]; bold if a difference is significant."""
    if estimate is None:
        return ""
    text = metric_value(metric, estimate.value, estimate.low, estimate.high, signed=signed)
    return f"**{text}**" if signed and estimate.significant else text


def notes(results: StudyResults) -> list[str]:
    """How to read the numbers, and what is missing."""
    study = results.study
    kinds = {e.over for row in results.rows for e in row.values.values()}
    found = ["All but seconds in per cent, with 95% intervals in brackets."]
    if OVER_SEEDS in kinds:
        found.append("Means over seeds, with Student's t interval over seeds.")
    if single := [kind for kind in kinds if kind.startswith(BOOTSTRAP)]:
        found.append(
            f"Single seeds have the interval of a {single[0]} ({RESAMPLES:,} resamples), which does not include how "
            "far seeds differ."
        )
    if any(run.fuse for run in study.runs):
        found.append("Fused: the mean of the probabilities of several runs is the prediction, seed by seed.")
    if study.ensemble:
        found.append("Seeds averaged: the mean of their probabilities is the prediction; costs are those of all seeds.")
    if gaps := [gap for row in results.rows for gap in row.differences.values()]:
        found += difference_notes(gaps)
    if lower := [metric for metric in study.metrics if lower_is_better(metric)]:
        found.append(f"Lower is better: {', '.join(map(metric_title, lower))}.")
    if study.folds:
        found.append(f"{len(study.folds)} folds: each example is predicted by the model that was not trained on it.")
    if commits := sorted({run.commit for run in results.runs if run.commit}):
        found.append(f"Trained at commit {', '.join(commit[:12] + commit[40:] for commit in commits)}.")
    if results.missing:
        found.append(f"Not done yet: {', '.join(results.missing)}.")
    return found


def difference_notes(gaps: Sequence[Estimate]) -> list[str]:
    """How differences are resampled and tested."""
    over = max((gap.over for gap in gaps), key=len)  # that of several seeds
    groups = " Examples of one recording are drawn together." if GROUPS in over else ""
    found = [
        f"Differences are of the seeds that both runs have, with the interval of a paired {over} ({RESAMPLES:,} "
        f"resamples, the same for both).{groups}"
    ]
    if tested := [gap for gap in gaps if gap.p is not None]:
        several = any(len(gap.by_seed) > 1 for gap in tested)
        larger = ", or that of Student's t over the differences of the seeds if it is larger" if several else ""
        found.append(
            f"{len(tested)} comparisons are tested; calibration errors are not. Bold: significant at "
            f"{100 * SIGNIFICANT:g}% after Holm's correction for their number. The p-value is that of the bootstrap"
            f"{larger}; results.json has it as p, corrected as p_holm."
        )
    return found


def paper_lines(study: Study) -> list[str]:
    """The paper's values of the same methods, in a list of their own: they are on other data."""
    lines = []
    for run in study.runs:
        for table_name, row in run.known.rows.items() if run.known else ():
            table = paper_table(table_name)
            values = table.values(row)
            shown = ", ".join(f"{header} {values[m]:g}" for header, m in table.columns.items() if m in values)
            lines.append(f"- {run.label}: {shown} (Table {table.number}, {table.data})")
    return ["The paper has, on its own data, in per cent:", "", *lines] if lines else []
