"""The models by name: HORST as in the paper's experiments, small for CPUs, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch

from horst.backbones import create_backbone
from horst.errors import ConfigError, did_you_mean
from horst.heads import head_options
from horst.layers import HORSTConfig
from horst.models.predictor import Labels, Predictor, PredictorConfig
from horst.models.zoo import TINY_STEM, ZOO
from horst.registry import Part


def horst_ssv2() -> PredictorConfig:
    """Early recognition on Something-Something v2: two strided convolutions and four HORST layers."""
    return PredictorConfig(
        backbone=Part(name="stem"),
        core=HORSTConfig(in_channels=128, hidden=(128, 256, 512, 512), stride=(1, 1, 2, 2)),
        head=Part(name="recognition", options={"num_classes": 41}),
        size=(224, 224),
        fps=12.0,
    )


def horst_ek55() -> PredictorConfig:
    """Anticipation on EPIC-Kitchens 55: frozen BN-Inception and two HORST layers of 1024 channels.

    The backbone's weights are random until `horst.backbones.load_tsn` has put RULSTM's TSN checkpoint into it.
    """
    return PredictorConfig(
        backbone=Part(name="bn_inception"),
        core=HORSTConfig(in_channels=1024, hidden=(1024, 1024)),
        head=Part(name="verb_noun_action", options={"num_classes": 2513, "num_verbs": 125, "num_nouns": 352}),
        size=(256, 454),
        fps=4.0,
    )


def horst_ek100() -> PredictorConfig:
    """Anticipation on EPIC-Kitchens 100: frozen BN-Inception and two HORST layers of 512 channels."""
    return PredictorConfig(
        backbone=Part(name="bn_inception"),
        core=HORSTConfig(in_channels=1024, hidden=(512, 512)),
        head=Part(name="verb_noun_action", options={"num_classes": 3806, "num_verbs": 97, "num_nouns": 300}),
        size=(256, 454),
        fps=4.0,
    )


def horst_ek55_unroll() -> PredictorConfig:
    """horst_ek55 with the unrolling classifier (HORST-url)."""
    return _unrolling(horst_ek55())


def horst_ek100_unroll() -> PredictorConfig:
    """horst_ek100 with the unrolling classifier (HORST-url)."""
    return _unrolling(horst_ek100())


def horst_tiny() -> PredictorConfig:
    """Early recognition on a CPU: a narrow stem and three narrow HORST layers on frames of 112 x 112."""
    return PredictorConfig(
        backbone=Part(name="stem", options=TINY_STEM),
        core=HORSTConfig(in_channels=64, hidden=(64, 64, 96), stride=(1, 2, 1)),
        head=Part(name="recognition", options={"num_classes": 16, "norm": "batch"}),
        size=(112, 112),
        fps=12.0,
    )


def horst_tiny_anticipation() -> PredictorConfig:
    """horst_tiny for anticipation: four frames a second of a kitchen, what comes next."""
    return replace(
        horst_tiny(),
        head=Part(
            name="verb_noun_action", options={"num_classes": 75, "num_verbs": 14, "num_nouns": 20, "norm": "batch"}
        ),
        size=(96, 168),
        fps=4.0,
    )


def horst_tiny_anticipation_unroll() -> PredictorConfig:
    """horst_tiny_anticipation with the unrolling classifier (HORST-url)."""
    return _unrolling(horst_tiny_anticipation())


def _unrolling(config: PredictorConfig) -> PredictorConfig:
    return replace(config, head=Part(name="unrolling", options=config.head.options))


MODELS: dict[str, Callable[[], PredictorConfig]] = {
    make.__name__: make
    for make in (
        horst_ssv2,
        horst_ek55,
        horst_ek55_unroll,
        horst_ek100,
        horst_ek100_unroll,
        horst_tiny,
        horst_tiny_anticipation,
        horst_tiny_anticipation_unroll,
    )
} | ZOO
OTHER_OPTIONS = ("backbone", "size", "fps")
HORST_KEEPS = ("in_channels", "hidden", "stride", "order", "heads")
"""Of a named model, whichever variant is asked for; the variant fills the rest."""


def model_config(name: str, **options: Any) -> PredictorConfig:
    """The config of a model by name, with options of its core, head or backbone changed.

    Options of the core are the fields of its config (`HORSTConfig`), those of the head are its keywords; what both have
    is given to both. `backbone` is a name or {"name": ..., **options}; the core's input then follows its channels.
    `variant="released"` selects the released form of HORST's core and head; `size` and `fps` say for which frames the
    model is meant.
    """
    if name not in MODELS:
        raise ConfigError(f"there is no model {name!r}{did_you_mean(name, MODELS, 'There are')}")
    config = MODELS[name]()
    if "num_actions" in options:  # its name in configs of older versions
        options["num_classes"] = options.pop("num_actions")
    core_options = [f.name for f in fields(config.core)]  # type: ignore[arg-type]
    of_head = [option for option in head_options(config.head.name) if option != "features"]
    known = dict.fromkeys((*core_options, *of_head, *OTHER_OPTIONS))
    for option in options:
        if option not in known:
            raise ConfigError(f"{name} has no option {option!r}{did_you_mean(option, known)}")
    kept = HORST_KEEPS if isinstance(config.core, HORSTConfig) else core_options
    core = {f: getattr(config.core, f) for f in kept}
    if "backbone" in options:
        read_before = config.backbone.name == "maps"
        config = _with_backbone(config, options["backbone"])
        if read_before and config.backbone.name != "maps" and "size" not in options:
            raise ConfigError(
                f"{name} is for vectors; with the backbone {config.backbone.name} give the frames' size too"
            )
        core["in_channels"] = config.core.in_channels
    core |= {key: value for key, value in options.items() if key in core_options}
    head = {key: value for key, value in options.items() if key in of_head}
    if "variant" in options and "form" in of_head:
        head.setdefault("form", options["variant"])
    return replace(
        config,
        core=type(config.core).from_dict(core),
        head=Part(name=config.head.name, options={**config.head.options, **head}),
        **{key: options[key] for key in ("size", "fps") if key in options},
    )


def create_model(name: str, *, labels: Labels | None = None, **options: Any) -> Predictor:
    """A model by name with fresh weights: `create_model("horst_ssv2", num_classes=41, variant="released", order=3)`."""
    return Predictor.from_config(model_config(name, **options), labels=labels)


def _with_backbone(config: PredictorConfig, chosen: str | dict[str, Any]) -> PredictorConfig:
    """`config` on another backbone. Precomputed maps are by default those of the backbone that they replace."""
    options: dict[str, Any] = {"name": chosen} if isinstance(chosen, str) else dict(chosen)
    name, size = options.pop("name", config.backbone.name), config.size
    with torch.device("meta"):
        if name == "maps":
            before = create_backbone(config.backbone.name, **config.backbone.options)
            options.setdefault("channels", before.channels)
            size = before.output_size(*size)
        # Its shape alone is wanted here, so no weights are looked for.
        after = create_backbone(name, **{key: value for key, value in options.items() if key != "pretrained"})
    core = replace(config.core, in_channels=after.channels)  # type: ignore[type-var]
    return replace(config, backbone=Part(name=name, options=options), core=core, size=size)
