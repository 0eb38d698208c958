"""A model over whole clips, tensors in and tensors out: what training compiles, captures and differentiates.

No lengths are passed: a model is causal, so the padding after a clip cannot change the predictions before it. `valid`
leaves padding out of the loss and of the heads' batch norms; those of a backbone see it as black frames.
"""

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from functools import partial
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.heads.pool import FrameNorm
from horst.heads.unrolling import clip_horizons
from horst.layers import CoreOutput
from horst.models import Predictor
from horst.training.config import Loss
from horst.training.losses import feature_loss

log = logging.getLogger(__name__)

GRAPH_FRAMES = 4
"""CUDA graphs are captured for multiples of this length: capturing takes seconds, and clips of 11 to 20 frames get 9%
of padding."""

LONG_RUN = 20_000
"""From this many steps on, captures do not count. Clips are padded by less than a twelfth: up to 23 frames each length
has its own graph. Clips of 6 to 15 frames, a quarter of those of Something-Something v2, have 3% of padding then, not
16%. A graph keeps a gradient of every weight, so that the number of graphs is limited by the memory, too."""

VIDEO_FRAMES = 32
"""The same for whole videos, which have many lengths."""


class TrainingNetwork(nn.Module):
    """(frames (B, T, 3, H, W), valid (B, T)) -> the tensors of `Logits`, and last the loss of predicted features."""

    def __init__(
        self,
        model: Predictor,
        *,
        freeze_backbone: bool = False,
        autocast: torch.dtype | None = None,  # inside a CUDA graph, which ignores a surrounding autocast
        features: Loss | None = None,  # the options of the loss of predicted features, which training then returns too
    ) -> None:
        super().__init__()
        self.model, self.freeze_backbone, self.autocast, self.features = model, freeze_backbone, autocast, features
        self.completion = False  # in training, an unrolling head reads the frames that really follow
        if freeze_backbone:
            model.backbone.requires_grad_(False)
        self.train()

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.freeze_backbone:
            self.model.backbone.eval()  # freezes its batch norms
        return self

    def forward(self, frames: Tensor, valid: Tensor) -> tuple[Tensor, ...]:
        return self.read(self.encode(frames), valid)

    def windows(self, frames: Tensor, valid: Tensor, length: int) -> Iterator[tuple[slice, tuple[Tensor, ...]]]:
        """`forward` in windows of `length` frames. The state is carried on, its gradient is not."""
        state = memory = None
        for begin in range(0, frames.shape[1], length):
            window = slice(begin, begin + length)
            with self._autocast(frames):
                maps, memory = self._maps(frames[:, window], memory)
                out, state = self.model.core(maps, state)
                encoded = self._encoded(maps, out)
            yield window, self.read(encoded, valid[:, window])
            state = state.map(Tensor.detach)
            memory = None if memory is None else memory.map(Tensor.detach)

    def encode(self, frames: Tensor) -> tuple[Tensor, ...]:
        """Backbone and core: what the head reads, then the pooled maps and predicted features if there is a loss."""
        with self._autocast(frames):
            maps, _ = self._maps(frames)
            return self._encoded(maps, self.model.core.encode(maps))

    def _maps(self, frames: Tensor, memory: Any = None) -> tuple[Tensor, Any]:
        with torch.no_grad() if self.freeze_backbone else nullcontext():
            return self.model.backbone.clip(frames, memory)

    def _encoded(self, maps: Tensor, out: CoreOutput) -> tuple[Tensor, ...]:
        seen = tuple(out.named(name) for name in self.model.head.reads)
        if self.features is None or not self.training:
            return seen
        return *seen, maps.mean((-2, -1)), *(() if out.future is None else (out.future,))

    def read(self, encoded: tuple[Tensor, ...], valid: Tensor) -> tuple[Tensor, ...]:
        """Head and loss of predicted features."""
        head, count = self.model.head, len(self.model.head.reads)
        horizons = clip_horizons(head, valid.shape[1], self.model.fps)
        unrolled: dict[str, Any] = {"unroll": horizons, "complete": self.completion and self.training}
        with self._autocast(valid):
            maps = dict(zip(head.reads, encoded[:count], strict=True))
            logits = head.read(**maps, valid=valid, **(unrolled if head.unrolls else {}))
            found = tuple(logits[task] for task in logits)
            found = (*found, *(more for more in (logits.ahead, logits.sequence) if more is not None))
            if self.features is None or not self.training:
                return found
            pooled, *predicted = encoded[count:]
            (future,) = predicted if logits.future is None else (logits.future,)  # checked when the run was prepared
            options = self.features
            return *found, feature_loss(future, pooled, valid, options.distance, options.temperature)

    def _autocast(self, like: Tensor) -> AbstractContextManager[Any]:
        return nullcontext() if self.autocast is None else torch.autocast(like.device.type, self.autocast)


