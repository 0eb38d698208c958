"""Models and methods by name.

A model is a function that returns a `PredictorConfig`; `create_model` builds it. A method is a model for each data set,
the loss that trains it, and a card: its title, its paper, its rows in the paper's tables. Methods are in
`horst.models.methods`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, overload

import torch

from horst.backbones import create_backbone
from horst.errors import ConfigError, did_you_mean
from horst.heads import head_options
from horst.layers import CoreConfig, HORSTConfig
from horst.models.hub import open_model
from horst.models.predictor import Labels, Predictor, PredictorConfig
from horst.places import pretrained_models
from horst.registry import Part, Registry

# The data sets that models are made for, by task. "tiny" is the synthetic data.
SIZES = {"recognition": ("ssv2", "tiny"), "anticipation": ("ek55", "ek100", "tiny")}
HORST_KEEPS = ("in_channels", "hidden", "stride", "order", "heads")  # options that do not depend on the variant

ModelFunction = Callable[[], PredictorConfig]
MODELS: Registry[ModelFunction] = Registry("model")
PRETRAINED: dict[str, str] = {}  # the models of MODELS with weights in the package, and the names of these weights


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """A row of the paper's tables."""

    name: str
    title: str  # its name in the paper
    task: str
    models: Mapping[str, str]  # its model for each data set of `SIZES`
    module: str  # the module that defines it, whose docstring describes it
    reference: str  # authors, year and title of its paper
    idea: str  # in a few words
    parameters: str = "not published"  # the number of parameters that its authors publish
    rows: Mapping[str, str] = field(default_factory=dict)  # its rows in the tables of `horst.evaluation.paper`
    loss: Mapping[str, Any] = field(default_factory=dict)  # the options of a run's loss that make the method
    clips: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`steps` and `stride` of its clips, by data set, where they differ from RULSTM's protocol."""
    options: Mapping[str, Any] = field(default_factory=dict)  # those of the model: the ablations of HORST

    @property
    def year(self) -> int:
        """Of its paper."""
        return int(re.search(YEAR, self.reference).group())  # type: ignore[union-attr]

    def options_for(self, size: str) -> dict[str, Any]:
        """`options` for the model of a data set: the layers of an ablation are as wide there as the others."""
        width = {"hidden": [96, 96]} if size == "tiny" and "hidden" in self.options else {}
        return {**self.options, **width}

    def model_name(self, size: str) -> str:
        """The name of its model for a data set."""
        if size not in self.models:
            raise ConfigError(f"size is {size!r}; {self.title} has models for {', '.join(self.models)}")
        return self.models[size]

    def config(self, size: str | None = None) -> PredictorConfig:
        """Its model for a data set; by default the first one."""
        size = size or next(iter(self.models))
        return model_config(self.model_name(size), **self.options_for(size))


METHODS: Registry[Method] = Registry("method")
YEAR = r"\b(19|20)\d\d\b"
_MAKERS: dict[str, tuple[str, str, str]] = {}  # module, function and task of the models of methods


@overload
def register_model(function: ModelFunction, /) -> ModelFunction: ...
@overload
def register_model(*, pretrained: str) -> Callable[[ModelFunction], ModelFunction]: ...
def register_model(function: ModelFunction | None = None, /, *, pretrained: str | None = None) -> Any:
    """A decorator that adds a model: `@register_model` before a function that returns a `PredictorConfig`.

    The model has the name of the function. `pretrained`: the name of its weights, if the package has some.
    """
    if function is None:
        return partial(register_model, pretrained=pretrained)
    name = function.__name__
    if pretrained:
        PRETRAINED[name] = pretrained
    return MODELS.register(name)(function)


