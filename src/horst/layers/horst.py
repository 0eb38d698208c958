"""HORST: a stack of recurrent space-time transformer layers, as the temporal core of a predictor.

    state = core.init_state(batch_size, height, width)
    out, state = core.step(x_t, state)            # one frame
    out, state = core(x, state, lengths)          # a clip, equal to folding `step` over it

Shapes: B batch, T frames, S past states, C channels, H x W map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from horst.errors import ConfigError, InputError, StateError
from horst.layers.cell import CellOutput, HORSTCell
from horst.layers.config import HORSTConfig
from horst.layers.state import HORSTState
from horst.ops.backend import Choice, Wanted
from horst.registry import check_type


@dataclass(frozen=True, slots=True)
class CoreOutput:
    """What heads and pictures read. Leading axes are (B, T) for a clip and (B,) for a step."""

    y: Tensor
    """(B, T, C, H, W), the output of the last layer."""
    e: tuple[Tensor, ...]
    """The encoded input of each layer, (B, T, C, H, W)."""
    statt: tuple[Tensor, ...]
    """What each layer's attention returned, (B, T, C, H, W)."""
    spatial: tuple[Tensor, ...] | None = None
    """On request, S(Q, K) of each layer, (B, T, S, H, W): entry j of the S looks at frame t - S + j."""
    temporal: tuple[Tensor, ...] | None = None
    """On request, T(Q, K) of each layer, (B, T, S), aligned likewise. Frame -1 is the all-zero state of the start."""


