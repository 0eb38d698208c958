"""3D-CNN: a stack of 3-D convolutions, and the mean of their output over the frames so far.

As a baseline in the paper of E3D-LSTM:

    x^0 = the frames;   x^{l+1} = relu(norm(W_l * pool(x^l) + b_l));   y_t = mean over the frames 0 .. t of the last x

`*` convolves k x k x k with zero padding. The norm is over the channels and positions of each frame, so that no frame
sees a later one. With `padding="causal"` a convolution sees earlier frames only: the network takes one frame at a time
and remembers the last k - 1 inputs of each layer and the mean. With `padding="centred"` it sees both directions, as
networks for whole clips do: y_t is the output for the frames 0 .. t as a clip of its own, the cost grows with the
square of the length, and it cannot stream.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.layers import CoreStep, Memory, RecurrentState, register_core
from horst.layers.core import zero_where
from horst.models.methods.stack import StackConfig, StackedCore, layers, pooled
from horst.models.predictor import PredictorConfig
from horst.models.registry import recognition, register_method

Padding = Literal["causal", "centred"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CNN3DConfig(StackConfig):
    """A stack of 3-D convolutions; `kernel` is also their extent in time."""

    name, title = "cnn3d", "3D-CNN"
    padding: Padding = "causal"
    """What convolutions see: only earlier frames; or `centred`, both directions within the frames so far."""

    def __post_init__(self) -> None:
        StackConfig.__post_init__(self)
        if self.kernel < 3:
            raise ConfigError("kernel is 1; it takes an odd number from 3 on: one frame shows no motion")


class ConvBlock3d(nn.Module):
    """Convolution, norm of each frame, ReLU."""

    def __init__(self, in_channels: int, channels: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(in_channels, channels, kernel, padding=(0, kernel // 2, kernel // 2))
        self.norm = nn.GroupNorm(1, channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T + k - 1, C_in, H, W) -> (B, T, C, H, W)"""
        maps = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.norm(maps.flatten(0, 1)).relu().unflatten(0, maps.shape[:2])


@register_core(CNN3DConfig)
class CNN3D(StackedCore):
    """The stack and the running mean."""

    config: CNN3DConfig
    unknown = CNN3DConfig.title

    def __init__(self, config: CNN3DConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(ConvBlock3d(*w, config.kernel) for w in self.widths)
        self.streaming = config.padding == "causal"

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        if not self.streaming:
            return {}
        sizes, span = self.sizes(height, width), self.config.kernel - 1
        past = {f"x{i}": (span, c, *size) for i, ((c, _), size) in enumerate(zip(self.widths, sizes, strict=True))}
        return {**past, "mean": (self.channels, *sizes[-1])}

    def unfold(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        if not self.streaming:
            prefixes = [self._convolve(x[:, : t + 1], {})[0].mean(1) for t in range(x.shape[1])]
            return CoreStep({"y": torch.stack(prefixes, 1).to(x.dtype)}), {}
        x, after = self._convolve(x, memory)
        # the mean so far plus its change, because a sum over a long stream would lose precision
        mean = memory["mean"].unsqueeze(1)
        number = count.view(-1, 1, 1, 1, 1) + torch.arange(1, x.shape[1] + 1, device=x.device).view(-1, 1, 1, 1)
        y = mean + (x.to(mean.dtype) - mean).cumsum(1) / number
        after["mean"] = y[:, -1].clone()
        return CoreStep({"y": y}), after

    def _unfold_ragged(self, x: Tensor, state: RecurrentState, ended: Tensor) -> tuple[CoreStep, Memory]:
        if self.streaming:
            return super()._unfold_ragged(x, state, ended)
        output, memory = self.unfold(zero_where(x, ended), state.memory, state.count)
        return CoreStep({"y": zero_where(output.maps["y"], ended)}), memory

    def _convolve(self, x: Tensor, before: Memory) -> tuple[Tensor, Memory]:
        """The stack on a clip, after the inputs of each layer before it; without these, between zeros."""
        after, span = Memory(), self.config.kernel - 1
        for i, (block, stride) in enumerate(zip(self.layers, self.config.stride, strict=True)):
            x = pooled(x, stride)
            if before:
                x = torch.cat([before[f"x{i}"], x], 1)
                # a copy, so that the state does not keep the clip alive; autocast may have computed in another dtype
                after[f"x{i}"] = x[:, -span:].to(before[f"x{i}"].dtype, copy=True)
            else:
                ends = x.new_zeros(x.shape[0], span // 2, *x.shape[2:])
                x = torch.cat([ends, x, ends], 1)
            x = block(x)
        return x, after


@register_method(
    "cnn3d",
    title="3D-CNN",
    task="recognition",
    reference="Tran et al. 2015, Learning Spatiotemporal Features with 3D Convolutional Networks",
    idea="convolve over time, then average",
    rows={"early-recognition": "3D-CNN"},
)
def cnn3d(size: str) -> PredictorConfig:
    return recognition(size, CNN3DConfig(**layers(size, (96, 128, 160))))