def register_method(name: str, *, task: str, **card: Any) -> Callable[[Any], Any]:
    """A decorator that adds a method and its models: before a function that takes a data set and returns a config.

    The models are named <function>_<data set>. Several methods can decorate one function. `task`: "recognition" or
    "anticipation". `card`: the other fields of `Method`.
    """

    def add(function: Callable[[str], PredictorConfig]) -> Callable[[str], PredictorConfig]:
        if task not in SIZES:
            raise ConfigError(f"the task of method {name!r} is {task!r}; choose from {', '.join(SIZES)}")
        models = {size: f"{function.__name__}_{size}" for size in SIZES[task]}
        try:
            method = Method(name=name, task=task, models=models, module=function.__module__, **card)
        except TypeError as error:
            raise ConfigError(f"the card of method {name!r}: {error}") from error
        if not re.search(YEAR, method.reference):
            raise ConfigError(f"the reference of method {name!r} has no year: {method.reference!r}")
        maker = (function.__module__, function.__qualname__, task)
        if taken := [model for model in models.values() if _MAKERS.get(model, maker) != maker]:
            raise ConfigError(f"there is a model {taken[0]!r} already: write one function per task, with its own name")
        for size, model in models.items():
            if model not in MODELS:
                MODELS.register(model)(partial(function, size))
            _MAKERS[model] = maker
        METHODS.register(name)(method)
        return function

    return add


def list_methods(task: str | None = None) -> list[Method]:
    """The methods of a task, or all: recognition first, by year, and HORST last as in the paper's tables."""
    chosen = [method for method in METHODS.values() if task in (None, method.task)]
    return sorted(chosen, key=lambda m: (list(SIZES).index(m.task), m.module.endswith(".horst"), m.year))


def list_models(pattern: str = "*", *, pretrained: bool = False) -> list[str]:
    """The names of the models that match a pattern; `pretrained`: only those with weights in the package.

    Examples:
        >>> import horst
        >>> horst.list_models("*conv*ssv2")
        ['conv_lstm_ssv2', 'conv_tt_lstm_ssv2']
    """
    return sorted(name for name in (PRETRAINED if pretrained else MODELS) if fnmatchcase(name, pattern))


def recognition(size: str, core: CoreConfig) -> PredictorConfig:
    """Early recognition: a core with HORST's backbone and head. The small backbone gives maps of 14 x 14 positions."""
    small = size == "tiny"
    backbone = Part(name="stem", options={"widths": [24, 48, 64], "norm": "channel"} if small else {})
    head = Part(name="recognition", options={"num_classes": 16, "norm": "batch"} if small else {"num_classes": 41})
    side = 112 if small else 224
    return PredictorConfig(backbone=backbone, core=core, head=head, size=(side, side), fps=12.0)


def anticipation(size: str, core: CoreConfig, head: str = "action", **options: Any) -> PredictorConfig:
    """Anticipation: a core on the feature vectors of RULSTM's TSN, or on a small backbone of its own.

    `options` of the head. Heads that take numbers of verbs and nouns get them from the data.
    """
    classes = {"ek55": 2513, "ek100": 3806, "tiny": 75}[size]
    part = Part(name=head, options={"num_classes": classes, "dropout": lstm_sizes(size)["dropout"], **options})
    backbone, frame = Part(name="maps", options={"channels": 1024}), (1, 1)
    if size == "tiny":  # its receptive field covers a hand and an object
        backbone = Part(name="stem", options={"widths": [24, 48, 64, 96, 128], "norm": "batch"})
        frame = (96, 168)
    return PredictorConfig(backbone=backbone, core=core, head=part, size=frame, fps=4.0)


def lstm_sizes(size: str) -> dict[str, Any]:
    """The sizes of RULSTM, which other methods on its features share, and small ones for the synthetic data."""
    if size == "tiny":
        return {"in_channels": 128, "hidden": 256, "dropout": 0.2}
    return {"in_channels": 1024, "hidden": 1024, "dropout": 0.8}


