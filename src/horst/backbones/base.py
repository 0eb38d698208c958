"""What every backbone offers: frames in, feature maps out, and the size of those maps.

Shapes: N frames (batch and time folded together), H x W pixels, C channels, h x w the map's size.
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from horst.config import check_type
from horst.errors import InputError
from horst.ops.backend import BackendChoice, Wanted
from horst.registry import Part


class Backbone(nn.Module):
    """Turns frames (N, 3, H, W), RGB in 0..255 (uint8 or float), into maps (N, channels, h, w).

    The normalisation that a network's weights expect is part of it, so that nobody has to know it:
    `forward` is `features(preprocess(frames))`. A frozen backbone stays in evaluation mode and takes no gradients.
    """

    channels: int
    """Channels of the map."""
    input_channels: int = 3
    """Channels of what `forward` takes."""
    made_from: Part | None = None
    """How `create_backbone` made it."""
    smallest: int = 1
    """The least height and width that leave a map."""

    def __init__(self, *, frozen: bool = False) -> None:
        super().__init__()
        self.frozen = frozen

    def preprocess(self, frames: Tensor) -> Tensor:
        """RGB in 0..255 to what `features` takes."""
        raise NotImplementedError

    def features(self, x: Tensor) -> Tensor:
        """The network itself."""
        raise NotImplementedError

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """The size of the map for frames of height x width."""
        raise NotImplementedError

    def use_backend(self, name: Wanted) -> None:
        """Run by another implementation than the one that fits best, where there is one; see `horst.ops.backend`."""
        check_type("backend", name, Wanted)

    def backend(self, device: torch.device) -> BackendChoice:
        """What runs on a device, and why."""
        return BackendChoice("reference", f"{type(self).__name__} has no kernels of its own")

    def forward(self, frames: Tensor) -> Tensor:
        self._check(frames)
        if not self.frozen:
            return self.features(self.preprocess(frames))
        with torch.no_grad():
            return self.features(self.preprocess(frames))

    def train(self, mode: bool = True) -> Self:
        return super().train(mode and not self.frozen)

    def _check(self, frames: Tensor) -> None:
        """Says what is wrong with the shape before a convolution says it less clearly."""
        name, shape = type(self).__name__, tuple(frames.shape)
        if len(shape) != 4 or shape[1] != self.input_channels:
            raise InputError(
                f"{name} takes (N, {self.input_channels}, H, W), batch and time folded together; got {shape}"
            )
        if min(shape[2:]) < self.smallest:
            raise InputError(f"{name} takes at least {self.smallest} x {self.smallest} pixels; got {shape}")

    def _settle(self) -> None:
        """For the end of a constructor: a new module is in training mode, which a frozen one must never be."""
        if self.frozen:
            self.eval().requires_grad_(False)
