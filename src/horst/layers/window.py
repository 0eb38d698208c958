"""Cores that look at the last frames of a stream through a window.

Shapes: B batch, T frames, N frames of a window, C channels.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from horst.layers.recurrent import CoreStep, Memory, VectorCore


class WindowCore(VectorCore):
    """A core that looks at the last `window` frames of a stream, or at all of a younger one.

    A clip is looked at through all its windows at once.
    """

    window: int

    @property
    def remembered(self) -> int:
        """Channels of what is kept of a frame."""
        return int(self.config.in_channels)

    def prepare(self, x: Tensor) -> Tensor:
        """What is kept of frames (..., C): themselves, unless overridden."""
        return x

    @abstractmethod
    def look(self, window: Tensor, age: Tensor) -> CoreStep:
        """What windows (B, T, N, C) show, the newest frame last.

        `age` (B, T): how many frames of them were seen, 1 to N; the slots before these are zero.
        """

    def memory_sizes(self) -> dict[str, tuple[int, ...]]:
        return {"queue": (self.window, self.remembered)}

    def read(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        said, memory = self._slide(x.unsqueeze(1), memory, count)
        future = None if said.future is None else said.future.squeeze(1)
        return CoreStep({name: v.squeeze(1) for name, v in said.maps.items()}, future), memory

    def unfold(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        said, memory = self._slide(x.mean((-2, -1)), memory, count)
        return said._replace(maps={name: v[..., None, None] for name, v in said.maps.items()}), memory

    def _slide(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """Frames x (B, T, C), each with the window that ends with it."""
        frames, device = x.shape[1], x.device
        queue = torch.cat([memory["queue"], self.prepare(x)], 1)  # (B, N + T, C)
        window = queue[:, 1:].unfold(1, self.window, 1).mT  # (B, T, N, C)
        age = (count.unsqueeze(1) + torch.arange(1, frames + 1, device=device)).clamp_max(self.window)
        unseen = torch.arange(self.window, device=device) < self.window - age.unsqueeze(-1)  # (B, T, N)
        said = self.look(window.masked_fill(unseen.unsqueeze(-1), 0.0), age)
        return said, {"queue": queue[:, frames:].contiguous()}
