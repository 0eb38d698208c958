"""RandAugment (Cubuk et al., 2020) for whole clips, batched, on the device of the clips.

    options = RandAugment(operations=2, magnitude=9)
    plan = options.plan(torch.rand(batch, options.operations, CHANCES, dtype=torch.float64))
    clips = apply_plan(clips, plan, lengths)

Each clip of a batch has its own operations, and all frames of a clip share them. The random numbers are passed in, so a
run does not depend on the device, and a plan can be replayed.

Shapes: B clips of a batch, T frames, H x W pixels, N operations per clip.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from horst.errors import ConfigError, InputError
from horst.masks import length_mask
from horst.video.augment_ops import MAX_MAGNITUDE, OPERATIONS, ClipGroup

Lengths = Tensor | Sequence[int] | None
CHANCES = 3  # random numbers that decide one operation


@dataclass(frozen=True, slots=True, eq=False)
class AugmentPlan:
    """The operations on each clip of a batch, in order."""

    operation: Tensor  # (B, N) int64: index in `OPERATIONS`
    magnitude: Tensor  # (B, N) float32, 0..30; negative for the other direction of a signed operation

    def __post_init__(self) -> None:
        operation, magnitude = self.operation, self.magnitude
        if operation.ndim != 2 or operation.shape != magnitude.shape or operation.dtype != torch.int64:
            raise InputError(
                f"a plan has operations {_describe(operation)} and magnitudes {_describe(magnitude)}; "
                "they must be (B, N) of int64 and (B, N) of float32"
            )
        if not ((operation >= 0) & (operation < len(OPERATIONS))).all():
            raise InputError(f"a plan has operations {operation.unique().tolist()}; 0..{len(OPERATIONS) - 1} exist")
        signed = torch.tensor([o.signed for o in OPERATIONS], device=operation.device)[operation]
        wrong = ~(magnitude.abs() <= MAX_MAGNITUDE) | ((magnitude < 0) & ~signed)
        if wrong.any():
            name = OPERATIONS[int(operation[wrong][0])].name
            raise InputError(
                f"a plan has magnitude {magnitude[wrong][0]:g} for {name}; it must be in 0..{MAX_MAGNITUDE}, "
                "or negative for signed operations"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class RandAugment:
    """How many operations each clip gets, drawn uniformly from the 14, and how strong they are."""

    operations: int = 2
    """RandAugment operations, applied one after the other; 0: none."""
    magnitude: int = 9
    """Magnitude of RandAugment, 0 to 30."""
    magnitude_std: float = 0.0
    """Spread of the magnitude as in timm: the standard deviation of a normal distribution; inf: uniform from 0 to
    `magnitude`."""

    def __post_init__(self) -> None:
        if self.operations < 0:
            raise ConfigError(f"operations is {self.operations}; it must be 0 or more")
        if not 0 <= self.magnitude <= MAX_MAGNITUDE:
            raise ConfigError(f"magnitude is {self.magnitude}; it must be in 0..{MAX_MAGNITUDE}")
        if not self.magnitude_std >= 0:
            raise ConfigError(f"magnitude_std is {self.magnitude_std}; it must be 0 or more (inf: uniform)")

    def plan(self, chances: Tensor) -> AugmentPlan:
        """The plan from random numbers (B, N, CHANCES) in 0..1: which operation, which direction, how much."""
        which, direction, size = chances.unbind(-1)
        operation = (which * len(OPERATIONS)).long()
        signed = torch.tensor([o.signed for o in OPERATIONS])[operation]
        magnitude = self._magnitudes(size).float()
        return AugmentPlan(operation, torch.where((direction < 0.5) & signed, -magnitude, magnitude))

    def _magnitudes(self, chance: Tensor) -> Tensor:
        if math.isinf(self.magnitude_std):
            return self.magnitude * chance
        size = torch.full_like(chance, self.magnitude)
        if self.magnitude_std > 0:
            size += self.magnitude_std * torch.special.ndtri(chance)
        return size.clamp(0, MAX_MAGNITUDE)


def apply_plan(clips: Tensor, plan: AugmentPlan, lengths: Lengths = None) -> Tensor:
    """Clips (B, T, 3, H, W), uint8 or float in 0..255, after the operations of a plan.

    Frames at or beyond a clip's length are padding: they do not change and enter no statistics.
    """
    if clips.ndim != 5 or clips.shape[2] != 3 or 0 in clips.shape:
        raise InputError(f"clips have shape {tuple(clips.shape)}; it must be (B, T, 3, H, W), no axis empty")
    if clips.dtype != torch.uint8 and not clips.is_floating_point():
        raise InputError(f"clips are {_describe(clips)}; they must be uint8, or float in 0..255")
    if len(plan.operation) != len(clips):
        raise InputError(f"the plan is for {len(plan.operation)} clips; clips have shape {tuple(clips.shape)}")
    valid = _valid_frames(lengths, clips)
    operations, magnitudes = plan.operation.cpu(), plan.magnitude.cpu().double()
    clips = clips.clone()
    for operation, magnitude in zip(operations.unbind(1), magnitudes.unbind(1), strict=True):
        for index in operation.unique().tolist():  # each operation runs once over its clips
            if OPERATIONS[index].name == "Identity":
                continue
            here = (operation == index).nonzero().flatten()
            rows = here.to(clips.device, non_blocking=True)
            before = clips[rows]
            group = ClipGroup(before.float(), magnitude[here], None if valid is None else valid[rows])
            after = OPERATIONS[index].run(group).clamp(0, 255).to(clips.dtype)  # to uint8: truncates, as torchvision
            if group.valid is not None:
                after = torch.where(group.valid[..., None, None, None], after, before)
            clips[rows] = after
    return clips


def _describe(x: Tensor) -> str:
    return f"{tuple(x.shape)} of {str(x.dtype).removeprefix('torch.')}"


def _valid_frames(lengths: Lengths, clips: Tensor) -> Tensor | None:
    """(B, T) bool on the clips' device; None if no clip has padding."""
    if lengths is None:
        return None
    batch, frames = clips.shape[:2]
    values = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    if not isinstance(values, list) or len(values) != batch:
        raise InputError(f"lengths is {values}; clips {tuple(clips.shape)} need one for each clip")
    for value in values:
        if not 1 <= value <= frames or int(value) != value:
            raise InputError(f"lengths has {value}; clips {tuple(clips.shape)} need integers in 1..{frames}")
    if min(values) == frames:
        return None
    return length_mask(torch.tensor(values, dtype=torch.int64), frames).to(clips.device, non_blocking=True)
