"""The predictor: frames -> backbone -> core -> head, with the contract of the core.

    model = create_model("horst_tiny")
    out, _ = model(frames)                        # a clip (B, T, 3, H, W), RGB in 0..255
    state = model.init_state(1, 112, 112)
    out, state = model.step(frame, state)         # one frame (B, 3, H, W)

State is passed in and returned, so one model serves any number of streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from horst.backbones import Backbone, create_backbone
from horst.errors import ConfigError, InputError, near
from horst.heads import Head, Logits, Unroll, create_head
from horst.layers import HORST, CoreOutput, HORSTConfig, HORSTState

Labels = dict[str, list[str]]
"""Names of the classes, by task: {"action": [...]}, and for anticipation "verb" and "noun" too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartConfig:
    """A backbone or a head by name, with its options."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictorConfig:
    """All that it takes to build a predictor; plain data, saved beside the weights."""

    backbone: PartConfig
    core: HORSTConfig
    head: PartConfig
    size: tuple[int, int]
    """Height and width of the frames that the model was made for; others work, at another cost."""
    fps: float
    """Frames per second that the model was made for."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> PredictorConfig:
        known = list(cls.__slots__)
        for name in data:
            if name not in known:
                raise ConfigError(f"a model's config has no entry {name!r}{near(name, known)}")
        for name in known:
            if name not in data:
                raise ConfigError(f"the model's config lacks the entry {name!r}")
        return cls(
            backbone=_part("backbone", data["backbone"]),
            core=HORSTConfig.from_dict(_mapping("core", data["core"])),
            head=_part("head", data["head"]),
            size=_size(data["size"]),
            fps=_number("fps", data["fps"]),
        )


@dataclass(frozen=True, slots=True)
class Output:
    """What a predictor says of a clip (leading axes B, T) or of one frame (B)."""

    logits: Logits
    core: CoreOutput
    """What the head read, and on request the attention."""


class Predictor(nn.Module):
    """A backbone, a temporal core and a head in a row. Any core with the contract of `HORST` fits."""

    def __init__(self, backbone: Backbone, core: HORST, head: Head, *, labels: Labels | None = None) -> None:
        super().__init__()
        if backbone.channels != core.config.in_channels:
            raise ConfigError(
                f"the backbone gives {backbone.channels} channels and the core takes {core.config.in_channels}"
            )
        self.backbone, self.core, self.head = backbone, core, head
        self.labels = check_labels(labels, head.classes) if labels else None
        self.config: PredictorConfig | None = None
        """Set where the model was made from one; what `save` writes."""

    @classmethod
    def from_config(cls, config: PredictorConfig, *, labels: Labels | None = None) -> Predictor:
        backbone = create_backbone(config.backbone.name, **config.backbone.options)
        core = HORST(config.core)
        head = create_head(config.head.name, core.channels, **config.head.options)
        model = cls(backbone, core, head, labels=labels)
        model.config = config
        return model

    def init_state(
        self,
        batch_size: int,
        height: int,
        width: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> HORSTState:
        """The state before the first frame, for frames of height x width."""
        return self.core.init_state(batch_size, *self.backbone.output_size(height, width), device=device, dtype=dtype)

    def forward(
        self,
        frames: Tensor,
        state: HORSTState | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        unroll: Unroll | None = None,
        attention: bool = False,
    ) -> tuple[Output, HORSTState]:
        """A clip (B, T, 3, H, W), RGB in 0..255. `unroll` is for unrolling heads: see `UnrollingHead`."""
        self._check(frames, "clip", 5, "(B, T, C, H, W)")
        maps = self.backbone(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
        out, state = self.core(maps, state, lengths, attention=attention)
        return Output(self._read(out, unroll), out), state

    def step(
        self, frame: Tensor, state: HORSTState, *, unroll: Unroll | None = None, attention: bool = False
    ) -> tuple[Output, HORSTState]:
        """One frame (B, 3, H, W) of every stream."""
        self._check(frame, "frame", 4, "(B, C, H, W)")
        out, state = self.core.step(self.backbone(frame), state, attention=attention)
        return Output(self._read(out, unroll), out), state

    def _check(self, frames: Tensor, what: str, rank: int, shape: str) -> None:
        if frames.ndim != rank or 0 in frames.shape:
            raise InputError(f"the {what} has shape {tuple(frames.shape)}; {shape} without an empty axis is needed")
        device = next(self.parameters()).device
        if frames.device != device:
            raise InputError(f"the {what} is on {frames.device} and the model on {device}: move one of them")

    def _read(self, out: CoreOutput, unroll: Unroll | None) -> Logits:
        maps = {"y": out.y, "e": out.e[-1], "statt": out.statt[-1]}
        if self.head.unrolls:
            return self.head(**maps, unroll=unroll)
        if unroll is not None:
            raise InputError(f"unroll is {unroll}, but this model's head does not unroll: leave it out")
        return self.head(**maps)


def check_labels(labels: Labels, classes: dict[str, int]) -> Labels:
    """Labels that fit a head: one name a class, for each of its tasks or for none."""
    for task, names in labels.items():
        if task not in classes:
            raise ConfigError(f"there are labels for {task!r} and the head predicts {', '.join(classes)}")
        if len(names) != classes[task]:
            raise ConfigError(f"there are {len(names)} labels for {task!r} and the head has {classes[task]} classes")
        if not all(isinstance(name, str) for name in names):
            raise ConfigError(f"the labels for {task!r} must be strings")
    return {task: list(names) for task, names in labels.items()}


def _mapping(what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{what} is {value!r}; it takes a mapping of options")
    return value


def _part(what: str, value: Any) -> PartConfig:
    data = _mapping(what, value)
    if set(data) - {"name", "options"} or not isinstance(data.get("name"), str):
        raise ConfigError(f"{what} is {value!r}; it takes a name and options")
    return PartConfig(name=data["name"], options=_mapping(f"options of the {what}", data.get("options", {})))


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"{what} is {value!r}; it takes a number above 0")
    return float(value)


def _size(value: Any) -> tuple[int, int]:
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(type(v) is int and v > 0 for v in value):
        raise ConfigError(f"size is {value!r}; it takes [height, width]")
    return value[0], value[1]
