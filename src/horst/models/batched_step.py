"""One step of many streams in a batch: the next frame of each stream in, the prediction for each stream out.

    step = horst.BatchedStep(model, batch_size=16)
    logits = step(frames).logits                    # (16, 3, H, W), RGB in 0..255
    logits = step(frames, active=[0, 3, 5]).logits  # only some streams have a new frame
    step.reset(3)                                   # slot 3 gets a new stream

The state of all streams is in buffers that are allocated once. An engine runs the step (`horst.models.engines`).
onnxruntime gives no attention weights: `Predictor.step` runs for calls that ask for them.

Shapes: B streams, H x W pixels, S states.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from horst.backbones import ConvStem
from horst.errors import InputError
from horst.heads import Logits, Unroll
from horst.layers import HORST, CoreOutput, HORSTState, LayerState, State
from horst.models.engines import EngineName, choose_engine
from horst.models.predictor import Predictor, PredictorOutput

if TYPE_CHECKING:
    from horst.export.engine import Engine


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The prediction for every stream; NaN for streams that were not active."""

    logits: Logits  # (B, classes) by task; (B, U, classes) for several horizons
    spatial: Tensor | None = None  # on request: S(Q, K) of the last layer, (B, S, h, w), oldest frame first
    temporal: Tensor | None = None  # on request: T(Q, K) of the last layer, (B, S), in the same order


class BatchedStep:
    """A step of `batch_size` streams, each in its slot, with frames of one size.

    It uses the weights that the model has when it is created.
    """

    def __init__(
        self,
        model: Predictor,
        batch_size: int = 1,
        *,
        size: tuple[int, int] | None = None,
        precision: torch.dtype | None = None,
        graph: bool = True,
        engine: EngineName = "auto",
        export: bool = False,
    ) -> None:
        """
        Args:
            model: In evaluation mode, on the device on which it runs.
            batch_size: Number of streams, of any age.
            size: Height and width of the frames; by default the model's.
            precision: Of the kernels' arithmetic; by default bfloat16 on a GPU. Without kernels, the model's own.
            graph: Capture the step as a CUDA graph where the kernels run on a GPU.
            engine: What runs the step where there are no kernels. By default the fastest one that is ready.
            export: Write missing graphs for onnxruntime, once for each architecture. That takes some seconds.
        """
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}; it must be at least 1")
        if model.training:
            raise InputError("the model is in training mode: call model.eval() first")
        if model.backbone.precomputed:
            raise InputError(
                "the model reads precomputed feature maps, not images, so it takes no videos: evaluate it on those of "
                "`horst extract`, or train a model with a backbone"
            )
        if not model.core.streaming:
            raise InputError(f"{model.core.config.title} takes whole clips only with these options: it cannot stream")
        self.model, self.size = model, size or model.size
        self.device = next(model.parameters()).device
        self.active = torch.ones(batch_size, dtype=torch.uint8, device=self.device)
        shape = (batch_size, *self.size, model.backbone.input_channels)
        frames = torch.zeros(shape, dtype=torch.uint8, device=self.device).permute(0, 3, 1, 2)  # channels last
        self._runner: _FusedStep | _OnnxStep | _EagerStep
        self.engine, self.why, opened = choose_engine(model, engine, size=self.size, export=export)
        """The name of the engine, and the reason for the choice."""
        with torch.inference_mode():
            if self.engine == "kernels":
                self._runner = _FusedStep(model, frames, self.active, precision, graph)
            elif opened is not None and opened.advances:
                self._runner = _OnnxStep(opened, model, frames, self.active)
            else:
                self._runner = _EagerStep(model, frames, self.active)
                self._runner.backbone = model.backbone if opened is None else opened.maps

    def __len__(self) -> int:
        return len(self.active)

    @torch.inference_mode()
    def __call__(
        self,
        frames: Tensor,
        active: Sequence[int] | None = None,
        *,
        first: Sequence[int] | None = None,
        unroll: Unroll = None,
        attention: bool = False,
    ) -> StepOutput:
        """The next frame (B, 3, H, W), uint8, of all streams, or of the slots in `active`.

        The output is a copy. `first`: for each slot of `active`, the first one with the same frame: the backbone runs
        once for all of them. `unroll`: the horizons of an unrolling head. `attention`: return the attention weights.
        """
        wanted = (len(self), self.model.backbone.input_channels, *self.size)
        if tuple(frames.shape) != wanted:
            raise InputError(f"the frames have shape {tuple(frames.shape)}; this step takes {wanted}")
        if frames.dtype != torch.uint8:
            raise InputError(f"the frames are {frames.dtype}; a step takes uint8, RGB in 0..255")
        if active is None:
            self.active.fill_(1)
        else:
            chosen = {self._check_slot(slot) for slot in active}
            if not chosen:
                raise InputError("active is empty: name at least one slot")
            self.active.copy_(torch.tensor([i in chosen for i in range(len(self))], dtype=torch.uint8))
        same = dict(zip(active, first, strict=True)) if active is not None and first is not None else {}
        if not set(same.values()) <= set(same):
            raise InputError(f"first is {first}; it takes slots of active, {active}")
        if isinstance(self._runner, _FusedStep):
            if unroll is None:  # heads that unroll have no kernels: the model raises the error
                return self._runner.step(frames, attention)
            self._runner = _EagerStep(self.model, frames, self.active, self._runner.state())
        return self._runner.step(frames, unroll, attention, same)

    @torch.inference_mode()
    def reset(self, slot: int | None = None) -> None:
        """Reset the state of one stream, or of all."""
        slots = range(len(self)) if slot is None else [self._check_slot(slot)]
        self._runner.reset(list(slots))

    @property
    def frame_counts(self) -> list[int]:
        """How many frames each stream has seen."""
        return [int(n) for n in self._runner.count.tolist()]

    @property
    def state(self) -> State:
        """A copy of the state of all streams, as `Predictor.step` takes it."""
        return self._runner.state()

    def _check_slot(self, slot: int) -> int:
        if not 0 <= slot < len(self):
            raise InputError(f"there is no slot {slot}: there are 0 to {len(self) - 1}")
        return slot


