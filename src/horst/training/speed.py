"""What `auto` stands for in a run: the precision and CUDA graphs that are fastest on the machine that trains.

And `cpu_threads` and `be_deterministic`, which a run may ask for.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from horst.training.config import Precision, RunConfig, TrainerOptions


def resolve(config: RunConfig) -> tuple[RunConfig, list[str]]:
    """The run without `auto` in its precision and graphs, and a sentence about each. Its folder gets this config."""
    precision, why = _precision(config.trainer)
    graphs, why_graphs = _graphs(config.trainer)
    chosen = replace(config, trainer=replace(config.trainer, precision=precision, graphs=graphs))
    return chosen, [f"precision {precision}: {why}", f"CUDA graphs {'on' if graphs else 'off'}: {why_graphs}"]


@contextmanager
def cpu_threads(count: int | None) -> Iterator[None]:
    """Let torch use this many threads on the CPU; None: as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def be_deterministic() -> None:
    """Let all that follows in this process use deterministic algorithms, where there are any."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False


def chosen_as(config: RunConfig, run: RunConfig) -> RunConfig:
    """The config with the choices of a run that was trained, perhaps on another machine, where it says `auto`."""
    wanted, done = config.trainer, run.trainer
    return replace(
        config,
        trainer=replace(
            wanted,
            precision=done.precision if wanted.precision == "auto" else wanted.precision,
            graphs=done.graphs if wanted.graphs == "auto" else wanted.graphs,
        ),
    )


def _gpu(options: TrainerOptions) -> torch.device | None:
    return torch.device("cuda") if options.accelerator in ("auto", "cuda") and torch.cuda.is_available() else None


def _precision(options: TrainerOptions) -> tuple[Precision, str]:
    if options.precision != "auto":
        return options.precision, "requested"
    gpu = _gpu(options)
    if gpu is None:
        return "32-true", "bf16 is for NVIDIA GPUs"
    name = torch.cuda.get_device_name(gpu)
    if torch.cuda.get_device_capability(gpu) < (8, 0):
        return "32-true", f"{name} does not compute in bf16"
    return "bf16-mixed", f"{name} computes in bf16; --trainer.precision 32-true for float32"


def _graphs(options: TrainerOptions) -> tuple[bool, str]:
    if options.graphs != "auto":
        return options.graphs, "requested"
    if _gpu(options) is None:
        return False, "they are for NVIDIA GPUs"
    if options.accumulate > 1:
        return False, f"they cannot accumulate gradients, and trainer.accumulate is {options.accumulate}"
    if options.window is not None:
        return False, "a step of several windows cannot be captured"
    return True, "the step is captured once for each clip length"
