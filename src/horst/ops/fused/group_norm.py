"""A norm over a whole map with its activation, as a module without gradient: for a backbone in a captured step.

PyTorch computes the statistics of a map in one block of threads, which for one frame of 112 x 112 x 128 takes longer
than the four layers of the SSv2 network after it.
"""

import copy

import torch
from torch import Tensor, nn

from horst.ops.fused import maps, norm
from horst.ops.fused.norm import Act

ACTIVATIONS: dict[type, Act] = {nn.ReLU: "relu", nn.SiLU: "silu"}


class MapNorm(nn.Module):
    """act(GroupNorm(1, C)(x)) of maps x (N, C, H, W), in their dtype."""

    def __init__(self, given: nn.GroupNorm, act: Act) -> None:
        super().__init__()
        self.weight, self.bias, self.eps, self.act = given.weight.float(), given.bias.float(), given.eps, act

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        flat = maps.pixels(x)
        y = torch.empty_like(flat)
        norm.norm(flat, self.weight, self.bias, (y,), act=self.act, eps=self.eps)
        return maps.picture(y, height, width)


def prepared(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy for inference: convolutions channels-last and cast once, norms over whole maps by the kernels."""
    module = copy.deepcopy(module).requires_grad_(False)
    for part in list(module.modules()):
        if isinstance(part, nn.Conv2d):
            part.weight.data = part.weight.to(dtype, memory_format=torch.channels_last)
        if isinstance(part, nn.Sequential):
            for i, first in enumerate(part):
                if isinstance(first, nn.GroupNorm) and first.num_groups == 1 and first.affine:
                    act = ACTIVATIONS.get(type(part[i + 1]), "none") if i + 1 < len(part) else "none"
                    part[i] = MapNorm(first, act)
                    if act != "none":
                        part[i + 1] = nn.Identity()
    return module
