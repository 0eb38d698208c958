"""Several models of the same frames and classes as one: the prediction is the weighted mean of their probabilities.

    model = fuse_models([open_model("runs/a"), open_model("runs/b")], [0.5, 0.5])
    model.save_pretrained("fused")

Its backbone, core and head are those of the members side by side, so that it is saved, served and evaluated as any
other model. The backbone gives the maps of all members along the channels, padded to the largest of them; the core
gives the outputs of the members by name ("0.y", "1.y"), and the head reads these.

Shapes: B batch, T frames, C channels, H x W map, R members.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.backbones import Backbone, create_backbone, register_backbone
from horst.config import to_dict
from horst.errors import ConfigError, InputError
from horst.heads import Head, Logits, Unroller, create_head, register_head
from horst.layers import Core, CoreConfig, CoreOutput, State, core_config, create_core, register_core
from horst.masks import Lengths
from horst.models.predictor import Predictor, PredictorConfig
from horst.ops.backend import Wanted
from horst.registry import Part


def fuse_models(models: Sequence[Predictor], weights: Sequence[float]) -> Predictor:
    """One model of all with a weight above 0. ConfigError, with the reason, if they cannot be one."""
    chosen = [(model, weight) for model, weight in zip(models, weights, strict=True) if weight > 0]
    if not chosen or not math.isclose(sum(weights), 1, abs_tol=1e-6) or min(weights) < 0:
        raise ConfigError(f"the weights are {list(weights)}; they must be 0 or more, with the sum 1")
    members = [model for model, _ in chosen]
    if difference := input_difference(members):
        raise ConfigError(f"the models cannot be one: {difference}")
    configs, first = [model.config for model in members], members[0]
    sizes = [list(model.backbone.output_size(*first.size)) for model in members]
    parts = [
        {**to_dict(config.head), "channels": model.core.channels, "features": config.core.in_channels}
        for model, config in zip(members, configs, strict=True)
    ]
    kind = "unrolling" if first.head.unrolls else first.head.task
    config = PredictorConfig(
        backbone=Part(name="fused", options={"members": [_plain(c.backbone) for c in configs]}),
        core=FusedConfig(
            in_channels=sum(model.core.config.in_channels for model in members),
            members=[{"name": c.core.name, **to_dict(c.core)} for c in configs],
            maps=sizes if any(size != sizes[0] for size in sizes) else [],
        ),
        head=Part(name=f"fused_{kind}", options={"members": parts, "weights": [weight for _, weight in chosen]}),
        size=first.size,
        fps=first.fps,
    )
    fused = Predictor.from_config(config, labels=first.labels)
    for i, model in enumerate(members):
        for part in ("backbone", "core", "head"):
            getattr(fused, part).members[i].load_state_dict(getattr(model, part).state_dict())
    return fused.to(first.core.like.device).eval()


def input_difference(models: Sequence[Predictor]) -> str:
    """Why models cannot predict from the same frames as one; empty if they can."""
    first = models[0]
    for model in models[1:]:
        for what, one, other in (
            ("precomputed maps", first.backbone.precomputed, model.backbone.precomputed),
            ("channels", first.backbone.input_channels, model.backbone.input_channels),
            ("frames of size", first.size, model.size),
            ("frames a second", first.fps, model.fps),
            ("the task", first.head.task, model.head.task),
            ("an unrolling head", first.head.unrolls, model.head.unrolls),
            ("steps of unrolling", getattr(first.head, "steps", None), getattr(model.head, "steps", None)),
            ("classes", first.head.classes, model.head.classes),
            ("labels", first.labels, model.labels),
        ):
            if one != other:
                return f"{what}: {one} and {other}"
    return ""


def mean_scores(scores: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """Logits (..., C) whose softmax is the weighted mean of the softmax of each of `scores`.

    A row of -inf predicts nothing: there the other weights are scaled to the sum 1. A constant is added to each row so
    that the mean of equal scores is these scores again, to the last bit.
    """
    stacked = torch.stack([one.double() for one in scores])  # (R, ..., C)
    total = stacked.logsumexp(-1, keepdim=True)
    given = torch.tensor(weights, dtype=torch.float64, device=stacked.device).view(-1, *[1] * (stacked.ndim - 1))
    given = given * (total > -torch.inf)
    given = given / given.sum(0)  # NaN where nothing is predicted
    mixed = torch.where(given > 0, given.log() + stacked - total, -torch.inf).logsumexp(0)
    constant = torch.where(given > 0, given * total, 0).sum(0)
    return (mixed + constant).to(scores[0].dtype)


@register_backbone("fused")
class FusedBackbone(Backbone):
    """The maps of several backbones along the channels."""

    def __init__(self, *, members: list[dict[str, Any]]) -> None:
        """`members`: the name and the options of each."""
        super().__init__()
        self.members = nn.ModuleList(create_backbone(m["name"], **m.get("options", {})) for m in _mappings(members))
        if windowed := [member for member in self._each() if member.window > 1]:
            name = type(windowed[0]).__name__
            raise ConfigError(
                f"{name} reads a window of frames, which a fused model does not: fuse the runs with `horst fuse`"
            )
        self.channels = sum(member.channels for member in self._each())
        self.smallest = max(member.smallest for member in self._each())
        self.input_channels = self._each()[0].input_channels
        self.precomputed = self._each()[0].precomputed

    def _each(self) -> list[Backbone]:
        return list(self.members)  # type: ignore[arg-type]

    def preprocess(self, frames: Tensor) -> Tensor:
        return frames  # each member has its own

    def features(self, x: Tensor) -> Tensor:
        maps = [member(x) for member in self.members]
        height, width = (max(one.shape[axis] for one in maps) for axis in (-2, -1))
        return torch.cat([F.pad(one, (0, width - one.shape[-1], 0, height - one.shape[-2])) for one in maps], 1)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        sizes = [member.output_size(height, width) for member in self._each()]
        return max(size[0] for size in sizes), max(size[1] for size in sizes)

    def use_backend(self, name: Wanted) -> None:
        super().use_backend(name)
        for member in self._each():
            member.use_backend(name)


@dataclass(frozen=True, kw_only=True, slots=True)
class FusedConfig(CoreConfig):
    """Several cores side by side."""

    name: ClassVar[str] = "fused"
    title: ClassVar[str] = "fused models"
    members: list[dict[str, Any]]
    """The name and the options of each core."""
    maps: list[list[int]] = field(default_factory=list)
    """Height and width of the members' maps if they differ; they are at the top left of the input."""

    @property
    def about(self) -> str:
        return "; ".join(core_config(member).about for member in self.members)


