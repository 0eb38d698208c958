"""Augmentation of whole clips, batched, on the device they lie on: RandAugment, and flips that mirror the label.

Each clip of a batch has its own draw, and all frames of a clip share it. Draws come from a generator on the CPU, apart
from the pixels: a run draws the same on any device, and a `Plan` can be replayed.

Shapes: B clips of a batch, T frames, H x W pixels, N operations a clip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn

from horst.errors import ConfigError, InputError
from horst.video.augment_ops import MAX_MAGNITUDE, OPERATIONS, Group, Interpolation

Lengths = Tensor | Sequence[int] | None
Fill = float | tuple[float, float, float]
CHANCES = 3
"""Random numbers that decide on one operation."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What RandAugment does to each clip of a batch, in order."""

    operation: Tensor
    """(B, N) int64: the place in `OPERATIONS`."""
    magnitude: Tensor
    """(B, N) float32, 0..30; negative for the other direction of an operation that has two."""

    def __post_init__(self) -> None:
        operation, magnitude = self.operation, self.magnitude
        if operation.ndim != 2 or operation.shape != magnitude.shape or operation.dtype != torch.int64:
            raise InputError(
                f"a plan has operations {_describe(operation)} and magnitudes {_describe(magnitude)}; "
                "(B, N) of int64 and (B, N) of float32 are needed"
            )
        if not ((operation >= 0) & (operation < len(OPERATIONS))).all():
            raise InputError(f"a plan holds operations {operation.unique().tolist()}; 0..{len(OPERATIONS) - 1} exist")
        signed = torch.tensor([o.signed for o in OPERATIONS], device=operation.device)[operation]
        wrong = ~(magnitude.abs() <= MAX_MAGNITUDE) | ((magnitude < 0) & ~signed)
        if wrong.any():
            name = OPERATIONS[int(operation[wrong][0])].name
            raise InputError(
                f"a plan holds magnitude {magnitude[wrong][0]:g} for {name}; 0..{MAX_MAGNITUDE} exist, "
                "below 0 only for operations that have two directions"
            )


def apply(
    clips: Tensor, plan: Plan, lengths: Lengths = None, *, fill: Fill = 0.0, interpolation: Interpolation = "nearest"
) -> Tensor:
    """Clips (B, T, 3, H, W), uint8 or float in 0..255, changed as planned: a new tensor of the same dtype and shape.

    Frames at or beyond a clip's length are padding: they stay as they are and enter no statistics.
    """
    _check_clips(clips)
    if len(plan.operation) != len(clips):
        raise InputError(f"the plan is for {len(plan.operation)} clips; clips have shape {tuple(clips.shape)}")
    valid = _valid_frames(lengths, clips)
    rgb, _ = _check_sampling(fill, interpolation)
    operations = plan.operation.cpu()
    magnitudes = plan.magnitude.cpu().double()
    clips = clips.clone()
    for operation, magnitude in zip(operations.unbind(1), magnitudes.unbind(1), strict=True):
        for place in operation.unique().tolist():  # each operation runs once over its clips
            if OPERATIONS[place].name == "Identity":
                continue
            here = (operation == place).nonzero().flatten()
            rows = here.to(clips.device, non_blocking=True)
            before = clips[rows]
            group = Group(
                clips=before.float(),
                magnitude=magnitude[here],
                valid=None if valid is None else valid[rows],
                fill=rgb,
                interpolation=interpolation,
                whole=clips.dtype == torch.uint8,
            )
            after = OPERATIONS[place].run(group).clamp(0, 255).to(clips.dtype)  # to uint8: truncates, as torchvision
            if group.valid is not None:
                after = torch.where(group.valid[..., None, None, None], after, before)
            clips[rows] = after
    return clips


