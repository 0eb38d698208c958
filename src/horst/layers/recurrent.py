"""Cores that are written as one step: the clip is its fold, the state is named tensors that start at zero.

A core says what it remembers (`memory`) and what it does with a frame (`advance`). Where a clip can be computed faster
than frame by frame it overrides `unfold` too.

Shapes: B batch, T frames, C channels, H x W map.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.errors import ConfigError, InputError, StateError
from horst.layers.core import Core, CoreConfig, CoreOutput, check_lengths, ended_frames, zero_where
from horst.ops.backend import BackendChoice, Wanted

Memory = dict[str, Tensor]
"""Named tensors, the batch first."""


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """What a folded core remembers."""

    memory: Memory
    count: Tensor
    """(B,) int64: how many frames each stream has seen."""
    config: CoreConfig
    """Of the core that made it: another one refuses it."""

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        yield from self.memory.items()
        yield "count", self.count

    def map(self, function: Callable[[Tensor], Tensor]) -> RecurrentState:
        """The state with `function` applied to each of its tensors."""
        memory = {name: function(value) for name, value in self.memory.items()}
        return replace(self, memory=memory, count=function(self.count))

    def detach(self) -> RecurrentState:
        """Cut off from the graph that made it, as truncated backpropagation needs."""
        return self.map(Tensor.detach)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the state takes; the same at every step."""
        return sum(value.nbytes for _, value in self.tensors())


class CoreStep(NamedTuple):
    """What a step gives: y and what else the core announces in `gives`, each (B, C, H, W), and what it foretells."""

    maps: Mapping[str, Tensor]
    future: Tensor | None = None
    """(B, K, C), or (B, M, K, C)"""


