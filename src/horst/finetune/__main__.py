"""Teach from video files: python -m horst.finetune FOLDER MODEL, where FOLDER has a folder of videos for each label."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from horst.console import Console, visible
from horst.data.clips import Clip
from horst.errors import EmptyVideoError, HorstError
from horst.finetune.lesson import Progress
from horst.finetune.recordings import RecordingLimits
from horst.finetune.teach import teach
from horst.video.decode import VideoFile

SUFFIXES = (".mp4", ".webm", ".mov", ".mkv", ".avi")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m horst.finetune", description=__doc__)
    parser.add_argument("folder", type=Path, help="FOLDER/<label>/*.mp4, a few clips of 2 to 4 s for each label")
    parser.add_argument("model", type=Path, help="the folder that the model is saved to")
    parser.add_argument("--how", choices=("frozen", "scratch"), default="frozen")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--base", default="somethings", help="frozen: the model that gets a new head")
    parser.add_argument("--overwrite", action="store_true", help="replace a model that is there")
    args = parser.parse_args()
    options = {"how": args.how, "minutes": args.minutes, "base": args.base, "overwrite": args.overwrite}
    try:
        taught = teach(videos(args.folder), args.model, report=_show, **options)
    except HorstError as error:
        sys.exit(f"horst.finetune: {visible(str(error), lines=False)}")
    print("\r", end="", file=sys.stderr)
    console = Console(highlight=False)
    console.print(f"{taught.path}: {', '.join(taught.labels)}; {taught.clips} clips, {taught.seconds:.0f} s".ljust(60))
    if taught.trial:
        console.print(f"held-out clips named rightly: {taught.trial.right} of {taught.trial.clips}")


def videos(folder: Path) -> dict[str, list[Callable[[], Clip]]]:
    """The clips of a folder by label, to be read when they are called."""
    found: dict[str, list[Callable[[], Clip]]] = {}
    for label in sorted(entry for entry in folder.glob("*") if entry.is_dir()):
        files = sorted(file for file in label.iterdir() if file.suffix.lower() in SUFFIXES)
        if files:
            found[label.name] = [partial(read, file) for file in files]
    return found


def read(file: Path, limits: RecordingLimits | None = None) -> Clip:
    """The first seconds of a video, as small as a recording."""
    limits = limits or RecordingLimits()
    with VideoFile(file, size=(limits.side, limits.side), threads=1) as video:
        frames = list(video.frames(0.0, limits.longest))
    if not frames:
        raise EmptyVideoError(file, "no frame decodes")
    return Clip(np.stack([frame.image for frame in frames]), np.asarray([frame.time for frame in frames]))


def _show(progress: Progress) -> None:
    print(f"\r{100 * progress.part:3.0f}% {progress.message}".ljust(40), end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
