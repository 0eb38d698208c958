"""From a run's config to its model: as many classes as the data has, fresh weights or those of another model."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from horst.backbones import BNInception, load_tsn, read_tsn
from horst.data.example import Annotations
from horst.errors import CheckpointError, ConfigError
from horst.evaluation.measure import PARTS
from horst.heads import HEADS, head_options
from horst.models import MODELS, Predictor, PredictorConfig, model_config, open_model
from horst.registry import Part
from horst.training.config import Loss, RunConfig
from horst.weights import load_checked

COUNTS = {"num_classes": "action", "num_verbs": "verb", "num_nouns": "noun"}
"""The head's options that the data decides: how many classes of which task."""


def build_model(config: RunConfig, annotations: Annotations) -> Predictor:
    """The model of a run, its classes and their names those of the data."""
    choice = config.model
    options = {**choice.options, **class_counts(config, annotations)}
    options.setdefault("size", config.data.clip.size)
    if annotations.task == "recognition":
        options.setdefault("fps", config.data.clip.fps)
    else:
        options.setdefault("fps", 1 / config.data.clip.stride)
    labels = {task: list(names) for task, names in annotations.classes.items()}
    torch.manual_seed(config.seed)
    model = Predictor.from_config(_for_task(model_config(choice.name, **options), annotations))
    labels = {task: names for task, names in labels.items() if task in model.head.classes}
    model.labels = labels
    if choice.tsn is not None:
        _load_tsn(model, Path(choice.tsn))
    if choice.init is not None:
        initialise(model, choice.init)
    return model


def _for_task(config: PredictorConfig, annotations: Annotations) -> PredictorConfig:
    """A model of early recognition anticipates with the head "action", which has the same layers."""
    if annotations.task != "anticipation" or config.head.name != "recognition":
        return config
    return replace(config, head=Part(name="action", options=config.head.options))


def _load_tsn(model: Predictor, file: Path) -> None:
    if not isinstance(model.backbone, BNInception):
        raise ConfigError(f"model.tsn is for the backbone bn_inception; this model has {model.config.backbone.name}")
    load_tsn(model.backbone, read_tsn(file))


def class_counts(config: RunConfig, annotations: Annotations) -> dict[str, Any]:
    """The head's options that the data decides. What the config says of them must agree.

    Verbs and nouns are for data that has labels of both; for all other data the head predicts the action alone.
    """
    if config.model.name not in MODELS:
        model_config(config.model.name)  # raises, with near matches
    taken = head_options(MODELS[config.model.name]().head.name)
    parts = all(task in annotations.classes for task in PARTS)
    counts: dict[str, Any] = {}
    for option, task in ((option, COUNTS[option]) for option in taken if option in COUNTS):
        if annotations.task == "recognition" and task not in annotations.classes:
            raise ConfigError(
                f"model.name is {config.model.name}, which anticipates {task}s, and {annotations.name} is for "
                "recognition: choose a model for that, such as horst_tiny"
            )
        counts[option] = len(annotations.classes[task]) if parts or task == "action" else None
        said = config.model.options.get(option, counts[option])
        if said != counts[option]:
            there = f"{counts[option]} {task}s" if counts[option] else f"no labels for both {' and '.join(PARTS)}"
            raise ConfigError(f"model.options.{option} is {said} and {annotations.name} has {there}: leave it out")
    if "pairs" in taken and parts:
        if not annotations.action_parts:
            raise ConfigError(
                f"model.name is {config.model.name}, which must know verb and noun of every action, and "
                f"{annotations.name} does not say them: read the data anew from its annotations (data that was packed "
                "from a CSV file by an older version lacks them), or choose another model"
            )
        counts["pairs"] = [list(pair) for pair in annotations.action_parts]
    return counts


def notices(config: RunConfig, model: Predictor, annotations: Annotations) -> list[str]:
    """What a run does otherwise than its model and loss do elsewhere, because of the data."""
    found = []
    head = MODELS[config.model.name]().head.name
    taken = head_options(head)
    there = ", ".join(annotations.classes)
    if "num_verbs" in taken and "verb" not in model.head.classes:
        found.append(
            f"{annotations.name} has labels for {there}, not for both verb and noun: "
            f"{config.model.name} predicts and learns the action alone"
        )
    if annotations.task == "anticipation" and HEADS[head].task == "recognition":
        found.append(f"{config.model.name} is a model of recognition; here it learns to predict the next action")
    return found


def learnt_loss(loss: Loss, model: Predictor) -> Loss:
    """The loss of a run: `tasks` that the head does not predict give way to the action, where none is left."""
    classes = model.head.classes
    if loss.tasks is not None and not set(loss.tasks) & set(classes):
        loss = replace(loss, tasks=None)
    for task, count in classes.items():
        of_k = loss.name == "smooth_top_k" or (loss.name == "truncated_top_k" and task == "action")
        if of_k and (loss.tasks is None or task in loss.tasks) and loss.k >= count:
            raise ConfigError(f"loss.k is {loss.k} and there are {count} {task}s; a top-k loss takes fewer than these")
    return loss


def initialise(model: Predictor, source: str | Path) -> bool:
    """Start from a model that `open_model` takes; whether the head was taken over too.

    Backbone and core must be the same. The head is taken over where it predicts the same classes.
    """
    other = open_model(source)
    for part, mine, theirs in (
        ("backbone", model.config.backbone, other.config.backbone),
        ("core", model.config.core, other.config.core),
    ):
        if _options(mine) != _options(theirs):
            raise CheckpointError(
                f"{source} has another {part}: {_difference(_options(theirs), _options(mine))}; "
                "give model.options that agree, or start without init"
            )
    load_checked(model.backbone, other.backbone.state_dict(), source=f"{source}, backbone,")
    load_checked(model.core, other.core.state_dict(), source=f"{source}, core,")
    same = model.config.head == other.config.head and model.labels == other.labels
    if same:
        load_checked(model.head, other.head.state_dict(), source=f"{source}, head,")
    return same


def _options(part: Any) -> dict[str, Any]:
    options = {"name": part.name, **asdict(part)}
    options.get("options", {}).pop("pretrained", None)
    return options


def _difference(theirs: dict[str, Any], mine: dict[str, Any]) -> str:
    names = [name for name in {**theirs, **mine} if theirs.get(name) != mine.get(name)]
    return ", ".join(f"{name} is {theirs.get(name)!r} there and {mine.get(name)!r} here" for name in names[:3])
