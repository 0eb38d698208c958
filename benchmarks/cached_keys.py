"""How much keeping keys and values saves: the SSv2 network of the paper against the release's algorithm, on a CPU.

    python -m benchmarks.cached_keys [--variant released] [--frames 10] [--repeats 3]

Both run the same weights on the same frames in one process, in turns, and their outputs are compared before anything is
timed. They share the stem, the attention code and everything else but the keys and values.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.release_algorithm import RecomputingCore
from horst.compat.parity import LIMIT, relative_error
from horst.layers import HORST
from horst.models import Predictor, create_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=("paper", "released"), default="released")
    parser.add_argument("--frames", type=int, default=10, help="frames to stream in the steady state (default: 10)")
    parser.add_argument("--clip", type=int, default=24, help="frames of the training clip (default: 24)")
    parser.add_argument("--repeats", type=int, default=3, help="training steps of each (default: 3)")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = create_model("horst_ssv2", variant=args.variant)
    assert isinstance(model.core, HORST)
    release = RecomputingCore(model.core)
    clip = torch.randint(0, 256, (1, args.clip, 3, *model.size), dtype=torch.uint8)
    threads, load = torch.get_num_threads(), os.getloadavg()[0]
    print(f"SSv2 network, {args.variant} variant, S = {model.core.config.order}, batch 1, {threads} threads")
    print(f"load of the machine before: {load:.1f}" + (" (busy: do not trust the ratios)" if load > 1 else ""))
    check(model, release, clip[:, : model.core.config.order + 4])
    stream(model, release, clip, args.frames)
    train(model, release, clip, args.repeats)


def stem(model: Predictor, clip: Tensor) -> Tensor:
    return model.backbone(clip.flatten(0, 1)).unflatten(0, clip.shape[:2])


@torch.inference_mode()
def check(model: Predictor, release: RecomputingCore, clip: Tensor) -> None:
    error = relative_error(model(clip)[0].core.y, release(stem(model, clip)))
    print(f"parity over {clip.shape[1]} frames: relative error {error:.1e}")
    if not error <= LIMIT:
        sys.exit("the two do not compute the same: nothing is timed")


@torch.inference_mode()
def stream(model: Predictor, release: RecomputingCore, clip: Tensor, frames: int) -> None:
    """One frame at a time, once the queue is full."""
    order = model.core.config.order
    _, state = model(clip[:, :order])
    queues = None
    for x in stem(model, clip[:, :order]).unbind(1):
        _, queues = release.step(x, queues)
    frame = clip[:, order]
    times = in_turns(
        lambda: model.step(frame, state), lambda: release.step(model.backbone(frame), queues), frames, warmup=2
    )
    report("a frame of a stream", times)


def train(model: Predictor, release: RecomputingCore, clip: Tensor, repeats: int) -> None:
    """Forward and backward, loss on the last frame."""

    def ours() -> None:
        model.zero_grad()
        model(clip)[0].core.y[:, -1].square().mean().backward()

    def theirs() -> None:
        model.zero_grad()
        release.zero_grad()
        release(stem(model, clip))[:, -1].square().mean().backward()

    report(f"a training step on {clip.shape[1]} frames", in_turns(ours, theirs, repeats, warmup=0))


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
