"""Whether a study repeats an earlier one to the last digit: `horst study NAME --compare FILE`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horst.errors import DataError, StudyError
from horst.io import read_json
from horst.studies.report import StudyResults

SHOWN = 5  # differences that are printed


@dataclass(frozen=True, slots=True)
class Repetition:
    """The values of a study that an earlier results.json has too."""

    file: Path
    runs: int
    cells: int  # of the table: the metrics of rows with the same seeds
    different: list[str]  # in words

    def __str__(self) -> str:
        compared = f"{_count(self.runs, 'run')} and {_count(self.cells, 'cell')} of the table"
        return f"compared with {self.file}: {compared}, {_count(len(self.different), 'different value')}"

    def check(self) -> None:
        """StudyError if a value differs, or if there was nothing to compare."""
        if not self.runs:
            raise StudyError(f"{self.file} has none of the finished runs: compare with results of the same study")
        if self.different:
            shown, more = "; ".join(self.different[:SHOWN]), len(self.different) - SHOWN
            raise StudyError(f"{self}: {shown}" + (f"; and {more} more" if more > 0 else ""))


def compare_results(results: StudyResults, file: Path) -> Repetition:
    """Compare all metrics of runs with the same name, seed and fold, and the cells of rows with the same seeds.

    Times, costs and intervals are not compared. A metric that only one of the versions has is left out.
    """
    before = read_json(file)
    try:
        if before["study"] != results.study.name:
            raise StudyError(f"{file} is of the study {before['study']!r}, not of {results.study.name!r}")
        runs = {(r["run"], r["seed"], r["fold"]): (r["metrics"], r.get("examples_digest")) for r in before["runs"]}
        rows = {(row["name"], tuple(row["seeds"])): row["values"] for row in before["rows"]}
        cells = {key: {metric: cell["value"] for metric, cell in values.items()} for key, values in rows.items()}
    except (KeyError, TypeError) as error:
        raise DataError(f"{file} has no results of a study: give a results.json that `horst study` wrote") from error
    different: list[str] = []
    compared = 0
    for run in results.runs:
        metrics, examples = runs.get((run.run, run.seed, run.fold), ({}, None))
        if metrics and examples and run.examples_digest and examples != run.examples_digest:
            compared += 1
            different.append(f"{run.folder}: it was trained on other examples, so that its metrics are not compared")
        else:
            compared += bool(_compare(run.folder, metrics, run.metrics, different))
    count = 0
    for row in results.rows:
        values = {metric: cell.value for metric, cell in row.values.items()}
        count += _compare(row.title, cells.get((row.name, tuple(row.seeds)), {}), values, different)
    return Repetition(file, compared, count, different)


def _compare(name: str, before: Mapping[str, Any], now: Mapping[str, float], different: list[str]) -> int:
    """The number of values that both have; those that differ are added to `different`."""
    common = [metric for metric in now if metric in before]
    for metric in common:
        old, new = before[metric], now[metric]
        if old != new and not (old != old and new != new):  # NaN in both is the same
            different.append(f"{name}: {metric} was {old} and is {new}")
    return len(common)


def _count(number: int, thing: str) -> str:
    return f"{number or 'no'} {thing}{'' if number == 1 else 's'}"
