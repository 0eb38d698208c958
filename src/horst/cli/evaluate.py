"""`horst evaluate` and `horst table`: what a run has learnt, and beside it what the paper reports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from horst.config import check_positive
from horst.console import Console
from horst.data.config import DataConfig
from horst.data.loader import ClipBatches
from horst.errors import ConfigError, DataError
from horst.evaluation.challenge import write_challenge
from horst.evaluation.evaluate import Evaluation, clip_for, evaluate_predictions, fingerprint, predict_and_evaluate
from horst.evaluation.predictions import Predictions
from horst.evaluation.report import show
from horst.models import Predictor
from horst.models import open_model as open_saved
from horst.models.hub import model_title
from horst.training.config import RunConfig
from horst.training.run import Run
from horst.viz import accuracy_curve

PREDICTIONS, PICTURE = "safetensors", "svg"
LARGEST = 2**32
"""Bytes of scores that a run keeps: those of the largest data sets are made again when they are asked for."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A model, and what it is to be evaluated on."""

    place: Path
    """Of the run or the saved model; a name or an address is none."""
    title: str
    """A short name of the model."""
    model: Predictor
    module: ClipBatches
    config: RunConfig | None
    """None where it is no run."""
    own: bool
    """Whether the data are the run's."""
    weights: str

    @property
    def run(self) -> Run | None:
        return Run(self.place) if self.config is not None else None

    def name(self, split: str) -> str:
        """Of the files of an evaluation in the run's folder."""
        name = split if self.own else f"{self.module.annotations.name}-{split}".replace(" ", "-").lower()
        return name if self.weights == "best" else f"{name}-{self.weights}"


def open_model(
    source: str,
    *,
    data: str | None,
    weights: str = "best",
    mode: str | None = None,
    device: str = "auto",
    batch: int | None = None,
    workers: int | None = None,
    training: ClipBatches | None = None,
) -> Opened:
    """A run, or a saved model and a data set. `training`: what a run that has just ended has opened and read."""
    place = Path(source)
    config = RunConfig.from_file(place / "config.yaml") if Run(place).config.is_file() else None
    if config is None and data is None:
        raise ConfigError(f"{source} is no run, so it names no data: pass --data FILE")
    if batch is not None:
        check_positive(batch=batch)
    model = open_saved(source, weights=weights, device=device)
    described = DataConfig.from_file(data) if config is None or data is not None else config.data  # type: ignore[arg-type]
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
    check_labels(model, module, source)
    return Opened(place, model_title(source), model, module, config, config is not None and data is None, weights)


def evaluated(opened: Opened, split: str, *, reuse: bool = False) -> tuple[Predictions, Evaluation]:
    """Predict and measure; a run keeps both in its folder, with a curve. `reuse`: take what is kept there, if it is of
    this model."""
    model, module, run = opened.model, opened.module, opened.run
    if reuse and run is not None and (kept := _kept(opened, run, split)) is not None:
        return kept
    predictions, evaluation = predict_and_evaluate(model, module, split)
    if run is not None:
        name = opened.name(split)
        run.evaluation(name, PREDICTIONS).unlink(missing_ok=True)  # first: `_kept` takes them for those of this model
        evaluation.save(run.evaluation(name))
        if sum(scores.nbytes for scores in predictions.scores.values()) <= LARGEST:
            predictions.save(run.evaluation(name, PREDICTIONS))
        draw(evaluation, run.evaluation(name, PICTURE))
    return predictions, evaluation


def draw(evaluation: Evaluation, file: Path) -> None:
    """Accuracy over the observed part, or over the time before the action; no file where nothing has a label."""
    if any(key.startswith("action/") for key in evaluation.metrics):
        accuracy_curve(evaluation, title=f"{evaluation.data}, {evaluation.split}").save(file)
    else:
        file.unlink(missing_ok=True)  # of an evaluation before


def _kept(opened: Opened, run: Run, split: str) -> tuple[Predictions, Evaluation] | None:
    """What an evaluation of the same weights on the same clips has left; None where there is none, or it is damaged."""
    model, module, name = opened.model, opened.module, opened.name(split)
    try:
        before, predictions = Evaluation.load(run.evaluation(name)), Predictions.load(run.evaluation(name, PREDICTIONS))
    except DataError:
        return None
    ids = tuple(example.id for example in module.annotations.split(split).examples)
    if before.weights != fingerprint(model) or predictions.ids != ids:
        return None
    clip = clip_for(module, model)
    again = evaluate_predictions(predictions, module.annotations, split, clip, model=model, seconds=before.seconds)
    return (predictions, again) if again.protocol == before.protocol else None


def run(
    source: str,
    *,
    data: str | None = None,
    split: str = "val",
    weights: str = "best",
    mode: str | None = None,
    device: str = "auto",
    batch: int | None = None,
    workers: int | None = None,
    challenge: str | None = None,
    as_json: bool = False,
    training: ClipBatches | None = None,
) -> None:
    """Evaluate a run, or a saved model on a data set. `training`: see `open_model`."""
    opened = open_model(
        source,
        data=data,
        weights=weights,
        mode=mode,
        device=device,
        batch=batch,
        workers=workers,
        training=training,
    )
    predictions, evaluation = evaluated(opened, split)
    if challenge is not None:
        write_challenge(challenge, predictions, opened.module.annotations.split(split))
    if as_json:
        print(json.dumps(evaluation.to_dict(), indent=1))
        return
    console = Console()
    show(evaluation, console)
    if opened.run is not None:
        name = opened.name(split)
        files = [file for kind in ("json", PICTURE) if (file := opened.run.evaluation(name, kind)).is_file()]
        options = (f" --data {data}" if data is not None else "") + (f" --split {split}" if split != "val" else "")
        then = f"; next: horst report {source}{options}" if weights == "best" else ""  # a report is of the best
        console.print(f"{', '.join(map(str, files))}{then}")
    if challenge is not None:
        console.print(f"{challenge}: predictions for the EPIC-Kitchens 100 challenge")


def check_labels(model: Predictor, module: ClipBatches, source: str) -> None:
    """Scores mean nothing where the data counts its classes in another way than the model."""
    for task, names in module.annotations.classes.items():
        own = (model.labels or {}).get(task)
        if task not in model.head.classes:
            continue
        if len(names) != model.head.classes[task] or (own is not None and own != list(names)):
            raise ConfigError(
                f"{source} predicts {model.head.classes[task]} {task}s, "
                f"and {module.annotations.name} has {len(names)} or others: the labels do not fit"
            )


def table(runs: Sequence[str], *, as_json: bool) -> None:
    from horst.evaluation.table import table as markdown
    from horst.evaluation.table import table_data

    folders = [Path(run) for run in runs]
    if as_json:
        print(json.dumps(table_data(folders), indent=1))
    else:
        Console(highlight=False).print(markdown(folders))
