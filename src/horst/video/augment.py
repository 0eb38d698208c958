"""RandAugment (Cubuk et al., 2020) for whole clips, batched, on the device of the clips.

    options = RandAugment(operations=2, magnitude=9)
    plan = options.plan(torch.rand(batch, options.operations, CHANCES, dtype=torch.float64))
    clips = apply_plan(clips, plan, lengths)

Each clip of a batch has its own operations, and all frames of a clip share them. The random numbers are passed in, so a
run does not depend on the device, and a plan can be replayed.

On a clip of one uint8 frame an operation equals torchvision's operator on that image. Statistics (AutoContrast's
extremes, Equalize's histogram, Contrast's mean grey) are computed over all frames of a clip: per frame, a static scene
would flicker when an object enters it. The arithmetic is float32 for uint8 and float clips, and a clip is blended with
integer levels in both, so that the two differ only by the last rounding. There are no matrix products: TF32 and
autocast have no effect.

Shapes: B clips of a batch, G clips with the same operation, T frames, H x W pixels, N operations per clip.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from horst.config import check_entries
from horst.errors import ConfigError, InputError, did_you_mean
from horst.masks import Lengths, check_lengths, length_mask

CHANCES = 3  # random numbers that decide one operation
MAX_MAGNITUDE = 30  # magnitudes are 0..30, torchvision's 31 bins
MAX_TRANSLATION = 150 / 331  # fraction of the frame's size: the paper's 150 of 331 pixels


@dataclass(frozen=True, slots=True, eq=False)
class ClipGroup:
    """Clips with the same operation."""

    clips: Tensor  # (G, T, 3, H, W) float32 in 0..255
    magnitude: Tensor  # (G,) float64 on the CPU, -30..30
    valid: Tensor | None  # (G, T) bool: frames that are not padding; None if there is no padding

    def level(self, start: float, end: float) -> Tensor:
        """(G,) float64: each magnitude scaled to start..end, with its sign.

        Integer magnitudes read torchvision's float32 table, whose rounding decides the truncation below.
        """
        table = torch.linspace(start, end, MAX_MAGNITUDE + 1, dtype=torch.float32).double()
        size = self.magnitude.abs()
        low, high = size.floor().long(), size.ceil().long()
        level = table[low] + (size - low) * (table[high] - table[low])
        return torch.where(self.magnitude < 0, -level, level)

    def per_clip(self, values: Tensor) -> Tensor:
        """(G,) on the CPU as float32 that broadcasts over the clips."""
        return values.float().to(self.clips.device, non_blocking=True).view(-1, 1, 1, 1, 1)

    def unpadded(self, measured: Tensor, neutral: float) -> Tensor:
        """`measured` (G, T, ...) with `neutral` for frames that are padding."""
        if self.valid is None:
            return measured
        return measured.masked_fill(~self.valid.view(*self.valid.shape, *[1] * (measured.ndim - 2)), neutral)


def auto_contrast(group: ClipGroup) -> Tensor:
    """Stretch each channel of a clip to 0..255."""
    low = group.unpadded(group.clips.amin((-2, -1)), math.inf).amin(1, keepdim=True)[..., None, None]
    high = group.unpadded(group.clips.amax((-2, -1)), -math.inf).amax(1, keepdim=True)[..., None, None]
    flat = low == high
    scale = torch.where(flat, 1.0, 255 / (high - low))  # (G, 1, 3, 1, 1)
    return (group.clips - low.masked_fill(flat, 0)).mul_(scale)


def equalize(group: ClipGroup) -> Tensor:
    """Equalize the histogram of each channel over the clip."""
    values = group.clips.round().clamp_(0, 255).long().flatten(-2)  # (G, T, 3, H W)
    counts = values.new_zeros(*values.shape[:3], 256)
    counts.scatter_add_(-1, values, values.new_ones(()).expand_as(values))
    table = _equalizing_table(group.unpadded(counts, 0).sum(1, keepdim=True))  # (G, 1, 3, 256)
    return table.expand_as(counts).gather(-1, values).view_as(group.clips)


def _equalizing_table(counts: Tensor) -> Tensor:
    """The new level (..., 256) of each level from their counts (..., 256), as PIL computes it."""
    levels = torch.arange(256, device=counts.device)
    brightest = (levels * (counts > 0)).amax(-1, keepdim=True)
    step = (counts.sum(-1, keepdim=True) - counts.gather(-1, brightest)) // 255
    below = counts.cumsum(-1) - counts
    table = ((below + step // 2) // step.clamp(min=1)).clamp(0, 255)
    return torch.where(step == 0, levels, table).float()


def solarize(group: ClipGroup) -> Tensor:
    threshold = group.per_clip(group.level(255, 0))
    return torch.where(group.clips >= threshold, 255 - group.clips, group.clips)


def posterize(group: ClipGroup) -> Tensor:
    dropped_bits = (group.magnitude / (MAX_MAGNITUDE / 4)).round()
    step = group.per_clip(2**dropped_bits)
    return (group.clips / step).floor_().mul_(step)


def brightness(group: ClipGroup) -> Tensor:
    return group.clips * group.per_clip(1 + group.level(0, 0.9))


def color(group: ClipGroup) -> Tensor:
    return _blend(group, _grey(group.clips))


def contrast(group: ClipGroup) -> Tensor:
    grey = _grey(group.clips)
    by_frame = grey.sum((-3, -2, -1), dtype=torch.float64)  # integers: exact in any order
    frames = grey.shape[1] if group.valid is None else group.valid.sum(1)
    mean = group.unpadded(by_frame, 0).sum(1) / (frames * grey[0, 0].numel())
    return _blend(group, mean.float().view(-1, 1, 1, 1, 1))


def sharpness(group: ClipGroup) -> Tensor:
    """Blend with a clip that is smoothed everywhere except on its border."""
    if min(group.clips.shape[-2:]) < 3:
        return group.clips
    rows = group.clips[..., :-2, :] + group.clips[..., 1:-1, :] + group.clips[..., 2:, :]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    total.add_(group.clips[..., 1:-1, 1:-1], alpha=4)  # the centre has weight 5, its 8 neighbours 1
    smooth = group.clips.clone()
    smooth[..., 1:-1, 1:-1] = total.div_(13).round_()
    return _blend(group, smooth)


def _grey(clips: Tensor) -> Tensor:
    """(G, T, 3, H, W) to integer levels (G, T, 1, H, W), with torchvision's weights."""
    r, g, b = clips.split(1, -3)
    return (0.2989 * r).add_(0.587 * g).add_(0.114 * b).floor_()


