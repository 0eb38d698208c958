"""How fast the kernels are on a GPU, beside plain PyTorch, the release's algorithm and the floor, in one run.

    python -m benchmarks.gpu                        # everything: some minutes
    python -m benchmarks.gpu --only parity train    # parts of it
    python -m benchmarks.gpu --json figures.json

Nothing is timed before the same build has passed its parity checks. Times are medians of device events; a step is
forward and backward in bf16 with a loss on the last frame, without an optimiser.

Sections: ceilings (what the GPU can do), parity, train (the networks of the paper), stream (one frame at a time),
scaling (over frames T and order S), run (`benchmarks.gpu_run`: a whole training run and its start).
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from datetime import date
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import gpu_networks as networks
from benchmarks import gpu_run
from benchmarks.gpu_timing import NoFigureError, ceilings, graphed, measure
from benchmarks.release_algorithm import RecomputingCore
from horst.layers import HORST
from horst.models import BatchedStep, create_model
from horst.ops import backend

SECTIONS = ("ceilings", "parity", "train", "stream", "scaling", "run")
ORDERS, FRAMES = (1, 3, 8, 12, 16), (6, 12, 24, 48)
BATCHES = (1, 16, 64)
console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--slow", action="store_true", help="also time the release's algorithm, which takes long")
    parser.add_argument("--json", type=Path, help="write the figures there")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs an NVIDIA GPU; on a CPU: python -m benchmarks.cached_keys")
    torch.backends.cudnn.benchmark = True
    figures: dict[str, Any] = {
        "date": date.today().isoformat(),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "command": "python -m benchmarks.gpu" + (" --slow" if args.slow else ""),
    }
    console.print(f"{figures['gpu']}, torch {figures['torch']}, {backend.choose(torch.device('cuda'))}")
    figures["ceilings"] = ceilings()
    console.print("copy {copy:.2f} TB/s, bf16 matrix product {matmul:.0f} TFLOP/s".format(**figures["ceilings"]))
    for section in args.only:
        if section != "ceilings":
            figures[section] = globals()[section](args, figures["ceilings"])
            if args.json:  # what was measured is there even where a later section fails
                args.json.write_text(json.dumps(figures, indent=1))


def parity(args: argparse.Namespace, limits: dict[str, float]) -> list[dict[str, Any]]:
    rows = []
    table = Table("network", "fp32 error", "worst", "bf16 error of y", "plain PyTorch's", "of all gradients", "plain's")
    for variant in ("released", "paper"):
        found = networks.parity(variant)
        rows.append({"variant": variant, **found})
        errors = (found[k] for k in ("y", "plain_y", "gradient", "plain_gradient"))
        table.add_row(variant, f"{found['exact']:.1e}", found["worst"], *(f"{e:.1e}" for e in errors))
        if not (found["exact"] <= 1e-4 and found["y"] <= 2 * found["plain_y"]):
            console.print(table)
            sys.exit("the kernels do not compute the same: nothing is timed")
    console.print(table)
    return rows


def train(args: argparse.Namespace, limits: dict[str, float]) -> list[dict[str, Any]]:
    rows = []
    for net in networks.NETWORKS:
        floor = networks.floor_ms(net, limits)
        table = Table(
            f"{net.name}, {net.batch} x {net.frames} frames",
            "ms / step",
            "frames/s",
            "GiB",
            "x floor",
            title_justify="left",
        )
        kinds = ["plain", "kernels", "kernels, one CUDA graph"]
        if args.slow:
            kinds.insert(0, "release's algorithm")
        for kind in kinds:
            core, x = net.core(), net.input()
            core.use_backend("triton" if kind.startswith("kernels") else "reference")
            module = RecomputingCore(core).cuda() if kind.startswith("release") else core
            try:
                step = networks.Step(module, x)
                repeats = args.repeats if kind.startswith("kernels") else 3
                found = measure(graphed(step) if kind.endswith("graph") else step, repeats)
            except NoFigureError as error:
                table.add_row(kind, str(error))
                continue
            finally:
                del core, module
                torch.cuda.empty_cache()
            rows.append({"network": net.name, "kind": kind, "floor_ms": floor, **found})
            frames = net.batch * net.frames / found["ms"] * 1e3
            table.add_row(
                kind, f"{found['ms']:.1f}", f"{frames:.0f}", f"{found['gib']:.1f}", f"{found['ms'] / floor:.2f}"
            )
        table.add_row("floor", f"{floor:.1f}")
        console.print(table)
    return rows


@torch.inference_mode()
def stream(args: argparse.Namespace, limits: dict[str, float]) -> list[dict[str, Any]]:
    rows = []
    table = Table("streams of the SSv2 network, 224 x 224", "plain ms", "kernels ms", "p95", "frames/s")
    model = create_model("horst_ssv2", num_classes=41, variant="released").cuda().eval()
    for count in BATCHES:
        frames = torch.randint(0, 256, (count, 3, 224, 224), dtype=torch.uint8, device="cuda")
        state = model.init_state(count, 224, 224)
        with torch.autocast("cuda", torch.bfloat16):
            plain = measure(lambda f=frames, s=state: model.step(f, s), 20)  # type: ignore[misc]
        del state
        streams = BatchedStep(model, count)
        ours = measure(lambda f=frames, s=streams: s(f), 20 * args.repeats)  # type: ignore[misc]
        rows.append({"streams": count, "plain_ms": plain["ms"], **ours})
        row = (plain["ms"], ours["ms"], ours["p95"])
        table.add_row(str(count), *(f"{v:.2f}" for v in row), f"{1e3 * count / ours['ms']:.0f}")
        del streams
        torch.cuda.empty_cache()
    console.print(table)
    return rows


def scaling(args: argparse.Namespace, limits: dict[str, float]) -> list[dict[str, Any]]:
    """Of one layer of 256 channels on maps of 28 x 28, batch 8."""
    rows = []
    table = Table("S", *(f"T = {t}" for t in FRAMES), title="a layer of 256 channels, ms / step", title_justify="left")
    for order in ORDERS:
        cells = []
        for frames in FRAMES:
            core = HORST(in_channels=256, hidden=(256,), order=order, variant="released").cuda()
            core.use_backend("triton")
            found = measure(graphed(networks.Step(core, networks.channels_last(8, frames, 256, 28, 28))), args.repeats)
            rows.append({"order": order, "frames": frames, "ms": found["ms"]})
            cells.append(f"{found['ms']:.2f}")
            torch.cuda.empty_cache()
        table.add_row(str(order), *cells)
    console.print(table)
    return rows


def run(args: argparse.Namespace, limits: dict[str, float]) -> list[dict[str, Any]]:
    return gpu_run.twice()


if __name__ == "__main__":
    main()
