"""`horst data check` and `horst data pack`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

from rich.table import Table

from horst.console import Console
from horst.data.check import Check, Depth
from horst.data.check import check as look_through
from horst.data.config import DataConfig, open_source
from horst.data.packed import each, write_packed
from horst.errors import ConfigError, DataError

SHOWN = 10


def check(config: str, *, depth: Depth, as_json: bool, processes: int | None) -> None:
    data = DataConfig.from_file(config)
    source = open_source(data)
    found = look_through(source, clip=data.clip, depth=depth, processes=processes)
    if as_json:
        print(json.dumps({**asdict(found), "sound": found.sound}, indent=2))
    else:
        _print(source.annotations.name, found)
    if not found.sound:
        raise DataError(f"{len(found.missing)} files are missing and {len(found.bad)} are damaged")


def pack(config: str, folder: str, *, quality: int, processes: int | None) -> None:
    if not 1 <= quality <= 95:
        raise ConfigError(f"quality is {quality}; it takes 1 to 95")
    data = DataConfig.from_file(config)
    source = open_source(data)
    clip = replace(data.clip, observe=1.0, mode="strict")  # all that any reader of it may want
    render = partial(each, source.read, clip)
    report = write_packed(
        folder, source.annotations, render, fps=clip.fps, clip=clip, quality=quality, processes=processes
    )
    console = Console()
    console.print(f"{len(source.annotations.examples) - len(report.bad)} clips are packed in {folder}")
    print_bad(console, "left out", report.bad)


def print_bad(console: Console, what: str, bad: Sequence[tuple[str, str]]) -> None:
    """The first few examples that could not be read, and how many more there are."""
    for ident, why in bad[:SHOWN]:
        console.print(f"{what}: {ident}: {why}")
    if len(bad) > SHOWN:
        console.print(f"and {len(bad) - SHOWN} more")


def _print(name: str, found: Check) -> None:
    console = Console()
    counts = Table(title=name, title_justify="left")
    for column in ("", "here", "in the paper"):
        counts.add_column(column, justify="left" if not column else "right")
    for key, number in {**found.counts, **{f"{task} classes": n for task, n in found.classes.items()}}.items():
        paper = found.paper.get(key.removesuffix(" classes"))
        counts.add_row(key, f"{number:,}", "" if paper is None else f"{paper:,}")
    console.print(counts)
    classes = Table(title="actions, the most frequent first", title_justify="left")
    for column in ("action", "train", "val"):
        classes.add_column(column, justify="left" if column == "action" else "right")
    for action, train, val in found.histogram[:SHOWN]:
        classes.add_row(action, f"{train:,}", f"{val:,}")
    if len(found.histogram) > SHOWN:
        rest = found.histogram[SHOWN:]
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
    if found.shown:
        console.print("clips that were read, and the time that they show:")
    for clip in found.shown[:SHOWN]:
        text = f"  {clip.example}: {clip.first:.3f} s to {clip.last:.3f} s of {clip.media}"
        console.print(text, highlight=False)
    print_notices(console, found.notices)


def print_notices(console: Console, notices: Sequence[str]) -> None:
    """What a data set lacks."""
    for notice in notices:
        console.print(f"note: {notice}", highlight=False)