def _blend(group: ClipGroup, other: Tensor) -> Tensor:
    """Interpolate from `other` to the clips by the ratio 1 + level; above 1 extrapolate."""
    ratio = 1 + group.level(0, 0.9)
    return (group.clips * group.per_clip(ratio)).add_(other * group.per_clip(1 - ratio))


def rotate(group: ClipGroup) -> Tensor:
    angle = group.level(0, 30).deg2rad()
    return _warp(group, ((angle.cos(), -angle.sin(), 0.0), (angle.sin(), angle.cos(), 0.0)))


def shear_x(group: ClipGroup) -> Tensor:
    shear = group.level(0, 0.3)  # from the top: the offset undoes the centring of y
    return _warp(group, ((1.0, shear, shear * (group.clips.shape[-2] / 2)), (0.0, 1.0, 0.0)))


def shear_y(group: ClipGroup) -> Tensor:
    shear = group.level(0, 0.3)
    return _warp(group, ((1.0, 0.0, 0.0), (shear, 1.0, shear * (group.clips.shape[-1] / 2))))


def translate_x(group: ClipGroup) -> Tensor:
    pixels = group.level(0, MAX_TRANSLATION * group.clips.shape[-1]).trunc()
    return _warp(group, ((1.0, 0.0, -pixels), (0.0, 1.0, 0.0)))


def translate_y(group: ClipGroup) -> Tensor:
    pixels = group.level(0, MAX_TRANSLATION * group.clips.shape[-2]).trunc()
    return _warp(group, ((1.0, 0.0, 0.0), (0.0, 1.0, -pixels)))


def zoom(clips: Tensor, factor: Tensor) -> Tensor:
    """Clips (B, T, 3, H, W), uint8 or float, enlarged about their centres by factors (B,): cut off, or black around."""
    if factor.shape != clips.shape[:1] or not (factor > 0).all():
        raise InputError(
            f"factors of zoom are {factor.tolist()}; they must be above 0, one for each of {len(clips)} clips"
        )
    group = ClipGroup(clips.float(), factor.double().cpu(), None)
    found = _warp(group, ((1 / group.magnitude, 0.0, 0.0), (0.0, 1 / group.magnitude, 0.0)))
    return torch.empty_like(clips).copy_(found)  # in the memory layout of the clips


Row = tuple[float | Tensor, float | Tensor, float | Tensor]


