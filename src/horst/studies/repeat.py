"""Whether a study repeats an earlier one to the last digit: `horst study NAME --compare FILE`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from horst.errors import DataError, StudyError
from horst.io import read_json
from horst.studies.report import StudyResults

SHOWN = 5  # differences that are printed


@dataclass(frozen=True, slots=True)
class EarlierResults:
    """The values of a results.json."""

    file: Path
    runs: Mapping[tuple[str, int, int | None], tuple[Mapping[str, float], str | None]]
    """By name, seed and fold: the metrics, and the digest of the examples, which earlier versions do not have."""
    cells: Mapping[tuple[str, tuple[int, ...]], Mapping[str, float]]  # of the table, by name and seeds
    machines: frozenset[str]  # on which the runs were trained, as far as it is known

    @classmethod
    def read(cls, file: Path, study: str) -> Self:
        """DataError or StudyError if the file has no results of this study."""
        data = read_json(file)
        try:
            if data["study"] != study:
                raise StudyError(f"{file} is of the study {data['study']!r}, not of {study!r}")
            runs = {(r["run"], r["seed"], r["fold"]): (r["metrics"], r.get("examples_digest")) for r in data["runs"]}
            cells = {
                (row["name"], tuple(row["seeds"])): {metric: cell["value"] for metric, cell in row["values"].items()}
                for row in data["rows"]
            }
            machines = frozenset(r["machine"] for r in data["runs"] if r.get("machine"))
        except (KeyError, TypeError, AttributeError) as error:
            remedy = "give a results.json that `horst study` wrote"
            raise DataError(f"{file} has no results of a study: {remedy}") from error
        return cls(file, runs, cells, machines)

    def compare(self, results: StudyResults) -> str:
        """How much was compared, in words. StudyError if a value differs, or if there is nothing to compare.

        All metrics of runs with the same name, seed and fold, and the cells of rows with the same seeds. Times, costs
        and intervals are not compared. A metric that only one of the versions has is left out.
        """
        different: list[str] = []
        runs = cells = 0
        for run in results.runs:
            metrics, examples = self.runs.get((run.run, run.seed, run.fold), ({}, None))
            if metrics and examples and run.examples_digest and examples != run.examples_digest:
                runs += 1
                different.append(f"{run.folder} was trained on other examples, so that its metrics are not compared")
            else:
                runs += bool(_compare(run.folder, metrics, run.metrics, different))
        for row in results.rows:
            values = {metric: cell.value for metric, cell in row.values.items()}
            cells += _compare(row.title, self.cells.get((row.name, tuple(row.seeds)), {}), values, different)
        if not runs:
            raise StudyError(f"{self.file} has none of the finished runs: compare with results of the same runs")
        compared = f"{_count(runs, 'run')} and {_count(cells, 'cell')} of the table"
        summary = f"compared with {self.file}: {compared}, {_count(len(different), 'different value')}"
        if different:
            more = len(different) - SHOWN
            shown = "; ".join(different[:SHOWN]) + (f"; and {more} more" if more > 0 else "")
            raise StudyError(f"{summary}: {shown}{self._other_machines(results)}")
        return summary

    def _other_machines(self, results: StudyResults) -> str:
        """A sentence for the case that the machines differ, whose rounding may be the reason."""
        here = {run.machine for run in results.runs if run.machine}
        if not self.machines or not here or here <= self.machines:
            return ""
        before, now = (" and ".join(sorted(machines)) for machines in (self.machines, here))
        return f". The earlier runs were trained on {before}, these on {now}: they may round differently"


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
