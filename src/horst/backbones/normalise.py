"""Per-channel normalisation of frames in 0..255, and ImageNet's usual constants."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

IMAGENET_MEAN = (0.485, 0.456, 0.406)
"""RGB, on 0..1."""
IMAGENET_STD = (0.229, 0.224, 0.225)
"""RGB, on 0..1."""


class Normalise(nn.Module):
    """(x - mean) / std per channel, at least in float32, given in the dtype that the module was moved to.

    `mean` and `std` are in the units of x divided by `scale`: 255 for constants that were made on 0..1.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float], *, scale: float = 1.0) -> None:
        super().__init__()
        # Not persistent: constants of the code, which no checkpoint should carry or miss.
        self.register_buffer("mean", _column(mean, scale), persistent=False)
        self.register_buffer("std", _column(std, scale), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        # float16 and bfloat16 would round twice more on the way, so the arithmetic is in float32 even there.
        exact = torch.promote_types(self.mean.dtype, torch.float32)
        return ((x.to(exact) - self.mean.to(exact)) / self.std.to(exact)).to(self.mean.dtype)


def _column(values: Sequence[float], scale: float) -> Tensor:
    # Multiplied on the CPU, also where modules are made on the meta device: there torch would import its compiler.
    return (scale * torch.tensor(values, device="cpu")).view(-1, 1, 1).to(torch.get_default_device())