@dataclass(frozen=True, slots=True)
class FusedState(State):
    """The states of all members."""

    members: tuple[Any, ...]
    config: FusedConfig

    @property
    def count(self) -> Tensor:  # type: ignore[override]
        return self.members[0].count

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        return ((f"{i}.{name}", tensor) for i, one in enumerate(self.members) for name, tensor in one.tensors())

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, members=tuple(member.map(function) for member in self.members))


@register_core(FusedConfig)
class FusedCore(Core):
    """Runs each core on its own channels of the maps."""

    config: FusedConfig
    state_class = FusedState

    def __init__(self, config: FusedConfig) -> None:
        super().__init__()
        self.config = config
        self.members = nn.ModuleList(create_core(core_config(member)) for member in _mappings(config.members))
        self.channels = self._each()[0].channels
        self.streaming = all(member.streaming for member in self._each())
        self.gives = ("y", *(f"{i}.{name}" for i, member in enumerate(self._each()) for name in member.gives))  # type: ignore[misc]
        self.widths = [member.config.in_channels for member in self._each()]
        if sum(self.widths) != config.in_channels or (config.maps and len(config.maps) != len(self.widths)):
            raise ConfigError(f"{len(self.widths)} cores take {self.widths} channels: in_channels or maps do not fit")

    def _each(self) -> list[Core]:
        return list(self.members)  # type: ignore[arg-type]

    def sizes(self, height: int, width: int) -> list[tuple[int, int]]:
        """Height and width of each member's maps."""
        known = [(size[0], size[1]) for size in self.config.maps] or [(height, width)] * len(self.widths)
        largest = max(size[0] for size in known), max(size[1] for size in known)
        if largest != (height, width):
            made = f"{largest[0]}x{largest[1]} together, for frames of the model's own size"
            raise InputError(f"the maps are {height}x{width}; the fused models have {made}")
        return known

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return self._each()[0].output_size(*self.sizes(height, width)[0])

    def check_size(self, height: int, width: int) -> None:
        for member, size in zip(self._each(), self.sizes(height, width), strict=True):
            member.check_size(*size)

    def first_state(self, batch_size: int, height: int, width: int) -> FusedState:
        pairs = zip(self._each(), self.sizes(height, width), strict=True)
        return FusedState(tuple(member.first_state(batch_size, *size) for member, size in pairs), self.config)

    def state_shapes(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        pairs = enumerate(zip(self._each(), self.sizes(height, width), strict=True))
        return {f"{i}.{key}": shape for i, (one, size) in pairs for key, shape in one.state_shapes(*size).items()}

    def forward(
        self, x: Tensor, state: FusedState | None = None, lengths: Lengths = None, *, attention: bool = False
    ) -> tuple[CoreOutput, FusedState]:
        self.check_input(x, 5, "(B, T, C, H, W)")
        if state is not None:
            self.check_state(state, x.shape[0], *x.shape[-2:])
        states = (None,) * len(self.widths) if state is None else state.members
        return self._run(lambda member, maps, one: member(maps, one, lengths), x, states, attention)

    def step(self, x: Tensor, state: FusedState, *, attention: bool = False) -> tuple[CoreOutput, FusedState]:
        self.check_input(x, 4, "(B, C, H, W)")
        self.check_state(state, x.shape[0], *x.shape[-2:])
        return self._run(lambda member, maps, one: member.step(maps, one), x, state.members, attention)

    def _run(
        self, run: Callable[[Core, Tensor, Any], Any], x: Tensor, states: Sequence[Any], attention: bool
    ) -> tuple[CoreOutput, FusedState]:
        if attention:
            raise InputError(f"{self.config.title} have no attention weights in common: leave attention out")
        found = [
            run(member, maps[..., : size[0], : size[1]], one)
            for member, maps, size, one in zip(
                self._each(), x.split(self.widths, -3), self.sizes(*x.shape[-2:]), states, strict=True
            )
        ]
        named = {
            f"{i}.{name}": out.named(name)
            for i, (member, (out, _)) in enumerate(zip(self._each(), found, strict=True))
            for name in member.gives
        }
        return CoreOutput(found[0][0].y, more=named), FusedState(tuple(one for _, one in found), self.config)

    def use_backend(self, name: Wanted) -> None:
        for member in self._each():
            member.use_backend(name)


class FusedHead(Head):
    """The weighted mean of the probabilities of several heads."""

    def __init__(self, channels: int, *, members: list[dict[str, Any]], weights: list[float]) -> None:
        """`members`: name, options, channels and features of each, as `create_head` takes them."""
        heads = [
            create_head(m["name"], m["channels"], features=m["features"], **m.get("options", {}))
            for m in _mappings(members, "channels", "features")
        ]
        super().__init__(channels, heads[0].classes)
        numbers = all(isinstance(weight, int | float) and weight > 0 for weight in weights)
        if not numbers or len(weights) != len(heads) or not math.isclose(sum(weights), 1, abs_tol=1e-6):
            raise ConfigError(f"weights is {weights}; it takes {len(heads)} numbers above 0 with the sum 1")
        if any(head.classes != self.classes for head in heads):
            raise ConfigError(f"the heads have other classes: {[head.classes for head in heads]}")
        unrollers = [None if head.video is None else head.video.sequence for head in heads]
        if len(set(steps := [0 if one is None else one.steps for one in unrollers])) > 1:
            raise ConfigError(f"the heads predict other numbers of next actions: {steps}")
        self.members, self.weights = nn.ModuleList(heads), tuple(weights)
        self.reads = tuple(f"{i}.{name}" for i, head in enumerate(heads) for name in head.reads)  # type: ignore[misc]
        self.__dict__["video"] = heads[0].video  # not a second time among the weights
        if isinstance(heads[0], Unroller):
            self.steps = heads[0].steps

    def read(self, *, valid: Tensor | None = None, **given: Any) -> Logits:
        return self(valid=valid, **given)

    def forward(self, *, valid: Tensor | None = None, unroll: Any = None, **maps: Tensor) -> Logits:
        """The maps of each member by name: "0.y", "1.y"."""
        options = {} if unroll is None else {"unroll": unroll}
        found = []
        heads: list[Head] = list(self.members)  # type: ignore[arg-type]
        for i, head in enumerate(heads):
            own = {name: maps[f"{i}.{name}"] for name in head.reads}
            found.append(head.read(valid=valid, **own, **options))
        names = [name for name in (*found[0], "ahead", "sequence") if getattr(found[0], name) is not None]
        return Logits(**{name: mean_scores([getattr(one, name) for one in found], self.weights) for name in names})


@register_head("fused_recognition")
class FusedRecognition(FusedHead):
    """Of heads that recognise."""

    task = "recognition"


@register_head("fused_anticipation")
class FusedAnticipation(FusedHead):
    """Of heads that anticipate."""


@register_head("fused_unrolling")
class FusedUnrolling(FusedHead, Unroller):  # type: ignore[misc]
    """Of heads that anticipate with unrolling."""


def _plain(part: Part) -> dict[str, Any]:
    """A backbone by name, without the address of its first weights: those of the model replace them."""
    options = {key: value for key, value in part.options.items() if key != "pretrained"}
    return to_dict(Part(name=part.name, options=options))


def _mappings(members: Any, *keys: str) -> list[dict[str, Any]]:
    """The entries of a config, each with a name and `keys`; else ConfigError."""
    if not isinstance(members, list) or not members:
        raise ConfigError(f"members is {members!r}; it takes a list, at least one entry long")
    for member in members:
        options = member.get("options", {}) if isinstance(member, dict) else None
        if not isinstance(options, dict) or any(not isinstance(key, str) for key in options):
            raise ConfigError(f"members has {member!r}; it takes mappings with a name and options")
        if absent := [key for key in keys if type(member.get(key)) is not int]:
            raise ConfigError(f"members has {member!r}; it takes a whole number for {absent[0]}")
    return members
