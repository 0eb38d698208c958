"""A run as plain data: one YAML file that names the model, the data and the recipe.

    name: somethings-tiny
    model: {name: horst_tiny, options: {variant: released}}
    data: somethings/data.yaml            # or the contents of such a file
    trainer: {epochs: 30}

Whatever is left out takes the paper's value. Paths are relative to the file that names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from horst.config import check_range, convert, from_dict, read_yaml, to_dict
from horst.configs import find_base, find_config, path_root
from horst.data.augmenter import Augment
from horst.data.config import PATHS as DATA_PATHS
from horst.data.config import DataConfig
from horst.errors import ConfigError, did_you_mean
from horst.models.hub import is_address
from horst.ops.backend import Wanted

Steps = Literal["last", "every", "anticipation"]
LossName = Literal["cross_entropy", "smooth_top_k", "truncated_top_k"]
RankingForm = Literal["score", "margin", "both"]
Distance = Literal["mse", "contrastive"]
Times = Literal["sum", "mean"]
OptimiserName = Literal["adabelief", "adamw", "sgd"]
Precision = Literal["32-true", "bf16-mixed", "16-mixed"]
CompletionFrom = Literal["best", "last"]

TASKS = ("action", "verb", "noun")
PATH_KEYS = ("model.init", "model.tsn", "batches.cache", *(f"data.{name}" for name in DATA_PATHS))
"""The entries of a run that are paths."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    """Which model is trained. How many classes it has, the data says."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    """Of `horst.create_model`: variant, order, attention, backbone, ..."""
    init: str | None = None
    """A saved model or a run to start from; where its labels are others, the head starts afresh."""
    tsn: str | None = None
    """RULSTM's TSN checkpoint for a bn_inception backbone."""
    freeze_backbone: bool = False
    """Train core and head alone, as the paper does for anticipation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Batches:
    """How clips are put together."""

    size: int = 8
    """Clips a batch on each device."""
    workers: int = 0
    """Processes that decode, on each device."""
    prefix: tuple[float, float] | None = None
    """Recognition: train on a random first part of each clip, from this fraction to that."""
    bad_limit: float = 0.01
    """The share of training clips that may be unreadable before the run stops."""
    cache: str | None = None
    """A folder on a fast disk that keeps decoded clips, for a GPU that waits for decoding; see `horst.data.cache`."""
    resident: bool = False
    """Keep all clips in the memory of the device, for data sets that fit there; see `horst.data.preload`."""
    drop_last: bool = True
    """Leave out the last batch of an epoch where it is not full, each epoch with other clips."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """Cross-entropy, summed over verb, noun and action where the head predicts them, or what is named in its place."""

    steps: Steps = "last"
    """At the last observed frame (early recognition), at every frame, or at every anticipation time of the protocol."""
    times: Times = "sum"
    """Of losses at every anticipation time: their sum, as in HORST's paper, or their mean, as in RULSTM's code."""
    ramp: bool = False
    """Of losses at every frame: frames count in proportion to their number. The first ones of a clip tell little, and
    what they cannot tell is noise that delays the start of learning."""
    exponential: float | None = None
    """In place of `ramp`: a rate; each frame counts exp(-rate) times as much as the next one (Jain et al. 2016: 1)."""
    label_smoothing: float = 0.0
    """Of cross-entropy."""
    name: LossName = "cross_entropy"
    """smooth_top_k takes the place of every task's cross-entropy (SVM-TOP3, SVM-TOP5). truncated_top_k takes that of
    the action's alone: verb and noun keep theirs, marginal ones with a head of marginal logits (VNMCE+T3, VNMCE+T5)."""
    k: int = 5
    """Of the top-k losses: how many guesses there are. Each task that they are used for needs more classes."""
    temperature: float = 1.0
    """Of smooth_top_k: the nearer to 0, the nearer to a hinge at the k-th best of the other classes. Of contrastive
    features: the nearer to 0, the more those count that are hard to tell apart."""
    tasks: tuple[str, ...] | None = None
    """Learn from these tasks alone (VN-CE: verb and noun); null: from all that the head predicts."""
    ranking: float = 0.0
    """Weight of the ranking loss of the action, which is added: what a model believed of the true action at one frame
    it should believe at all that follow."""
    ranking_form: RankingForm = "score"
    """What must not fall: the probability of the true action (score), its lead over all others (margin), or both."""
    features: float = 0.0
    """Weight of the loss of foretold features, which is added, for models that foretell them."""
    distance: Distance = "mse"
    """Of foretold features from the real ones: squared difference, or contrastive among all frames of the batch."""

    def __post_init__(self) -> None:
        check_range("loss.label_smoothing", self.label_smoothing, 0, 1)
        for name in ("ranking", "features"):
            check_range(f"loss.{name}", getattr(self, name), 0, float("inf"))
        if self.exponential is not None:
            check_range("loss.exponential", self.exponential, 0, 1000)
            if self.ramp:
                raise ConfigError("loss.ramp and loss.exponential both say how frames count; give one of them")
        if self.ramp and self.steps == "anticipation" and self.times == "sum":
            raise ConfigError("loss.ramp shares a weight of 1 among frames: set loss.times to mean, or leave ramp out")
        if self.k < 1:
            raise ConfigError(f"loss.k is {self.k}; it takes a whole number from 1 on")
        if not self.temperature > 0:
            raise ConfigError(f"loss.temperature is {self.temperature}; it takes a number above 0")
        if self.name != "cross_entropy" and self.label_smoothing:
            raise ConfigError(f"loss.label_smoothing is {self.label_smoothing}; {self.name} takes none")
        if self.tasks is not None:
            self._check_tasks(self.tasks)

    def _check_tasks(self, tasks: tuple[str, ...]) -> None:
        if not tasks:
            raise ConfigError("loss.tasks is empty; name what is learnt from, or leave it out to learn from all")
        for task in tasks:
            if task not in TASKS:
                raise ConfigError(
                    f"loss.tasks has no {task!r}; choose from {', '.join(TASKS)}{did_you_mean(task, TASKS)}"
                )
        if "action" not in tasks and (self.ranking or self.name == "truncated_top_k"):
            what = "loss.ranking" if self.ranking else self.name
            raise ConfigError(f"{what} is a loss of the action, which loss.tasks leaves out; add action to it")


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimiser:
    """AdaBelief inside Lookahead, as the paper trains, by default."""

    name: OptimiserName = "adabelief"
    lr: float = 0.002
    weight_decay: float = 0.001
    lookahead: bool = True
    """k = 5 steps, alpha = 0.5."""
    decouple: bool = True
    """Of adabelief: weight decay apart from the gradient, as in AdamW; default of its authors' code since 0.1.0."""
    rectify: bool = True
    """Of adabelief: RAdam's rectification of the first steps; default of its authors' code since 0.1.0."""
    momentum: float = 0.9
    """Of sgd."""

    def __post_init__(self) -> None:
        if not self.lr > 0:
            raise ConfigError(f"optimiser.lr is {self.lr}; it takes a number above 0")
        check_range("optimiser.weight_decay", self.weight_decay, 0, float("inf"))
        check_range("optimiser.momentum", self.momentum, 0, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """The learning rate over the run: up, constant, then a cosine to 0."""

    warmup: float = 0.0
    """Epochs over which it rises."""
    decay: float = 0.25
    """The last part of the run, over which it falls to 0."""

    def __post_init__(self) -> None:
        check_range("schedule.warmup", self.warmup, 0, float("inf"))
        check_range("schedule.decay", self.decay, 0, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerOptions:
    """How long, on what, and how exactly."""

    epochs: int = 50
    precision: Precision = "32-true"
    accumulate: int = 1
    """Batches whose gradients make one step."""
    clip_gradient: float | None = None
    """The largest norm of a step's gradient."""
    ema: float | None = None
    """Decay of a running average of the weights, such as 0.999, which is then what is evaluated and saved."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    devices: int | Literal["auto"] = "auto"
    """Of each machine."""
    nodes: int = 1
    """Machines, each started with torchrun or by SLURM."""
    backend: Wanted = "auto"
    """What runs the layers: reference, compiled (a minute at the start), triton, or the one that fits best."""
    graphs: bool = False
    """Capture the step as CUDA graphs, for one GPU: small models are several times faster."""
    validate_every: int = 1
    """Epochs between two looks at the validation clips, which the last one gets always; 0: only that."""
    checkpoint_minutes: float = 10.0
    """How much work a kill may cost at most, where an epoch takes longer; 0: not even that of a batch."""
    monitor: str | None = None
    """The validation metric by which the best epoch is chosen, the highest; null: that of the data's protocol."""
    completion_epochs: int = 0
    """Sequence-completion pretraining: first epochs, in which an unrolling head reads the frames that really follow."""
    completion_from: CompletionFrom = "best"
    """With what the epochs after completion start: its best epoch by `monitor` and a new optimiser, as RULSTM's code
    does, or its last one, going on with the optimiser."""

    def __post_init__(self) -> None:
        for name in ("epochs", "accumulate", "nodes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"trainer.{name} is {getattr(self, name)}; it takes a whole number from 1 on")
        if self.graphs and self.accumulate > 1:
            raise ConfigError(
                f"trainer.accumulate is {self.accumulate}: with trainer.graphs, a gradient lasts for one batch alone. "
                "Set accumulate to 1 and make batches.size larger, or graphs to false"
            )
        if isinstance(self.devices, int) and self.devices < 1:
            raise ConfigError(f"trainer.devices is {self.devices}; it takes a whole number from 1 on, or auto")
        if self.clip_gradient is not None and not self.clip_gradient > 0:
            raise ConfigError(f"trainer.clip_gradient is {self.clip_gradient}; it takes a number above 0")
        if self.ema is not None:
            check_range("trainer.ema", self.ema, 0, 1)
        check_range("trainer.validate_every", self.validate_every, 0, float("inf"))
        check_range("trainer.completion_epochs", self.completion_epochs, 0, self.epochs)
        check_range("trainer.checkpoint_minutes", self.checkpoint_minutes, 0, float("inf"))


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperRow:
    """The row of the paper that a run is to be compared with; see `horst.evaluation.paper`."""

    table: str
    row: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """One training run."""

    name: str
    """Of the run folder, runs/<name> unless the command says otherwise."""
    model: ModelChoice
    data: DataConfig
    seed: int = 0
    paper: PaperRow | None = None
    batches: Batches = field(default_factory=Batches)
    augment: Augment = field(default_factory=Augment)
    loss: Loss = field(default_factory=Loss)
    optimiser: Optimiser = field(default_factory=Optimiser)
    schedule: Schedule = field(default_factory=Schedule)
    trainer: TrainerOptions = field(default_factory=TrainerOptions)

    @classmethod
    def from_file(cls, path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
        """The run of a YAML file; `overrides` ("trainer.epochs=3") and the paths in them come from the command line."""
        path = find_config(path)
        data = read_run(path)
        try:
            for override in overrides:
                data = _override(data, override)
            return from_dict(cls, data)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    @classmethod
    def from_run(cls, path: str | Path) -> RunConfig:
        """The run as its folder has it. What an older version did without naming it stays as it was."""
        config, said = cls.from_file(path), read_run(Path(path))
        for section, before in UNNAMED_BEFORE.items():
            absent = {key: value for key, value in before.items() if key not in (said.get(section) or {})}
            config = replace(config, **{section: replace(getattr(config, section), **absent)})
        return config

    def to_dict(self) -> dict[str, Any]:
        """Plain data from which the same run is made again, its paths absolute."""
        return _absolute({**to_dict(self), "data": self.data.to_dict()}, Path())

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)


UNNAMED_BEFORE: dict[str, dict[str, Any]] = {
    "loss": {"times": "mean"},
    "optimiser": {"rectify": False},
    "trainer": {"completion_from": "last"},
}
"""Options that older versions did not have, and what these did: for runs that go on."""


def read_run(path: Path) -> dict[str, Any]:
    """The plain data of a run file, merged into that of its `base:`. Paths are absolute."""
    return _read_run(path, ())


def _read_run(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path} holds {data!r}; a run is a mapping with a name, a model and data")
    above = (*above, path.resolve())
    try:
        base = convert(data.get("base"), str | None, "base")
        data = _absolute({key: value for key, value in data.items() if key != "base"}, path_root(path))
        if base is None:
            return data
        below = find_base(base, path)
        if below.resolve() in above:
            raise ConfigError(f"base is {base}, which is based on this file")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    merged = _merged(_read_run(below, above), data)
    return {key: value for key, value in merged.items() if key != "name" or "name" in data}


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the entries of `own`; mappings in both are merged. Options of another model or source are dropped."""
    merged = dict(base)
    for key, value in own.items():
        below = base.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            if key == "model" and value.get("name", below.get("name")) != below.get("name"):
                below = {name: option for name, option in below.items() if name != "options"}
            if key == "data" and value.get("source", below.get("source")) != below.get("source"):
                below = {}
            value = _merged(below, value)
        merged[key] = value
    return merged


def _absolute(data: dict[str, Any], root: Path) -> dict[str, Any]:
    """`data` with its relative paths, which are relative to `root`, made absolute."""
    data = dict(data)
    if isinstance(data.get("data"), str):
        data["data"] = DataConfig.from_file(root / data["data"]).to_dict()
    for section, _, name in (key.partition(".") for key in PATH_KEYS):
        given = data.get(section)
        if isinstance(given, dict) and isinstance(given.get(name), str):
            data[section] = {**given, name: absolute_path(given[name], root)}
    return data


def absolute_path(path: str, root: Path) -> str:
    """An address of the Hugging Face Hub stays as it is."""
    return path if is_address(path) else str((root / Path(path).expanduser()).absolute())


def _override(data: dict[str, Any], override: str) -> dict[str, Any]:
    """`data` with one entry changed: "trainer.epochs=3"."""
    key, equals, text = override.partition("=")
    if not equals:
        raise ConfigError(f"--{key} needs a value")
    value = _value(text)
    if key == "data" and isinstance(value, str):
        return {**data, "data": DataConfig.from_file(value).to_dict()}
    if key in PATH_KEYS and isinstance(value, str):
        value = absolute_path(value, Path())
    return _put(data, key.split("."), value, key)


def _put(data: Mapping[str, Any], path: list[str], value: Any, key: str) -> dict[str, Any]:
    head, *rest = path
    if not rest:
        return {**data, head: value}
    inner = data.get(head)
    if inner is not None and not isinstance(inner, Mapping):
        raise ConfigError(f"--{key}: {head} is {inner!r}, which has no entries")
    return {**data, head: _put(inner or {}, rest, value, key)}


def _value(text: str) -> Any:
    """As YAML reads it, but 1e-3 is a number."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{text!r} cannot be read as YAML: {error}") from error
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value
