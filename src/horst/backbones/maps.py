"""Feature maps that were computed before: a backbone that only passes them on.

Shapes: N maps (batch and time folded together), C channels, h x w their size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from horst.backbones.base import Backbone
from horst.errors import ConfigError


class PrecomputedMaps(Backbone):
    """The identity on maps (N, channels, h, w), in the dtype of the model around it.

    Feature stores keep half precision to save disk and networks compute in another dtype, so a scalar buffer
    follows the model's `.to(dtype)` in place of the parameters that this backbone does not have.
    """

    _like: Tensor

    def __init__(self, *, channels: int) -> None:
        super().__init__()
        if channels < 1:
            raise ConfigError(f"channels must be positive, got {channels}")
        self.channels = self.input_channels = channels
        self.register_buffer("_like", torch.zeros(()), persistent=False)

    def preprocess(self, frames: Tensor) -> Tensor:
        return frames.to(self._like.dtype)

    def features(self, x: Tensor) -> Tensor:
        return x

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return height, width
