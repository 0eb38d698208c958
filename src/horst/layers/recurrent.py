"""Cores that are defined by one step: a clip is a loop over it, and the state is named tensors that start at zero.

A core defines what it remembers (`memory`) and what it does with a frame (`advance`) or, where that is faster, with a
whole clip (`unfold`).

Shapes: B batch, T frames, N frames of a window, C channels, H x W map.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.errors import InputError
from horst.layers.core import Core, CoreConfig, CoreOutput, State, ended_frames, zero_where
from horst.masks import Lengths, check_lengths

Memory = dict[str, Tensor]  # named tensors, the batch first


@dataclass(frozen=True, slots=True)
class RecurrentState(State):
    """The state of a recurrent core."""

    memory: Memory
    count: Tensor  # (B,) int64: how many frames each stream has seen
    config: CoreConfig  # of the core that made it: another core rejects the state

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        yield from self.memory.items()
        yield "count", self.count

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        memory = {name: function(value) for name, value in self.memory.items()}
        return replace(self, memory=memory, count=function(self.count))


class CoreStep(NamedTuple):
    """The output of a step: y and what else is in `gives`, each (B, C, H, W), and predicted features."""

    maps: Mapping[str, Tensor]
    future: Tensor | None = None  # (B, K, C), or (B, M, K, C)

    def as_maps(self) -> Self:
        """Vectors (..., C) as maps of one position, (..., C, 1, 1)."""
        return self._replace(maps={name: value[..., None, None] for name, value in self.maps.items()})


class RecurrentCore(Core):
    """A core whose clip is a loop over its step."""

    config: Any
    state_class = RecurrentState

    def __init__(self, config: CoreConfig) -> None:
        super().__init__()
        self.config = config

    @abstractmethod
    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the state of one stream, for maps of height x width."""

    def advance(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """One frame x (B, C, H, W); `count` (B,), how many frames each stream has seen before it.

        By default a clip of one frame. A core overrides this, or `unfold`, or both.
        """
        clip, memory = self.unfold(x.unsqueeze(1), memory, count)
        future = None if clip.future is None else clip.future[:, 0]
        return CoreStep({name: value[:, 0] for name, value in clip.maps.items()}, future), memory

    def unfold(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """A clip x (B, T, C, H, W) without padding; by default `advance`, frame after frame."""
        steps = []
        for t, frame in enumerate(x.unbind(1)):
            out, memory = self.advance(frame, memory, count + t)
            steps.append(out)
        return stack(steps), memory

    def unfold_first(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """`unfold` for a clip without frames before it, where that is faster."""
        return self.unfold(x, memory, count)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return height, width

    def first_state(self, batch_size: int, height: int, width: int) -> RecurrentState:
        like, shapes = self.like, self.memory(height, width)
        memory = {name: like.new_zeros(batch_size, *shape) for name, shape in shapes.items()}
        return RecurrentState(memory, like.new_zeros(batch_size, dtype=torch.int64), self.config)

    def forward(
        self, x: Tensor, state: RecurrentState | None = None, lengths: Lengths = None, *, attention: bool = False
    ) -> tuple[CoreOutput, RecurrentState]:
        self._check_request(attention, stream=state is not None)
        self.check_input(x, 5, "(B, T, C, H, W)")
        frames = check_lengths(lengths, x.shape[0], x.shape[1])
        unfold = self.unfold_first if state is None else self.unfold
        if state is None:
            state = self.init_state(x.shape[0], *x.shape[-2:])
        else:
            self.check_state(state, x.shape[0], *x.shape[-2:])
        if min(frames) == x.shape[1]:
            output, memory = unfold(x, state.memory, state.count)
        else:
            output, memory = self._unfold_ragged(x, state, ended_frames(frames, x))
        count = state.count + torch.tensor(frames, device=x.device) if lengths is not None else state.count + x.shape[1]
        return self._output(output), RecurrentState(memory, count, self.config)

    def step(self, x: Tensor, state: RecurrentState, *, attention: bool = False) -> tuple[CoreOutput, RecurrentState]:
        self._check_request(attention, stream=True)
        self.check_input(x, 4, "(B, C, H, W)")
        self.check_state(state, x.shape[0], *x.shape[-2:])
        output, memory = self.advance(x, state.memory, state.count)
        return self._output(output), RecurrentState(memory, state.count + 1, self.config)

    def state_shapes(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        return {**self.memory(height, width), "count": ()}

    def _unfold_ragged(self, x: Tensor, state: RecurrentState, ended: Tensor) -> tuple[CoreStep, Memory]:
        """A clip whose samples end at different frames: after its end a sample's memory does not change."""
        x, memory, steps = zero_where(x, ended), state.memory, []
        for t, frame in enumerate(x.unbind(1)):
            out, after = self.advance(frame, memory, state.count + t)
            over = ended[:, t]
            memory = {
                name: torch.where(over.view(-1, *(1,) * (value.ndim - 1)), memory[name], value)
                for name, value in after.items()
            }
            steps.append(out)
        whole = stack(steps)
        future = None if whole.future is None else zero_where(whole.future, ended)
        return CoreStep({name: zero_where(m, ended) for name, m in whole.maps.items()}, future), memory

    def _check_request(self, attention: bool, stream: bool) -> None:
        if attention:
            raise InputError(f"{self.config.title} has no attention weights over past frames: leave attention out")
        if stream and not self.streaming:
            raise InputError(f"{self.config.title} takes whole clips only with these options: it cannot stream")

    def _output(self, output: CoreStep) -> CoreOutput:
        maps = dict(output.maps)
        return CoreOutput(maps.pop("y"), more=maps, future=output.future)


class VectorCore(RecurrentCore):
    """A core on the mean of each map. Its outputs are maps of one place, (B, T, C', 1, 1)."""

    @abstractmethod
    def read(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """A clip of vectors x (B, T, C), as `unfold`; the outputs are vectors (B, T, C')."""

    def unfold(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        output, memory = self.read(x.mean((-2, -1)), memory, count)
        return output.as_maps(), memory

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return min(height, 1), min(width, 1)


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


def stack(steps: Sequence[CoreStep]) -> CoreStep:
    """The outputs of single frames as those of one clip (B, T, ...)."""
    maps = {name: torch.stack([s.maps[name] for s in steps], 1) for name in steps[0].maps}
    futures = [s.future for s in steps if s.future is not None]
    return CoreStep(maps, torch.stack(futures, 1) if futures else None)


class LSTMCell(nn.LSTMCell):
    """[i, f, g, o] = W [x; h] + b; c' = f c + i g; h' = o tanh(c'), with torch's names and order of gates.

    Written out so that costs can be counted and graphs exported on any device. It computes the same numbers as torch's.
    """

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """x (..., inputs), h and c (..., hidden)."""
        return self.recur(self.project(x), h, c)

    def project(self, x: Tensor) -> Tensor:
        """The part of the gates that depends on the input: one product for a whole clip."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def recur(self, given: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """The state after a step, from the part of the gates that `project` computed."""
        gates = given + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
