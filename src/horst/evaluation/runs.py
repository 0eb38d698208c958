"""Evaluated runs, read from their folders and grouped by everything but the seed.

RUN/config.yaml             the run; `paper: {table, row}` names the row to compare with
RUN/evaluation/val.json     its evaluation
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horst.config import read_yaml
from horst.errors import ConfigError, DataError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.paper import paper_table

SPLIT = "val"
CONFIG = "config.yaml"


@dataclass(frozen=True, slots=True)
class EvaluatedRun:
    """A run and its evaluation."""

    folder: Path
    config: dict[str, Any]
    """The contents of config.yaml."""
    evaluation: Evaluation

    @property
    def row(self) -> tuple[str, str] | None:
        """(table, row) of the paper."""
        paper = self.config.get("paper")
        return (paper["table"], paper["row"]) if paper else None

    @property
    def recipe(self) -> str:
        """What the runs of a group share: all but name and seed, and the data that they were evaluated on."""
        rest = {key: value for key, value in self.config.items() if key not in ("name", "seed")}
        evaluation = self.evaluation
        data = [evaluation.data, evaluation.task, evaluation.counts["examples"], evaluation.classes]
        return json.dumps([rest, *data, evaluation.protocol.get("mode")], sort_keys=True, default=str)


@dataclass(frozen=True, slots=True, eq=False)
class RunGroup:
    """Runs that differ in the seed only."""

    name: str
    runs: tuple[EvaluatedRun, ...]

    @property
    def evaluation(self) -> Evaluation:
        """That of the first run: all have the same data."""
        return self.runs[0].evaluation

    @property
    def row(self) -> tuple[str, str] | None:
        return self.runs[0].row

    @property
    def seeds(self) -> list[int]:
        return [run.config["seed"] for run in self.runs]

    def values(self, metric: str) -> list[float]:
        """The metric of every run; empty if a run does not have it."""
        found = [run.evaluation.metrics.get(metric, math.nan) for run in self.runs]
        return [] if any(math.isnan(value) for value in found) else found


def read_evaluated_run(folder: str | Path) -> EvaluatedRun:
    """DataError if it is not a run, has not been evaluated, or is damaged."""
    folder = Path(folder)
    path, results = folder / CONFIG, folder / "evaluation" / f"{SPLIT}.json"
    if not path.is_file():
        raise DataError(f"{folder} is no run folder: there is no {CONFIG} in it")
    try:
        config = read_yaml(path)
        if not isinstance(config, dict) or type(config.get("name")) is not str or type(config.get("seed")) is not int:
            raise DataError(f"{path} is damaged: a run needs a name and a seed")
        if (paper := config.get("paper")) is not None:
            if not isinstance(paper, dict) or not all(isinstance(paper.get(key), str) for key in ("table", "row")):
                raise DataError(f"{path}: paper is {paper!r}; it takes a table and a row")
            paper_table(paper["table"]).row(paper["row"])
    except ConfigError as error:
        raise DataError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    if not results.is_file():
        raise DataError(f"{folder} has not been evaluated yet: run 'horst evaluate {folder}' first")
    evaluation = Evaluation.load(results)
    if any(type(evaluation.counts.get(key)) is not int for key in ("examples", "missing")):
        raise DataError(f"{results} is damaged: its counts lack examples or missing; evaluate the run again")
    if evaluation.split != SPLIT:
        raise DataError(f"{results} is of the split {evaluation.split!r}, not of {SPLIT!r}: evaluate the run again")
    return EvaluatedRun(folder, config, evaluation)


def group_runs(folders: Sequence[str | Path]) -> list[RunGroup]:
    """Runs grouped by recipe, in their order. A folder that is named twice counts once; a seed must occur once."""
    once = {path.resolve(): path for path in map(Path, folders)}
    by_recipe: dict[str, dict[int, EvaluatedRun]] = {}
    for run in map(read_evaluated_run, once.values()):
        seeds = by_recipe.setdefault(run.recipe, {})
        twin = seeds.setdefault(run.config["seed"], run)
        if twin is not run:
            raise DataError(f"{twin.folder} and {run.folder} are the same run with the same seed: name one of them")
    groups = [tuple(seeds.values()) for seeds in by_recipe.values()]
    names = [re.sub(r"-seed\d+$", "", runs[0].config["name"]) for runs in groups]
    return [
        RunGroup(name if names.count(name) == 1 else f"{name} ({', '.join(str(run.folder) for run in runs)})", runs)
        for name, runs in zip(names, groups, strict=True)
    ]
