"""HORST: a stack of recurrent space-time transformer layers, as the temporal core of a predictor.

Shapes: B batch, T frames, S past states, C channels, H x W map.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from horst.config import check_type
from horst.errors import ConfigError
from horst.layers.cell import CellOutput, HORSTCell
from horst.layers.config import HORSTConfig
from horst.layers.core import Core, CoreOutput, ended_frames, register_core, zero_where
from horst.layers.state import HORSTState
from horst.masks import Lengths, check_lengths
from horst.ops.backend import BackendChoice, Wanted


@register_core(HORSTConfig)
class HORST(Core):
    """The core of the paper. `HORST(in_channels=128, hidden=(128, 256), variant="released")` or from a config."""

    config: HORSTConfig
    state_class = HORSTState
    gives = ("y", "e", "statt")

    def __init__(self, config: HORSTConfig | None = None, **options: Any) -> None:
        super().__init__()
        if config is not None and options:
            raise ConfigError(f"pass a config or options, not both (options: {', '.join(options)})")
        self.config = config or HORSTConfig.from_dict(options)
        widths = (self.config.in_channels, *self.config.hidden[:-1])
        self.layers = nn.ModuleList(
            HORSTCell(self.config, *shape) for shape in zip(widths, self.config.hidden, self.config.stride, strict=True)
        )
        self.channels = self.config.hidden[-1]

    @property
    def cells(self) -> list[HORSTCell]:
        return [cell for cell in self.layers if isinstance(cell, HORSTCell)]

    @property
    def order(self) -> int:
        return self.config.order

    def use_backend(self, name: Wanted) -> None:
        check_type("backend", name, Wanted)
        for cell in self.cells:
            cell.wanted_backend = name

    def backend(self, device: torch.device) -> BackendChoice:
        return self.cells[0].backend(device)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        for cell in self.cells:
            height, width = cell.output_size(height, width)
        return height, width

    def first_state(self, batch_size: int, height: int, width: int) -> HORSTState:
        states = []
        for cell in self.cells:
            states.append(cell.init_state(batch_size, height, width))
            height, width = cell.output_size(height, width)
        return HORSTState(tuple(states), self.config)

    def forward(
        self, x: Tensor, state: HORSTState | None = None, lengths: Lengths = None, *, attention: bool = False
    ) -> tuple[CoreOutput, HORSTState]:
        self.check_input(x, 5, "(B, T, C, H, W)")
        frames = check_lengths(lengths, x.shape[0], x.shape[1])
        if state is not None:
            self.check_state(state, x.shape[0], x.shape[-2], x.shape[-1])
        ended = None
        if min(frames) < x.shape[1]:
            ended = ended_frames(frames, x)
            x = zero_where(x, ended)
        outputs, states = [], []
        for i, cell in enumerate(self.cells):
            out, layer = cell(x, None if state is None else state.layers[i], frames, attention)
            if ended is not None:
                out = out.map(partial(zero_where, ended=ended))
            assert layer is not None
            x = out.y
            outputs.append(out)
            states.append(layer)
        return _collect(outputs, attention), HORSTState(tuple(states), self.config)

    def encode(self, x: Tensor) -> CoreOutput:
        """Without the ring of each layer, whose copy takes 1% of a training step."""
        self.check_input(x, 5, "(B, T, C, H, W)")
        outputs = []
        for cell in self.cells:
            out, _ = cell(x, None, [x.shape[1]] * len(x), False, need_state=False)
            x = out.y
            outputs.append(out)
        return _collect(outputs, attention=False)

    def step(self, x: Tensor, state: HORSTState, *, attention: bool = False) -> tuple[CoreOutput, HORSTState]:
        self.check_input(x, 4, "(B, C, H, W)")
        self.check_state(state, x.shape[0], x.shape[-2], x.shape[-1])
        outputs, states = [], []
        for cell, layer in zip(self.cells, state.layers, strict=True):
            out, layer = cell.step(x, layer, attention)
            x = out.y
            outputs.append(out)
            states.append(layer)
        return _collect(outputs, attention), HORSTState(tuple(states), self.config)

    def state_shapes(self, height: int, width: int) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        for i, cell in enumerate(self.cells):
            height, width = cell.output_size(height, width)
            keys, filters = (self.config.order, cell.channels, height, width), (self.config.order, height, width)
            shapes |= {f"keys_{i}": keys, f"filters_{i}": filters, f"values_{i}": keys, f"count_{i}": ()}
        return shapes


def _collect(outputs: list[CellOutput], attention: bool) -> CoreOutput:
    _, e, statt, spatial, temporal = zip(*outputs, strict=True)
    return CoreOutput(outputs[-1].y, e, statt, spatial if attention else None, temporal if attention else None)
