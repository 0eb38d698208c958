"""Times and memory of work on a GPU, and what the GPU can do at most."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

Work = Callable[[], object]


class NoFigureError(RuntimeError):
    """The work could not be measured: the message says why."""


@contextmanager
def exact() -> Iterator[None]:
    """Float32 as such, not TF32."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32
    cudnn.allow_tf32 = matmul.allow_tf32 = False
    try:
        yield
    finally:
        cudnn.allow_tf32, matmul.allow_tf32 = before


def measure(work: Work, repeats: int, warmup: int = 3) -> dict[str, float]:
    """Median and 95th percentile in ms, and the peak of memory in GiB."""
    try:
        for _ in range(warmup):
            work()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(repeats):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
    except torch.OutOfMemoryError as error:
        raise NoFigureError("out of memory") from error
    times.sort()
    # A graph's memory is reserved when it is captured, and nothing is allocated when it is replayed.
    gib = max(torch.cuda.max_memory_allocated(), getattr(work, "peak", 0)) / 2**30
    return {"ms": statistics.median(times), "p95": times[int(0.95 * (len(times) - 1))], "gib": gib}


class Graphed:
    """Work as one CUDA graph."""

    def __init__(self, work: Work) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                work()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        self.graph, self.work = torch.cuda.CUDAGraph(), work
        with torch.cuda.graph(self.graph):
            self.kept = work()
        self.peak = torch.cuda.max_memory_allocated()

    def __call__(self) -> None:
        self.graph.replay()


def graphed(work: Work) -> Graphed:
    try:
        return Graphed(work)
    except torch.OutOfMemoryError as error:
        raise NoFigureError("out of memory") from error


def ceilings() -> dict[str, float]:
    """Bandwidth of a copy in TB/s (read and written), and bf16 matrix products in TFLOP/s, of random numbers."""
    a = torch.randn(2**28, device="cuda")
    b = torch.empty_like(a)
    copy = measure(lambda: b.copy_(a), 10)["ms"]
    x, y = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    matmul = measure(lambda: x @ y, 10)["ms"]
    return {"copy": 2 * a.nbytes / copy / 1e9, "matmul": 2 * 8192**3 / matmul / 1e9}
