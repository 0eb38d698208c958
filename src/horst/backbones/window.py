"""Video encoders as causal backbones: the map of a frame is computed from a window of the last W frames.

The encoder may attend in both directions within the window. No frame after the newest one is in it, so the map of
frame t depends on frames up to t only. Before W frames were seen, the first one is repeated in front.

With a stride, the encoder runs at every stride-th frame of a stream, from the first on, and the frames between keep the
map of the last window.

Shapes: B streams, T frames, W frames of a window, H x W pixels, C channels, h x w the map's size.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from horst.backbones.base import Backbone, check_grid
from horst.config import check_positive
from horst.errors import ConfigError, InputError, StateError

WINDOWS = 16  # encoded at once: more would only take memory


@dataclass(frozen=True, slots=True)
class WindowMemory:
    """What a `WindowBackbone` remembers of streams. It is passed in and returned, never kept on the module."""

    frames: Tensor  # (B, W - 1, 3, H, W): the last ones, newest last, as they were given
    count: Tensor  # (B,) int64: how many frames each stream has seen; at 0 the others are not valid
    maps: Tensor | None = None  # (B, C, h, w), with a stride above 1: of the last window that was encoded

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """All of them by name."""
        found = ((f.name, getattr(self, f.name)) for f in fields(self))
        return ((name, tensor) for name, tensor in found if tensor is not None)

    @property
    def nbytes(self) -> int:
        """Bytes of the memory; constant over time."""
        return sum(tensor.nbytes for _, tensor in self.tensors())

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The memory with `function` applied to each of its tensors."""
        return replace(self, **{name: function(tensor) for name, tensor in self.tensors()})


