"""The results and costs of a study's finished runs, with folds pooled."""

import json
import os
import re
import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from horst.data.example import Annotations
from horst.data.identity import DataIdentity
from horst.errors import DataError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.fusion import fuse_predictions
from horst.evaluation.measure import measure
from horst.evaluation.predictions import Predictions, pool, sorted_by_id
from horst.models.checkpoint import read_config
from horst.models.predictor import PredictorConfig
from horst.models.summary import summarize
from horst.studies.config import Study
from horst.studies.plan import SPLIT, Job
from horst.training.run import Run


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """The result of one training."""

    run: str
    seed: int
    fold: int | None
    folder: str
    metrics: dict[str, float]
    examples: int
    examples_digest: str | None  # of training and validation; None if the run has no record of its data
    parameters: int
    gflop: float  # per frame
    seconds: float  # of training, without validation
    frames_per_second: float | None  # in training, the median over epochs; None if the log does not have it
    commit: str | None
    machine: str | None  # its processor and GPUs; None of earlier versions
    command: list[str]
    evaluation: Evaluation

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "evaluation"}


@dataclass(frozen=True, slots=True, eq=False)
class SeedResult:
    """The result of one seed of a run on all validation examples: of one training, or of all folds."""

    seed: int
    metrics: dict[str, float]
    predictions: Predictions  # in the order of ids
    discard: bool  # whether the protocol leaves out actions that no frame precedes


def read_result(job: Job) -> RunResult:
    """The result of a job that is done."""
    run = Run(job.folder)
    evaluation = Evaluation.load(run.evaluation(SPLIT))
    data = DataIdentity.read(run.folder)
    parameters, flop = _costs(json.dumps(read_config(run.best).to_dict()))
    try:
        seconds = sum(float(row["seconds"]) for row in run.epochs())
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{run.metrics} is damaged ({error}): delete {run.folder} and run the study again") from error
    return RunResult(
        run=job.run.name,
        seed=job.seed,
        fold=job.fold,
        folder=job.folder.name,
        metrics=evaluation.metrics,
        examples=evaluation.counts["examples"],
        examples_digest=None if data is None else data.examples_digest,
        parameters=parameters,
        gflop=flop / 1e9,
        seconds=round(seconds, 1),
        frames_per_second=_speed(job.log),
        commit=run.commit(),
        machine=run.machine(),
        command=["horst", *(word.replace(f"{Path.cwd()}{os.sep}", "") for word in job.command("new"))],
        evaluation=evaluation,
    )


def seed_results(study: Study, results: Sequence[RunResult], folder: Path) -> dict[str, list[SeedResult]]:
    """The seeds of each run, all with the same examples. A seed with a missing fold is left out."""
    found: dict[str, list[SeedResult]] = {}
    for run, seed in dict.fromkeys((result.run, result.seed) for result in results):
        parts = [result for result in results if (result.run, result.seed) == (run, seed)]
        if len(parts) < len(study.folds):
            continue
        loaded = [Predictions.load(Run(folder / part.folder).evaluation(SPLIT, "safetensors")) for part in parts]
        pooled = sorted_by_id(pool(loaded) if len(parts) > 1 else loaded[0])
        discard = any(part.evaluation.counts.get("left_out", 0) for part in parts)
        metrics = parts[0].metrics
        if len(parts) > 1:
            metrics = remeasure(pooled.select(~pooled.empty) if discard else pooled, parts[0].evaluation)
        found.setdefault(run, []).append(SeedResult(seed, metrics, pooled, discard))
    _check_examples(found)
    for row in study.runs:
        if row.fuse and all(name in found for name in row.fuse):
            found[row.name] = _fused_seeds([found[name] for name in row.fuse], results[0].evaluation)
    return found


def _fused_seeds(runs: Sequence[Sequence[SeedResult]], evaluation: Evaluation) -> list[SeedResult]:
    """The runs fused with equal weights, for each seed that all of them have."""
    by_seed = [{one.seed: one for one in run} for run in runs]
    common = [seed for seed in by_seed[0] if all(seed in others for others in by_seed)]
    return [fused_result([run[seed] for run in by_seed], evaluation) for seed in common]


def fused_result(several: Sequence[SeedResult], evaluation: Evaluation) -> SeedResult:
    """The mean of the probabilities of several results. Its seed is that of the first."""
    fused = fuse_predictions([one.predictions for one in several], [1 / len(several)] * len(several))
    discard = any(one.discard for one in several)
    metrics = remeasure(fused.select(~fused.empty) if discard else fused, evaluation)
    return SeedResult(several[0].seed, metrics, fused, discard)


def remeasure(pooled: Predictions, evaluation: Evaluation) -> dict[str, float]:
    """The metrics of all folds together, without those of subsets, which need the annotations."""
    classes = {task: tuple(map(str, range(count))) for task, count in evaluation.classes.items()}
    return measure(pooled, Annotations(name=evaluation.data, task=pooled.task, examples=(), classes=classes))


def _check_examples(found: dict[str, list[SeedResult]]) -> None:
    """DataError unless all runs were evaluated on the same examples, by which they are paired."""
    every = [(run, one.seed, one.predictions) for run, several in found.items() for one in several]
    for run, seed, predictions in every:
        name, _, first = every[0]
        if predictions.ids != first.ids:
            raise DataError(
                f"{name} and {run} (seed {seed}) were evaluated on other examples ({len(first)} and "
                f"{len(predictions)}): a study compares runs on the same ones"
            )


@cache
def _costs(model: str) -> tuple[int, int]:
    """Parameters, and operations per frame, of a model's config. Counting them runs the model, which takes a while."""
    costs = summarize(PredictorConfig.from_dict(json.loads(model)))
    return costs.parameters, costs.flop


def _speed(log: Path) -> float | None:
    with suppress(OSError):
        found = re.findall(r"([\d,]+) frames/s", log.read_text(encoding="utf-8", errors="replace"))
        return statistics.median(float(number.replace(",", "")) for number in found) if found else None
    return None
