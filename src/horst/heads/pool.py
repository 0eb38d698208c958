"""The first layer of every head: global average pooling of each map, and optionally a batch norm.

After a norm over (C, H, W) the mean of a map differs little between clips, so a linear layer on it learns slowly at
first. A batch norm of the means amplifies these differences; in evaluation it is part of the linear layer.
"""

from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from horst.config import check_type
from horst.heads.base import check_maps

Norm = Literal["none", "batch"]


class MapPool(nn.Module):
    """Maps (B, T, C, H, W) or (B, C, H, W) -> their means (..., C), in the order of `maps`."""

    def __init__(self, channels: int, maps: tuple[str, ...], norm: Norm) -> None:
        super().__init__()
        check_type("norm", norm, Norm)
        self.channels = channels
        self.norms = nn.ModuleDict({name: FrameNorm(channels) for name in maps} if norm == "batch" else {})

    def forward(self, valid: Tensor | None, **maps: Tensor) -> list[Tensor]:
        """`valid` (B, T): which frames are not padding."""
        check_maps(self.channels, **maps)
        means = {name: m.mean((-2, -1)) for name, m in maps.items()}
        return [self.norms[name](m, valid) if name in self.norms else m for name, m in means.items()]


class FrameNorm(nn.BatchNorm1d):
    """Batch norm over all frames of a batch, without padding. Processes of a distributed run share statistics.

    Unlike torch's SyncBatchNorm it works on CPUs too.
    """

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """x (B, T, C) or (B, C), `valid` (B, T) or (B,)."""
        if not self.training:
            return super().forward(x.flatten(0, -2)).view(x.shape)
        running: Any = self  # torch's annotations allow None
        wide = x.to(running.running_mean.dtype)
        places = tuple(range(x.ndim - 1))
        count = wide.new_full((), x[..., 0].numel()) if valid is None else valid.sum().to(wide.dtype)
        if valid is not None:  # the padding may hold anything
            wide = torch.where(valid.unsqueeze(-1), wide, 0.0)
        sums = _over_processes(torch.cat([wide.sum(places), count.reshape(1)]))
        total = sums[-1].detach()
        mean = sums[:-1] / total.clamp_min(1)
        centred = wide - mean
        if valid is not None:
            centred = torch.where(valid.unsqueeze(-1), centred, 0.0)
        variance = _over_processes((centred * centred).sum(places)) / total.clamp_min(1)
        with torch.no_grad():  # the running statistics change if there was any frame
            running.num_batches_tracked.add_(total > 0)
            momentum = running.momentum * (total > 0).to(mean.dtype)
            running.running_mean.lerp_(mean, momentum)
            running.running_var.lerp_(variance * total / (total - 1).clamp_min(1), momentum)
        normed = centred * torch.rsqrt(variance + self.eps)
        return (normed * self.weight + self.bias).to(x.dtype)


def _over_processes(sums: Tensor) -> Tensor:
    """Sums over all processes of a distributed run, with gradients."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        return _Summed.apply(sums)
    return sums


class _Summed(torch.autograd.Function):
    """A sum over processes. The result of every process depends on every summand, so gradients are summed too."""

    @staticmethod
    def forward(ctx: Any, sums: Tensor) -> Tensor:
        total = sums.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _Summed.apply(gradient)