def model_config(name: str, **options: Any) -> PredictorConfig:
    """The config of a model by name, with options of its core, head or backbone changed.

    Options of the core are the fields of its config (`HORSTConfig`), those of the head are its keywords; an option that
    both have is given to both. `backbone` is a name or {"name": ..., **options}; the core's input follows its channels.
    `variant="released"` selects the released form of HORST's core and head. `size` and `fps` are those of the frames.
    """
    config = MODELS[name]()
    if "num_actions" in options:  # its name in configs of older versions
        options["num_classes"] = options.pop("num_actions")
    core_options = [f.name for f in fields(config.core)]
    of_head = [option for option in head_options(config.head.name) if option != "features"]
    of_head.append("video_dropout")  # of any head, for whole videos
    known = dict.fromkeys((*core_options, *of_head, "backbone", "size", "fps"))
    for option in options:
        if option not in known:
            raise ConfigError(f"{name} has no option {option!r}{did_you_mean(option, known)}")
    kept = HORST_KEEPS if isinstance(config.core, HORSTConfig) else core_options
    core = {f: getattr(config.core, f) for f in kept}
    if "backbone" in options:
        read_before = config.backbone.name == "maps"
        config = _with_backbone(config, options["backbone"])
        if read_before and config.backbone.name != "maps" and "size" not in options:
            raise ConfigError(f"{name} reads vectors; with the backbone {config.backbone.name}, give `size` too")
        core["in_channels"] = config.core.in_channels
    core |= {key: value for key, value in options.items() if key in core_options}
    head = {key: value for key, value in options.items() if key in of_head}
    if "variant" in options and "form" in of_head:
        head.setdefault("form", options["variant"])
    frames = {key: options[key] for key in ("size", "fps") if key in options}
    part = Part(name=config.head.name, options={**config.head.options, **head})
    return replace(config, core=type(config.core).from_dict(core), head=part, **frames)


def create_model(name: str, *, pretrained: bool = False, labels: Labels | None = None, **options: Any) -> Predictor:
    """Build a model by name, with new weights or with those of the package.

    Examples:
        >>> import horst
        >>> model = horst.create_model("horst_tiny", num_classes=5, order=3)
        >>> finetuned = horst.create_model("horst_tiny", pretrained=True, num_classes=5)  # a new classifier

    Args:
        name: One of `list_models()`.
        pretrained: Load the weights of `list_models(pretrained=True)`.
        labels: The names of the classes, {"action": [...]}.
        options: See `model_config`. A pretrained model takes those of `Predictor.reset_classifier` only.
    """
    if not pretrained:
        return Predictor.from_config(model_config(name, **options), labels=labels)
    if name not in PRETRAINED and name not in pretrained_models():
        known = list_models(pretrained=True)
        raise ConfigError(f"there are no weights for {name!r}{did_you_mean(name, known, 'There are weights for')}")
    model = open_model(PRETRAINED.get(name, name))
    if labels or "num_classes" in options:
        model.reset_classifier(options.pop("num_classes", None) or labels or 0, **options)
        model.labels = labels or model.labels
    elif options:
        raise ConfigError(f"a pretrained model has no option {next(iter(options))!r}: it takes num_classes or labels")
    return model.eval()


def _with_backbone(config: PredictorConfig, chosen: str | dict[str, Any]) -> PredictorConfig:
    """`config` on another backbone. Precomputed maps are by default those of the backbone that they replace."""
    options: dict[str, Any] = {"name": chosen} if isinstance(chosen, str) else dict(chosen)
    name, size = options.pop("name", config.backbone.name), config.size
    with torch.device("meta"):
        if name == "maps":
            before = create_backbone(config.backbone.name, **config.backbone.options)
            options.setdefault("channels", before.channels)
            size = before.output_size(*size)
        # Only its shape is needed, so no weights are loaded. The shape of some is that of the model at an address.
        addressed = {key: v for key, v in options.items() if key != "pretrained" or isinstance(v, str)}
        after = create_backbone(name, **addressed)
    core = replace(config.core, in_channels=after.channels)
    return replace(config, backbone=Part(name=name, options=options), core=core, size=size)
