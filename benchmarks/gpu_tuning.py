"""Finds the launch sizes of the kernels on this GPU, for the maps of the paper's networks: `horst.ops.fused.tuning`.

    python -m benchmarks.gpu_tuning [KERNEL ...]

For every kernel it times candidates of tile, warps and stages while all others stay as they are, and prints the best
beside the present one. Candidates are compiled by all cores before any is timed.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
from collections.abc import Callable
from typing import NamedTuple

import torch

from benchmarks.gpu_timing import graphed, measure
from horst.ops.fused import norm, statt
from horst.ops.fused.statt import AttentionForm, AttentionGrads, AttentionWeights, KVCache
from horst.ops.fused.tuning import LAUNCHES, Launch

SIZES = ((8, 56, 56, 128), (8, 56, 56, 256), (8, 28, 28, 512), (8, 14, 14, 512), (32, 8, 14, 1024))
"""B, H, W, C: the layers of the SSv2 network, and of the EK55 network."""
ORDER, FRAMES, CALLS = 8, 12, 10
WORK = {
    "logits": "attend", "combine": "attend", "reader": "reader", "entry": "entry", "query": "query",
    "norm": "norm", "norm_backward": "norm_backward", "norm_sums": "norm_backward",
}  # fmt: skip
"""What is timed for each kernel."""


class Candidate(NamedTuple):
    kernel: str
    launch: Launch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", default=[], help="all of HORST's layers by default")
    args = parser.parse_args()
    chosen = args.kernels or list(WORK)
    todo = [candidate for kernel in chosen for candidate in candidates(kernel)]
    with multiprocessing.get_context("spawn").Pool(max(1, (os.cpu_count() or 2) - 2)) as pool:
        works = set(pool.map(compiles, todo, chunksize=1))
    for kernel in chosen:
        present = LAUNCHES[kernel]
        times = {}
        for candidate in [c for c in todo if c.kernel == kernel and c in works]:
            LAUNCHES[kernel] = candidate.launch
            times[candidate.launch] = [measure(graphed(calls(kernel, size)), 5)["ms"] / CALLS for size in SIZES]
        LAUNCHES[kernel] = present
        best = sorted(times, key=lambda launch: score(times[launch], times[present]))
        print(f"{kernel}: present {tuple(present)} {told(times[present])}")
        for launch in best[:3]:
            print(f"    {tuple(launch)} {score(times[launch], times[present]):.3f} {told(times[launch])}", flush=True)


def candidates(kernel: str) -> list[Candidate]:
    if kernel == "norm_sums":  # its tile is that of a warp
        fits = list(itertools.starmap(Launch, itertools.product((512, 1024, 2048), (1, 2), (2, 4, 8, 16))))
    else:
        deep = (1,) if kernel.startswith("norm") else (1, 2, 3)
        grid = itertools.product((1024, 2048, 4096, 8192, 16384), (1, 2, 4, 8), deep)
        fits = [launch for launch in itertools.starmap(Launch, grid) if 8 <= launch.tile / (32 * launch.warps) <= 64]
    return [Candidate(kernel, launch) for launch in dict.fromkeys([LAUNCHES[kernel], *fits])]


def compiles(candidate: Candidate) -> Candidate | None:
    """In a process of its own; the result is kept on disk, where the timing finds it."""
    LAUNCHES[candidate.kernel] = candidate.launch
    try:
        for size in SIZES:
            calls(candidate.kernel, size)()
    except RuntimeError:  # more shared memory or registers than there are
        return None
    return candidate


def calls(kernel: str, size: tuple[int, int, int, int]) -> Callable[[], None]:
    """CALLS times the work, each on other data, so that little is found in the cache."""
    make = globals()[f"_{WORK[kernel]}"]
    work = make(*size)

    def run() -> None:
        for i in range(CALLS):
            work(i)

    return run


def score(times: list[float], present: list[float]) -> float:
    """Time of a step of both networks, relative: SSv2 has 24 frames of four layers, EK55 14 of two."""
    weights = (24, 24, 24, 24, 28)
    mine, now = (sum(w * t for w, t in zip(weights, column, strict=True)) for column in (times, present))
    return mine / now


def told(times: list[float]) -> str:
    return " ".join(f"{1e3 * t:6.1f}" for t in times) + " us"


def _maps(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


class _Queue:
    def __init__(self, b: int, h: int, w: int, c: int) -> None:
        p = h * w
        self.q, self.grad, self.out, self.total = (_maps(FRAMES, b, p, c) for _ in range(4))
        self.f_q = torch.rand(FRAMES, b, p, device="cuda")
        entries = FRAMES + ORDER
        self.memory = KVCache(
            _maps(entries, b, p, c), torch.rand(entries, b, p, device="cuda"), _maps(entries, b, p, c)
        )
        self.valid = torch.ones(FRAMES, b, ORDER, dtype=torch.uint8, device="cuda")
        self.weights = AttentionWeights(*(torch.rand_like(w) for w in AttentionWeights.empty(self.q, ORDER)))
        self.grads = AttentionGrads(*(torch.rand_like(w) for w in AttentionGrads.like(self.weights)))
        self.entry = KVCache(_maps(b, p, c), torch.rand(b, p, device="cuda"), _maps(b, p, c))
        self.how = AttentionForm((p * c) ** -0.5)


def _attend(*size: int) -> Callable[[int], object]:
    x = _Queue(*size)
    return lambda i: statt.attend(
        x.q[i], x.f_q[i], x.memory, x.valid[i], i, i, x.how, x.weights, x.out[i], x.grad[i], x.total[i]
    )


def _reader(*size: int) -> Callable[[int], object]:
    x = _Queue(*size)
    return lambda i: statt.attend_backward(
        x.grad[i], x.out[i], x.total[i], x.memory, x.valid[i], i, i, x.how, x.weights, x.grads
    )


def _entry(*size: int) -> Callable[[int], object]:
    x = _Queue(*size)
    return lambda i: statt.entry_backward(
        i + 4, x.grad, x.q, x.f_q, x.memory, ORDER, x.valid, x.weights, x.grads, x.entry, slope=True
    )


def _query(*size: int) -> Callable[[int], object]:
    x = _Queue(*size)
    return lambda i: statt.query_backward(x.f_q, x.memory, ORDER, x.valid, x.weights, x.grads)


def _norm(b: int, h: int, w: int, c: int) -> Callable[[int], object]:
    x, add, key, value = _maps(CALLS, b, h * w, 2 * c), _maps(b, h * w, 2 * c), *(_maps(b, h * w, c) for _ in "kv")
    weight, pooled = torch.rand(2 * c, device="cuda"), torch.rand(b, 3, h * w, device="cuda")
    return lambda i: norm.norm(x[i], weight, weight, (key, value), groups=2, add=add, pooled=pooled)


def _norm_backward(b: int, h: int, w: int, c: int) -> Callable[[int], object]:
    p = h * w
    x, d_x = (_maps(CALLS, b, p, 2 * c) for _ in range(2))
    d_key, d_value, key = (_maps(b, p, c) for _ in range(3))
    weight, filter_weight = torch.rand(2 * c, device="cuda"), torch.rand(2, 3, 3, device="cuda")
    pooled, slope = torch.rand(b, 3, p, device="cuda"), torch.rand(b, p, device="cuda")
    stats = torch.rand(b, 2, 2, device="cuda")

    def work(i: int) -> None:
        partials = stats.new_empty(b, norm.partial_blocks(p, 2 * c, 2), 2 * c, 2)
        given = norm.PooledGrad(slope, filter_weight, key, pooled, w)
        norm.norm_backward((d_key, d_value), x[i], stats, weight, weight, d_x[i], partials, groups=2, pooled_grad=given)

    return work


if __name__ == "__main__":
    main()
