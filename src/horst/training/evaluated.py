"""Evaluate a run, or any model on a data set, and keep the results of a run in its folder.

predictions, evaluation = open_evaluated("runs/mine").evaluate("val")
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import horst
from horst.config import check_positive
from horst.data.config import DataConfig
from horst.data.loader import ClipBatches
from horst.errors import ConfigError, DataError
from horst.evaluation.card import card_result
from horst.evaluation.evaluate import Evaluation, clip_for, evaluate_predictions, fingerprint, predict_and_evaluate
from horst.evaluation.parts import merge_parts, part_file, write_part
from horst.evaluation.predictions import Predictions
from horst.io import read_json
from horst.models import Predictor
from horst.models.checkpoint import add_results
from horst.places import FUSION, model_title
from horst.remote import CHECKPOINT
from horst.training.config import RunConfig
from horst.training.run import Run
from horst.training.speed import be_deterministic, cpu_threads

PREDICTIONS = "safetensors"
LARGEST = 2**32  # bytes of scores that a run keeps: larger ones are computed again when they are needed


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """A model, and the data that it is evaluated on."""

    source: str | Path  # the name, folder or address it was opened by
    model: Predictor
    module: ClipBatches
    config: RunConfig | None  # None unless it is a run
    data: Path | None  # the data set's file; None where the data are those of the run, or of the runs that were fused
    weights: str

    @property
    def run(self) -> Run | None:
        return Run(self.source, skip=(CHECKPOINT,)) if self.config is not None else None

    @contextmanager
    def _as_trained(self) -> Iterator[None]:
        """With the threads and the algorithms of the run, so that its results repeat."""
        if self.config is not None and self.config.trainer.deterministic:
            be_deterministic()
        with cpu_threads(None if self.config is None else self.config.trainer.threads):
            yield

    @property
    def title(self) -> str:
        return model_title(self.source)

    def name(self, split: str) -> str:
        """The stem of an evaluation's files in the run's folder."""
        name = f"{self.module.annotations.name}-{split}".replace(" ", "-").lower() if self.data else split
        return name if self.weights == "best" else f"{name}-{self.weights}"

    def part_files(self, split: str, parts: int) -> list[Path]:
        """The files of an evaluation in parts. ConfigError unless this is a run, whose folder has them."""
        if self.run is None:
            raise ConfigError(f"{self.source} is no run: only runs are evaluated in parts, in their folders")
        folder = self.run.folder / "evaluation"
        return [part_file(folder, self.name(split), part, parts) for part in range(parts)]

    def evaluate_part(self, split: str, part: int, parts: int) -> Path:
        """Write part `part` of `parts` (from 0) of the predictions; returns its file."""
        file = part_file(self.part_files(split, 1)[0].parent, self.name(split), part, parts)
        with self._as_trained():
            write_part(file, self.model, self.module, split, part, parts)
        return file

    def evaluate(self, split: str, *, reuse: bool = False, parts: int = 0) -> tuple[Predictions, Evaluation]:
        """Predict and measure. A run keeps both in its folder, and the main metrics in the model's card.

        `reuse` reads them if they are of this model. `parts`: the predictions were made in so many parts, which are
        merged.
        """
        run, name = self.run, self.name(split)
        if reuse and run is not None and (kept := self._kept(run, split)) is not None:
            return kept
        if files := self.part_files(split, parts) if parts else []:
            predictions = merge_parts(files, self.model, self.module, split)
            clip = clip_for(self.module, self.model)
            evaluation = evaluate_predictions(predictions, self.module.annotations, split, clip, model=self.model)
        else:
            with self._as_trained():
                predictions, evaluation = predict_and_evaluate(self.model, self.module, split)
        if run is not None:
            run.evaluation(name, PREDICTIONS).unlink(missing_ok=True)  # first: a kill must not leave another model's
            evaluation.save(run.evaluation(name))
            if (result := card_result(evaluation)) is not None:
                add_results(run.folder / self.weights, self.model, result)
            if sum(scores.nbytes for scores in predictions.scores.values()) <= LARGEST:
                predictions.save(run.evaluation(name, PREDICTIONS))
            for file in files:  # last: what they hold is kept now
                file.unlink(missing_ok=True)
        return predictions, evaluation

    def _kept(self, run: Run, split: str) -> tuple[Predictions, Evaluation] | None:
        """Results of the same weights on the same clips; None if there are none or they are damaged."""
        name, annotations = self.name(split), self.module.annotations
        try:
            before = Evaluation.load(run.evaluation(name))
            predictions = Predictions.load(run.evaluation(name, PREDICTIONS))
        except DataError:
            return None
        ids = tuple(example.id for example in annotations.split(split).examples)
        if before.weights != fingerprint(self.model) or predictions.ids != ids:
            return None
        clip = clip_for(self.module, self.model)
        again = evaluate_predictions(predictions, annotations, split, clip, model=self.model, seconds=before.seconds)
        return (predictions, again) if again.protocol == before.protocol else None


def open_evaluated(
    source: str | Path,
    *,
    data: Path | None = None,
    weights: str = "best",
    mode: str | None = None,
    device: str = "auto",
    batch: int | None = None,
    workers: int | None = None,
    training: ClipBatches | None = None,
) -> EvaluatedModel:
    """A run, or any model and a data set. `training`: what a run that has just ended has opened and read."""
    run = Run(source, skip=(CHECKPOINT,))
    config = RunConfig.from_file(run.config, run_imports=False) if run.config.is_file() else None
    if batch is not None:
        check_positive(batch=batch)
    if data is not None:
        described = DataConfig.from_file(data)
    elif config is not None:
        described = config.data
    elif (run.folder / FUSION).is_file() and (fused := read_json(run.folder / FUSION).get("data")) is not None:
        described = DataConfig.from_entry(fused, f"{run.shown(run.folder / FUSION)}: data")
    else:
        raise ConfigError(f"{source} is no run, so it names no data: pass --data FILE")
    model = horst.open_model(source, weights=weights, device=device)
    if mode is not None:
        described = replace(described, clip=replace(described.clip, mode=mode))  # type: ignore[arg-type]
    known = training if training is not None and training.data == described else None
    module = ClipBatches(
        described,
        batch_size=batch or (config.batches.size if config else 8),
        workers=workers if workers is not None else (config.batches.workers if config else 0),
        source=known.source if known else None,
        decoded=known.decoded if known else None,
    )
    for task, names in module.annotations.classes.items():  # scores mean nothing if they are not those of the model
        count, own = model.head.classes.get(task), (model.labels or {}).get(task, list(names))
        if count is not None and (len(names) != count or own != list(names)):
            raise ConfigError(
                f"{source} predicts {count} {task}s, "
                f"and {module.annotations.name} has {len(names)} or others: the labels do not fit"
            )
    return EvaluatedModel(source, model, module, config, data, weights)