class RandAugment(nn.Module):
    """RandAugment (Cubuk et al., 2020): `operations` of the 14, drawn uniformly, one after the other, on each clip.

    Works in training mode only. `magnitude_std` spreads the magnitude as timm does: a normal distribution around it,
    or with `math.inf` a uniform one over 0..magnitude.
    """

    def __init__(
        self,
        *,
        operations: int = 2,
        magnitude: int = 9,
        magnitude_std: float = 0.0,
        fill: Fill = 0.0,
        interpolation: Interpolation = "nearest",
    ) -> None:
        super().__init__()
        if operations < 0:
            raise ConfigError(f"operations is {operations}; it counts what is applied to a clip, from 0 on")
        if not 0 <= magnitude <= MAX_MAGNITUDE:
            raise ConfigError(f"magnitude is {magnitude}; it lies in 0..{MAX_MAGNITUDE}")
        if not magnitude_std >= 0:
            raise ConfigError(f"magnitude_std is {magnitude_std}; it starts at 0, and math.inf draws uniformly")
        self.operations = operations
        self.magnitude = magnitude
        self.magnitude_std = magnitude_std
        self.fill, self.interpolation = _check_sampling(fill, interpolation)

    def draw(self, batch: int, generator: torch.Generator | None = None) -> Plan:
        """A plan for `batch` clips, from a generator on the CPU (torch's global one where None)."""
        _check_generator(generator)
        return self.plan(torch.rand(batch, self.operations, CHANCES, generator=generator, dtype=torch.float64))

    def plan(self, chances: Tensor) -> Plan:
        """The plan that chances (B, N, CHANCES) in 0..1 decide: which operation, which direction, how much."""
        which, direction, size = chances.unbind(-1)
        operation = (which * len(OPERATIONS)).long()
        signed = torch.tensor([o.signed for o in OPERATIONS])[operation]
        magnitude = self._size(size).float()
        return Plan(operation, torch.where((direction < 0.5) & signed, -magnitude, magnitude))

    def _size(self, chance: Tensor) -> Tensor:
        if math.isinf(self.magnitude_std):
            return self.magnitude * chance
        size = torch.full_like(chance, self.magnitude)
        if self.magnitude_std > 0:
            size += self.magnitude_std * torch.special.ndtri(chance)
        return size.clamp(0, MAX_MAGNITUDE)

    def forward(self, clips: Tensor, lengths: Lengths = None, generator: torch.Generator | None = None) -> Tensor:
        """Clips (B, T, 3, H, W), uint8 or float in 0..255, each with its own draw. In evaluation: as they are."""
        _check_clips(clips)
        if not self.training:
            return clips
        plan = self.draw(len(clips), generator)
        return apply(clips, plan, lengths, fill=self.fill, interpolation=self.interpolation)

    def extra_repr(self) -> str:
        spread = f", magnitude_std={self.magnitude_std:g}" if self.magnitude_std else ""
        return f"operations={self.operations}, magnitude={self.magnitude}{spread}, fill={self.fill}"


