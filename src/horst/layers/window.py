"""Cores that read the last frames of a stream, a sliding window.

Shapes: B batch, T frames, N frames of a window, C channels.
"""

from abc import abstractmethod

import torch
from torch import Tensor

from horst.layers.core import CoreConfig
from horst.layers.recurrent import CoreStep, Memory, VectorCore


class WindowCore(VectorCore):
    """A core that reads the last `window` frames of a stream, or all of a younger one.

    A clip is computed for all its windows at once.
    """

    window: int

    def __init__(self, config: CoreConfig) -> None:
        super().__init__(config)
        self.remembered = config.in_channels  # channels of what is stored of a frame

    def prepare(self, x: Tensor) -> Tensor:
        """What is stored of frames (..., C); by default the frames themselves."""
        return x

    @abstractmethod
    def look(self, window: Tensor, age: Tensor) -> CoreStep:
        """The output for windows (B, T, N, C), newest frame last.

        `age` (B, T): how many of their frames exist, 1 to N; the entries before these are zero.
        """

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        return {"queue": (self.window, self.remembered)}

    def read(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """Each frame with the window that ends with it."""
        frames, device = x.shape[1], x.device
        queue = torch.cat([memory["queue"], self.prepare(x)], 1)  # (B, N + T, C)
        window = queue[:, 1:].unfold(1, self.window, 1).mT  # (B, T, N, C)
        age = (count.unsqueeze(1) + torch.arange(1, frames + 1, device=device)).clamp_max(self.window)
        unseen = torch.arange(self.window, device=device) < self.window - age.unsqueeze(-1)  # (B, T, N)
        output = self.look(window.masked_fill(unseen.unsqueeze(-1), 0.0), age)
        return output, {"queue": queue[:, frames:].contiguous()}
