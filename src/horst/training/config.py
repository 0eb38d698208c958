"""The config of a run: one YAML file that names the model, the data and the recipe; see docs/guides/training.md.

    base: somethings/gpu                  # another run file, or the name of a packaged one; optional
    name: somethings-tiny
    model: {name: horst_tiny, options: {variant: released}}
    data: somethings/data.yaml            # or the contents of such a file

Entries that neither the file nor its base gives have the paper's values.
"""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args, get_type_hints

import torch
import yaml
from torch import nn

from horst.config import check_entries, convert, from_dict, to_dict
from horst.configs import find_config
from horst.configs.run_file import absolute_entries, merged, override, read_run
from horst.data.augmenter import Augment
from horst.data.config import DataConfig
from horst.errors import ConfigError
from horst.extras import require
from horst.ops.backend import Wanted
from horst.registry import ENVIRONMENT, Registry, import_file

Precision = Literal["auto", "32-true", "bf16-mixed", "16-mixed"]
RankingForm = Literal["score", "margin", "both"]
Distance = Literal["mse", "contrastive"]

BUILTIN_LOSSES = ("cross_entropy", "smooth_top_k", "truncated_top_k")
LOSSES: Registry[Any] = Registry(
    "loss", {name: f"horst.training.losses:{name}" for name in BUILTIN_LOSSES}, import_paths=True
)
"""Losses of one frame by name; see `horst.training.losses.register_loss`."""
OPTIMISERS: Registry[Any] = Registry(
    "optimiser",
    {"adabelief": "horst.training.optimisers:AdaBelief", "adamw": "torch.optim:AdamW", "sgd": "torch.optim:SGD"},
    import_paths=True,
)
"""Optimisers by name: called with the parameters, lr, weight_decay and `optimiser.options`."""
LOGGERS: Registry[Any] = Registry(
    "logger",
    {name: f"horst.training.loggers:{name}_logger" for name in ("csv", "tensorboard", "wandb", "mlflow")},
    import_paths=True,
)
"""Loggers by name; "package.module:name" is called with its `trainer.logger_options`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    """Which model is trained. The data determines its number of classes."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    """Of `horst.create_model`: variant, order, attention, backbone, ..."""
    init: str | None = None
    """A saved model or a run to start from. The head starts with new weights if its labels differ."""
    init_backbone: str | None = None
    """A saved model or a run whose backbone to start from. Core and head start with new weights."""
    tsn: str | None = None
    """RULSTM's TSN checkpoint for a bn_inception backbone."""
    freeze_backbone: bool = False
    """Train core and head only, as the paper does for anticipation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Batches:
    """How clips are batched."""

    size: int = 8
    """Clips in a batch on each device."""
    workers: int = 0
    """Processes that decode, on each device; at most one for each core that is available."""
    prefix: tuple[float, float] | None = None
    """Recognition: train on a random first part of each clip, between these two fractions."""
    bad_limit: float = 0.01
    """The share of training clips that may be unreadable before the run stops."""
    cache: str | None = None
    """A folder on a fast disk for decoded clips, if a GPU waits for decoding; see `horst.data.cache`."""
    preload: Literal["device"] | None = None
    """Keep all clips in the memory of the device, for data sets that fit there; see `horst.data.preload`."""
    drop_last: bool = True
    """Leave out the last batch of an epoch if it is not full; other clips in each epoch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """A loss of each frame, summed over verb, noun and action if the head predicts them, and optional further terms."""

    steps: Literal["last", "every", "anticipation"] = "last"
    """At the last observed frame (early recognition), at every frame, or at every anticipation time of the protocol."""
    times: Literal["sum", "mean"] = "sum"
    """How the losses of the anticipation times are combined: HORST's paper has the sum, RULSTM's code the mean."""
    ramp: bool = False
    """Weight frames in proportion to their number. The first frames of a clip say little, and the noise of their loss
    delays learning."""
    exponential: float | None = None
    """Instead of `ramp`, a rate: each frame counts exp(-rate) times as much as the next one (Jain et al. 2016: 1)."""
    label_smoothing: float = 0.0
    """Of cross-entropy."""
    name: str = "cross_entropy"
    """A name in LOSSES, or "package.module:name" of a loss of one's own. smooth_top_k replaces the cross-entropy of all
    tasks (SVM-TOP3, SVM-TOP5). truncated_top_k replaces that of the action only (VNMCE+T3, VNMCE+T5)."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of a loss of one's own."""
    k: int = 5
    """Of the top-k losses: the number of guesses, less than the number of classes."""
    temperature: float = 1.0
    """Of smooth_top_k: near 0 it is a hinge at the k-th best of the other classes. Of contrastive features: near 0,
    only the hardest negatives count."""
    tasks: tuple[Literal["action", "verb", "noun", "present"], ...] | None = None
    """Learn only these tasks (VN-CE: verb and noun); null: all that the head predicts."""
    near: float | None = None
    """Whole videos, seconds: a prediction for a horizon counts 0.1 + 0.9 exp(-gap / near), where gap is the time from
    the end of the horizon to the start of the action. Actions are evaluated at a gap of 0."""
    balance: float = 0.0
    """Logit adjustment (Menon et al. 2021): add this times the logarithm of the class frequencies to the scores in the
    cross-entropy of actions, so that rare actions are predicted more often. 1 aims at the mean recall of classes."""
    ranking: float = 0.0
    """Weight of an additional ranking loss of the action: its score should not fall from one frame to a later one."""
    ranking_form: RankingForm = "score"
    """What should not fall: the probability of the true action (score), its lead over the others (margin), or both."""
    features: float = 0.0
    """Weight of an additional loss of predicted features, for models that predict them."""
    distance: Distance = "mse"
    """Between predicted and real features: squared difference, or contrastive among all frames of the batch."""

    def __post_init__(self) -> None:
        check_entries("loss", self, label_smoothing="0..1", ranking="0..", features="0..", exponential="0..1000")
        check_entries("loss", self, balance="0..", near=">0")
        check_entries("loss", self, k="1..", temperature=">0")
        if self.name not in LOSSES:
            _ = LOSSES[self.name]  # raises, with the closest names
        if self.options and self.name in BUILTIN_LOSSES:
            raise ConfigError(f"loss.options are for a loss of your own; {self.name} has none")
        if self.exponential is not None and self.ramp:
            raise ConfigError("loss.ramp and loss.exponential both weight the frames; give one of them")
        if self.ramp and self.steps == "anticipation" and self.times == "sum":
            raise ConfigError("loss.ramp shares a weight of 1 among frames: set loss.times to mean, or leave ramp out")
        if self.name != "cross_entropy" and self.label_smoothing:
            raise ConfigError(f"loss.label_smoothing is {self.label_smoothing}; {self.name} takes none")
        if self.tasks is not None:
            if not self.tasks:
                raise ConfigError("loss.tasks is empty; name the tasks to learn, or leave it out to learn all")
            if "action" not in self.tasks and (self.ranking or self.name == "truncated_top_k"):
                what = "loss.ranking" if self.ranking else self.name
                raise ConfigError(f"{what} is a loss of the action, which loss.tasks leaves out; add action to it")


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimiser:
    """By default AdaBelief inside Lookahead, as in the paper."""

    name: str = "adabelief"
    """A name in OPTIMISERS, or "package.module:name", such as torch.optim:RAdam."""
    lr: float = 0.002
    backbone_lr: float | None = None
    """The learning rate of the backbone, to finetune one with smaller steps; null: `lr`."""
    weight_decay: float = 0.001
    lookahead: bool = True
    """k = 5 steps, alpha = 0.5."""
    decouple: bool = True
    """Of adabelief: weight decay apart from the gradient, as in AdamW; default of its authors' code since 0.1.0."""
    rectify: bool = True
    """Of adabelief: RAdam's rectification of the first steps; default of its authors' code since 0.1.0."""
    momentum: float = 0.9
    """Of sgd."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further keyword arguments of the optimiser."""

    def __post_init__(self) -> None:
        check_entries("optimiser", self, lr=">0", backbone_lr=">0", weight_decay="0..", momentum="0..1")
        if self.name not in OPTIMISERS:
            _ = OPTIMISERS[self.name]  # raises, with the closest names

    def create(self, parameters: Iterable[nn.Parameter], backbone: nn.Module | None = None) -> torch.optim.Optimizer:
        """The optimiser of those parameters that are trained. `backbone`: the part that `backbone_lr` is for."""
        own: dict[str, Any] = {}
        if self.name == "adabelief":
            own = {"weight_decouple": self.decouple, "rectify": self.rectify}
        elif self.name == "sgd":
            own = {"momentum": self.momentum}
        published = require("pytorch_optimizer", "train") if self.name == "adabelief" or self.lookahead else None
        trained: list[Any] = [p for p in parameters if p.requires_grad]
        if self.backbone_lr is not None:
            own_rate = {id(p) for p in backbone.parameters() if p.requires_grad} if backbone is not None else set()
            if not own_rate:
                raise ConfigError("optimiser.backbone_lr is set, and nothing of the backbone is trained: leave it out")
            others, finetuned = ([p for p in trained if (id(p) in own_rate) == chosen] for chosen in (False, True))
            trained = [{"params": others}, {"params": finetuned, "lr": self.backbone_lr}]
        optimiser = OPTIMISERS[self.name](trained, lr=self.lr, weight_decay=self.weight_decay, **own, **self.options)
        return published.Lookahead(optimiser, k=5, alpha=0.5) if published is not None and self.lookahead else optimiser


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """The learning rate over the run: a linear rise, constant, then a cosine to 0."""

    warmup: float = 0.0
    """Epochs of the rise."""
    decay: float = 0.25
    """The last part of the run, in which it falls to 0."""

    def __post_init__(self) -> None:
        check_entries("schedule", self, warmup="0..", decay="0..1")

    def factor(self, step: int, steps: int, epoch_steps: float) -> float:
        """Of the learning rate at a step of a run of `steps`, `epoch_steps` in each epoch."""
        rise, fall = self.warmup * epoch_steps, self.decay * steps
        if step < rise:
            return (step + 1) / (rise + 1)
        if fall and step > steps - fall:
            return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - (steps - fall)) / fall)))
        return 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerOptions:
    """Duration, devices and precision."""

    epochs: int = 50
    precision: Precision = "auto"
    """auto: bf16-mixed on NVIDIA GPUs that compute in bf16, otherwise 32-true. The run folder records the choice."""
    accumulate: int = 1
    """Batches whose gradients make one step."""
    window: int | None = None
    """Whole videos: truncated back-propagation through time. Gradients go back to the start of each window of this many
    frames, the state goes on: memory is that of a window, however long a video is. A step is still a whole batch."""
    clip_gradient: float | None = None
    """The largest norm of a step's gradient."""
    ema: float | None = None
    """Decay of an exponential moving average of the weights, such as 0.999. The average is evaluated and saved."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    devices: int | Literal["auto"] = "auto"
    """Of each machine."""
    nodes: int = 1
    """Machines, each started with torchrun or by SLURM."""
    threads: int | None = None
    """CPU threads of training and evaluation; null: OMP_NUM_THREADS, or one for each core. Rounding depends on their
    number, so that a run on a CPU repeats to the last digit only with the same number."""
    deterministic: bool = False
    """Use algorithms on a GPU that repeat to the last bit, on GPUs of the same kind; some are slower. It holds for the
    whole process."""
    backend: Wanted = "auto"
    """What runs the layers: reference, compiled (takes a minute to start), triton, or the fastest one available."""
    graphs: bool | Literal["auto"] = "auto"
    """Capture the step as CUDA graphs, which a CPU launches at once: small models are several times faster. auto: on
    NVIDIA GPUs, if nothing is accumulated and the model can be captured. The run folder records the choice."""
    validate_every: int = 1
    """Epochs between two validations. The last epoch is always validated; 0: only that one."""
    checkpoint_minutes: float = 10.0
    """How often a checkpoint is written within a long epoch; 0: after every batch."""
    loggers: tuple[str, ...] | str | None = None
    """csv, tensorboard, wandb, mlflow, or "package.module:name" of another logger of Lightning: a list, or names with
    commas between them. null: tensorboard, if it is installed. metrics.csv in the run's folder is always written."""
    logger_options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Options of each logger by its name, as Lightning's class takes them: {wandb: {project: gestures}}."""
    log_every: int = 50
    """Steps between two rows of the loss for the loggers."""
    monitor: str | None = None
    """The validation metric whose highest value is the best epoch; null: that of the data's protocol."""
    completion_epochs: int = 0
    """Sequence-completion pretraining: in the first epochs an unrolling head reads the frames that really follow."""
    completion_from: Literal["best", "last"] = "best"
    """How the epochs after completion start: from its best epoch by `monitor` with a new optimiser, as in RULSTM's
    code, or from its last one with the same optimiser."""

    def __post_init__(self) -> None:
        check_entries("trainer", self, epochs="1..", accumulate="1..", nodes="1..", clip_gradient=">0", ema="0..1")
        check_entries("trainer", self, window="2..", log_every="1..", threads="1..")
        if isinstance(self.loggers, str):
            object.__setattr__(self, "loggers", tuple(filter(None, map(str.strip, self.loggers.split(",")))))
        for name in self.loggers or ():
            if name not in LOGGERS:
                _ = LOGGERS[name]  # raises, with the closest names
        for name, options in self.logger_options.items():
            if not isinstance(options, dict) or name not in (self.loggers or ("tensorboard",)):
                raise ConfigError(
                    f"trainer.logger_options has {name}: {options!r}; it takes the options, as a mapping, of a logger "
                    f"in trainer.loggers, which is {list(self.loggers or ())}"
                )
        most = f"0..{self.epochs}"
        check_entries("trainer", self, validate_every="0..", checkpoint_minutes="0..", completion_epochs=most)
        if self.devices != "auto":
            check_entries("trainer", self, devices="1..")
        if self.window is not None:
            for name, usable in (("graphs", self.graphs is not True), ("precision", self.precision != "16-mixed")):
                if not usable:
                    raise ConfigError(f"trainer.window cannot be used with trainer.{name} {getattr(self, name)}")
        if self.graphs is True and self.accumulate > 1:
            raise ConfigError(
                f"trainer.accumulate is {self.accumulate}: trainer.graphs cannot accumulate gradients. "
                "Set accumulate to 1 and make batches.size larger, or graphs to false"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperRow:
    """The row of the paper that a run is compared with; see `horst.evaluation.paper`."""

    table: str
    row: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """One training run."""

    name: str
    """Of the run folder, runs/<name> unless another folder is given."""
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
    imports: tuple[str, ...] = ()
    """Python files or modules that register parts of one's own; they are imported before the config is read."""

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        overrides: Sequence[str] = (),
        *,
        run_imports: bool = True,
        resumed: bool = False,
        origin: str = "the command line",
    ) -> Self:
        """The run of a YAML file or a packaged name.

        Args:
            path: The file or name.
            overrides: Changes of single entries, such as "trainer.epochs=3"; paths are relative to the current folder.
            run_imports: Whether the files in `imports` are executed. Not when a run of somebody else is only read.
            resumed: Entries that the version that wrote the file did not have keep their old meaning.
            origin: Where `overrides` come from, for messages.
        """
        path = find_config(path)
        data = merged(OLD_DEFAULTS if resumed else {}, read_run(path))
        try:
            return cls._changed(data, overrides, run_imports=run_imports)
        except ConfigError as error:
            blamed = cls._blamed(data, overrides, str(error))
            place = f"{origin}: {' '.join(f'--{change}' for change in blamed)}" if blamed else str(path)
            raise ConfigError(f"{place}: {error}") from error

    @classmethod
    def _changed(cls, data: dict[str, Any], changes: Sequence[str], *, run_imports: bool) -> Self:
        """The run of the data of a file, changed."""
        for change in changes:
            data = override(data, change)
        hint = ""
        try:
            files = convert(data.get("imports", ()), tuple[str, ...], "imports")
            if run_imports:
                for file in files:
                    import_file(file)
            elif files:
                hint = f". The run uses code of its own; to execute it, set {ENVIRONMENT}={os.pathsep.join(files)}"
            return from_dict(cls, data)
        except ConfigError as error:
            raise ConfigError(f"{error}{hint}") from error

    @classmethod
    def _blamed(cls, data: dict[str, Any], changes: Sequence[str], message: str) -> list[str]:
        """The changes without which reading `data` does not end with the error `message`; none if the file has it."""

        def fails(rest: Sequence[str]) -> bool:
            try:
                cls._changed(data, rest, run_imports=False)
            except ConfigError as error:
                return str(error).startswith(message)  # a hint may follow
            return False

        if fails(()):
            return []
        needed = [change for i, change in enumerate(changes) if not fails([*changes[:i], *changes[i + 1 :]])]
        return needed or list(changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data that gives the same run again from any folder: its paths are absolute."""
        data = absolute_entries({**to_dict(self), "data": self.data.to_dict()}, Path())
        return data if self.imports else {key: value for key, value in data.items() if key != "imports"}

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)


def entry_names(section: Any = RunConfig) -> list[str]:
    """The dotted keys of all entries of a run: name, model.name, ..., trainer.epochs, ...; none of data sources."""
    names = []
    for name, hint in get_type_hints(section).items():
        if section is DataConfig and name in ("options", "unset"):  # options are entries of `data` itself
            continue
        inner = next((one for one in (hint, *get_args(hint)) if is_dataclass(one)), None)
        names += [name] if inner is None else [f"{name}.{below}" for below in entry_names(inner)]
    return names


OLD_DEFAULTS = {
    "loss": {"times": "mean"},
    "optimiser": {"rectify": False},
    "trainer": {"completion_from": "last", "precision": "32-true", "graphs": False},
}
"""What runs did before these entries existed."""
