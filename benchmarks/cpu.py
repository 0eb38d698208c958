"""What a frame costs on a CPU: the step in torch and in onnxruntime, and MoViNet-A0-Stream beside them.

    python -m benchmarks.cpu [--movinet FOLDER]

All are timed in turns in one process, so that their ratios hold on a machine whose speed varies. `--movinet`: a copy of
github.com/Atze00/MoViNet-pytorch, with its dependencies fvcore and einops in FOLDER/deps or installed; its weights are
random.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

import horst
from horst.models.summary import summarize

MOVINET_SIZE = 172  # of A0
Step = Callable[[], object]


def ours(name: str, batch: int, engine: str) -> Step:
    model = horst.open_model(name)
    step = horst.BatchedStep(model, batch, engine=engine)  # type: ignore[arg-type]
    frames = torch.randint(256, (batch, 3, *model.size)).to(torch.uint8)
    return lambda: step(frames)


def restarted(name: str, streams: int, engine: str) -> Step:
    """Streams of three states that see the same frame, as the server's default for cameras."""
    model = horst.open_model(name)
    step = horst.BatchedStep(model, 3 * streams, engine=engine)  # type: ignore[arg-type]
    frames = torch.randint(256, (3 * streams, 3, *model.size)).to(torch.uint8)
    rows = range(3 * streams)
    return lambda: step(frames, rows, first=[3 * (row // 3) for row in rows])


def movinet(folder: Path, batch: int) -> tuple[Step, float]:
    """A frame of MoViNet-A0-Stream, and its GFLOP."""
    sys.path[:0] = [str(folder), str(folder / "deps")]
    from movinets import MoViNet  # type: ignore[import-not-found]
    from movinets.config import _C  # type: ignore[import-not-found]

    model = MoViNet(_C.MODEL.MoViNetA0, causal=True, conv_type="2plus1d", tf_like=True).eval()
    frames = torch.rand(batch, 3, 1, MOVINET_SIZE, MOVINET_SIZE)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        model(frames)
    model.clean_activation_buffers()

    def step() -> None:
        with torch.inference_mode():
            model(frames)

    return step, counter.get_total_flops() / batch / 1e9


def timed(steps: dict[str, Step], seconds: float) -> dict[str, float]:
    """Median seconds of each, in turns."""
    durations: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
        step()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            durations[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in durations.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="somethings")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=6.0, help="for each row")
    parser.add_argument("--movinet", type=Path)
    args = parser.parse_args()
    gflop = summarize(horst.open_model(args.model).config).flop / 1e9
    names = ["torch", "onnxruntime", "3 states, torch", "3 states, onnxruntime"]
    other = 0.0
    print(f"ms a frame of one stream, {args.model}: {gflop:.3f} GFLOP")
    for threads in args.threads:
        torch.set_num_threads(threads)
        for batch in args.batches:
            steps = {name: ours(args.model, batch, name) for name in names[:2]}
            steps |= {name: restarted(args.model, batch, name.split(", ")[1]) for name in names[2:]}
            if args.movinet:
                steps["MoViNet-A0"], other = movinet(args.movinet, batch)
            found = timed(steps, args.seconds)
            cells = (f"{name} {1e3 * value / batch:.2f}" for name, value in found.items())
            print(f"{threads} threads, {batch:2} streams:", "; ".join(cells), flush=True)
    if other:
        print(f"MoViNet-A0-Stream, {MOVINET_SIZE} pixels: {other:.3f} GFLOP")


if __name__ == "__main__":
    main()
