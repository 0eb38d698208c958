"""`horst teach`: a model from a few video files for each label."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from horst.cli.options import Flag, Source
from horst.console import Console, progress

if TYPE_CHECKING:
    from horst.finetune import FinetuneProgress


def teach(
    folder: Path,
    model: Path,
    /,
    *,
    how: Literal["frozen", "scratch"] = "frozen",
    minutes: float = 1.0,
    base: Source = "somethings",
    overwrite: Flag = False,
) -> None:
    """Finetune a model on a folder of video clips by label, and save it.

    Args:
        folder: FOLDER/<label>/*.mp4: a few clips of 2 to 4 s for each label.
        model: Folder that the model is saved to.
        how: Train a new head on a frozen model, or a small network from scratch.
        minutes: How long it may take, approximately.
        base: With frozen: the model that gets a new head.
        overwrite: Replace an existing model.
    """
    from horst.finetune import finetune

    with progress(transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("reading", total=100)

        def report(now: FinetuneProgress) -> None:
            bar.update(task, completed=round(100 * now.fraction), description=now.message)

        result = finetune(folder, model, how=how, minutes=minutes, base=base, overwrite=overwrite, report=report)
    console = Console(highlight=False)
    console.print(f"{result.path}: {', '.join(result.labels)}; {result.clips} clips, {result.seconds:.0f} s")
    if result.held_out:
        console.print(f"held-out clips classified correctly: {result.held_out.correct} of {result.held_out.clips}")