def _warp(group: ClipGroup, matrix: tuple[Row, Row]) -> Tensor:
    """Read pixel (x, y), relative to the frame's centre, at matrix (x, y, 1): nearest neighbour, black outside."""
    clips = group.clips
    height, width = clips.shape[-2:]
    x = torch.arange(width, device=clips.device, dtype=torch.float32) - (width - 1) / 2
    y = (torch.arange(height, device=clips.device, dtype=torch.float32) - (height - 1) / 2).view(-1, 1)

    def axis(row: Row, size: int) -> Tensor:  # (G, H, W), from -1 to 1 over the frame
        a, b, c = (torch.as_tensor(v, dtype=torch.float64).expand(len(clips)) for v in row)
        # float32 from here on, in this order: positions between two pixels round as in torchvision
        a, b, c = (group.per_clip(v)[..., 0, 0] / (0.5 * size) for v in (a, b, c))
        return x * a + y * b + c

    grid = torch.stack((axis(matrix[0], width), axis(matrix[1], height)), -1)
    frames = clips.flatten(1, 2)  # (G, 3 T, H, W): positions are computed once for all frames
    return F.grid_sample(frames, grid, "nearest", "zeros", align_corners=False).view_as(clips)


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    run: Callable[[ClipGroup], Tensor]
    signed: bool = False  # whether its magnitude has a random sign


OPERATIONS: tuple[Operation, ...] = (
    Operation("Identity", lambda group: group.clips),
    Operation("AutoContrast", auto_contrast),
    Operation("Equalize", equalize),
    Operation("Rotate", rotate, signed=True),
    Operation("Solarize", solarize),
    Operation("Color", color, signed=True),
    Operation("Posterize", posterize),
    Operation("Contrast", contrast, signed=True),
    Operation("Brightness", brightness, signed=True),
    Operation("Sharpness", sharpness, signed=True),
    Operation("ShearX", shear_x, signed=True),
    Operation("ShearY", shear_y, signed=True),
    Operation("TranslateX", translate_x, signed=True),
    Operation("TranslateY", translate_y, signed=True),
)
"""In the paper's order; an `AugmentPlan` refers to them by index."""


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
    """How many operations each clip gets, drawn uniformly from the 14 or from some of them, and how strong they are."""

    operations: int = 2
    """RandAugment operations, applied one after the other; 0: none."""
    magnitude: int = 9
    """Magnitude of RandAugment, 0 to 30."""
    magnitude_std: float = 0.0
    """Spread of the magnitude as in timm: the standard deviation of a normal distribution; inf: uniform from 0 to
    `magnitude`."""
    choose: tuple[str, ...] | None = None
    """Draw from these operations only, such as [Rotate, TranslateX] for pictures whose colours are codes; null: all."""

    def __post_init__(self) -> None:
        check_entries("augment", self, operations="0..", magnitude=f"0..{MAX_MAGNITUDE}", magnitude_std="0..")
        names = [operation.name for operation in OPERATIONS]
        if isinstance(self.choose, str):
            raise ConfigError(f"augment.choose is {self.choose!r}; it takes a list, such as [{self.choose}]")
        for name in self.choose or ():
            if name not in names:
                raise ConfigError(f"augment.choose has {name!r}{did_you_mean(name, names, 'The operations are')}")
        if self.choose == ():
            raise ConfigError("augment.choose is empty: name operations, or set augment.operations to 0")

    def plan(self, chances: Tensor) -> AugmentPlan:
        """The plan from random numbers (B, N, CHANCES) in 0..1: which operation, which direction, how much."""
        which, direction, amount = chances.unbind(-1)
        chosen = [i for i, operation in enumerate(OPERATIONS) if self.choose is None or operation.name in self.choose]
        operation = torch.tensor(chosen)[(which * len(chosen)).long()]
        signed = torch.tensor([o.signed for o in OPERATIONS])[operation]
        size = torch.full_like(amount, self.magnitude)
        if math.isinf(self.magnitude_std):
            size = self.magnitude * amount
        elif self.magnitude_std > 0:
            size = (size + self.magnitude_std * torch.special.ndtri(amount)).clamp(0, MAX_MAGNITUDE)
        return AugmentPlan(operation, torch.where((direction < 0.5) & signed, -size, size).float())


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
    batch, frames = clips.shape[:2]
    known = torch.tensor(check_lengths(lengths, batch, frames))
    valid = None if known.eq(frames).all() else length_mask(known, frames).to(clips.device, non_blocking=True)
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
