"""A model over whole clips, tensors in and tensors out: what training compiles, captures and differentiates.

No lengths are passed: a model is causal, so the padding after a clip cannot change the predictions before it. `valid`
leaves padding out of the loss and of the heads' batch norms; those of a backbone see it as black frames.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from functools import partial
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.models import Predictor
from horst.training.config import Loss
from horst.training.losses import feature_loss

GRAPH_FRAMES = 4
"""CUDA graphs are captured for multiples of this length: capturing takes seconds, and clips of 11 to 20 frames get 9%
of padding."""


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
        model = self.model
        with nullcontext() if self.autocast is None else torch.autocast(frames.device.type, self.autocast):
            with torch.no_grad() if self.freeze_backbone else nullcontext():
                maps = model.backbone(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
            out, _ = model.core(maps)
            unrolled = {"unroll": list(range(frames.shape[1], 0, -1)), "complete": self.completion and self.training}
            logits = model.read(out, valid, **(unrolled if model.head.unrolls else {}))
            found = tuple(logits[task] for task in logits)
            if self.features is None or not self.training:
                return found
            future = out.future if logits.future is None else logits.future
            assert future is not None  # checked when the run was prepared
            options = self.features
            return *found, feature_loss(future, maps.mean((-2, -1)), valid, options.distance, options.temperature)


class CUDAGraphNetwork:
    """A `TrainingNetwork` whose forward and backward pass run as CUDA graphs, on one GPU.

    A clip is hundreds of small operations, which a CPU cannot launch fast enough. A graph has one shape, so clips of
    recognition are padded to a multiple of GRAPH_FRAMES and a graph is captured for each length. Clips of anticipation
    have one length, from whose end an unrolling head counts, and stay as they are. Batches of another size than the
    first run without a graph.
    """

    def __init__(self, network: TrainingNetwork) -> None:
        self.network = network
        self.multiple = GRAPH_FRAMES if network.model.head.task == "recognition" else 1
        self.batch: int | None = None
        self.captured: dict[tuple[int | bool, ...], Any] = {}
        self.pool: Any = None
        """Graphs share their temporary memory: a step ends before the next one, of any length, begins."""

    def __call__(self, frames: Tensor, valid: Tensor) -> tuple[Tensor, ...]:
        t = frames.shape[1]
        more = -t % self.multiple
        if self.batch is None:
            self.batch = len(frames)
        if len(frames) != self.batch or not torch.is_grad_enabled():
            return self.network(frames, valid)
        frames = F.pad(frames, (0, 0, 0, 0, 0, 0, 0, more)).contiguous()
        valid = F.pad(valid, (0, more))
        shape = (*frames.shape, self.network.completion)
        with torch.autocast(frames.device.type, enabled=False):  # the network has its own, inside the graph
            if shape not in self.captured:
                self.captured[shape] = self._capture(frames, valid)
            return tuple(a[:, :t] if a.ndim > 1 else a for a in self.captured[shape](frames, valid))

    def _capture(self, frames: Tensor, valid: Tensor) -> Any:
        """Another network of the same parameters, with its forward and backward pass captured."""
        network = self.network
        other = copy(network)
        buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        with thread_local_capture():
            made = torch.cuda.make_graphed_callables(
                other, (frames.clone(), valid.clone()), allow_unused_input=True, pool=self.pool
            )
        with torch.no_grad():  # undo the updates of the warm-up passes
            for name, buffer in network.named_buffers():
                buffer.copy_(buffers[name])
        return made


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
