"""What every head begins with: the mean of each map over its places, and on request a batch norm of it.

After a norm over (C, H, W) the mean of a map differs little between clips, so a linear layer on it learns slowly at
first. A batch norm of the means brings these differences out; in evaluation it is part of the linear layer.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce

from horst.heads.logits import check_maps
from horst.registry import check_type

Norm = Literal["none", "batch"]


class Pool(nn.Module):
    """Maps (B, T, C, H, W) or (B, C, H, W) -> their means (..., C), in the order in which they were announced."""

    def __init__(self, channels: int, maps: tuple[str, ...], norm: Norm) -> None:
        super().__init__()
        check_type("norm", norm, Norm)
        self.channels = channels
        self.norms = nn.ModuleDict({name: FrameNorm(channels) for name in maps} if norm == "batch" else {})

    def forward(self, valid: Tensor | None, **maps: Tensor) -> list[Tensor]:
        """`valid` (B, T): which frames are no padding."""
        check_maps(self.channels, **maps)
        means = {name: m.mean((-2, -1)) for name, m in maps.items()}
        return [self.norms[name](m, valid) if name in self.norms else m for name, m in means.items()]


class FrameNorm(nn.BatchNorm1d):
    """Batch norm over all frames of a batch: padding is left out, and processes of a distributed run share statistics.

    Unlike torch's SyncBatchNorm it works on CPUs too.
    """

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """x (B, T, C) or (B, C), `valid` (B, T) or (B,)."""
        if not self.training:
            rows = x.flatten(0, -2)
            normed = F.batch_norm(rows, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
            return normed.view(x.shape)
        assert self.running_mean is not None
        shift = self.running_mean.clone()  # small numbers lose less in the sum of squares
        shifted = x - shift  # in the statistics' own precision where x has less
        if valid is not None:  # what stands in the padding may be anything
            shifted = torch.where(valid.unsqueeze(-1), shifted, 0.0)
        places = tuple(range(x.ndim - 1))
        count = shifted.new_tensor(x[..., 0].numel()) if valid is None else valid.sum()
        sums = torch.cat([shifted.sum(places), (shifted * shifted).sum(places), count.to(shifted.dtype).reshape(1)])
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            sums = all_reduce(sums)
        total = sums[-1].detach()
        mean, square = sums[:-1].view(2, -1) / total.clamp_min(1)
        variance = (square - mean * mean).clamp_min(0)
        self._remember(mean.detach() + shift, variance.detach() * total / (total - 1).clamp_min(1), total > 0)
        normed = (shifted - mean) * torch.rsqrt(variance + self.eps)
        return (normed * self.weight + self.bias).to(x.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor, counts: Tensor) -> None:
        """`counts`: whether there was a frame at all."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        self.num_batches_tracked.add_(counts)
        momentum = self.momentum * counts.to(mean.dtype)
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance, momentum)
