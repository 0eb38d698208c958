"""The parts that cores of stacked convolutional layers share."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.config import check_type
from horst.errors import ConfigError
from horst.layers import LayersConfig, RecurrentCore
from horst.ops.backend import BackendChoice, Wanted, choose


def layers(size: str, tiny: tuple[int, ...]) -> dict[str, Any]:
    """HORST's layers for a data set: the authors of the other methods publish no sizes for Something-Something v2.

    `tiny`: the channels of the small layers, as many as give a method about as many parameters.
    """
    if size == "tiny":
        return {"in_channels": 64, "hidden": tiny, "stride": (1, 2, 1)}
    return {"in_channels": 128, "hidden": (128, 256, 512, 512), "stride": (1, 1, 2, 2)}


@dataclass(frozen=True, kw_only=True, slots=True)
class StackConfig(LayersConfig):
    """The options of a stack of convolutional layers."""

    kernel: int = 3  # height and width of the convolutions, odd

    def __post_init__(self) -> None:
        LayersConfig.__post_init__(self)
        if self.kernel % 2 == 0:
            raise ConfigError(f"kernel is {self.kernel}; it takes an odd number, so that maps keep their size")


class StackedCore(RecurrentCore):
    """A core of layers over maps. Each layer reads the pooled output of the one before."""

    config: StackConfig
    layers: nn.ModuleList
    unknown: str = ""  # what in the config has no kernels; empty: nothing

    def __init__(self, config: StackConfig) -> None:
        super().__init__(config)
        self.channels = config.hidden[-1]
        self._wanted: Wanted = "auto"

    def sizes(self, height: int, width: int) -> list[tuple[int, int]]:
        """Height and width in each layer, after its pooling."""
        strides = accumulate(self.config.stride, mul)
        return [(height // stride, width // stride) for stride in strides]

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return self.sizes(height, width)[-1]

    @property
    def widths(self) -> Iterator[tuple[int, int]]:
        """Input and output channels of each layer."""
        return zip((self.config.in_channels, *self.config.hidden[:-1]), self.config.hidden, strict=True)

    def use_backend(self, name: Wanted) -> None:
        """Compute what lies between convolutions by kernels (triton) or in plain PyTorch (reference)."""
        if name == "compiled":
            raise ConfigError(f"the backend compiled is for HORST; {self.config.title} takes auto, reference or triton")
        check_type("backend", name, Wanted)
        self._wanted = name

    def backend(self, device: torch.device) -> BackendChoice:
        chosen = choose(device, self.unknown, self._wanted)
        return replace(chosen, name="reference") if chosen.name == "compiled" else chosen  # which is for HORST


def pooled(x: Tensor, stride: int) -> Tensor:
    """Maps (B, T, C, H, W) after max pooling with windows of stride x stride."""
    return F.max_pool2d(x.flatten(0, 1), stride).unflatten(0, x.shape[:2]) if stride > 1 else x
