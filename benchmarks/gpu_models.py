"""What the kernels gain in a training step of the small models that the studies train, beside plain PyTorch.

    python -m benchmarks.gpu_models                                   # all of them: some minutes
    python -m benchmarks.gpu_models --models horst_tiny --profile 15  # one, and which of its kernels take longest

A step is forward and backward in bf16 as one CUDA graph, without an optimiser; the kernels are what `backend: auto`
chooses for core and backbone. Nothing is timed before loss and gradients of all models agree in float32. On a CPU
(`--device cpu`) there are no graphs and no kernels: it shows that the program runs.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import timeit
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu_networks import relative
from benchmarks.gpu_report import table as markdown
from benchmarks.gpu_timing import NoFigureError, Work, exact, graphed, measure
from horst.models import create_model
from horst.ops.backend import Wanted
from horst.training.network import TrainingNetwork

MODELS = ("horst_tiny", "cnn3d_tiny", "conv_lstm_tiny", "conv_tt_lstm_tiny", "e3d_lstm_tiny")
KINDS: dict[str, Wanted] = {"plain": "reference", "kernels": "auto"}
HEAD = ("model", "plain PyTorch, ms", "kernels, ms", "times faster", "GiB plain", "GiB kernels")
LIMIT, TURNS = 1e-3, 3
console = Console()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, metavar="NAME")
    for name, value, told in (("batch", 48, "clips"), ("frames", 16, "of a clip"), ("size", 112, "of a frame")):
        parser.add_argument(f"--{name}", type=int, default=value, help=told)
    parser.add_argument("--repeats", type=int, default=10, help=f"steps that are timed, in each of {TURNS} turns")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="print the N kernels that take longest")
    parser.add_argument("--json", type=Path, help="write the figures there")
    args = parser.parse_args(argv)
    cuda = args.device == "cuda"
    if cuda and not torch.cuda.is_available():
        sys.exit("this benchmark needs an NVIDIA GPU; that it runs is shown by --device cpu")
    figures: dict[str, Any] = {name: getattr(args, name) for name in ("batch", "frames", "size")}
    figures["gpu"] = torch.cuda.get_device_name() if cuda else "CPU"
    figures |= {"torch": torch.__version__, "date": date.today().isoformat()}
    first = "{gpu}, torch {torch}, {date}, {batch} clips of {frames} frames of {size} x {size}"
    print(first.format(**figures), flush=True)
    with exact():
        figures["parity"] = parity(args)
    torch.backends.cudnn.benchmark = cuda
    figures["train"] = []
    rows = []
    for name in args.models:
        figures["train"].append(timed(name, args))
        rows.append(cells(figures["train"][-1]))
        print(*rows[-1], flush=True)  # what was measured is there even where a later model fails
        if args.json:
            args.json.write_text(json.dumps(figures, indent=1))
    print(f"\n{markdown(HEAD, rows)}", flush=True)
    for name in args.models if args.profile else ():
        if why := attempt(longest, name, args):
            print(f"{name}: there is no profile: {why}")


class Step:
    """Forward and backward of a model. A graph keeps the loss that it returns, so this holds on to nothing else."""

    def __init__(self, name: str, kind: str, clips: tuple[int, int], args: argparse.Namespace, *, half: bool) -> None:
        torch.manual_seed(0)  # the same weights and frames for both kinds
        options: dict[str, Any] = {"variant": "released"} if name == "horst_tiny" else {}
        model = create_model(name, num_classes=24, **options).to(args.device)
        model.core.use_backend(KINDS[kind])
        model.backbone.use_backend(KINDS[kind])
        self.network = TrainingNetwork(model, autocast=torch.bfloat16 if half else None)
        frames = torch.randint(0, 256, (*clips, 3, args.size, args.size), dtype=torch.uint8)  # RGB, as in training
        self.frames, self.valid = frames.to(args.device), torch.ones(clips, dtype=torch.bool, device=args.device)

    def __call__(self) -> Tensor:
        for p in self.network.parameters():
            p.grad = None
        loss = self.network(self.frames, self.valid)[0].float().square().mean()
        loss.backward()
        return loss.detach()


def parity(args: argparse.Namespace) -> list[dict[str, Any]]:
    rows, table = [], Table("model", "core", "backbone", "error of the loss", "of all gradients")
    for name in args.models:
        (plain, _), (ours, backends) = (outcome(name, kind, args) for kind in KINDS)
        # All gradients together: some are zero but for rounding. Tensor by tensor is what tests/ops/fused looks at.
        errors = relative(ours[:1], plain[:1]), relative(ours[1:], plain[1:])
        rows.append({"model": name, **backends, "loss": errors[0], "gradient": errors[1]})
        table.add_row(name, *backends.values(), *(f"{error:.1e}" for error in errors))
        if not all(error <= LIMIT for error in errors):  # nor if it is not a number
            console.print(table)
            told = "of the loss {:.1e}, of all gradients {:.1e}".format(*errors)
            sys.exit(f"{name}: the kernels do not compute the same (error {told}; limit {LIMIT}): nothing is timed")
        release()
    console.print(table)
    return rows


def outcome(name: str, kind: str, args: argparse.Namespace) -> tuple[list[Tensor], dict[str, str]]:
    """The loss and the gradient of each parameter, in float32, and what ran core and backbone."""
    step = Step(name, kind, (4, 6), args, half=False)
    loss, model = step(), step.network.model
    backends = {part: getattr(model, part).backend(step.frames.device).name for part in ("core", "backbone")}
    return [loss, *(torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters())], backends


def timed(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Of each kind the figures, or why there are none. Both are captured first and then timed in turns."""
    works = {kind: attempt(prepared, name, kind, args) for kind in KINDS}
    turns: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for kind, work in TURNS * list(works.items()):
        clock = measure if args.device == "cuda" else measure_on_cpu
        turns[kind].append(work if isinstance(work, str) else attempt(clock, work, args.repeats))
    row: dict[str, Any] = {"model": name}
    for kind, found in turns.items():
        failed = [f for f in found if isinstance(f, str)]
        row[kind] = failed[0] if failed else {key: statistics.median(f[key] for f in found) for key in found[0]}
    del works, work
    release()
    return row


