"""The contract that every temporal core keeps: HORST's and those of the methods that it is compared with.

    state = core.init_state(batch_size, height, width)
    out, state = core.step(x_t, state)            # one frame
    out, state = core(x, state, lengths)          # a clip, equal to folding `step` over it

State is passed in and returned, never kept on a module, so one model serves any number of streams.

Shapes: B batch, T frames, C channels, H x W map.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from horst.config import from_dict
from horst.errors import InputError
from horst.ops.backend import BackendChoice, Wanted


class CoreConfig:
    """The options of a core: a frozen dataclass with `in_channels`, plain data, saved beside the weights."""

    __slots__ = ()
    name: ClassVar[str]
    """In saved models and in `horst.models.CORES`."""
    title: ClassVar[str]
    """As its paper calls it."""
    in_channels: int

    @classmethod
    def from_dict(cls, options: dict[str, Any]) -> Self:
        """From plain data (JSON), with an error that names near matches for an unknown option."""
        return from_dict(cls, options, cls.name)

    @property
    def about(self) -> str:
        """In a few words, for people."""
        return self.title


class State(Protocol):
    """The memory of a core: tensors whose first axis is the batch."""

    @property
    def count(self) -> Tensor:
        """(B,) int64: how many frames each stream has seen."""

    @property
    def nbytes(self) -> int: ...

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """All of them by name, always in the same order."""

    def map(self, function: Callable[[Tensor], Tensor]) -> Self: ...

    def detach(self) -> Self: ...


@dataclass(frozen=True, slots=True)
class CoreOutput:
    """What heads and pictures read. Leading axes are (B, T) for a clip and (B,) for a step."""

    y: Tensor
    """(B, T, C, H, W), the output of the last layer."""
    e: tuple[Tensor, ...] = ()
    """HORST: the encoded input of each layer, (B, T, C, H, W)."""
    statt: tuple[Tensor, ...] = ()
    """HORST: what each layer's attention returned, (B, T, C, H, W)."""
    spatial: tuple[Tensor, ...] | None = None
    """On request, S(Q, K) of each layer, (B, T, S, H, W): entry j of the S looks at frame t - S + j."""
    temporal: tuple[Tensor, ...] | None = None
    """On request, T(Q, K) of each layer, (B, T, S), aligned likewise. Frame -1 is the all-zero state of the start."""
    more: Mapping[str, Tensor] = field(default_factory=dict)
    """What else a core gives to heads made for it, by name."""
    future: Tensor | None = None
    """What a core foretells of its own pooled input: (B, T, K, C) for K frames ahead, or (B, T, M, K, C) guesses."""

    def named(self, name: str) -> Tensor:
        """What a head reads by that name: y, the last layer's e or statt, or one of `more`."""
        if name == "y":
            return self.y
        return self.more[name] if name in self.more else getattr(self, name)[-1]


class Core(nn.Module):
    """What a predictor needs of a core."""

    config: Any
    """A `CoreConfig`."""
    gives: ClassVar[tuple[str, ...]] = ("y",)
    """What heads may read; see `CoreOutput.named`."""
    predicts_features: bool = False
    """Whether it says what its pooled input will be, in `CoreOutput.future`."""
    streaming: bool = True
    """Whether it takes frame after frame; if not, whole clips alone."""

    @property
    @abstractmethod
    def channels(self) -> int:
        """Of y."""

    @property
    def like(self) -> Tensor:
        """A tensor of the device and precision that the core is on."""
        return next(itertools.chain(self.parameters(), self.buffers()))

    @property
    def order(self) -> int:
        """How many past frames its attention tells of; 0: none."""
        return 0

    @abstractmethod
    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """The size of y for maps of height x width."""

    @abstractmethod
    def init_state(
        self,
        batch_size: int,
        height: int,
        width: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Any:
        """The state before the first frame, for maps of height x width (the size of the core's input)."""

    @abstractmethod
    def forward(
        self,
        x: Tensor,
        state: Any = None,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        attention: bool = False,
    ) -> tuple[CoreOutput, Any]:
        """A clip x (B, T, C, H, W), continuing from `state` or starting afresh."""

    @abstractmethod
    def step(self, x: Tensor, state: Any, *, attention: bool = False) -> tuple[CoreOutput, Any]:
        """One frame x (B, C, H, W) of every stream. The state passed in is left as it was."""

    @abstractmethod
    def check_state(self, state: Any, batch_size: int, height: int, width: int) -> None:
        """Refuse a state that is not of this core, or not for a batch of maps of height x width."""

    @abstractmethod
    def use_backend(self, name: Wanted) -> None:
        """Run clips by another implementation than the one that fits best; see `horst.ops.backend`."""

    @abstractmethod
    def backend(self, device: torch.device) -> BackendChoice:
        """What runs clips on a device, and why."""

    def check_input(self, x: Tensor, rank: int, shape: str) -> None:
        """Says what is wrong with an input before an operation says it less clearly."""
        if not isinstance(x, Tensor):
            raise InputError(f"the input is a {type(x).__name__}; a tensor is needed: torch.from_numpy makes one")
        if x.ndim != rank:
            raise InputError(f"the input has shape {tuple(x.shape)}; {shape} is needed")
        if 0 in x.shape:
            raise InputError(f"the input has shape {tuple(x.shape)}: it is empty; pass at least one frame")
        if x.shape[-3] != self.config.in_channels:
            raise InputError(f"the input has {x.shape[-3]} channels; this core takes {self.config.in_channels}")
        self.check_size(*x.shape[-2:])
        weight = self.like
        if x.device != weight.device:
            raise InputError(f"the input is on {x.device} and the model on {weight.device}: move one of them")
        if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
            raise InputError(f"the input is {x.dtype} and the model {weight.dtype}: cast one, or use torch.autocast")

    def check_size(self, height: int, width: int) -> None:
        if min(self.output_size(height, width)) < 1:
            stride = getattr(self.config, "stride", "of this core")
            raise InputError(f"a map of {height}x{width} vanishes under the strides {stride}: use a larger one")


def check_lengths(lengths: Tensor | Sequence[int] | None, batch: int, frames: int) -> list[int]:
    """The lengths of a batch of clips as numbers: all frames by default, each from 1 to `frames`."""
    if lengths is None:
        return [frames] * batch
    values: Any = lengths.tolist() if hasattr(lengths, "tolist") else lengths
    if not isinstance(values, Sequence) or len(values) != batch:
        raise InputError(f"lengths is {values}; one length for each of the {batch} samples is needed")
    for value in values:
        if not isinstance(value, int | float) or not 1 <= value <= frames or value != int(value):
            raise InputError(f"lengths holds {value}; a clip of {frames} frames takes whole numbers from 1 to {frames}")
    return [int(value) for value in values]


def ended_frames(frames: Sequence[int], x: Tensor) -> Tensor:
    """(B, T) bool: which frames of a clip x (B, T, ...) come after the ends of samples of so many frames."""
    return torch.arange(x.shape[1], device=x.device) >= torch.tensor(frames, device=x.device).unsqueeze(1)


def zero_where(x: Tensor, ended: Tensor) -> Tensor:
    """x (B, T, ...) with zeros where a sample has ended; what was there, even NaN, is gone without a trace."""
    return x.masked_fill(ended.view(*ended.shape, *(1,) * (x.ndim - 2)), 0.0)
