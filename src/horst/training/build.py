"""From a run's config to its model and loss: the classes are those of the data."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from horst.backbones import BNInception, load_tsn, read_tsn
from horst.config import differences
from horst.data.clips import early_actions, early_notice
from horst.data.example import Annotations
from horst.data.segments import WHOLE_VIDEOS, horizons
from horst.errors import CheckpointError, ConfigError
from horst.evaluation.measure import PARTS
from horst.heads import HEADS, head_options
from horst.models import MODELS, Predictor, model_config, open_model
from horst.registry import Part
from horst.training.config import Loss, RunConfig
from horst.weights import load_checked

COUNTS = {"num_classes": "action", "num_verbs": "verb", "num_nouns": "noun"}
"""The head's options that the data determines, and the task whose classes they count."""


def build_model(config: RunConfig, annotations: Annotations) -> Predictor:
    """The model of a run, with the classes and labels of the data."""
    choice, clip = config.model, config.data.clip
    fps = 1 / clip.stride if annotations.task == "anticipation" else clip.fps
    options = {"size": clip.size, "fps": fps, **choice.options, **class_counts(config, annotations)}
    torch.manual_seed(config.seed)
    described = model_config(choice.name, **options)
    head = described.head
    if annotations.task != "recognition" and head.name == "recognition":  # "action" has the same layers
        head = Part(name="action", options=head.options)
    if annotations.task in WHOLE_VIDEOS:
        detection = {"detection": True} if annotations.task == "detection" else {}
        sequence = {} if clip.sequence is None else {"sequence": check_sequence(clip.sequence, annotations)}
        whole = {"horizons": list(horizons(clip)), **detection, **sequence}
        head = Part(name=head.name, options={**head.options, **whole})
    elif clip.sequence is not None:
        is_for = f"the task online; that of {annotations.name} is {annotations.task}"
        raise ConfigError(f"clip.sequence is for {is_for}: leave it out")
    described = replace(described, head=head)
    model = Predictor.from_config(described)
    model.backbone.output_size(*model.size)  # an error here, not in the first step: its patches may not divide frames
    model.labels = {task: list(names) for task, names in annotations.classes.items() if task in model.head.classes}
    if choice.tsn is not None:
        if not isinstance(model.backbone, BNInception):
            raise ConfigError(f"model.tsn is for the backbone bn_inception; this model has {described.backbone.name}")
        load_tsn(model.backbone, read_tsn(Path(choice.tsn)))
    if choice.init_backbone is not None:
        _copy(model, open_model(choice.init_backbone), choice.init_backbone, ["backbone"])
    if choice.init is not None:
        initialise(model, choice.init)
    return model


def check_sequence(sequence: int, annotations: Annotations) -> int:
    """ConfigError if no training video has so many actions."""
    most = max((len(e.segments) for e in annotations.examples if e.split == "train"), default=0)
    if sequence > most:
        has = f"no training video of {annotations.name} has more than {most} action{'s' if most != 1 else ''}"
        raise ConfigError(f"clip.sequence is {sequence}, and {has}: choose a smaller number")
    return sequence


def class_counts(config: RunConfig, annotations: Annotations) -> dict[str, Any]:
    """The head's options that the data determines. ConfigError if the config has other values.

    Verbs and nouns are for data that has labels of both; with all other data the head predicts the action only.
    """
    name = config.model.name
    known = head_options(model_config(name).head.name)
    parts = all(task in annotations.classes for task in PARTS)
    counts: dict[str, Any] = {}
    for option in (option for option in known if option in COUNTS):
        task = COUNTS[option]
        if annotations.task == "recognition" and task not in annotations.classes:
            raise ConfigError(
                f"model.name is {name}, which anticipates {task}s, and {annotations.name} is for recognition: "
                "choose a model for that, such as horst_tiny"
            )
        counts[option] = len(annotations.classes[task]) if parts or task == "action" else None
        if (given := config.model.options.get(option, counts[option])) != counts[option]:
            has = f"{counts[option]} {task}s" if counts[option] else f"no labels for both {' and '.join(PARTS)}"
            raise ConfigError(f"model.options.{option} is {given} and {annotations.name} has {has}: leave it out")
    if "pairs" in known and parts:
        if not annotations.action_parts:
            raise ConfigError(
                f"model.name is {name}, which needs the verb and noun of every action, and {annotations.name} does not "
                "have them: read the data again from its annotations (an older version packed CSV files without them), "
                "or choose another model"
            )
        counts["pairs"] = [list(pair) for pair in annotations.action_parts]
    return counts


def notices(config: RunConfig, model: Predictor, annotations: Annotations) -> list[str]:
    """What a run does differently from its model and loss because of the data."""
    found = []
    name, head = config.model.name, MODELS[config.model.name]().head.name
    if "num_verbs" in head_options(head) and "verb" not in model.head.classes:
        found.append(
            f"{annotations.name} has labels for {', '.join(annotations.classes)}, not for both verb and noun: "
            f"{name} predicts and learns the action alone"
        )
    if annotations.task not in ("recognition", "detection") and HEADS[head].task == "recognition":
        found.append(f"{name} is a model of recognition; here it learns to predict the next action")
    clip = config.data.clip
    if count := len(early_actions(annotations.split("train"), clip)):
        found.append(early_notice(count, "training ", clip))
    return found


def loss_for(loss: Loss, model: Predictor) -> Loss:
    """The loss of a run. If the head predicts none of its `tasks`, it learns the action."""
    classes = model.head.classes
    if loss.tasks is not None and not set(loss.tasks) & set(classes):
        loss = replace(loss, tasks=None)
    for task, count in classes.items():
        top_k = loss.name == "smooth_top_k" or (loss.name == "truncated_top_k" and task == "action")
        if top_k and (loss.tasks is None or task in loss.tasks) and loss.k >= count:
            raise ConfigError(f"loss.k is {loss.k} and there are {count} {task}s; a top-k loss takes fewer than these")
    return loss


def initialise(model: Predictor, source: str | Path) -> bool:
    """Copy the weights of another model, which must have the same backbone and core.

    Returns whether those of the head were copied too: only if it predicts the same classes.
    """
    other = open_model(source)
    same = model.config.head == other.config.head and model.labels == other.labels
    _copy(model, other, source, ["backbone", "core", *(["head"] if same else [])])
    return same


def _copy(model: Predictor, other: Predictor, source: str | Path, parts: list[str]) -> None:
    for part in parts:
        theirs, mine = _options(getattr(other.config, part)), _options(getattr(model.config, part))
        if theirs != mine:
            raise CheckpointError(
                f"{source} has another {part}: {', '.join(differences(theirs, mine)[:3])}; "
                "give model.options that agree, or start without its weights"
            )
    for part in parts:
        load_checked(getattr(model, part), getattr(other, part).state_dict(), source=f"{source}, {part},")


def _options(part: Any) -> dict[str, Any]:
    options = {"name": part.name, **asdict(part)}
    options.get("options", {}).pop("pretrained", None)
    return options
