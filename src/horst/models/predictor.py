"""The predictor: frames -> backbone -> core -> head, with the contract of the core.

    model = create_model("horst_tiny")
    out, _ = model(frames)                        # a clip (B, T, 3, H, W), RGB in 0..255
    state = model.init_state(1, 112, 112)
    out, state = model.step(frame, state)         # one frame (B, 3, H, W)

State is passed in and returned, so one model serves any number of streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from horst.backbones import Backbone, create_backbone
from horst.errors import ConfigError, InputError, did_you_mean
from horst.heads import Head, Logits, Unroll, Unroller, create_head
from horst.layers import Core, CoreConfig, CoreOutput
from horst.layers.core import check_lengths
from horst.models.cores import core_config, create_core
from horst.registry import Part

if TYPE_CHECKING:
    from horst.streaming import StreamSession

LARGEST = 4096
"""Pixels each way. The limits are far above what anybody uses: a config that exceeds them would take all memory."""
FASTEST = 1000
"""Frames a second."""
WIDTHS = ("in_channels", "hidden", "mlp", "projection")
WIDEST = 65_536
"""Channels."""
LONGEST = 1024
"""States that a core remembers, steps that it goes ahead, and the like."""

Labels = dict[str, list[str]]
"""Names of the classes, by task: {"action": [...]}, and for anticipation "verb" and "noun" too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictorConfig:
    """All that it takes to build a predictor; plain data, saved beside the weights."""

    backbone: Part
    core: CoreConfig
    head: Part
    size: tuple[int, int]
    """Height and width of the frames that the model was made for; others work, at another cost."""
    fps: float
    """Frames per second that the model was made for."""

    def __post_init__(self) -> None:
        _size(self.size)
        _number("fps", self.fps)
        for name, value in asdict(self.core).items():  # type: ignore[call-overload]
            limit = WIDEST if name in WIDTHS else LONGEST
            for number in value if isinstance(value, list | tuple) else (value,):
                if isinstance(number, int | float) and number > limit:
                    raise ConfigError(f"{name} of {self.core.title} is {number}; it takes at most {limit}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data. A core other than HORST is told by its name."""
        data = asdict(self)
        return data if self.core.name == "horst" else {**data, "core": {"name": self.core.name, **data["core"]}}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> PredictorConfig:
        known = list(cls.__slots__)
        for name in data:
            if name not in known:
                raise ConfigError(f"a model's config has no entry {name!r}{did_you_mean(name, known)}")
        for name in known:
            if name not in data:
                raise ConfigError(f"the model's config lacks the entry {name!r}")
        return cls(
            backbone=_part("backbone", data["backbone"]),
            core=core_config(_mapping("core", data["core"])),
            head=_renamed(_part("head", data["head"])),
            size=_size(data["size"]),
            fps=_number("fps", data["fps"]),
        )


@dataclass(frozen=True, slots=True)
class PredictorOutput:
    """What a predictor says of a clip (leading axes B, T) or of one frame (B)."""

    logits: Logits
    core: CoreOutput
    """What the head read, and on request the attention."""


class Predictor(nn.Module):
    """A backbone, a temporal core and a head in a row. Any core with the contract of `horst.layers.Core` fits."""

    def __init__(
        self,
        backbone: Backbone,
        core: Core,
        head: Head,
        *,
        size: tuple[int, int] = (224, 224),
        fps: float = 12.0,
        labels: Labels | None = None,
    ) -> None:
        """`size` (height, width) and `fps` of the frames that it is made for; `labels`, the names of its classes."""
        super().__init__()
        if backbone.channels != core.config.in_channels:
            raise ConfigError(
                f"the backbone gives {backbone.channels} channels and the core takes {core.config.in_channels}"
            )
        if core.channels != head.channels:
            raise ConfigError(f"the core gives {core.channels} channels and the head takes {head.channels}")
        missing = [name for name in head.reads if name not in core.gives]
        if missing:
            raise ConfigError(
                f"the head {type(head).__name__} reads {missing[0]}, which {core.config.title} does not give"
            )
        self.backbone, self.core, self.head = backbone, core, head
        self.size, self.fps = _size(size), _number("fps", fps)
        self.labels = check_labels(labels, head.classes) if labels else None

    @classmethod
    def from_config(cls, config: PredictorConfig, *, labels: Labels | None = None) -> Predictor:
        backbone = create_backbone(config.backbone.name, **config.backbone.options)
        core = create_core(config.core)
        head = create_head(config.head.name, core.channels, features=config.core.in_channels, **config.head.options)
        return cls(backbone, core, head, size=config.size, fps=config.fps, labels=labels)

    @property
    def config(self) -> PredictorConfig:
        """From which the model can be built again. Its parts must come from `create_backbone` and `create_head`."""
        for part, make in ((self.backbone, "create_backbone"), (self.head, "create_head")):
            if part.made_from is None:
                raise ConfigError(f"a {type(part).__name__} made by hand has no config: make it with {make}")
        assert self.backbone.made_from is not None
        assert self.head.made_from is not None
        return PredictorConfig(
            backbone=self.backbone.made_from,
            core=self.core.config,
            head=self.head.made_from,
            size=self.size,
            fps=self.fps,
        )

    @classmethod
    def from_pretrained(cls, source: str | Path, *, device: torch.device | str = "cpu") -> Predictor:
        """Open a saved or pretrained model, in evaluation mode; see `horst.open_model`."""
        from horst.models.hub import open_model

        return open_model(source, device=device)

    def save_pretrained(self, folder: str | Path, **options: Any) -> Path:
        """Save the model to a new folder; options: `horst.models.checkpoint.save`."""
        from horst.models.checkpoint import save

        return save(self, folder, **options)

    def push_to_hub(self, repo: str, **options: Any) -> str:
        """Upload the model to the Hugging Face Hub; options: `horst.models.hub.push_to_hub`."""
        from horst.models.hub import push_to_hub

        return push_to_hub(self, repo, **options)

    @property
    def num_classes(self) -> int:
        """The number of actions that the model tells apart."""
        return self.head.classes["action"]

    def reset_classifier(self, num_classes: int | Sequence[str] | Labels, **options: Any) -> None:
        """Replace the classifier by a new one with other classes. The rest of the model keeps its weights.

        Args:
            num_classes: Their number; or their names; or the names by task, {"action": [...], "verb": [...], ...}.
            options: Other options of the head, such as `num_verbs` and `num_nouns`.
        """
        made_from, labels = self.config.head, None
        if not isinstance(num_classes, int):
            labels = num_classes if isinstance(num_classes, dict) else {"action": list(num_classes)}
            counts = {task: len(names) for task, names in labels.items()}
            num_classes = counts.pop("action", 0)
            options = {f"num_{task}s": count for task, count in counts.items()} | options
        kept = dict(made_from.options)
        if "pairs" in kept and "pairs" not in options:  # they belong to the old classes
            kept = {key: value for key, value in kept.items() if key not in ("num_verbs", "num_nouns", "pairs")}
        kept |= {"num_classes": num_classes, **options}
        head = create_head(made_from.name, self.core.channels, features=self.core.config.in_channels, **kept)
        old = self.head.state_dict()
        shared = {key: value for key, value in old.items() if key.partition(".")[0] not in head.classifiers}
        head.load_state_dict(shared, strict=False)
        parameter = next(self.head.parameters())
        self.labels = check_labels(labels, head.classes) if labels else None
        self.head = head.to(parameter.device, parameter.dtype).train(self.training)

    def init_state(
        self,
        batch_size: int,
        height: int,
        width: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Any:
        """The state before the first frame, for frames of height x width."""
        return self.core.init_state(batch_size, *self.backbone.output_size(height, width), device=device, dtype=dtype)

    def forward(
        self,
        frames: Tensor,
        state: Any = None,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        unroll: Unroll | None = None,
        attention: bool = False,
    ) -> tuple[PredictorOutput, Any]:
        """A clip (B, T, 3, H, W), RGB in 0..255. `unroll` is for unrolling heads: see `Unroller`."""
        self._check(frames, "clip", 5, "(B, T, C, H, W)", state)
        seen = check_lengths(lengths, *frames.shape[:2])
        unroll = self._unroll(unroll, state, frames.shape[1], clip=True)
        maps = self.backbone(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
        out, state = self.core(maps, state, lengths, attention=attention)
        valid = None
        if lengths is not None and self.training:  # a batch norm counts no padding
            places = torch.arange(frames.shape[1], device=frames.device)
            valid = places < torch.tensor(seen, device=frames.device).unsqueeze(1)
        return PredictorOutput(self.read(out, valid, **_given(unroll=unroll)), out), state

    def step(
        self, frame: Tensor, state: Any, *, unroll: Unroll | None = None, attention: bool = False
    ) -> tuple[PredictorOutput, Any]:
        """One frame (B, 3, H, W) of every stream."""
        self._check(frame, "frame", 4, "(B, C, H, W)", state)
        unroll = self._unroll(unroll, state, 1, clip=False)
        out, state = self.core.step(self.backbone(frame), state, attention=attention)
        return PredictorOutput(self.read(out, **_given(unroll=unroll)), out), state

    def stream(self, **options: Any) -> StreamSession:
        """A live stream of frames with times; options: `horst.streaming.StreamSession`."""
        from horst.streaming import StreamSession

        return StreamSession(self, **options)

    def _check(self, frames: Tensor, what: str, rank: int, shape: str, state: Any) -> None:
        """Everything that can be wrong is found before the backbone runs: it may keep statistics."""
        if not isinstance(frames, Tensor):
            raise InputError(f"the {what} is a {type(frames).__name__}; a tensor is needed: torch.from_numpy makes one")
        if frames.ndim != rank or 0 in frames.shape:
            raise InputError(f"the {what} has shape {tuple(frames.shape)}; {shape} without an empty axis is needed")
        device = next(self.parameters()).device
        if frames.device != device:
            raise InputError(f"the {what} is on {frames.device} and the model on {device}: move one of them")
        if state is not None or what == "frame":
            size = self.backbone.output_size(frames.shape[-2], frames.shape[-1])
            self.core.check_state(state, frames.shape[0], *size)

    def _unroll(self, unroll: Unroll | None, state: Any, frames: int, *, clip: bool) -> Unroll | None:
        """The horizons that the head is asked for. A clip that continues one counts on from where that ended."""
        if not isinstance(self.head, Unroller):
            if unroll is not None:
                raise InputError(f"unroll is {unroll}, but this model's head does not unroll: leave it out")
            return None
        if unroll is None and clip and state is not None:
            seen = set(state.count.tolist())
            if len(seen) > 1 or max(seen) + frames > self.head.steps:
                raise InputError(f"after {max(seen)} frames it is not known how far off the action is: pass unroll")
            unroll = [self.head.steps - max(seen) - t for t in range(frames)]
        self.head.horizons(unroll, frames, clip)
        return unroll

    def read(self, out: CoreOutput, valid: Tensor | None = None, **options: Any) -> Logits:
        """What the head says of a core's output. `valid` (B, T): no padding; `options`: the head's."""
        return self.head(**{name: out.named(name) for name in self.head.reads}, valid=valid, **options)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def check_labels(labels: Labels, classes: dict[str, int]) -> Labels:
    """Labels that fit a head: one name a class, for each of its tasks or for none."""
    if not isinstance(labels, dict):
        raise ConfigError(f"labels is a {type(labels).__name__}; it takes names by task, such as {{'action': [...]}}")
    for task, names in labels.items():
        if task not in classes:
            raise ConfigError(f"there are labels for {task!r} and the head predicts {', '.join(classes)}")
        if not isinstance(names, list | tuple):
            raise ConfigError(f"the labels for {task!r} are a {type(names).__name__}; a list of names is needed")
        if len(names) != classes[task]:
            raise ConfigError(f"there are {len(names)} labels for {task!r} and the head has {classes[task]} classes")
        if not all(isinstance(name, str) for name in names):
            raise ConfigError(f"the labels for {task!r} must be strings")
    return {task: list(names) for task, names in labels.items()}


def _mapping(what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{what} is {value!r}; it takes a mapping of options")
    return value


def _part(what: str, value: Any) -> Part:
    data = _mapping(what, value)
    if set(data) - {"name", "options"} or not isinstance(data.get("name"), str):
        raise ConfigError(f"{what} is {value!r}; it takes a name and options")
    return Part(name=data["name"], options=_mapping(f"options of the {what}", data.get("options", {})))


def _renamed(head: Part) -> Part:
    """Models saved by older versions have `num_actions` for `num_classes`."""
    options = {("num_classes" if key == "num_actions" else key): value for key, value in head.options.items()}
    return Part(name=head.name, options=options)


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"{what} is {value!r}; it takes a number above 0")
    if value > FASTEST or value < 1 / FASTEST:
        raise ConfigError(f"{what} is {value!r}; it takes a number from {1 / FASTEST} to {FASTEST}")
    return float(value)


def _size(value: Any) -> tuple[int, int]:
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(type(v) is int and v > 0 for v in value):
        raise ConfigError(f"size is {value!r}; it takes [height, width]")
    if max(value) > LARGEST:
        raise ConfigError(f"size is {value!r}; it takes at most {LARGEST} pixels each way")
    return value[0], value[1]
