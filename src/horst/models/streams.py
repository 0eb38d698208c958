"""Many live streams through one model: a frame of each in, a prediction of each out.

    streams = horst.Streams(model, count=16)
    logits = streams(frames)                    # (16, 3, H, W), RGB in 0..255
    logits = streams(frames, active=[0, 3, 5])  # where only some have a new frame
    streams.reset(3)                            # a new camera in place 3

The memory of all streams lies in buffers that are made once. On a GPU with the kernels of `horst.ops.fused` the whole
step, from pixels to logits, is captured as a CUDA graph with weights cast once; elsewhere it runs `Predictor.step`.
Streams may have any age: each has its own count of frames. The kernels keep no weights of attention: from the first
call on that asks for them, `Predictor.step` runs, with what the streams remember.

Shapes: B streams, H x W pixels, S states.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from horst.backbones import PrecomputedMaps
from horst.errors import InputError
from horst.heads import Logits, Unroll
from horst.layers import HORST, CoreOutput, HORSTState, LayerState, State
from horst.layers import fused as fused_layers
from horst.models.predictor import Output, Predictor


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of all streams; of those that were not asked NaN."""

    logits: Logits
    """(B, classes) by task; of several horizons (B, U, classes)."""
    spatial: Tensor | None = None
    """On request, S(Q, K) of the last layer, (B, S, h, w), oldest frame first."""
    temporal: Tensor | None = None
    """On request, T(Q, K) of the last layer, (B, S), aligned likewise."""


class Streams:
    """`count` streams of frames of one size. It keeps the model's weights as they are when it is made."""

    def __init__(
        self,
        model: Predictor,
        count: int = 1,
        *,
        size: tuple[int, int] | None = None,
        precision: torch.dtype | None = None,
        graph: bool = True,
    ) -> None:
        """
        Args:
            model: In evaluation mode, on the device where it shall run.
            count: How many streams.
            size: Height and width of the frames; the model's own by default.
            precision: Of the kernels' arithmetic; bfloat16 on a GPU by default. Without the kernels the model's own.
            graph: Capture the step as a CUDA graph, where it runs on a GPU with the kernels.
        """
        if count < 1:
            raise InputError(f"count is {count}; there is at least one stream")
        if model.training:
            raise InputError("the model is in training mode: call model.eval() first")
        if isinstance(model.backbone, PrecomputedMaps):
            raise InputError("the model reads maps that a backbone made before, not pictures: use model.step")
        if not model.core.streaming:
            raise InputError(f"{model.core.config.title} takes whole clips alone, as it is made here: it cannot stream")
        self.model, self.size = model, size or model.size
        self.device = next(model.parameters()).device
        self.active = torch.ones(count, dtype=torch.uint8, device=self.device)
        frames = torch.zeros(count, *self.size, model.backbone.input_channels, dtype=torch.uint8, device=self.device)
        frames = frames.permute(0, 3, 1, 2)  # in memory as pictures are, and as convolutions want them
        chosen = model.core.backend(self.device).name
        kernels = chosen == "triton" and isinstance(model.core, HORST) and not model.head.unrolls
        with torch.inference_mode():
            self._engine = (
                _Kernels(model, frames, self.active, precision, graph)
                if kernels
                else _Plain(model, frames, self.active)
            )

    def __len__(self) -> int:
        return len(self.active)

    def __call__(self, frames: Tensor, active: Sequence[int] | None = None, *, unroll: Unroll | None = None) -> Logits:
        """The next frame (B, 3, H, W), uint8, of all streams, or of those in `active`: of the others nothing is said.

        The logits are the caller's to keep. `unroll`: the horizons that an unrolling head is asked for.
        """
        return self.ask(frames, active, unroll=unroll).logits

    @torch.inference_mode()
    def ask(
        self,
        frames: Tensor,
        active: Sequence[int] | None = None,
        *,
        unroll: Unroll | None = None,
        attention: bool = False,
    ) -> Said:
        """As a call, with the attention on request."""
        wanted = (len(self), self.model.backbone.input_channels, *self.size)
        if tuple(frames.shape) != wanted:
            raise InputError(f"the frames have shape {tuple(frames.shape)}; these streams take {wanted}")
        if frames.dtype != torch.uint8:
            raise InputError(f"the frames are {frames.dtype}; streams take uint8, RGB in 0..255")
        if active is None:
            self.active.fill_(1)
        else:
            chosen = {self._place(place) for place in active}
            if not chosen:
                raise InputError("active is empty: there is no stream to ask")
            self.active.copy_(torch.tensor([i in chosen for i in range(len(self))], dtype=torch.uint8))
        if isinstance(self._engine, _Kernels):
            if not attention and unroll is None:  # where there are kernels, no head unrolls: the model will say so
                return Said(self._engine.step(frames))
            self._engine = _Plain(self.model, frames, self.active, self._engine.state())
        return self._engine.step(frames, unroll, attention)

    @torch.inference_mode()
    def reset(self, place: int | None = None) -> None:
        """A stream, or all of them, starts afresh."""
        places = range(len(self)) if place is None else [self._place(place)]
        self._engine.reset(list(places))

    @property
    def ages(self) -> list[int]:
        """How many frames each stream has seen."""
        return [int(n) for n in self._engine.count.tolist()]

    @property
    def state(self) -> State:
        """A copy of the memory of all streams, as `Predictor.step` takes it."""
        return self._engine.state()

    def _place(self, place: int) -> int:
        if not 0 <= place < len(self):
            raise InputError(f"there is no stream {place}: there are 0 to {len(self) - 1}")
        return place


