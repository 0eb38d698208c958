"""A backbone for small data: the maps of another one, averaged over few cells, with their differences over time."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.backbones.base import PrecomputedMaps, check_grid, create_backbone, register_backbone
from horst.backbones.window import WindowMemory
from horst.config import check_positive
from horst.errors import ConfigError, InputError, StateError
from horst.ops.backend import BackendChoice, Wanted


@register_backbone("cells")
class CellsBackbone(PrecomputedMaps):
    """What `data.grid`, `data.difference` and the backbone `maps` do with stored maps, for images.

    So the encoder can be trained with the rest, and the model reads cameras: it remembers the cells of `difference`
    frames. Before that many were seen, the first frame is repeated. In training with `norm`, frames that are black
    everywhere are taken for padding.
    """

    precomputed = False

    def __init__(
        self,
        *,
        encoder: Mapping[str, Any],
        grid: Sequence[int],
        difference: int | None = None,
        flatten: bool = False,
        norm: bool = False,
        noise: float = 0.0,
        dropout: float = 0.0,
        project: int | None = None,
    ) -> None:
        """
        Args:
            encoder: The backbone that reads frames: its name and options, such as {name: stem}.
            grid: Average each map over height x width cells.
            difference: Append to each map its difference to the one that many frames before, as further channels.
            flatten, norm, noise, dropout, project: As for stored maps; see `PrecomputedMaps`.
        """
        if not isinstance(encoder, Mapping) or "name" not in encoder:
            raise ConfigError(f"encoder is {encoder!r}; it takes a backbone's name and options, such as {{name: stem}}")
        # on the meta device only shapes are wanted: no weights are loaded
        dropped = ("name", "pretrained") if torch.get_default_device().type == "meta" else ("name",)
        options = {key: value for key, value in encoder.items() if key not in dropped}
        inner = create_backbone(encoder["name"], **options)
        if inner.precomputed or inner.window > 1:
            raise ConfigError(f"encoder is {encoder['name']}; it takes a backbone that reads single images")
        if difference is not None:
            check_positive(difference=difference)
        check_grid(grid)
        super().__init__(
            channels=inner.channels * (1 if difference is None else 2),
            grid=grid, flatten=flatten, norm=norm, noise=noise, dropout=dropout, project=project,
        )  # fmt: skip
        self.encoder, self.difference = inner, difference
        self.input_channels, self.smallest = inner.input_channels, inner.smallest
        self.window = 1 if difference is None else 1 + difference

    @property
    def finetuned(self) -> nn.Module:
        return self.encoder

    def forward(self, frames: Tensor) -> Tensor:
        """Frames that are given alone begin a stream each."""
        return self.clip(frames.unsqueeze(1))[0][:, 0]

    def clip(
        self, frames: Tensor, memory: WindowMemory | None = None, lengths: Sequence[int] | None = None
    ) -> tuple[Tensor, WindowMemory | None]:
        maps = self.encoder.clip(frames)[0]  # it checks the shape
        self.check_size(*frames.shape[-2:])
        cells = self._cells(maps.flatten(0, 1)).to(self._like.dtype).unflatten(0, maps.shape[:2])  # (B, T, C, h, w)
        if self.difference is not None:
            cells, memory = self._with_differences(cells, memory, lengths)
        if self.training and self.norm is not None:  # `FrameStandard` does not count frames that are 0 everywhere
            cells = cells * frames.amax((2, 3, 4), keepdim=True).ne(0)
        return self.features(cells.flatten(0, 1)).unflatten(0, frames.shape[:2]), memory

    def step(self, frame: Tensor, memory: WindowMemory | None) -> tuple[Tensor, WindowMemory | None]:
        maps, memory = self.clip(frame.unsqueeze(1), memory)
        return maps[:, 0], memory

    def init_memory(self, batch_size: int, height: int, width: int) -> WindowMemory | None:
        if self.difference is None:
            return None
        count = torch.zeros(batch_size, dtype=torch.int64, device=self._like.device)
        return WindowMemory(self._like.new_zeros(self._remembered(batch_size)), count)

    def check_size(self, height: int, width: int) -> None:
        self.encoder.check_size(height, width)
        found, grid = self.encoder.output_size(height, width), self.grid
        assert grid is not None
        if grid[0] > found[0] or grid[1] > found[1]:
            maps = f"{found[0]} x {found[1]} for frames of {height} x {width}"
            raise InputError(f"grid is {list(grid)} and maps of the encoder are {maps}: use a smaller grid")

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        self.check_size(height, width)
        return super().output_size(height, width)

    def saved_options(self, given: dict[str, Any]) -> dict[str, Any]:
        made = self.encoder.made_from
        assert made is not None  # `create_backbone` made it
        options = {key: value for key, value in made.options.items() if key != "pretrained"}
        return {**given, "encoder": {"name": made.name, **options}}

    def use_backend(self, name: Wanted) -> None:
        super().use_backend(name)
        self.encoder.use_backend(name)

    def backend(self, device: torch.device) -> BackendChoice:
        return self.encoder.backend(device)

    def _cells(self, maps: Tensor) -> Tensor:
        assert self.grid is not None
        (height, width), (rows, columns) = maps.shape[-2:], self.grid
        if height % rows or width % columns:
            return F.adaptive_avg_pool2d(maps, self.grid)
        return F.avg_pool2d(maps, (height // rows, width // columns))  # its gradient repeats to the last bit on a GPU

    def _with_differences(
        self, cells: Tensor, memory: WindowMemory | None, lengths: Sequence[int] | None
    ) -> tuple[Tensor, WindowMemory]:
        (batch, time), before = cells.shape[:2], self.window - 1
        past = cells[:, :1].expand(-1, before, -1, -1, -1)
        start = torch.zeros(batch, dtype=torch.int64, device=cells.device)
        if memory is not None:
            found = tuple(memory.frames.shape), tuple(memory.count.shape)
            expected = self._remembered(batch), (batch,)
            if found != expected:
                what = f"the cells of the state and their counts have shapes {found}, expected {expected}"
                raise StateError(f"{what}: it is of another model or batch; start a new one with init_state")
            past = torch.where((memory.count == 0).view(-1, 1, 1, 1, 1), past, memory.frames)
            start = memory.count
        seen = torch.cat([past, cells], 1)
        # Without lengths nothing is copied to the device: a CPU would wait for it, and CUDA graphs cannot contain it.
        if lengths is None:
            kept, count = seen[:, time:], start + time
        else:
            kept = torch.stack([seen[b, n : n + before] for b, n in enumerate(lengths)])
            count = start + torch.tensor(list(lengths), device=start.device)
        return torch.cat([cells, cells - seen[:, :time]], 2), WindowMemory(kept, count)

    def _remembered(self, batch: int) -> tuple[int, ...]:
        assert self.grid is not None
        return (batch, self.window - 1, self.encoder.channels, *self.grid)
