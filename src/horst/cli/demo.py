"""`horst demo`: parity and speed on this machine, and the small trained models on new videos."""

import platform
from pathlib import Path

import horst
from horst.console import Console, working
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
    if min(frames, clips, videos) < 1 or streams < 0 or (threads is not None and threads < 1):
        raise InputError(
            f"clips is {clips}, videos {videos}, frames {frames}, threads {threads}: they start at 1; "
            f"streams is {streams}, from 0 on"
        )
    with working("loading torch"):
        import torch

        from horst.cli import demo_sections
        from horst.io import write_text
        from horst.viz.report import page
    if threads is not None:
        torch.set_num_threads(threads)
    console = Console()
    with torch.inference_mode():
        with working("comparing with the paper's release"):
            table, equal = demo_sections.parity_table()
        console.print(table)
        if not equal:
            raise HorstError("a parity check failed on this machine: please report the table above")
        with working("timing a step"):
            table = demo_sections.timings_table(frames)
        console.print(table)
    made = folder / f"somethings-{clips}-{seed}", folder / f"kitchen-{videos}-{seed}"
    sections = demo_sections.somethings_sections(made[0], clips, seed, streams, console)
    sections += demo_sections.kitchen_sections(made[1], videos, seed, console)
    intro = (
        "Two small models of the package on synthetic videos that were made just now. Made by horst demo, with horst "
        f"{horst.__version__}, torch {torch.__version__} and Python {platform.python_version()}."
    )
    report = folder / "report.html"
    write_text(report, page("horst: early recognition and anticipation", intro, sections))
    console.print(f"Look at {report}; next: horst train somethings/cpu")