class HORST(nn.Module):
    """The core of the paper. `HORST(in_channels=128, hidden=(128, 256), variant="released")` or from a config."""

    def __init__(self, config: HORSTConfig | None = None, **options: Any) -> None:
        super().__init__()
        if config is not None and options:
            raise ConfigError(f"there are a config and the options {', '.join(options)}: pass one or the other")
        self.config = config or HORSTConfig.from_dict(options)
        widths = (self.config.in_channels, *self.config.hidden[:-1])
        self.layers = nn.ModuleList(
            HORSTCell(self.config, *shape) for shape in zip(widths, self.config.hidden, self.config.stride, strict=True)
        )

    @property
    def cells(self) -> list[HORSTCell]:
        return [cell for cell in self.layers if isinstance(cell, HORSTCell)]

    @property
    def channels(self) -> int:
        """Channels of y, and of the last layer's e and STATT."""
        return self.config.hidden[-1]

    def use_backend(self, name: Wanted) -> None:
        """Run clips by another implementation than the one that fits best; see `horst.ops.backend`."""
        check_type("backend", name, Wanted)
        for cell in self.cells:
            cell.use_backend(name)

    def backend(self, device: torch.device) -> Choice:
        """What runs clips on a device, and why."""
        return self.cells[0].backend(device)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """The size of y for maps of height x width."""
        for cell in self.cells:
            height, width = cell.output_size(height, width)
        return height, width

    def init_state(
        self,
        batch_size: int,
        height: int,
        width: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> HORSTState:
        """The state before the first frame, for maps of height x width (the size of the core's input)."""
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}; it must be at least 1")
        self._check_size(height, width)
        states = []
        for cell in self.cells:
            states.append(cell.init_state(batch_size, height, width))
            height, width = cell.output_size(height, width)
        state = HORSTState(tuple(states), self.config)
        if device is None and dtype is None:
            return state
        return state.map(lambda x: x.to(device=device, dtype=dtype if x.is_floating_point() else None))

    def forward(
        self,
        x: Tensor,
        state: HORSTState | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        attention: bool = False,
    ) -> tuple[CoreOutput, HORSTState]:
        """A clip x (B, T, C, H, W), continuing from `state` or starting afresh.

        With `lengths` (frames of each sample, 1..T) what comes after a sample's end is ignored: its outputs there are
        zero and its state is that of its own last frame. `attention` adds the weights to the output.
        """
        self._check_input(x, 5, "(B, T, C, H, W)")
        frames = check_lengths(lengths, x.shape[0], x.shape[1])
        if state is not None:
            self.check_state(state, x.shape[0], x.shape[-2], x.shape[-1])
        t = x.shape[1]
        ended = None
        if min(frames) < t:
            ended = torch.arange(t, device=x.device) >= torch.tensor(frames, device=x.device).unsqueeze(1)  # (B, T)
            x = _zero_where(x, ended)
        outputs, states = [], []
        for i, cell in enumerate(self.cells):
            out, layer = cell(x, None if state is None else state.layers[i], frames, attention)
            if ended is not None:
                out = out.map(partial(_zero_where, ended=ended))
            x = out.y
            outputs.append(out)
            states.append(layer)
        return _collect(outputs, attention), HORSTState(tuple(states), self.config)

    def step(self, x: Tensor, state: HORSTState, *, attention: bool = False) -> tuple[CoreOutput, HORSTState]:
        """One frame x (B, C, H, W) of every stream. The state passed in is left as it was."""
        self._check_input(x, 4, "(B, C, H, W)")
        self.check_state(state, x.shape[0], x.shape[-2], x.shape[-1])
        outputs, states = [], []
        for cell, layer in zip(self.cells, state.layers, strict=True):
            out, layer = cell.step(x, layer, attention)
            x = out.y
            outputs.append(out)
            states.append(layer)
        return _collect(outputs, attention), HORSTState(tuple(states), self.config)

    def _check_input(self, x: Tensor, rank: int, shape: str) -> None:
        if not isinstance(x, Tensor):
            raise InputError(f"the input is a {type(x).__name__}; a tensor is needed: torch.from_numpy makes one")
        if x.ndim != rank:
            raise InputError(f"the input has shape {tuple(x.shape)}; {shape} is needed")
        if 0 in x.shape:
            raise InputError(f"the input has shape {tuple(x.shape)}: it is empty; pass at least one frame")
        if x.shape[-3] != self.config.in_channels:
            raise InputError(f"the input has {x.shape[-3]} channels; this core takes {self.config.in_channels}")
        self._check_size(*x.shape[-2:])
        weight = next(self.parameters())
        if x.device != weight.device:
            raise InputError(f"the input is on {x.device} and the model on {weight.device}: move one of them")
        if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
            raise InputError(f"the input is {x.dtype} and the model {weight.dtype}: cast one, or use torch.autocast")

    def _check_size(self, height: int, width: int) -> None:
        if min(self.output_size(height, width)) < 1:
            raise InputError(
                f"a map of {height}x{width} vanishes under the strides {self.config.stride}: use a larger one"
            )

    def check_state(self, state: HORSTState, batch_size: int, height: int, width: int) -> None:
        """Refuse a state that is not of this core, or not for a batch of maps of height x width."""
        if not isinstance(state, HORSTState):
            raise StateError(f"the state is a {type(state).__name__}; pass what init_state or an earlier call returned")
        if state.config != self.config:
            raise StateError("the state is of another model: its layers have other sizes or options")
        weight = next(self.parameters())
        for i, (cell, layer) in enumerate(zip(self.cells, state.layers, strict=True)):
            height, width = cell.output_size(height, width)
            ring, map_size = (batch_size, self.config.order), (height, width)
            needed = {
                "keys": (*ring, cell.channels, *map_size),
                "filters": (*ring, *map_size),
                "values": (*ring, cell.channels, *map_size),
                "count": (batch_size,),
            }
            for name, shape in needed.items():
                found: Tensor = getattr(layer, name)
                if tuple(found.shape) != shape:
                    raise StateError(
                        f"the state of layer {i} has {name} of shape {tuple(found.shape)} and {shape} is needed: "
                        f"it is of another batch or frame size; start a new one with init_state"
                    )
                if found.device != weight.device:
                    raise StateError(
                        f"the state is on {found.device} and the model on {weight.device}: move one of them"
                    )
                if found.is_floating_point() and found.dtype != weight.dtype:
                    raise StateError(f"the state is {found.dtype} and the model {weight.dtype}: cast one of them")


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


def _zero_where(x: Tensor, ended: Tensor) -> Tensor:
    """x (B, T, ...) with zeros where a sample has ended; what was there, even NaN, is gone without a trace."""
    return x.masked_fill(ended.view(*ended.shape, *(1,) * (x.ndim - 2)), 0.0)


def _collect(outputs: list[CellOutput], attention: bool) -> CoreOutput:
    _, e, statt, spatial, temporal = zip(*outputs, strict=True)
    return CoreOutput(outputs[-1].y, e, statt, spatial if attention else None, temporal if attention else None)
