"""`horst data`: make, check and pack data sets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from horst.cli.options import Flag, Json, Processes
from horst.console import Console, new_table
from horst.errors import ConfigError, DataError

if TYPE_CHECKING:
    from horst.data.check import DataReport

SHOWN = 10


def make_somethings(
    folder: Path,
    /,
    *,
    clips: int = 1000,
    seed: int = 0,
    size: int = 112,
    templates: int = 0,
    packed: Flag = False,
    processes: Processes = None,
) -> None:
    """Make clips of hands and things in the format of Something-Something v2, for early recognition.

    Args:
        folder: Output folder; a run that was stopped continues.
        clips: Number of clips.
        seed: Another seed makes other clips.
        size: Height and width in pixels.
        templates: How many of the 24 actions, the simplest first; 0: all.
        packed: Write the packed form instead of files. This needs no FFmpeg.
    """
    from horst.synth import make

    options = {"seed": seed, "size": size, "templates": templates, "packed": packed, "processes": processes}
    Console().print(str(make.make_somethings(folder, clips, **options)))  # type: ignore[arg-type]


def make_kitchen(
    folder: Path,
    /,
    *,
    videos: int = 40,
    seed: int = 0,
    size: tuple[int, int] = (128, 228),
    packed: Flag = False,
    processes: Processes = None,
) -> None:
    """Make long videos of a cook in the format of EPIC-Kitchens 100, for anticipation.

    Args:
        folder: Output folder; a run that was stopped continues.
        videos: Number of videos, each of one to two minutes.
        seed: Another seed makes other videos.
        size: Height and width in pixels.
        packed: Write the packed form instead of files. This needs no FFmpeg.
    """
    from horst.synth import make

    Console().print(str(make.make_kitchen(folder, videos, seed=seed, size=size, packed=packed, processes=processes)))


def check(
    data: Path,
    /,
    *,
    depth: Literal["files", "headers", "frames"] = "headers",
    as_json: Json = False,
    processes: Processes = None,
) -> None:
    """Check a data set: counts, classes, missing and damaged files, overlap between splits.

    Args:
        data: The data set's YAML file.
        depth: Check that files exist, that they open, or that they decode to their ends.
    """
    from horst.data.check import check_data
    from horst.data.config import DataConfig
    from horst.data.source import open_source

    config = DataConfig.from_file(data)
    source = open_source(config)
    found = check_data(source, clip=config.clip, depth=depth, processes=processes)
    if as_json:
        print(json.dumps({**asdict(found), "ok": found.ok}, indent=2))
    else:
        _print(source.annotations.name, found)
    if not found.ok:
        raise DataError(f"{len(found.missing)} files are missing and {len(found.bad)} are damaged")


def pack(data: Path, folder: Path, /, *, quality: int = 90, processes: Processes = None) -> None:
    """Pack a data set into a few large files that are read without FFmpeg.

    Args:
        data: The data set's YAML file. Its clip's size and fps are packed.
        folder: Output folder; a run that was stopped continues.
        quality: JPEG quality, 1 to 95.
    """
    from horst.data.config import DataConfig
    from horst.data.packed import read_each, write_packed
    from horst.data.source import open_source

    if not 1 <= quality <= 95:
        raise ConfigError(f"quality is {quality}; it takes 1 to 95")
    config = DataConfig.from_file(data)
    source = open_source(config)
    clip = replace(config.clip, observe=1.0, mode="strict")  # all that any reader of it may want
    read_clips = partial(read_each, source.read, clip)
    bad = write_packed(
        folder, source.annotations, read_clips, fps=clip.fps, clip=clip, quality=quality, processes=processes
    )
    console = Console()
    console.print(f"{len(source.annotations.examples) - len(bad)} clips are packed in {folder}")
    print_bad(console, "left out", bad)


def print_bad(console: Console, what: str, bad: Sequence[tuple[str, str]]) -> None:
    """The first few examples that could not be read, and how many more there are."""
    for ident, why in bad[:SHOWN]:
        console.print(f"{what}: {ident}: {why}")
    if len(bad) > SHOWN:
        console.print(f"and {len(bad) - SHOWN} more")


def _print(name: str, found: DataReport) -> None:
    console = Console()
    counts = new_table(name, "", "here", "in the paper")
    for key, number in {**found.counts, **{f"{task} classes": n for task, n in found.classes.items()}}.items():
        paper = found.paper.get(key.removesuffix(" classes"))
        counts.add_row(key, f"{number:,}", "" if paper is None else f"{paper:,}")
    console.print(counts)
    classes = new_table("actions, the most frequent first", "action", "train", "val")
    for action, train, val in found.histogram[:SHOWN]:
        classes.add_row(action, f"{train:,}", f"{val:,}")
    if rest := found.histogram[SHOWN:]:
        classes.add_row(f"and {len(rest)} more", f"{sum(r[1] for r in rest):,}", f"{sum(r[2] for r in rest):,}")
    console.print(classes)
    for title, rows in (
        (f"missing, of {found.files:,} files", found.missing),
        ("damaged", [f"{path}: {why}" for path, why in found.bad]),
        ("in several splits", [f"{what}: {splits}" for what, splits in found.overlap]),
    ):
        console.print(f"{title}: {len(rows):,}")
        for row in rows[:SHOWN]:
            console.print(f"  {row}", highlight=False)
    if found.clips:
        console.print("clips that were read, with the times of their first and last frames:")
    for clip in found.clips[:SHOWN]:
        text = f"  {clip.example}: {clip.first:.3f} s to {clip.last:.3f} s of {clip.media}"
        console.print(text, highlight=False)
    for notice in found.notices:
        console.print(f"note: {notice}", highlight=False)
