"""`horst teach`: a model from a few video files for each label."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from horst.cli.options import Flag, Source
from horst.console import Console, progress
from horst.errors import DataError, EmptyVideoError

if TYPE_CHECKING:
    from horst.data.clips import Clip
    from horst.finetune.lesson import Progress
    from horst.finetune.recordings import RecordingLimits

SUFFIXES = (".mp4", ".webm", ".mov", ".mkv", ".avi")


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
    from horst.finetune.teach import teach

    options = {"how": how, "minutes": minutes, "base": base, "overwrite": overwrite}
    with progress(transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("reading", total=100)

        def report(now: Progress) -> None:
            bar.update(task, completed=round(100 * now.part), description=now.message)

        taught = teach(labelled_videos(folder), model, report=report, **options)  # type: ignore[arg-type]
    console = Console(highlight=False)
    console.print(f"{taught.path}: {', '.join(taught.labels)}; {taught.clips} clips, {taught.seconds:.0f} s")
    if taught.trial:
        console.print(f"held-out clips classified correctly: {taught.trial.right} of {taught.trial.clips}")


def labelled_videos(folder: Path) -> dict[str, list[Callable[[], Clip]]]:
    """The clips of a folder by label, each read when it is called."""
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; it takes one with a folder of clips for each label")
    found: dict[str, list[Callable[[], Clip]]] = {}
    for label in sorted(entry for entry in folder.glob("*") if entry.is_dir()):
        files = sorted(file for file in label.iterdir() if file.suffix.lower() in SUFFIXES)
        if files:
            found[label.name] = [partial(read_clip, file) for file in files]
    return found


def read_clip(file: Path, limits: RecordingLimits | None = None) -> Clip:
    """The first seconds of a video, as small as a recording."""
    import numpy as np

    from horst.data.clips import Clip
    from horst.finetune.recordings import RecordingLimits
    from horst.video.decode import VideoFile

    limits = limits or RecordingLimits()
    with VideoFile(file, size=(limits.side, limits.side), threads=1) as video:
        frames = list(video.frames(0.0, limits.longest))
    if not frames:
        raise EmptyVideoError(file, "no frame decodes")
    return Clip(np.stack([frame.image for frame in frames]), np.asarray([frame.time for frame in frames]))
