"""How much keeping keys and values saves: the SSv2 network of the paper against the release's algorithm, on a CPU.

    python -m benchmarks.cached_keys [--variant released] [--frames 10] [--repeats 2]

Both run the same weights on the same input in one process, in turns, and their outputs are compared before anything is
timed. The backbone is left out: it is the same for both.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.release_algorithm import RecomputingCore
from horst.layers import HORST
from horst.models import model_config
from horst.parity import LIMIT, relative_error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=("paper", "released"), default="released")
    parser.add_argument("--frames", type=int, default=10, help="frames to stream in the steady state (default: 10)")
    parser.add_argument("--clip", type=int, default=24, help="frames of the training clip (default: 24)")
    parser.add_argument("--repeats", type=int, default=2, help="training steps of each (default: 2)")
    args = parser.parse_args()
    torch.manual_seed(0)
    core = HORST(model_config("horst_ssv2", variant=args.variant).core)
    release = RecomputingCore(core)
    x = torch.randn(1, args.clip, 128, 56, 56)
    print(f"SSv2 network, {args.variant} variant, S = {core.config.order}, batch 1, {torch.get_num_threads()} threads")
    check(core, release, x[:, : core.config.order + 4])
    stream(core, release, x, args.frames)
    train(core, release, x, args.repeats)


@torch.inference_mode()
def check(core: HORST, release: RecomputingCore, x: Tensor) -> None:
    error = relative_error(core(x)[0].y, release(x))
    print(f"parity over {x.shape[1]} frames: relative error {error:.1e}")
    if not error <= LIMIT:
        sys.exit("the two do not compute the same: nothing is timed")


@torch.inference_mode()
def stream(core: HORST, release: RecomputingCore, x: Tensor, frames: int) -> None:
    """One frame at a time, once the queue is full."""
    order = core.config.order
    _, state = core(x[:, :order])
    queues = None
    for t in range(order):
        _, queues = release.step(x[:, t], queues)
    frame = x[:, order]
    report(
        "a frame of a stream",
        in_turns(lambda: core.step(frame, state), lambda: release.step(frame, queues), frames, warmup=2),
    )


def train(core: HORST, release: RecomputingCore, x: Tensor, repeats: int) -> None:
    """Forward and backward, loss on the last frame."""

    def ours() -> None:
        core.zero_grad()
        core(x)[0].y[:, -1].square().mean().backward()

    def theirs() -> None:
        release.zero_grad()
        release(x)[:, -1].square().mean().backward()

    report(f"a training step on {x.shape[1]} frames", in_turns(ours, theirs, repeats, warmup=0))


def in_turns(a: Callable[[], object], b: Callable[[], object], repeats: int, warmup: int) -> list[tuple[float, float]]:
    """Seconds of a and b, measured one after the other so that a busy machine slows both."""
    for _ in range(warmup):
        a(), b()
    return [(seconds(a), seconds(b)) for _ in range(repeats)]


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def report(what: str, times: list[tuple[float, float]]) -> None:
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratios = sorted(b / a for a, b in times)
    print(
        f"{what}: kept {1e3 * ours:.0f} ms, recomputed {1e3 * theirs:.0f} ms, "
        f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f} over {len(times)})"
    )


if __name__ == "__main__":
    main()