class MirrorFlip(nn.Module):
    """Flips whole clips left to right, half of them by default, where their label says what they then show.

    `mirror` (K,) holds the label after a flip for each label: itself where left and right do not matter, another one
    for "from left to right", -1 where a flipped clip would show no label at all: such clips are never flipped.
    """

    mirror: Tensor

    def __init__(self, mirror: Tensor | Sequence[int], *, probability: float = 0.5) -> None:
        super().__init__()
        if not 0 <= probability <= 1:
            raise ConfigError(f"probability is {probability}; it lies in 0..1")
        # Not a buffer: it decides on the CPU which clips to flip, and belongs to the labels, not to the weights.
        self.mirror = _check_mirror(torch.as_tensor(mirror).cpu())
        self.probability = probability

    def forward(self, clips: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Clips (B, T, 3, H, W) and labels (B,), both flipped or both as they are. In evaluation: as they are."""
        _check_clips(clips)
        _check_generator(generator)
        known = self._check_labels(labels, len(clips))
        if not self.training:
            return clips, labels
        mirrored = self.mirror[known]
        flip = (torch.rand(len(clips), generator=generator) < self.probability) & (mirrored >= 0)
        rows = flip.nonzero().flatten().to(clips.device, non_blocking=True)
        flipped = clips.index_copy(0, rows, clips[rows].flip(-1))
        return flipped, torch.where(flip, mirrored, known).to(labels)

    def _check_labels(self, labels: Tensor, batch: int) -> Tensor:
        """The labels as int64 on the CPU, where a wrong one is an error and not the end of a CUDA context."""
        if labels.shape != (batch,) or labels.is_floating_point() or labels.dtype == torch.bool:
            raise InputError(f"labels are {_describe(labels)}; a whole number for each of {batch} clips is needed")
        known = labels.cpu().long()
        wrong = known[(known < 0) | (known >= len(self.mirror))]
        if len(wrong):
            raise InputError(f"labels hold {wrong[0]}; mirror has {len(self.mirror)} labels, from 0 on")
        return known

    def extra_repr(self) -> str:
        return f"{len(self.mirror)} labels, {int((self.mirror >= 0).sum())} flip, probability={self.probability:g}"


def _describe(x: Tensor) -> str:
    return f"{tuple(x.shape)} of {str(x.dtype).removeprefix('torch.')}"


def _check_clips(clips: Tensor) -> None:
    if clips.ndim != 5 or clips.shape[2] != 3 or 0 in clips.shape:
        raise InputError(f"clips have shape {tuple(clips.shape)}; (B, T, 3, H, W) without an empty axis is needed")
    if clips.dtype != torch.uint8 and not clips.is_floating_point():
        raise InputError(f"clips are {_describe(clips)}; uint8, or float in 0..255, is needed")


def _check_generator(generator: torch.Generator | None) -> None:
    if generator is not None and generator.device.type != "cpu":
        raise InputError(f"the generator is on {generator.device}; one on the CPU draws the same for every device")


def _check_sampling(fill: Fill, interpolation: Interpolation) -> tuple[tuple[float, float, float], Interpolation]:
    rgb = tuple(float(v) for v in fill) if isinstance(fill, Sequence) else (float(fill),) * 3
    if len(rgb) != 3 or not all(0 <= v <= 255 for v in rgb):
        raise ConfigError(f"fill is {fill}; one level in 0..255, or three for RGB, is needed")
    if interpolation not in get_args(Interpolation):
        raise ConfigError(f"interpolation is {interpolation!r}; it is one of {', '.join(get_args(Interpolation))}")
    return rgb, interpolation


def _check_mirror(mirror: Tensor) -> Tensor:
    if mirror.ndim != 1 or mirror.is_floating_point() or mirror.dtype == torch.bool:
        raise ConfigError(f"mirror is {_describe(mirror)}; one whole number for each label is needed")
    mirror = mirror.long()
    for label, other in enumerate(mirror.tolist()):
        if not -1 <= other < len(mirror):
            raise ConfigError(f"mirror maps {label} to {other}; -1 or a label in 0..{len(mirror) - 1} is needed")
        if other >= 0 and mirror[other] != label:
            raise ConfigError(f"mirror maps {label} to {other}, but {other} to {int(mirror[other])}: flip both ways")
    return mirror


def _valid_frames(lengths: Lengths, clips: Tensor) -> Tensor | None:
    """(B, T) bool on the clips' device; None where no clip has padding."""
    if lengths is None:
        return None
    batch, frames = clips.shape[:2]
    values = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    if not isinstance(values, list) or len(values) != batch:
        raise InputError(f"lengths is {values}; one for each clip of {tuple(clips.shape)} is needed")
    for value in values:
        if not 1 <= value <= frames or int(value) != value:
            raise InputError(f"lengths holds {value}; clips {tuple(clips.shape)} take whole numbers in 1..{frames}")
    if min(values) == frames:
        return None
    known = torch.tensor(values, dtype=torch.int64)[:, None]
    return (torch.arange(frames) < known).to(clips.device, non_blocking=True)
