"""The training step as CUDA graphs: a clip is hundreds of small operations, which a CPU cannot hand out fast enough.

A graph knows one shape, so clips of recognition are padded to a multiple of ROUND frames and a graph is captured for
each length that comes up. Those of anticipation have one length, from whose end a head that unrolls counts: they stay
as they are. It runs on one GPU; several would each need the gradients of the others inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from horst.training.network import Network

ROUND = 4
"""Few lengths, as each graph takes seconds to capture, and little padding: clips of 11 to 20 frames get 9% of it."""


@contextmanager
def others_may_allocate() -> Iterator[None]:
    """Capture graphs such that other threads go on: by CUDA's default, one that pins the next batch ends the capture.

    torch's make_graphed_callables has no option for it.
    """
    graph = torch.cuda.graph
    torch.cuda.graph = partial(graph, capture_error_mode="thread_local")  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        torch.cuda.graph = graph  # type: ignore[misc]


class Graphed:
    """`network`, captured; other batch sizes than the first one run as they are."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.round = ROUND if network.model.head.task == "recognition" else 1
        self.batch: int | None = None
        self.captured: dict[tuple[int | bool, ...], Any] = {}
        self.pool: Any = None
        """What graphs need in passing lies in one place: a step is over when the next one, of any length, begins."""

    def __call__(self, frames: Tensor, valid: Tensor) -> tuple[Tensor, ...]:
        t = frames.shape[1]
        more = -t % self.round
        if self.batch is None:
            self.batch = len(frames)
        if len(frames) != self.batch or not torch.is_grad_enabled():
            return self.network(frames, valid)
        frames = F.pad(frames, (0, 0, 0, 0, 0, 0, 0, more)).contiguous()
        valid = F.pad(valid, (0, more))
        shape = (*frames.shape, self.network.complete)
        with torch.autocast(frames.device.type, enabled=False):  # the network brings its own, inside the graph
            if shape not in self.captured:
                self.captured[shape] = self._capture(frames, valid)
            return tuple(a[:, :t] if a.ndim > 1 else a for a in self.captured[shape](frames, valid))

    def _capture(self, frames: Tensor, valid: Tensor) -> Any:
        """A copy of the network's shell, around the same parameters, with its forward and backward pass captured."""
        network = self.network
        shell = Network(
            network.model,
            freeze_backbone=network.freeze_backbone,
            autocast=network.autocast,
            foretold=network.foretold,
        )
        shell.complete = network.complete
        buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        with others_may_allocate():
            made = torch.cuda.make_graphed_callables(
                shell, (frames.clone(), valid.clone()), allow_unused_input=True, pool=self.pool
            )
        with torch.no_grad():  # what was run for the capture did not count
            for name, buffer in network.named_buffers():
                buffer.copy_(buffers[name])
        return made