class _EagerStep:
    """Runs `Predictor.step`. State is updated in place: a step of some streams costs only those streams."""

    def __init__(self, model: Predictor, frames: Tensor, active: Tensor, now: State | None = None) -> None:
        """`now`: a state to continue from; it is modified."""
        self.model, self.active = model, active
        self.backbone: Callable[[Tensor], Tensor] = model.backbone
        self.fresh = model.init_state(1, *frames.shape[-2:])
        self.now = model.init_state(len(frames), *frames.shape[-2:]) if now is None else now

    @property
    def count(self) -> Tensor:
        return self.now.count

    def step(self, frames: Tensor, unroll: Unroll, attention: bool, same: Mapping[int, int]) -> StepOutput:
        rows, different, shown = self.distinct(same)
        if self.model.backbone.window > 1:  # equal frames have other maps after other frames
            return self._step_windows(frames, rows, unroll, attention)
        maps = self.backbone(frames[different].to(rows.device))
        if len(different) < len(shown):
            maps = maps[shown]
        if len(rows) == len(self.active):  # the returned state is new and replaces the old one
            out, self.now = self.model.step_maps(maps, self.now, unroll=unroll, attention=attention)
            return _output(out)
        before = self.now.map(lambda x: x.index_select(0, rows))
        out, after = self.model.step_maps(maps, before, unroll=unroll, attention=attention)
        return self._written(out, after, rows)

    def _step_windows(self, frames: Tensor, rows: Tensor, unroll: Unroll, attention: bool) -> StepOutput:
        before = self.now.map(lambda x: x.index_select(0, rows))
        chosen = frames.to(rows.device).index_select(0, rows)
        out, after = self.model.step(chosen, before, unroll=unroll, attention=attention)
        return self._written(out, after, rows)

    def _written(self, out: PredictorOutput, after: State, rows: Tensor) -> StepOutput:
        """Write the state of some streams into that of all."""
        for buffer, new in _pairs(self.now, after):
            buffer.index_copy_(0, rows, new)
        return _output(out, lambda x: _spread(x, rows, len(self.active)))

    def distinct(self, same: Mapping[int, int]) -> tuple[Tensor, list[int], list[int]]:
        """The active rows, the rows with distinct frames, and for each active row the index of its frame in these."""
        rows = self.active.nonzero().flatten()
        shown = [same.get(row, row) for row in rows.tolist()]
        different = sorted(set(shown))
        return rows, different, [different.index(row) for row in shown]

    def reset(self, slots: list[int]) -> None:
        for buffer, start in _pairs(self.now, self.fresh):
            buffer[slots] = start

    def state(self) -> State:
        return self.now.map(Tensor.clone)


