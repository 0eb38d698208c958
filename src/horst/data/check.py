"""What is wrong with a data set, before a training run finds out: counts, classes, files, overlap between splits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from horst.data.clips import ClipConfig, read_clip, seen_frames
from horst.data.config import Source
from horst.data.example import Annotations, Example, Task
from horst.data.jobs import run_jobs
from horst.data.readers.lmdb_features import RulstmFeatures
from horst.data.readers.pictures import frame_prefix, gaps, is_pictures, open_pictures
from horst.errors import DataError, InputError, VideoError

Depth = Literal["files", "headers", "frames"]

# What the paper counted, by data set: examples by split and classes by task.
PAPER: dict[str, dict[str, int]] = {
    "Something-Something v2": {"train": 56_769, "val": 7_503, "action": 41},
    "EPIC-Kitchens 55": {"train": 23_492, "val": 4_979, "action": 2_513, "verb": 125, "noun": 352},
    "EPIC-Kitchens 100": {"action": 3_087, "verb": 97, "noun": 300},  # its 3,087 is 3,806 in the annotations
}
SLOWER = 0.99
"""A file of less than this share of the clips' rate shows frames more than once."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A clip that was read as a test."""

    example: str
    media: str
    first: float
    """Seconds in the media of the first frame that it shows."""
    last: float


@dataclass(frozen=True, slots=True)
class Check:
    """What was found."""

    counts: Mapping[str, int]
    """Examples by split."""
    classes: Mapping[str, int]
    """Classes by task."""
    paper: Mapping[str, int]
    """What the paper counted, by split and task; empty for other data sets."""
    histogram: tuple[tuple[str, int, int], ...]
    """(action, training examples, validation examples), the most frequent first."""
    files: int
    """Videos, frame folders and tar files that were looked at; videos of an LMDB."""
    missing: tuple[str, ...]
    bad: tuple[tuple[str, str], ...]
    """(file, why) of those that do not open or decode completely, or whose rate cannot be true."""
    overlap: tuple[tuple[str, str], ...]
    """(what, splits) of what stands in several splits: the same clip, the same group."""
    notices: tuple[str, ...] = ()
    """What the data set lacks, and what clips do that is seldom wanted."""
    shown: tuple[Shown, ...] = ()
    """The clips that were read: with depth "frames", the first and the last example of each media."""

    @property
    def sound(self) -> bool:
        """Whether every file is there and opens. Overlap may be meant: a participant in both splits is."""
        return not self.missing and not self.bad


@dataclass(frozen=True, slots=True)
class _Found:
    """What one media is like."""

    problem: str = ""
    fps: float | None = None
    """Its own frames a second."""
    shown: tuple[Shown, ...] = ()


def check(
    source: Source, *, clip: ClipConfig | None = None, depth: Depth = "headers", processes: int | None = None
) -> Check:
    """Look through a data set: whether its files are there, open ("headers"), or decode to their ends ("frames").

    Folders and tar files of pictures are opened like videos: numbers without a gap from the first on, at a rate that
    fits the length of the video. With "frames", `clip` is read for the first and the last example of each media too.
    """
    annotations, clip = source.annotations, clip or ClipConfig()
    early = {e.id for e in annotations.examples if _too_early(annotations.task, e, clip)}
    missing: tuple[str, ...] = ()
    bad: list[tuple[str, str]] = []
    found: list[_Found] = []
    if isinstance(source.opened, RulstmFeatures):
        files = len({e.video for e in annotations.examples})
        bad += source.opened.problems(clip) if depth != "files" else []
    elif source.opened is not None:  # packed clips and features know what could not be read when they were made
        files = 1
        bad += [(ident, why) for ident, why in source.opened.bad if ident not in early]
    else:
        media = _by_media(annotations.examples)
        files = len(media)
        missing = tuple(sorted({str(path) for path, _ in media if not path.exists()}))
        there = [examples for (path, _), examples in media.items() if path.exists()]
        if depth != "files":
            work = partial(_look, annotations.task, clip, depth)
            found = run_jobs("looking at files", work, there, processes=processes)
            bad += [(_name(examples[0]), f.problem) for examples, f in zip(there, found, strict=True) if f.problem]
    return Check(
        counts=annotations.counts(),
        classes={task: len(names) for task, names in annotations.classes.items()},
        paper=PAPER.get(annotations.name, {}),
        histogram=_histogram(annotations),
        files=files,
        missing=missing,
        bad=tuple(bad),
        overlap=_overlap(annotations.examples),
        notices=(
            *annotations.notices,
            *_unseen(len(early), clip),
            *_repeats(annotations.task, clip, [f.fps for f in found if f.fps]),
        ),
        shown=tuple(shown for f in found for shown in f.shown),
    )