class _Plain:
    """By `Predictor.step`. Its buffers are written in place: a step for some streams costs what those cost."""

    def __init__(self, model: Predictor, frames: Tensor, active: Tensor, now: State | None = None) -> None:
        """`now`: what the streams remember already, which is then the engine's own."""
        self.model, self.active = model, active
        size = frames.shape[-2:]
        self.fresh = model.init_state(1, *size)
        self.now = model.init_state(len(frames), *size) if now is None else now

    @property
    def count(self) -> Tensor:
        return self.now.count

    def step(self, frames: Tensor, unroll: Unroll | None, attention: bool) -> Said:
        rows = self.active.nonzero().flatten()
        frames = frames.to(rows.device)
        if len(rows) == len(self.active):  # the state that comes back is new: it takes the place of the old one
            out, self.now = self.model.step(frames, self.now, unroll=unroll, attention=attention)
            return _said(out)
        before = self.now.map(lambda x: x.index_select(0, rows))
        out, after = self.model.step(frames[rows], before, unroll=unroll, attention=attention)
        for buffer, new in _pairs(self.now, after):
            buffer.index_copy_(0, rows, new)
        return _said(out, lambda x: x.new_full((len(frames), *x.shape[1:]), torch.nan).index_copy_(0, rows, x))

    def reset(self, places: list[int]) -> None:
        for buffer, start in _pairs(self.now, self.fresh):
            buffer[places] = start

    def state(self) -> State:
        return self.now.map(Tensor.clone)


class _Kernels:
    """By the kernels, in one CUDA graph."""

    def __init__(
        self, model: Predictor, frames: Tensor, active: Tensor, precision: torch.dtype | None, graph: bool
    ) -> None:
        cuda = active.device.type == "cuda"
        assert isinstance(model.core, HORST)  # no other core has kernels
        self.model, self.core, self.frames, self.active = model, model.core, frames, active
        self.precision = precision or (torch.bfloat16 if cuda else torch.float32)
        self.backbone = fused_layers.backbone(model.backbone, self.precision)
        self.count = torch.zeros(len(frames), dtype=torch.int64, device=active.device)
        height, width = model.backbone.output_size(*frames.shape[-2:])
        self.layers, self.zeros = [], []
        for cell in self.core.cells:
            height, width = cell.output_size(height, width)
            layer, zero = fused_layers.step_layer(cell, len(frames), height, width, self.precision)
            self.layers.append(layer)
            self.zeros.append(zero)
        self.reset(list(range(len(frames))))
        self._replay: Callable[[], None] | None = None
        if graph and cuda:
            self._capture()

    def step(self, frames: Tensor) -> Logits:
        self.frames.copy_(frames, non_blocking=True)
        if self._replay is None:
            return self._run()
        self._replay()
        return self.said.map(Tensor.clone)

    def _run(self) -> Logits:
        model, order = self.model, self.core.order
        slot = torch.arange(order, device=self.count.device)
        count = self.count.unsqueeze(1)
        valid = ((slot < count) | ((count == 0) & (slot == order - 1))).to(torch.uint8)
        half = self.precision != torch.float32
        with torch.autocast(self.active.device.type, self.precision) if half else contextlib.nullcontext():
            x = self.backbone(self.frames)
            y = e = statt = x
            for cell, layer in zip(self.core.cells, self.layers, strict=True):
                y, e, statt = fused_layers.step(cell, layer, y, valid, self.count, self.active, self.precision)
            logits = model.read(CoreOutput(y, (e,), (statt,)))
        self.count += self.active
        return logits.map(Tensor.float)

    def _capture(self) -> None:
        """Runs the step a few times, captures it, and starts all streams afresh."""
        side = torch.cuda.Stream(self.active.device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._run()
        torch.cuda.current_stream().wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, capture_error_mode="thread_local"):  # others may pin and allocate meanwhile
            self.said = self._run()
        self._replay = captured.replay
        self.reset(list(range(len(self.frames))))

    def reset(self, places: list[int]) -> None:
        """Before its first frame a stream's last slot holds the all-zero state."""
        self.count[places] = 0
        for layer, zero in zip(self.layers, self.zeros, strict=True):
            for ring, start in zip(layer.ring, zero, strict=True):
                ring[-1, places] = start

    def state(self) -> HORSTState:
        dtype = self.core.cells[0].key_value.norm.weight.dtype
        layers = []
        for layer in self.layers:
            height, width = layer.form.sizes.height, layer.form.sizes.width

            def maps(m: Tensor, h: int = height, w: int = width) -> Tensor:
                """(S, B, P, C) -> (B, S, C, H, W)"""
                return m.transpose(0, 1).unflatten(2, (h, w)).permute(0, 1, 4, 2, 3).to(dtype, copy=True)

            filters = layer.ring.filters.transpose(0, 1).unflatten(2, (height, width)).to(dtype, copy=True)
            layers.append(LayerState(maps(layer.ring.keys), filters, maps(layer.ring.values), self.count.clone()))
        return HORSTState(tuple(layers), self.core.config)


def _said(out: Output, spread: Callable[[Tensor], Tensor] = lambda x: x) -> Said:
    """`spread` puts the rows of those that were asked among those of all."""
    logits = out.logits.map(spread)
    if out.core.spatial is None or out.core.temporal is None:
        return Said(logits)
    return Said(logits, spread(out.core.spatial[-1]), spread(out.core.temporal[-1]))


def _pairs(a: State, b: State) -> Iterator[tuple[Tensor, Tensor]]:
    """The tensors of two states, side by side."""
    for (_, x), (_, y) in zip(a.tensors(), b.tensors(), strict=True):
        yield x, y