class _OnnxStep:
    """Runs both graphs of an engine. An entry of a ring is written in place; no ring is copied if all streams step."""

    def __init__(self, engine: "Engine", model: Predictor, frames: Tensor, active: Tensor) -> None:
        self.engine = engine
        self.eager = _EagerStep(model, frames, active)  # has the state, and gives attention weights
        self.reset, self.state = self.eager.reset, self.eager.state

    @property
    def count(self) -> Tensor:
        return self.eager.count

    def step(self, frames: Tensor, unroll: Unroll, attention: bool, same: Mapping[int, int]) -> StepOutput:
        if attention or unroll is not None:
            return self.eager.step(frames, unroll, attention, same)
        rows, different, shown = self.eager.distinct(same)
        observed = self.engine.observe(frames[different])
        if len(different) < len(shown):
            observed = [array[shown] for array in observed]
        now = [tensor for _, tensor in self.eager.now.tensors()]
        first, last = int(rows[0]), int(rows[-1]) + 1
        chosen = slice(first, last) if last - first == len(rows) else rows  # a slice is not a copy
        logits, written = self.engine.advance(observed, [tensor[chosen].numpy() for tensor in now])
        order = self.eager.model.core.order
        for i, layer in enumerate(zip(*[iter(now)] * 4, strict=True)):  # keys, filters, values and count
            slots = layer[-1][chosen] % order
            for ring, entry in zip(layer, written[3 * i : 3 * i + 3], strict=False):
                ring[rows, slots] = torch.from_numpy(entry)
            layer[-1][chosen] += 1
        found = Logits(**{task: torch.from_numpy(array) for task, array in logits.items()})
        return StepOutput(found.map(lambda x: _spread(x, rows, len(frames))))