class WindowBackbone(Backbone):
    """A backbone that reads the last `window` frames of a stream. Frames that are given alone begin a stream each."""

    def __init__(self, *, window: int, tubelet: int, stride: int, grid: Sequence[int] | None, frozen: bool) -> None:
        """
        Args:
            window: Frames of a window, a multiple of `tubelet`.
            tubelet: How many frames are one token of the encoder.
            stride: Run the encoder at every stride-th frame.
            grid: Average each map over height x width cells.
            frozen: Keep the weights.
        """
        super().__init__(frozen=frozen)
        check_positive(window=window, stride=stride)
        if window % tubelet:
            near = max(1, round(window / tubelet)) * tubelet
            raise ConfigError(f"window is {window}; this encoder reads {tubelet} frames at a time: use {near}")
        self.window, self.stride = window, stride
        self.grid = None if grid is None else check_grid(grid)

    def encode(self, windows: Tensor) -> Tensor:
        """Maps (N, C, h, w) of normalised windows (N, W, 3, H, W)."""
        raise NotImplementedError

    def features(self, x: Tensor) -> Tensor:
        """One frame per stream: a window of that frame alone."""
        return self._features(x.unsqueeze(1).expand(-1, self.window, -1, -1, -1))

    def _features(self, windows: Tensor) -> Tensor:
        maps = self.encode(windows)
        return maps if self.grid is None else F.adaptive_avg_pool2d(maps, self.grid)

    def encoded_size(self, height: int, width: int) -> tuple[int, int]:
        """The size of the encoder's map for frames of height x width."""
        raise NotImplementedError

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        self.check_size(height, width)
        return self.encoded_size(height, width) if self.grid is None else self.grid

    def init_memory(self, batch_size: int, height: int, width: int) -> WindowMemory:
        like = self._like
        shape = (batch_size, self.window - 1, self.input_channels, height, width)
        frames = torch.zeros(shape, dtype=torch.uint8, device=like.device)
        maps = None
        if self.stride > 1:
            maps = like.new_zeros(batch_size, self.channels, *self.output_size(height, width))
        return WindowMemory(frames, torch.zeros(batch_size, dtype=torch.int64, device=like.device), maps)

    def after(self, frames: Tensor) -> WindowMemory:
        """The memory of streams that have seen frames (B, T, 3, H, W), whose next frame is encoded whatever the stride.

        It runs no encoder: for windows that reach further back than the maps that are wanted.
        """
        self._check(frames)
        memory = self.init_memory(frames.shape[0], *frames.shape[-2:])
        seen = self._with_past(frames, None)[:, frames.shape[1] :]
        return replace(memory, frames=seen, count=memory.count + self.stride)

    def clip(
        self, frames: Tensor, memory: WindowMemory | None = None, lengths: Sequence[int] | None = None
    ) -> tuple[Tensor, WindowMemory]:
        self._check(frames)
        if memory is not None:
            self.check_memory(memory, frames.shape[0], *frames.shape[-2:])
        batch, time, before = frames.shape[0], frames.shape[1], self.window - 1
        seen = self._with_past(frames, memory)  # (B, W - 1 + T, 3, H, W)
        # The frames of each stream at which the encoder runs. Those of new streams are known without their counts,
        # which may be on a GPU.
        counts = [0] * batch if memory is None or self.stride == 1 else memory.count.tolist()
        due = [(b, t) for b, n in enumerate(counts) for t in range(-n % self.stride, time, self.stride)]
        maps = [self._encoded(seen, due[i : i + WINDOWS]) for i in range(0, len(due), WINDOWS)]
        held = 0 if memory is None or memory.maps is None else batch  # the maps before the clip come first
        if held:
            maps = [memory.maps, *maps]  # type: ignore[union-attr, list-item]
        chosen = {place: held + i for i, place in enumerate(due)}
        places = []
        for b in range(batch):
            newest = b  # in `held`: frame 0 of a new stream is always encoded
            for t in range(time):
                newest = chosen.get((b, t), newest)
                places.append(newest)
        found = torch.cat([one.to(maps[-1].dtype) for one in maps])
        if places != list(range(len(found))):
            found = found[torch.tensor(places, device=found.device)]
        found = found.unflatten(0, (batch, time))
        ends = [time] * batch if lengths is None else list(lengths)
        start = torch.zeros(batch, dtype=torch.int64, device=frames.device) if memory is None else memory.count
        kept = seen[:, time:] if lengths is None else torch.stack([seen[b, n : n + before] for b, n in enumerate(ends)])
        last = None
        if self.stride > 1:
            last = found[:, -1] if lengths is None else torch.stack([found[b, n - 1] for b, n in enumerate(ends)])
        added = time if lengths is None else torch.tensor(ends, device=start.device)
        return found, WindowMemory(kept, start + added, last)

    def step(self, frame: Tensor, memory: WindowMemory) -> tuple[Tensor, WindowMemory]:
        maps, memory = self.clip(frame.unsqueeze(1), memory)
        return maps[:, 0], memory

    def check_memory(self, memory: Any, batch_size: int, height: int, width: int) -> None:
        """StateError for the memory of another backbone, batch or size of frames."""
        if not isinstance(memory, WindowMemory):
            raise StateError(f"the memory is a {type(memory).__name__}; pass what init_memory or a call returned")
        expected = {"frames": (batch_size, self.window - 1, self.input_channels, height, width), "count": (batch_size,)}
        if self.stride > 1:
            expected["maps"] = (batch_size, self.channels, *self.output_size(height, width))
        for name, shape in expected.items():
            found = getattr(memory, name)
            if found is None or tuple(found.shape) != shape:
                got = None if found is None else tuple(found.shape)
                raise StateError(
                    f"the window of the state has {name} of shape {got}, expected {shape}: it is of another model, "
                    "batch or frame size; start a new one with init_state"
                )

    @property
    def _like(self) -> Tensor:
        return next(self.parameters())

    def _check(self, frames: Tensor) -> None:
        shape = tuple(frames.shape)
        if len(shape) != 5 or shape[2] != self.input_channels or 0 in shape:
            raise InputError(f"{type(self).__name__} takes clips (B, T, {self.input_channels}, H, W); got {shape}")
        self.check_size(*shape[-2:])

    def _with_past(self, frames: Tensor, memory: WindowMemory | None) -> Tensor:
        """Clips with the W - 1 frames before them; a new stream has its first frame there."""
        past = frames[:, :1].expand(-1, self.window - 1, -1, -1, -1)
        if memory is not None:
            past = torch.where((memory.count == 0).view(-1, 1, 1, 1, 1), past, memory.frames)
        return torch.cat([past, frames], 1)

    def _encoded(self, seen: Tensor, places: list[tuple[int, int]]) -> Tensor:
        windows = torch.stack([seen[b, t : t + self.window] for b, t in places])
        with torch.no_grad() if self.frozen else contextlib.nullcontext():
            normalised = self.preprocess(windows.flatten(0, 1)).unflatten(0, windows.shape[:2])
            return self._features(normalised)
