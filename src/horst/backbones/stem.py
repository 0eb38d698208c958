"""The backbone of the paper's SSv2 network: "two 3x3 convolution layers with 128 filters and stride 2".

Shapes: N frames, H x W pixels, C channels. Two stages take 224x224 to 56x56.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from horst.backbones.base import Backbone
from horst.backbones.normalise import IMAGENET_MEAN, IMAGENET_STD, Normalise
from horst.errors import ConfigError, near
from horst.registry import check_positive

_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "silu": nn.SiLU}


class ConvStem(Backbone):
    """One stage per width: convolution, norm, activation.

    The paper does not say what follows the convolution. The norm "layer" over (C, H, W) is the form of its FF blocks;
    "channel", over (H, W) alone, makes small models learn much sooner. Both fix the mean of a map or nearly so: who
    reads that mean alone wants "batch", over all frames of a batch on a device.
    """

    def __init__(
        self,
        *,
        widths: Sequence[int] = (128, 128),
        activation: Literal["relu", "silu"] = "relu",
        norm: Literal["layer", "channel", "batch"] = "layer",
    ) -> None:
        super().__init__()
        if not isinstance(widths, Sequence) or isinstance(widths, str) or not widths:
            raise ConfigError(f"widths is {widths!r}; it takes one channel count a stage")
        for width in widths:
            check_positive(widths=width)
        if activation not in _ACTIVATIONS:
            raise ConfigError(f"unknown activation {activation!r}{near(activation, _ACTIVATIONS)} (relu or silu)")
        self.channels = widths[-1]
        self.normalise = Normalise(IMAGENET_MEAN, IMAGENET_STD, scale=255.0)
        self.stages = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(c_in, c_out, 3, stride=2, padding=1, bias=False),
                    nn.BatchNorm2d(c_out) if norm == "batch" else nn.GroupNorm(1 if norm == "layer" else c_out, c_out),
                    _ACTIVATIONS[activation](),
                )
                for c_in, c_out in zip((self.input_channels, *widths[:-1]), widths, strict=True)
            )
        )

    def preprocess(self, frames: Tensor) -> Tensor:
        """To 0..1, then by ImageNet's mean and standard deviation."""
        return self.normalise(frames)

    def features(self, x: Tensor) -> Tensor:
        return self.stages(x)  # (N, 3, H, W) -> (N, C, H / 2^stages, W / 2^stages)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        for _ in self.stages:
            height, width = (height + 1) // 2, (width + 1) // 2
        return height, width