class _FusedStep:
    """Runs the kernels, in one CUDA graph."""

    def __init__(
        self, model: Predictor, frames: Tensor, active: Tensor, precision: torch.dtype | None, graph: bool
    ) -> None:
        from horst.layers import fused  # needs Triton
        from horst.ops.fused.norm_act import prepared

        cuda = active.device.type == "cuda"
        assert isinstance(model.core, HORST)  # the only core with these kernels
        self.model, self.core, self.frames, self.active = model, model.core, frames, active
        self.precision = precision or (torch.bfloat16 if cuda else torch.float32)
        self.backbone, self._layers = prepared(model.backbone, self.precision), fused
        if isinstance(self.backbone, ConvStem):
            self.backbone.pad_input()
        self.count = torch.zeros(len(frames), dtype=torch.int64, device=active.device)
        height, width = model.backbone.output_size(*frames.shape[-2:])
        self.layers, self.zeros = [], []
        for cell in self.core.cells:
            height, width = cell.output_size(height, width)
            layer, zero = fused.step_layer(cell, len(frames), height, width, self.precision)
            self.layers.append(layer)
            self.zeros.append(zero)
        self.reset(list(range(len(frames))))
        self._replay: Callable[[], None] | None = None
        if graph and cuda:
            self._capture()

    def step(self, frames: Tensor, attention: bool) -> StepOutput:
        self.frames.copy_(frames, non_blocking=True)
        if self._replay is None:
            logits = self._run()
        else:
            self._replay()
            logits = self.output.map(Tensor.clone)
        if not attention:
            return StepOutput(logits)
        order = self.core.order
        slot, before = torch.arange(order, device=self.count.device), self.count - self.active
        weights = self._layers.step_attention(self.layers[-1], (before.unsqueeze(1) + slot) % order)
        return StepOutput(logits, *map(self._only_active, weights))

    def _run(self) -> Logits:
        model, order = self.model, self.core.order
        slot = torch.arange(order, device=self.count.device)
        count = self.count.unsqueeze(1)
        valid = ((slot < count) | ((count == 0) & (slot == order - 1))).to(torch.uint8)
        autocast = torch.autocast(self.active.device.type, self.precision, enabled=self.precision != torch.float32)
        with autocast:
            y = e = statt = self.backbone(self.frames)
        for cell, layer in zip(self.core.cells, self.layers, strict=True):  # they choose their own precision
            y, e, statt = self._layers.step(cell, layer, y, valid, self.count, self.active, self.precision)
        with autocast:
            logits = model.read(CoreOutput(y, (e,), (statt,)))
        self.count += self.active
        return logits.map(lambda x: self._only_active(x.float()))

    def _only_active(self, x: Tensor) -> Tensor:
        """NaN in the rows (B, ...) of streams without a frame."""
        return x.masked_fill((self.active == 0).view(-1, *[1] * (x.ndim - 1)), torch.nan)

    def _capture(self) -> None:
        """Run the step a few times, capture it, and reset all streams."""
        side = torch.cuda.Stream(self.active.device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._run()
        torch.cuda.current_stream().wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, capture_error_mode="thread_local"):  # other threads may pin and allocate
            self.output = self._run()
        self._replay = captured.replay
        self.reset(list(range(len(self.frames))))

    def reset(self, slots: list[int]) -> None:
        """Before the first frame the last entry of a stream's ring is the all-zero state."""
        self.count[slots] = 0
        for layer, zero in zip(self.layers, self.zeros, strict=True):
            for ring, start in zip(layer.ring, zero, strict=True):
                ring[-1, slots] = start

    def state(self) -> HORSTState:
        dtype = self.core.cells[0].key_value.norm.weight.dtype
        layers = []
        for layer in self.layers:
            keys, filters, values = (  # (S, B, P, ...) -> (B, S, H, W, ...)
                m.transpose(0, 1).unflatten(2, layer.form.size).to(dtype, copy=True) for m in layer.ring
            )
            layers.append(LayerState(keys.movedim(-1, 2), filters, values.movedim(-1, 2), self.count.clone()))
        return HORSTState(tuple(layers), self.core.config)


def _output(out: PredictorOutput, spread: Callable[[Tensor], Tensor] = lambda x: x) -> StepOutput:
    """`spread` puts the rows of the active streams among those of all streams."""
    logits = out.logits.map(spread)
    if out.core.spatial is None or out.core.temporal is None:
        return StepOutput(logits)
    return StepOutput(logits, spread(out.core.spatial[-1]), spread(out.core.temporal[-1]))


def _spread(x: Tensor, rows: Tensor, count: int) -> Tensor:
    """The rows of the active streams among those of all streams."""
    if len(rows) == count:
        return x
    return x.new_full((count, *x.shape[1:]), torch.nan).index_copy_(0, rows, x)


def _pairs(a: State, b: State) -> Iterator[tuple[Tensor, Tensor]]:
    """The tensors of two states, in pairs."""
    return ((x, y) for (_, x), (_, y) in zip(a.tensors(), b.tensors(), strict=True))