class RecurrentCore(Core):
    """A core whose clip is the fold of its step."""

    config: Any

    def __init__(self, config: CoreConfig) -> None:
        super().__init__()
        self.config = config

    @abstractmethod
    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        """The shapes of what one stream remembers, for maps of height x width."""

    @abstractmethod
    def advance(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """One frame x (B, C, H, W); `count` (B,), how many frames each stream has seen before it."""

    def unfold(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """A clip x (B, T, C, H, W) without padding: `advance`, frame after frame."""
        said = []
        for t, frame in enumerate(x.unbind(1)):
            out, memory = self.advance(frame, memory, count + t)
            said.append(out)
        return stack(said), memory

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return height, width

    def init_state(
        self,
        batch_size: int,
        height: int,
        width: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> RecurrentState:
        """The state before the first frame, for maps of height x width (the size of the core's input)."""
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}; it must be at least 1")
        self.check_size(height, width)
        device, dtype = device or self.like.device, dtype or self.like.dtype
        shapes = self.memory(height, width)
        memory = {name: torch.zeros(batch_size, *shape, device=device, dtype=dtype) for name, shape in shapes.items()}
        return RecurrentState(memory, torch.zeros(batch_size, dtype=torch.int64, device=device), self.config)

    def forward(
        self,
        x: Tensor,
        state: RecurrentState | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        attention: bool = False,
    ) -> tuple[CoreOutput, RecurrentState]:
        """A clip x (B, T, C, H, W), continuing from `state` or starting afresh.

        With `lengths` (frames of each sample, 1..T) what comes after a sample's end is ignored: its outputs there are
        zero and its state is that of its own last frame.
        """
        self._refuse(attention)
        self.check_input(x, 5, "(B, T, C, H, W)")
        frames = check_lengths(lengths, x.shape[0], x.shape[1])
        if state is None:
            state = self.init_state(x.shape[0], *x.shape[-2:])
        else:
            self.check_state(state, x.shape[0], *x.shape[-2:])
        if min(frames) == x.shape[1]:
            said, memory = self.unfold(x, state.memory, state.count)
        else:
            said, memory = self._unfold_ragged(x, state, ended_frames(frames, x))
        count = state.count + torch.tensor(frames, device=x.device) if lengths is not None else state.count + x.shape[1]
        return self._output(said), RecurrentState(memory, count, self.config)

    def step(self, x: Tensor, state: RecurrentState, *, attention: bool = False) -> tuple[CoreOutput, RecurrentState]:
        """One frame x (B, C, H, W) of every stream. The state passed in is left as it was."""
        self._refuse(attention)
        self.check_input(x, 4, "(B, C, H, W)")
        self.check_state(state, x.shape[0], *x.shape[-2:])
        said, memory = self.advance(x, state.memory, state.count)
        return self._output(said), RecurrentState(memory, state.count + 1, self.config)

    def check_state(self, state: RecurrentState, batch_size: int, height: int, width: int) -> None:
        """Refuse a state that is not of this core, or not for a batch of maps of height x width."""
        if not isinstance(state, RecurrentState):
            raise StateError(f"the state is a {type(state).__name__}; pass what init_state or an earlier call returned")
        if state.config != self.config:
            raise StateError("the state is of another model: its layers have other sizes or options")
        weight = self.like
        shapes = {**self.memory(height, width), "count": ()}
        for name, found in state.tensors():
            wanted = (batch_size, *shapes[name])
            if tuple(found.shape) != wanted:
                raise StateError(
                    f"the state has {name} of shape {tuple(found.shape)} and {wanted} is needed: "
                    f"it is of another batch or frame size; start a new one with init_state"
                )
            if found.device != weight.device:
                raise StateError(f"the state is on {found.device} and the model on {weight.device}: move one of them")
            if found.is_floating_point() and found.dtype != weight.dtype:
                raise StateError(f"the state is {found.dtype} and the model {weight.dtype}: cast one of them")

    def use_backend(self, name: Wanted) -> None:
        """There is plain PyTorch alone."""
        if name not in ("auto", "reference"):
            raise ConfigError(f"the backend {name} is for HORST; {self.config.title} runs as plain PyTorch: use auto")

    def backend(self, device: torch.device) -> BackendChoice:
        """Plain PyTorch, anywhere."""
        return BackendChoice("reference", f"{self.config.title} has no kernels of its own")

    def _unfold_ragged(self, x: Tensor, state: RecurrentState, ended: Tensor) -> tuple[CoreStep, Memory]:
        """A clip whose samples end at different frames: from there on a sample's memory stays as it is."""
        x, memory, said = zero_where(x, ended), state.memory, []
        for t, frame in enumerate(x.unbind(1)):
            out, after = self.advance(frame, memory, state.count + t)
            over = ended[:, t]
            memory = {
                name: torch.where(over.view(-1, *(1,) * (value.ndim - 1)), memory[name], value)
                for name, value in after.items()
            }
            said.append(out)
        whole = stack(said)
        future = None if whole.future is None else zero_where(whole.future, ended)
        return CoreStep({name: zero_where(m, ended) for name, m in whole.maps.items()}, future), memory

    def _refuse(self, attention: bool) -> None:
        if attention:
            raise InputError(f"{self.config.title} keeps no weights of attention over past frames: leave attention out")

    def _output(self, said: CoreStep) -> CoreOutput:
        maps = dict(said.maps)
        return CoreOutput(maps.pop("y"), more=maps, future=said.future)


class VectorCore(RecurrentCore):
    """A core on the mean of each map: its inputs are (B, C), its outputs maps of one place, (B, C', 1, 1)."""

    @abstractmethod
    def memory_sizes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what one stream remembers."""

    @abstractmethod
    def read(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        """One frame x (B, C) as `advance`; what is said are vectors (B, C')."""

    def memory(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        return self.memory_sizes()

    def advance(self, x: Tensor, memory: Memory, count: Tensor) -> tuple[CoreStep, Memory]:
        said, memory = self.read(x.mean((-2, -1)), memory, count)
        return said._replace(maps={name: v[..., None, None] for name, v in said.maps.items()}), memory

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return min(height, 1), min(width, 1)


def stack(said: Sequence[CoreStep]) -> CoreStep:
    """What was said frame after frame, as one clip (B, T, ...)."""
    maps = {name: torch.stack([s.maps[name] for s in said], 1) for name in said[0].maps}
    futures = [s.future for s in said if s.future is not None]
    return CoreStep(maps, torch.stack(futures, 1) if futures else None)


class LSTMCell(nn.Module):
    """[i, f, g, o] = W [x; h] + b; c' = f c + i g; h' = o tanh(c'), with torch's names and order of gates.

    Written out so that costs are counted and graphs exported on any device; the same numbers as torch's.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        cell = nn.LSTMCell(inputs, hidden)
        self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh = (
            cell.weight_ih,
            cell.weight_hh,
            cell.bias_ih,
            cell.bias_hh,
        )

    @property
    def hidden(self) -> int:
        return self.weight_hh.shape[1]

    @property
    def inputs(self) -> int:
        return self.weight_ih.shape[1]

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """x (..., inputs), h and c (..., hidden)."""
        return self.recur(self.project(x), h, c)

    def project(self, x: Tensor) -> Tensor:
        """The input's share of the gates, which of a whole clip is one product."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def recur(self, given: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """The state after a step, with the input's share of its gates."""
        gates = given + F.linear(h, self.weight_hh, self.bias_hh)
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
