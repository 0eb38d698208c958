"""`horst demo`: parity and speed on this machine, and the small trained models on new videos."""

import platform
import statistics
import time
from pathlib import Path

from rich.table import Table
from rich.text import Text

import horst
from horst.console import Console, new_table
from horst.errors import HorstError, InputError


def demo(
    *,
    folder: Path = Path("horst-demo"),
    clips: int = 96,
    videos: int = 4,
    seed: int = 1000,
    streams: int = 4,
    frames: int = 100,
    threads: int | None = None,
) -> None:
    """See it work: parity with the paper's release, the time of a step, and small trained models on new videos.

    Args:
        folder: Folder of the clips, the videos and the report.
        clips: Number of synthetic clips for early recognition.
        videos: Number of synthetic kitchen videos for anticipation.
        seed: Another seed makes other videos; the models were trained with seed 0.
        streams: How many of the clips to stream frame by frame.
        frames: Number of frames to time.
        threads: CPU threads; torch's default by default.
    """
    import torch

    from horst.cli.demo_sections import kitchen_sections, somethings_sections
    from horst.compat.parity import LIMIT
    from horst.io import write_text
    from horst.viz.report import page

    if min(frames, clips, videos) < 1 or streams < 0 or (threads is not None and threads < 1):
        raise InputError(
            f"clips is {clips}, videos {videos}, frames {frames}, threads {threads}: they start at 1; "
            f"streams is {streams}, from 0 on"
        )
    if threads is not None:
        torch.set_num_threads(threads)
    console = Console()
    with torch.inference_mode():
        errors = _errors()
        console.print(_parity(errors, LIMIT))
        if not max(errors.values()) <= LIMIT:
            raise HorstError("a parity check failed on this machine: please report the table above")
        console.print(_timings(frames))
    sections = somethings_sections(folder / f"somethings-{clips}-{seed}", clips, seed, streams, console)
    sections += kitchen_sections(folder / f"kitchen-{videos}-{seed}", videos, seed, console)
    intro = (
        "Two small models of the package on synthetic videos that were made just now. Made by horst demo, with horst "
        f"{horst.__version__}, torch {torch.__version__} and Python {platform.python_version()}."
    )
    report = folder / "report.html"
    write_text(report, page("horst: early recognition and anticipation", intro, sections))
    console.print(f"Look at {report}; next: horst train somethings/cpu")


def _errors() -> dict[str, float]:
    import torch

    from horst.compat.parity import against_release, clip_and_steps

    errors = {f"official release: {name}": error for name, error in against_release().items()}
    torch.manual_seed(0)
    clip = torch.randint(0, 256, (1, 20, 3, 112, 112), dtype=torch.uint8)
    for variant in ("paper", "released"):
        model = horst.create_model("horst_tiny", variant=variant).eval()
        for name, error in clip_and_steps(model, clip).items():
            errors[f"{variant} variant: whole clip = {name}"] = error
    return errors


def _parity(errors: dict[str, float], limit: float) -> Table:
    table = new_table("Parity: relative error in fp32", "check", "error", "")
    for name, error in errors.items():
        table.add_row(name, f"{error:.1e}", Text("equal", "green") if error <= limit else Text("DIFFERS", "red"))
    return table


def _timings(frames: int) -> Table:
    import torch

    title = f"Streaming horst_tiny, frames of 112x112, {torch.get_num_threads()} CPU threads"
    table = new_table(title, "variant", "ms/frame", "p95", "frames/s", "parameters", "state")
    for variant in ("paper", "released"):
        model = horst.create_model("horst_tiny", variant=variant).eval()
        size = sum(p.numel() for p in model.parameters())
        state = model.init_state(1, 112, 112)
        taken = []
        for frame in torch.randint(0, 256, (frames + 10, 1, 3, 112, 112), dtype=torch.uint8):
            start = time.perf_counter()
            _, state = model.step(frame, state)
            taken.append(1e3 * (time.perf_counter() - start))
        taken = sorted(taken[10:])  # the first ones warm up
        median, p95 = statistics.median(taken), taken[int(0.95 * (len(taken) - 1))]
        speed = f"{median:.1f}", f"{p95:.1f}", f"{1e3 / median:.0f}"
        table.add_row(variant, *speed, f"{size / 1e6:.2f} M", f"{state.nbytes / 1e6:.1f} MB")
    return table
