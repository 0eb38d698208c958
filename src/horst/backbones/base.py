"""The interface of every backbone: frames in, feature maps out, and the size of these maps.

Shapes: N frames (batch and time flattened), H x W pixels, C channels, h x w the map's size.
"""

import contextlib
import math
from collections.abc import Sequence
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.config import check_dropout, check_positive, check_type
from horst.errors import ConfigError, InputError
from horst.ops.backend import BackendChoice, Wanted
from horst.registry import Part, Registry

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # RGB, on 0..1


class Normalise(nn.Module):
    """(x - mean) / std per channel, at least in float32, returned in the dtype that the module was moved to.

    `mean` and `std` are in the units of x divided by `scale`: 255 for constants on 0..1.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float], *, scale: float = 1.0) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("std", std)):
            # Multiplied on the CPU, even if modules are created on the meta device: there torch would import its
            # compiler. Not persistent: the values are constants of the code, not of a checkpoint.
            column = (scale * torch.tensor(values, device="cpu")).view(-1, 1, 1).to(torch.get_default_device())
            self.register_buffer(name, column, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        # in float32 even for half precision, which would round twice more
        exact = torch.promote_types(self.mean.dtype, torch.float32)
        return ((x.to(exact) - self.mean.to(exact)) / self.std.to(exact)).to(self.mean.dtype)


MOST_VALUES = {"cpu": 2**19, "cuda": 2**27}
"""How many values of frames pass through a backbone at once if it is not trained, by device; others: as cuda. It limits
the memory of long videos. A CPU is several times faster with parts that fit in its caches."""


class Backbone(nn.Module):
    """Turns frames (N, 3, H, W), RGB in 0..255 (uint8 or float), into maps (N, channels, h, w).

    `forward` is `features(preprocess(frames))`: it contains the normalisation of its weights. A frozen backbone stays
    in evaluation mode and has no gradients.
    """

    channels: int  # of the map
    input_channels: int = 3  # of the frames
    made_from: Part | None = None  # the name and options with which `create_backbone` made it
    smallest: int = 1  # the least height and width of a frame
    window: int = 1  # how many frames of a stream, this one included, a map depends on; see `WindowBackbone`
    precomputed: bool = False  # whether it takes feature maps instead of images
    normalise: nn.Module

    def __init__(self, *, frozen: bool = False) -> None:
        super().__init__()
        self.frozen = frozen
        self.wanted_backend: Wanted = "auto"

    @property
    def finetuned(self) -> nn.Module:
        """The part that `optimiser.backbone_lr` is for."""
        return self

    def preprocess(self, frames: Tensor) -> Tensor:
        """From RGB in 0..255 to the input of `features`."""
        return self.normalise(frames)

    def features(self, x: Tensor) -> Tensor:
        """The network itself."""
        raise NotImplementedError

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """The size of the map for frames of height x width."""
        raise NotImplementedError

    def check_size(self, height: int, width: int) -> None:
        """InputError for frames that it does not take."""
        if min(height, width) < self.smallest:
            least = f"{self.smallest} x {self.smallest} pixels"
            raise InputError(f"{type(self).__name__} takes at least {least}; got {height} x {width}")

    def init_memory(self, batch_size: int, height: int, width: int) -> Any:
        """What it remembers of each stream before the first frame; None: a map depends on its own frame only."""
        return None

    def clip(self, frames: Tensor, memory: Any = None, lengths: Sequence[int] | None = None) -> tuple[Tensor, Any]:
        """Maps (B, T, channels, h, w) of clips (B, T, 3, H, W), and the memory after `lengths` frames of each.

        `memory`: after the frames before; None: these are the first.
        """
        flat = frames.flatten(0, 1)
        # Gradients and the statistics of a batch norm in training need all frames at once.
        whole = not self.frozen and (self.training or torch.is_grad_enabled())
        most = MOST_VALUES.get(flat.device.type, MOST_VALUES["cuda"])
        if torch.compiler.is_compiling() or whole or self.precomputed or flat.numel() <= most:
            maps = self(flat)
        else:
            maps = torch.cat([self(part) for part in flat.split(max(1, most // flat[0].numel()))])
        return maps.unflatten(0, frames.shape[:2]), None

    def step(self, frame: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """Maps (B, channels, h, w) of the next frame (B, 3, H, W) of every stream, and the memory after it."""
        return self(frame), None

    def saved_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """The options that build this backbone again without its first weights; `given`: those that built it."""
        return given

    def use_backend(self, name: Wanted) -> None:
        """Choose the implementation, if there are several; see `horst.ops.backend`."""
        check_type("backend", name, Wanted)
        self.wanted_backend = name

    def backend(self, device: torch.device) -> BackendChoice:
        """The implementation that runs on a device, and why."""
        return BackendChoice("reference", f"{type(self).__name__} has no kernels")

    def forward(self, frames: Tensor) -> Tensor:
        name, shape = type(self).__name__, tuple(frames.shape)
        if len(shape) != 4 or shape[1] != self.input_channels:
            raise InputError(f"{name} takes (N, {self.input_channels}, H, W), batch and time flattened; got {shape}")
        self.check_size(*shape[2:])
        with torch.no_grad() if self.frozen else contextlib.nullcontext():
            return self.features(self.preprocess(frames))

    def train(self, mode: bool = True) -> Self:
        return super().train(mode and not self.frozen)

    def _freeze(self) -> None:
        """Call it at the end of a constructor: a new module is in training mode, which a frozen one must not be."""
        if self.frozen:
            self.eval().requires_grad_(False)


BACKBONES: Registry[type[Backbone]] = Registry("backbone")  # the backbones by name
register_backbone = BACKBONES.register  # A decorator that adds a backbone: `@register_backbone("my_backbone")`


def create_backbone(name: str, **options: Any) -> Backbone:
    """A backbone by name; ConfigError for an unknown name or option."""
    backbone: Backbone = BACKBONES.create(name, **options)
    backbone.made_from = Part(name=name, options=backbone.saved_options(options))
    return backbone


def check_grid(grid: Any) -> tuple[int, int]:
    """ConfigError unless it is the height and width of a map."""
    if not isinstance(grid, Sequence) or len(grid) != 2 or not all(type(n) is int and n > 0 for n in grid):
        raise ConfigError(f"grid is {grid!r}; it takes [height, width]")
    return grid[0], grid[1]


def check_patches(name: str, size: tuple[int, int], patch: tuple[int, int]) -> None:
    """InputError if the patches of a transformer do not divide a frame."""
    if any(pixels % side for pixels, side in zip(size, patch, strict=True)):
        near = " x ".join(str(max(1, round(pixels / side)) * side) for pixels, side in zip(size, patch, strict=True))
        cells = f"patches of {patch[0]} x {patch[1]} pixels, which do not divide {size[0]} x {size[1]}"
        raise InputError(f"{name} reads {cells}: use frames of {near}, for example")


@register_backbone("maps")
class PrecomputedMaps(Backbone):
    """For feature maps (N, channels, h, w) that were computed before: it converts them to the dtype of the model."""

    precomputed = True
    _like: Tensor  # it follows the model's `.to(dtype)`, as there are no parameters; stored features are half precision

    def __init__(
        self,
        *,
        channels: int,
        grid: Sequence[int] | None = None,
        flatten: bool = False,
        norm: bool = False,
        noise: float = 0.0,
        dropout: float = 0.0,
        project: int | None = None,
    ) -> None:
        """Options that change maps, in this order.

        Args:
            channels: Of the stored maps.
            grid: Average each map over height x width cells.
            norm: Standardise each channel, by the mean and variance of the training frames.
            noise: In training, add normal noise with this standard deviation.
            dropout: In training, the fraction of values that are 0.
            project: Reduce to this many channels by a 1 x 1 convolution, a norm over the map and SiLU, all trained.
            flatten: Make one long vector of all cells, for cores that would average over positions.
        """
        super().__init__()
        check_positive(channels=channels)
        check_dropout(dropout)
        if noise < 0:
            raise ConfigError(f"noise is {noise}; it takes a number from 0 on")
        self.input_channels, self.flatten = channels, flatten
        self.grid = None if grid is None else check_grid(grid)
        if flatten and self.grid is None:
            raise ConfigError("flatten needs a grid of a known size: give the backbone `grid: [height, width]`")
        self.project: nn.Module | None = None
        if project is not None:
            check_positive(project=project)
            self.project = nn.Sequential(nn.Conv2d(channels, project, 1), nn.GroupNorm(1, project), nn.SiLU())
        given = project or channels
        self.channels = given * math.prod(self.grid) if flatten and self.grid is not None else given
        self.norm = FrameStandard(channels) if norm else None
        self.noise, self.dropout = noise, dropout
        self.register_buffer("_like", torch.zeros(()), persistent=False)

    def preprocess(self, frames: Tensor) -> Tensor:
        return frames.to(self._like.dtype)

    def features(self, x: Tensor) -> Tensor:
        if self.grid is not None and x.shape[-2:] != self.grid:
            x = F.adaptive_avg_pool2d(x, self.grid)
        if self.norm is not None:
            x = self.norm(x)
        if self.training:
            x = F.dropout(x + self.noise * torch.randn_like(x) if self.noise else x, self.dropout)
        if self.project is not None:
            x = self.project(x)
        return x.flatten(1)[..., None, None] if self.flatten else x

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        if self.flatten:
            return (1, 1)
        return (height, width) if self.grid is None else (self.grid[0], self.grid[1])


class FrameStandard(nn.BatchNorm2d):
    """Batch norm without weights over frames that are not 0 everywhere, as padding is. Each process has its own."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        running: Any = self  # torch's annotations allow None
        shown = x.flatten(1).ne(0).any(1).to(x.dtype).view(-1, 1, 1, 1)
        count = shown.sum() * x.shape[2] * x.shape[3]
        mean = (x * shown).sum((0, 2, 3), keepdim=True) / count.clamp_min(1)
        centred = (x - mean) * shown
        variance = (centred * centred).sum((0, 2, 3), keepdim=True) / count.clamp_min(1)
        with torch.no_grad():
            running.num_batches_tracked.add_(1)
            running.running_mean.lerp_(mean.flatten().to(running.running_mean.dtype), running.momentum)
            running.running_var.lerp_(variance.flatten().to(running.running_var.dtype), running.momentum)
        return centred * torch.rsqrt(variance + self.eps)
