"""The backbone of the paper's SSv2 network: "two 3x3 convolution layers with 128 filters and stride 2".

On an NVIDIA GPU with Triton, norm and activation are one kernel and maps are channels-last: `horst.ops.fused.norm_act`.

Shapes: N frames, H x W pixels, C channels. Two stages take 224x224 to 56x56.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.backbones.base import IMAGENET_MEAN, IMAGENET_STD, Backbone, Normalise, register_backbone
from horst.config import check_positive, check_type
from horst.errors import ConfigError
from horst.ops.backend import BackendChoice, by_kernels, choose

Activation = Literal["relu", "silu"]
StageNorm = Literal["layer", "channel", "batch"]


@register_backbone("stem")
class ConvStem(Backbone):
    """One stage per width: convolution, norm, activation. Frames are normalised with ImageNet's mean and deviation.

    The paper does not say what follows the convolution. The norm "layer" over (C, H, W) is the form of its FF blocks;
    "channel", over (H, W), makes small models learn much faster. Both nearly fix the mean of a map: cores that read
    only that mean need "batch", over all frames of a batch on a device.
    """

    def __init__(
        self, *, widths: Sequence[int] = (128, 128), activation: Activation = "relu", norm: StageNorm = "layer"
    ) -> None:
        super().__init__()
        if not isinstance(widths, Sequence) or isinstance(widths, str) or not widths:
            raise ConfigError(f"widths is {widths!r}; it takes one number of channels per stage")
        for width in widths:
            check_positive(widths=width)
        check_type("activation", activation, Activation)
        check_type("norm", norm, StageNorm)
        self.activation, self.norm = activation, norm
        self.channels = widths[-1]
        self.padded_channels = self.input_channels
        self.normalise: Normalise = Normalise(IMAGENET_MEAN, IMAGENET_STD, scale=255.0)
        self.stages = nn.Sequential()
        for c_in, c_out in zip((self.input_channels, *widths[:-1]), widths, strict=True):
            conv = nn.Conv2d(c_in, c_out, 3, stride=2, padding=1, bias=False)
            normed = nn.BatchNorm2d(c_out) if norm == "batch" else nn.GroupNorm(1 if norm == "layer" else c_out, c_out)
            self.stages.append(nn.Sequential(conv, normed, nn.ReLU() if activation == "relu" else nn.SiLU()))

    def preprocess(self, frames: Tensor) -> Tensor:
        mean, std, device = self.normalise.mean, self.normalise.std, frames.device.type
        fused = frames.dtype == torch.uint8 and mean.dtype != torch.float64 and by_kernels(self, frames)
        if not fused and self.padded_channels == self.input_channels:
            return super().preprocess(frames)
        from horst.ops.fused.normalise import normalise

        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else mean.dtype
        return normalise(frames, mean, std, dtype, self.padded_channels)

    def pad_input(self, channels: int = 8) -> None:
        """Give the frames channels of zeros, for inference by kernels: with 3 channels of half precision, convolutions
        cannot use the matrix units."""
        conv = next(self._pairs())[0]
        weight = F.pad(conv.weight.data, (0, 0, 0, 0, 0, channels - conv.in_channels))
        conv.weight.data = weight.contiguous(memory_format=torch.channels_last)
        conv.in_channels = self.padded_channels = channels

    def features(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, C, H / 2^stages, W / 2^stages)"""
        known = all(isinstance(norm, nn.GroupNorm) for _, norm in self._pairs())  # a copy for single frames has others
        return self._by_kernels(x) if known and by_kernels(self, x) else self.stages(x)

    def backend(self, device: torch.device) -> BackendChoice:
        if self.norm == "batch":
            return BackendChoice("reference", "there are no kernels for norm=batch")
        return choose(device, wanted=self.wanted_backend)

    def _by_kernels(self, x: Tensor) -> Tensor:
        from horst.ops.fused.norm_act import norm_act

        # once, instead of in every convolution
        half = torch.is_autocast_enabled(x.device.type)
        x = x.to(torch.get_autocast_dtype(x.device.type) if half else x.dtype, memory_format=torch.channels_last)
        for conv, norm in self._pairs():
            x = norm_act(conv(x), norm.weight, norm.bias, groups=norm.num_groups, act=self.activation, eps=norm.eps)
        return x

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        """Convolution and norm of each stage."""
        for stage in self.stages:
            assert isinstance(stage, nn.Sequential)
            yield stage[0], stage[1]

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        for _ in self.stages:
            height, width = (height + 1) // 2, (width + 1) // 2
        return height, width
