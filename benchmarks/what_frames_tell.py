"""How much of `somethings` single frames give away, and how much the clips tell over the observed fraction.

    python -m benchmarks.what_frames_tell [--clips 12000] [--size 64] [--alone 0.25 0.5 1.0] [--device cuda]

Draws clips, trains a small 2D network on the frame at each of some places, a small 3D network on prefixes of random
length, and a larger one on each of some prefixes alone. The first frame should stay within twice chance, the best
single frame far below the whole clip; and whole clips should be nearly solvable.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from horst.synth import somethings

DRAWN, FRAMES, BATCH = 64, 32, 64
"""Frames kept of a clip, at even distances; how many of an observed part a network is shown; clips of a step."""
SHORTEST = 0.15
"""The least that a network for prefixes of any length is trained on."""
PLACES = [0.0, 0.25, 0.4, 0.55, 1.0]
OBSERVED = (0.25, 0.5, 0.75, 1.0)
ALONE = [0.25, 0.5, 1.0]
SMALL, LARGE = (32, 64, 128, 192), (48, 96, 192, 256, 256)
"""Widths of the networks. The first four layers halve a picture, and all of them but the first the time."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=12_000)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--places", type=float, nargs="*", default=PLACES, help="single frames to look at, 0 to 1")
    parser.add_argument("--alone", type=float, nargs="*", default=ALONE, help="prefixes to train on alone, up to 1")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    start = time.time()
    specs = somethings.plan(args.clips, args.seed)
    with get_context("spawn").Pool(os.cpu_count()) as pool:
        clips = pool.map(partial(draw, size=args.size), specs, chunksize=16)
    x = torch.from_numpy(np.stack(clips)).to(args.device)  # (N, DRAWN, H, W, 3)
    y = torch.tensor([somethings.LABELS[s.template] for s in specs], device=args.device)
    val = torch.tensor([s.split == "val" for s in specs], device=args.device)
    print(f"{args.clips} clips of {args.size} px, seed {args.seed}, drawn in {time.time() - start:.0f} s; ", end="")
    print(f"chance {100 / len(somethings.TEMPLATES):.1f}%; {int(val.sum())} for validation", flush=True)
    for place in args.places:
        frame = x[:, round(place * (x.shape[1] - 1))].unsqueeze(1)
        accuracy = fit(frame, y, val, args.epochs)[1.0]
        print(f"the frame at {100 * place:3.0f}% of a clip: {100 * accuracy:.1f}%", flush=True)
    for observed, accuracy in fit(x, y, val, args.epochs, shortest=SHORTEST, tried=OBSERVED).items():
        print(f"the first {100 * observed:3.0f}% of a clip: {100 * accuracy:.1f}%", flush=True)
    for observed in args.alone:
        accuracy = fit(x[:, : frames_of(x, observed)], y, val, args.epochs, widths=LARGE)[1.0]
        print(f"trained on the first {100 * observed:3.0f}% alone: {100 * accuracy:.1f}%", flush=True)
    print(f"{time.time() - start:.0f} s in all")


def draw(spec: somethings.ClipSpec, size: int) -> Any:
    """DRAWN frames at even distances."""
    frames = somethings.render(spec, size=size)
    return frames[np.linspace(0, len(frames) - 1, DRAWN).round().astype(int)]


class Network(nn.Module):
    """Convolutions over space and, for more than one frame, time; the mean of the last map gives the class."""

    def __init__(self, classes: int, widths: Sequence[int], *, over_time: bool) -> None:
        super().__init__()
        depth = 3 if over_time else 1
        layers: list[nn.Module] = []
        for i, (a, b) in enumerate(pairwise((3, *widths))):
            halve = 2 if i < 4 else 1
            stride = (halve if over_time and i else 1, halve, halve)
            layers += [
                nn.Conv3d(a, b, (depth, 3, 3), stride, (depth // 2, 1, 1), bias=False),
                nn.BatchNorm3d(b),
                nn.ReLU(),
            ]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.dropout(self.body(x).mean((2, 3, 4)), 0.3, self.training))


def fit(
    x: Tensor,
    y: Tensor,
    val: Tensor,
    epochs: int,
    *,
    widths: Sequence[int] = SMALL,
    shortest: float = 1.0,
    tried: Sequence[float] = (1.0,),
) -> dict[float, float]:
    """Validation accuracy by the observed fraction of `x`, for one network trained on `shortest` to all of it."""
    torch.manual_seed(0)
    network = Network(len(somethings.TEMPLATES), widths, over_time=x.shape[1] > 1).to(x.device)
    train, held = (~val).nonzero()[:, 0], val.nonzero()[:, 0]
    steps = max(1, epochs * (len(train) // BATCH))
    optimiser = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    for _ in range(steps):
        at = train[torch.randint(len(train), (BATCH,), device=x.device)]
        observed = float(torch.rand(()) * (1 - shortest) + shortest) if shortest < 1 else 1.0
        with torch.autocast(x.device.type, torch.bfloat16):
            loss = F.cross_entropy(network(prepared(x, at, observed, shift=True)), y[at], label_smoothing=0.05)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    network.eval()
    found = {}
    with torch.inference_mode(), torch.autocast(x.device.type, torch.bfloat16):
        for observed in tried:
            right = sum(int((network(prepared(x, at, observed)).argmax(1) == y[at]).sum()) for at in held.split(128))
            found[observed] = right / len(held)
    return found


def frames_of(x: Tensor, observed: float) -> int:
    return max(1, round(observed * x.shape[1]))


def prepared(x: Tensor, at: Tensor, observed: float, *, shift: bool = False) -> Tensor:
    """(B, 3, T, H, W) in -1..1: the first `observed` of some clips, moved a little in training."""
    count = min(FRAMES, x.shape[1])
    chosen = torch.linspace(0, frames_of(x, observed) - 1, count, device=x.device).round().long()
    clips = x[at[:, None], chosen].permute(0, 4, 1, 2, 3).float() / 127.5 - 1
    if shift:
        clips = clips.roll(tuple(int(d) for d in torch.randint(-4, 5, (2,))), (3, 4))
    return clips


if __name__ == "__main__":
    main()