def _too_early(task: Task, example: Example, clip: ClipConfig) -> bool:
    """Whether no frame comes before an action, which is no fault of the data."""
    try:
        return task == "anticipation" and not len(seen_frames(example, clip))
    except InputError:
        return True


def _unseen(early: int, clip: ClipConfig) -> list[str]:
    if not early:
        return []
    return [
        f"{early:,} actions start in the first {clip.stride:g} s of their video, so that nothing is seen before them. "
        "In training they count as bad clips: leave them out of the annotations, or raise batches.bad_limit"
    ]


def _by_media(examples: Sequence[Example]) -> dict[tuple[Path, str], list[Example]]:
    """The examples of each file, or of each video where the frames of several lie in one folder."""
    prefixes: dict[tuple[Path, str], str] = {}
    found: dict[tuple[Path, str], list[Example]] = {}
    for example in sorted(examples, key=lambda e: (str(e.media), e.video, e.start)):
        place = (example.media, example.video)
        if place not in prefixes:
            prefixes[place] = frame_prefix(example)
        found.setdefault((example.media, prefixes[place]), []).append(example)
    return found


def _name(example: Example) -> str:
    prefix = frame_prefix(example)
    return str(example.media / f"{prefix}*" if prefix else example.media)


def _look(task: Task, clip: ClipConfig, depth: Depth, examples: Sequence[Example]) -> _Found:
    example = examples[0]
    try:
        problem, fps = (_pictures if is_pictures(example.media) else _video)(example, depth)
        shown = _read(task, clip, examples) if depth == "frames" and not problem else ()
    except (VideoError, DataError, OSError) as error:
        return _Found(str(error).removeprefix(f"{example.media}: "))
    return _Found(problem, fps, shown)


def _video(example: Example, depth: Depth) -> tuple[str, float | None]:
    """What is wrong with a video, and its rate."""
    from horst.video.decode import VideoFile

    with VideoFile(example.media, size=(32, 32), threads=1) as video:
        if depth == "headers":
            return "", video.info.fps
        for _ in video.frames():
            pass
        return "" if video.report.complete else str(video.report), video.info.fps


def _pictures(example: Example, depth: Depth) -> tuple[str, float | None]:
    """What is wrong with a folder or a tar file of pictures, and its rate."""
    pictures = open_pictures(example, (32, 32))
    if depth == "frames":
        for number in pictures.numbers:
            pictures.read(number)
    return gaps(example, pictures), pictures.fps


def _read(task: Task, clip: ClipConfig, examples: Sequence[Example]) -> tuple[Shown, ...]:
    """The clips of the first and the last example."""
    found = []
    for example in dict.fromkeys((examples[0].id, examples[-1].id)):
        chosen = next(e for e in examples if e.id == example)
        try:
            times = read_clip(chosen, task, clip).times
        except InputError:  # so early an action that nothing comes before it
            continue
        found.append(Shown(chosen.id, _name(chosen), float(np.nanmin(times)), float(np.nanmax(times))))
    return tuple(found)


def _repeats(task: Task, clip: ClipConfig, rates: Sequence[float]) -> list[str]:
    """Recognition: whether clips show frames of slower files more than once."""
    slow = [fps for fps in rates if fps < SLOWER * clip.fps]
    if task != "recognition" or not slow:
        return []
    return [
        f"{len(slow):,} of {len(rates):,} files have fewer than clip.fps = {clip.fps:g} frames a second, from "
        f"{min(slow):g} on: clips repeat their frames. Set clip.fps to {min(slow):g} to show each once"
    ]


def _histogram(annotations: Annotations) -> tuple[tuple[str, int, int], ...]:
    by_split = {
        split: Counter(e.labels["action"] for e in annotations.examples if e.split == split and e.labels)
        for split in ("train", "val")
    }
    rows = [
        (name, by_split["train"][i], by_split["val"][i]) for i, name in enumerate(annotations.classes.get("action", ()))
    ]
    return tuple(sorted(rows, key=lambda row: -row[1] - row[2]))


def _overlap(examples: tuple[Example, ...]) -> tuple[tuple[str, str], ...]:
    """Ids, files and groups that stand in several splits."""
    places: dict[str, set[str]] = defaultdict(set)
    for example in examples:
        places[f"clip {example.id}"].add(example.split)
        if example.group:
            places[f"group {example.group}"].add(example.split)
        if not example.media.is_dir():
            places[f"file {example.media}"].add(example.split)
    return tuple((what, ", ".join(sorted(splits))) for what, splits in sorted(places.items()) if len(splits) > 1)
