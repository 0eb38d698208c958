"""3D-CNN: a stack of 3-D convolutions and the mean of what it makes of the frames so far.

The baseline of "Eidetic 3D LSTM: A Model for Video Prediction and Beyond", Wang et al., 2019, after "Learning
Spatiotemporal Features with 3D Convolutional Networks", Tran, Bourdev, Fergus, Torresani, Paluri, 2015:

    x^0 = the frames;   x^{l+1} = relu(norm(W_l * pool(x^l) + b_l));   y_t = mean over the frames 0 .. t of the last x

`*` convolves k x k x k, with zeros around. How this network looked (widths, layers, norm, pooling) is not published:
all are options but the norm, which takes the channels and places of each frame together and no other frame, so that
the past never sees the future.

A convolution in time either looks back alone (`padding="causal"`): then the network takes frame after frame, and
remembers the last k - 1 inputs of each layer and the mean. Or it looks both ways (`padding="centred"`), as in networks
for whole clips: then y_t is what the network makes of the frames 0 .. t as a clip of its own. The cost grows with the
square of the length, and there is nothing that a stream could go on from.

Shapes: B batch, T frames, C channels, H x W map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from horst.config import check_type
from horst.errors import ConfigError, InputError
from horst.layers import CoreOutput, CoreStep, Memory, RecurrentState
from horst.layers.core import zero_where
from horst.models.methods.stack import StackConfig, StackedCore, pooled

Padding = Literal["causal", "centred"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CNN3DConfig(StackConfig):
    """A stack of 3-D convolutions; `kernel` is their extent in time, too."""

    name: ClassVar[str] = "cnn3d"
    title: ClassVar[str] = "3D-CNN"

    padding: Padding = "causal"
    """Convolutions look back alone; or `centred`, both ways within the frames so far, for whole clips."""

    def __post_init__(self) -> None:
        StackConfig.__post_init__(self)
        check_type("padding", self.padding, Padding)
        if self.kernel < 3:
            raise ConfigError("kernel is 1; it takes an odd number from 3 on: one frame alone shows no motion")


class Block(nn.Module):
    """Convolution, norm of each frame, ReLU."""

    def __init__(self, in_channels: int, channels: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(in_channels, channels, kernel, padding=(0, kernel // 2, kernel // 2))
        self.norm = nn.GroupNorm(1, channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T + k - 1, C_in, H, W) -> (B, T, C, H, W)"""
        maps = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.norm(maps.flatten(0, 1)).relu().unflatten(0, maps.shape[:2])


class CNN3D(StackedCore):
    """The stack and the running mean."""

    config: CNN3DConfig

    def __init__(self, config: CNN3DConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(Block(*w, config.kernel) for w in self.widths)
        self.streaming = config.padding == "causal"

    @property
    def unknown(self) -> str:
        return self.config.title

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        if not self.streaming:
            return {}
        sizes = self.sizes(height, width)
        layers = enumerate(zip(self.widths, sizes, strict=True))
        past = {f"x{i}": (self.config.kernel - 1, channels, *size) for i, ((channels, _), size) in layers}
        return {**past, "mean": (self.channels, *sizes[-1])}

    def forward(
        self,
        x: Tensor,
        state: RecurrentState | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        attention: bool = False,
    ) -> tuple[CoreOutput, RecurrentState]:
        if state is not None:
            self._refuse_to_go_on()
        return super().forward(x, state, lengths, attention=attention)

    def step(self, x: Tensor, state: RecurrentState, *, attention: bool = False) -> tuple[CoreOutput, RecurrentState]:
        self._refuse_to_go_on()
        return super().step(x, state, attention=attention)

    def unfold(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        if not self.streaming:
            prefixes = [self._centred(x[:, : t + 1]).mean(1) for t in range(x.shape[1])]
            return CoreStep({"y": torch.stack(prefixes, 1).to(x.dtype)}), {}
        after, span = {}, self.config.kernel - 1
        for i, (block, stride) in enumerate(zip(self.layers, self.config.stride, strict=True)):
            seen = torch.cat([memory[f"x{i}"], pooled(x, stride)], 1)
            # a copy, so that the state does not hold on to the clip; autocast may have computed in another dtype
            after[f"x{i}"] = seen[:, -span:].to(memory[f"x{i}"].dtype, copy=True)
            x = block(seen)
        # as the mean so far plus its change: small numbers, even where a sum over a long stream would be a large one
        mean = memory["mean"].unsqueeze(1)
        number = count.view(-1, 1, 1, 1, 1) + torch.arange(1, x.shape[1] + 1, device=x.device).view(-1, 1, 1, 1)
        y = mean + (x.to(mean.dtype) - mean).cumsum(1) / number
        after["mean"] = y[:, -1].clone()
        return CoreStep({"y": y}), after

    def _unfold_ragged(self, x: Tensor, state: RecurrentState, ended: Tensor) -> tuple[CoreStep, Memory]:
        if self.streaming:
            return super()._unfold_ragged(x, state, ended)
        said, memory = self.unfold(zero_where(x, ended), state.memory, state.count)
        return CoreStep({"y": zero_where(said.maps["y"], ended)}), memory

    def _centred(self, x: Tensor) -> Tensor:
        """The stack on a clip (B, T, C, H, W), with zeros on both ends of each convolution."""
        for block, stride in zip(self.layers, self.config.stride, strict=True):
            x = pooled(x, stride)
            ends = x.new_zeros(x.shape[0], self.config.kernel // 2, *x.shape[2:])
            x = block(torch.cat([ends, x, ends], 1))
        return x

    def _refuse_to_go_on(self) -> None:
        if not self.streaming:
            raise InputError("a 3D-CNN with padding='centred' takes whole clips alone; padding='causal' makes a stream")
