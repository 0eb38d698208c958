"""`horst evaluate` and `horst table`: what a run has learnt, and beside it what the paper reports."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from horst.data.config import DataConfig
from horst.errors import ConfigError, MissingExtraError
from horst.evaluation.challenge import write_challenge
from horst.evaluation.evaluate import Clips, assess, predict, shown
from horst.evaluation.report import plot, show
from horst.models import Predictor, load, load_pretrained, pretrained
from horst.training.build import model_folder
from horst.training.config import RunConfig
from horst.training.run import Run


def run(
    source: str,
    *,
    data: str | None,
    split: str,
    weights: str,
    mode: str | None,
    device: str,
    batch: int | None,
    workers: int | None,
    challenge: str | None,
    as_json: bool,
) -> None:
    """Evaluate a run, or a saved model on a data set."""
    place = Path(source)
    config = RunConfig.from_file(place / "config.yaml") if Run(place).config.is_file() else None
    if config is None and data is None:
        raise ConfigError(f"{place} is no run, so it names no data: pass --data FILE")
    if not place.exists() and source in pretrained():
        model = load_pretrained(source, device=_device(device))
    else:
        model = load(model_folder(place, weights), device=_device(device))
    described = DataConfig.from_file(data) if config is None or data is not None else config.data  # type: ignore[arg-type]
    if mode is not None:
        described = replace(described, clip=replace(described.clip, mode=mode))  # type: ignore[arg-type]
    module = Clips(
        described,
        batch_size=batch or (config.batches.size if config else 8),
        workers=workers if workers is not None else (config.batches.workers if config else 0),
    )
    check_labels(model, module, place)
    begin = time.perf_counter()
    predictions = predict(model, module, split)
    spent = round(time.perf_counter() - begin, 1)
    clip = shown(module, model)
    evaluation = assess(predictions, module.annotations, split, clip, model=model, seconds=spent)
    own = config is not None and data is None
    name = split if own else f"{module.annotations.name}-{split}".replace(" ", "-").lower()
    folder = Run(place) if config is not None else None
    if folder is not None:
        evaluation.save(folder.evaluation(name))
    if challenge is not None:
        write_challenge(challenge, predictions, module.annotations.split(split))
    if as_json:
        print(json.dumps(evaluation.to_dict(), indent=1, ensure_ascii=False))
        return
    console = Console()
    show(evaluation, console)
    if folder is not None:
        try:
            plot(evaluation, folder.evaluation(name, "png"))
            console.print(f"{folder.evaluation(name)} and .png", soft_wrap=True)
        except MissingExtraError as error:
            console.print(f"{folder.evaluation(name)}; no picture: {error}", soft_wrap=True)
    if challenge is not None:
        console.print(f"{challenge}: predictions for the EPIC-Kitchens 100 challenge", soft_wrap=True)


def check_labels(model: Predictor, module: Clips, source: Path) -> None:
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
    print(json.dumps(table_data(folders), indent=1, ensure_ascii=False) if as_json else markdown(folders))


def _device(name: str) -> Any:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device is {name!r}; it takes auto, cpu, cuda or cuda:1") from error
