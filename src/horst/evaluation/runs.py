"""Finished runs, read back from their folders, and put together where they differ in the seed alone.

RUN/config.yaml             what was run; `paper: {table, row}` names whose numbers it is to be compared with
RUN/evaluation/val.json     how good it is
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from horst.errors import ConfigError, DataError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.paper import paper_table

SPLIT = "val"
CONFIG = "config.yaml"


@dataclass(frozen=True, slots=True)
class EvaluatedRun:
    """A run that has been evaluated."""

    folder: Path
    config: dict[str, Any]
    """As config.yaml has it."""
    evaluation: Evaluation

    @property
    def name(self) -> str:
        return self.config["name"]

    @property
    def seed(self) -> int:
        return self.config["seed"]

    @property
    def row(self) -> tuple[str, str] | None:
        """(table, row) of the paper."""
        paper = self.config.get("paper")
        return (paper["table"], paper["row"]) if paper else None

    @property
    def recipe(self) -> str:
        """What runs of one group have in common: all but name and seed, and what they were evaluated on."""
        rest = {key: value for key, value in self.config.items() if key not in ("name", "seed")}
        evaluation = self.evaluation
        seen = [evaluation.data, evaluation.task, evaluation.counts["examples"], evaluation.classes]
        return json.dumps([rest, *seen, evaluation.protocol.get("mode")], sort_keys=True, default=str)


@dataclass(frozen=True, slots=True)
class Group:
    """Runs of one recipe with different seeds."""

    name: str
    runs: tuple[EvaluatedRun, ...]

    @property
    def evaluation(self) -> Evaluation:
        """Of the first: all are of the same data."""
        return self.runs[0].evaluation

    @property
    def row(self) -> tuple[str, str] | None:
        return self.runs[0].row

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    def mean(self, metric: str) -> float | None:
        """Over seeds; None where a run has no such number."""
        values = self._values(metric)
        return statistics.fmean(values) if values else None

    def deviation(self, metric: str) -> float | None:
        """Standard deviation of a sample; None for a single run."""
        values = self._values(metric)
        return statistics.stdev(values) if len(values) > 1 else None

    def _values(self, metric: str) -> list[float]:
        found = [run.evaluation.metrics.get(metric, math.nan) for run in self.runs]
        return [] if any(math.isnan(value) for value in found) else found


def read_run(folder: str | Path) -> EvaluatedRun:
    """DataError where it is no run, was not evaluated, or is damaged."""
    folder = Path(folder)
    path = folder / CONFIG
    if not path.is_file():
        raise DataError(f"{folder} is no run folder: there is no {CONFIG} in it")
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"{path} cannot be read as YAML: {error}") from error
    if not isinstance(config, dict) or type(config.get("name")) is not str or type(config.get("seed")) is not int:
        raise DataError(f"{path} is damaged: a run has at least a name and a seed")
    _check_row(path, config.get("paper"))
    results = folder / "evaluation" / f"{SPLIT}.json"
    if not results.is_file():
        raise DataError(f"{folder} has not been evaluated yet: run 'horst evaluate {folder}' first")
    evaluation = Evaluation.load(results)
    _check_evaluation(results, evaluation)
    return EvaluatedRun(folder, config, evaluation)


def group_runs(folders: Sequence[str | Path]) -> list[Group]:
    """Runs by recipe, in the order in which they are named; each folder counts once, and so does each seed."""
    once: dict[Path, Path] = {}
    for folder in folders:
        once.setdefault(Path(folder).resolve(), Path(folder))
    by_recipe: dict[str, dict[int, EvaluatedRun]] = {}
    for run in map(read_run, once.values()):
        seeds = by_recipe.setdefault(run.recipe, {})
        if run.seed in seeds:
            twin = seeds[run.seed]
            raise DataError(f"{twin.folder} and {run.folder} are the same run with the same seed: name one of them")
        seeds[run.seed] = run
    groups = [Group(_name(runs), runs) for runs in (tuple(seeds.values()) for seeds in by_recipe.values())]
    names = [group.name for group in groups]
    return [
        group if names.count(group.name) == 1 else Group(f"{group.name} ({_folders(group)})", group.runs)
        for group in groups
    ]


def _name(runs: tuple[EvaluatedRun, ...]) -> str:
    """That of the first, without the seed that it may end with."""
    return re.sub(r"-seed\d+$", "", runs[0].name)


def _folders(group: Group) -> str:
    return ", ".join(str(run.folder) for run in group.runs)


def _check_row(path: Path, paper: Any) -> None:
    if paper is None:
        return
    if not isinstance(paper, dict) or not all(isinstance(paper.get(key), str) for key in ("table", "row")):
        raise DataError(f"{path}: paper is {paper!r}; it takes a table and a row")
    try:
        paper_table(paper["table"]).row(paper["row"])
    except ConfigError as error:
        raise DataError(f"{path}: {error}") from error


def _check_evaluation(path: Path, evaluation: Evaluation) -> None:
    """What tables rely on."""
    if any(type(evaluation.counts.get(key)) is not int for key in ("examples", "missing")):
        raise DataError(f"{path} is damaged: its counts lack examples or missing; evaluate the run again")
    if evaluation.split != SPLIT:
        raise DataError(f"{path} is of the split {evaluation.split!r}, not of {SPLIT!r}: evaluate the run again")