class Encoder(nn.Module):
    """The first half of a `TrainingNetwork` as a module."""

    def __init__(self, network: TrainingNetwork) -> None:
        super().__init__()
        self.backbone, self.core = network.model.backbone, network.model.core
        self.encode = network.encode

    def forward(self, frames: Tensor) -> tuple[Tensor, ...]:
        return self.encode(frames)


class CUDAGraphNetwork:
    """A `TrainingNetwork` whose forward and backward pass run as CUDA graphs.

    A clip is hundreds of small operations, which a CPU cannot launch fast enough. A graph has one shape, so clips of
    recognition are padded to a multiple of GRAPH_FRAMES and a graph is captured for each length. Clips of anticipation
    have one length, from whose end an unrolling head counts, and stay as they are. Batches of another size than the
    first run without a graph. `steps` are those of the whole run, of which a long one has more graphs and less padding.

    In a distributed run each process has its own graphs, and gradients are exchanged after them. A head whose batch
    norms exchange statistics between processes stays outside: processes capture at different times.
    """

    def __init__(self, network: TrainingNetwork, *, processes: int = 1, steps: int = 0) -> None:
        self.network, self.long = network, steps >= LONG_RUN
        self.with_head = processes == 1 or not any(isinstance(m, FrameNorm) for m in network.model.head.modules())
        head = network.model.head
        self.multiple = VIDEO_FRAMES if head.video is not None else GRAPH_FRAMES if head.task == "recognition" else 1
        self.batch: int | None = None
        self.captured: dict[tuple[int | bool, ...], Any] = {}
        self.failed = False
        self.pool: Any = None
        """Graphs share their temporary memory: a step ends before the next one, of any length, begins."""

    def __call__(self, frames: Tensor, valid: Tensor) -> tuple[Tensor, ...]:
        t = frames.shape[1]
        more = -t % (max(1, t // 12) if self.long and self.multiple == GRAPH_FRAMES else self.multiple)
        if self.batch is None:
            self.batch = len(frames)
        if self.failed or len(frames) != self.batch or not torch.is_grad_enabled():
            return self.network(frames, valid)
        padded = F.pad(frames, (0, 0, 0, 0, 0, 0, 0, more)).contiguous()
        given = (padded, F.pad(valid, (0, more))) if self.with_head else (padded,)
        shape = (*padded.shape, self.network.completion)
        with torch.autocast(frames.device.type, enabled=False):  # the network has its own, inside the graph
            if shape not in self.captured:
                try:
                    self.captured[shape] = self._capture(*given)
                except torch.OutOfMemoryError:
                    raise
                except RuntimeError as error:
                    self._give_up(error)
                    return self.network(frames, valid)
            found = tuple(a[:, :t] if a.ndim > 1 else a for a in self.captured[shape](*given))
            return found if self.with_head else self.network.read(found, valid)

    def _capture(self, *given: Tensor) -> Any:
        """Another network of the same parameters, with its forward and backward pass captured."""
        network = self.network
        other = copy(network) if self.with_head else Encoder(network)
        buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        try:
            with thread_local_capture():
                return torch.cuda.make_graphed_callables(
                    other,
                    tuple(tensor.clone() for tensor in given),
                    num_warmup_iters=1,  # compiles the kernels; more would only take time
                    allow_unused_input=True,
                    pool=self.pool,
                )
        finally:
            with torch.no_grad():  # undo the updates of the warm-up passes
                for name, buffer in network.named_buffers():
                    buffer.copy_(buffers[name])

    def _give_up(self, error: RuntimeError) -> None:
        """A part of one's own may wait for the GPU or do other things that no graph can contain."""
        self.failed = True
        torch.cuda.set_stream(torch.cuda.default_stream())  # a capture that failed leaves its own
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        generator.graphsafe_set_state(generator.clone_state())  # its own still expects a capture and refuses to draw
        cause = str(error.__context__ or error).partition("\n")[0]
        log.warning("CUDA graphs off: the model cannot be captured (%s)", cause)


@contextmanager
def thread_local_capture() -> Iterator[None]:
    """Let other threads allocate while a graph is captured. By CUDA's default, a thread that pins the next batch ends
    the capture, and torch's make_graphed_callables has no option for it."""
    graph = torch.cuda.graph
    torch.cuda.graph = partial(graph, capture_error_mode="thread_local")  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        torch.cuda.graph = graph  # type: ignore[misc]