def prepared(name: str, kind: str, args: argparse.Namespace) -> Work:
    release()
    step = Step(name, kind, (args.batch, args.frames), args, half=True)
    return graphed(step) if args.device == "cuda" else step


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    """What it returns, or a sentence: a model that finds no memory or fits no graph does not end the run."""
    try:
        return function(*args)
    except NoFigureError as error:
        return str(error)
    except Exception as error:
        traceback.print_exc()  # all of it, for who looks for the cause
        first = error.__context__ or error  # a capture that fails ends with an error of its own
        told = f"{type(first).__name__}: {first}"
        return "out of memory" if "out of memory" in told else told.partition("\n")[0][:100].replace("|", "/")


def measure_on_cpu(work: Work, repeats: int) -> dict[str, float]:
    ms = statistics.median(timeit.repeat(work, number=1, repeat=repeats))
    return {"ms": 1e3 * ms, "gib": 0.0}


def cells(row: dict[str, Any]) -> list[str]:
    found = [row[kind] for kind in KINDS]
    ms, gib = ([f"{f[key]:.2f}" if isinstance(f, dict) else "-" for f in found] for key in ("ms", "gib"))
    faster = "-" if "-" in ms else f"{found[0]['ms'] / found[1]['ms']:.2f}"
    return [row["model"], *(f if isinstance(f, str) else m for f, m in zip(found, ms, strict=True)), faster, *gib]


def release() -> None:
    """What is over goes now: garbage must not be collected, nor old nodes of autograd be met, while a graph records."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.set_stream(torch.cuda.default_stream())  # a capture that failed leaves its own
        with suppress(RuntimeError):  # and an allocator that gives nothing back
            torch.cuda.empty_cache()


def longest(name: str, args: argparse.Namespace) -> None:
    """The kernels that take longest in a step, which runs as it is: in a graph they would be nobody's."""
    step = Step(name, "kernels", (args.batch, args.frames), args, half=True)
    step()
    cuda = args.device == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]) as profiler:
        step()
        if cuda:
            torch.cuda.synchronize()
    key = "self_device_time_total" if cuda else "self_cpu_time_total"
    events: list[Any] = [e for e in profiler.key_averages() if e.device_type.name == args.device.upper()]
    events.sort(key=lambda e: -getattr(e, key))
    print(f"\n{name}: {sum(getattr(e, key) for e in events) / 1e3:.1f} ms in kernels\n      ms  count  kernel")
    for event in events[: args.profile]:
        print(f"{getattr(event, key) / 1e3:8.3f}  {event.count:5d}  {event.key[:100]}")
    del step, profiler
    release()


if __name__ == "__main__":
    main()
