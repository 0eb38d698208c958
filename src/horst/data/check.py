"""Find problems of a data set before a training run does: counts, classes, files, overlap between splits."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np

from horst.config import Task
from horst.data.clips import ClipConfig, early_actions, early_notice, frame_prefix, gaps, open_images, read_clip
from horst.data.example import Annotations, Example
from horst.data.jobs import run_jobs
from horst.data.source import Depth, Source
from horst.errors import DataError, InputError, VideoError
from horst.video.frame import is_image_sequence

# The paper's numbers of examples by split and of classes by task.
PAPER: dict[str, dict[str, int]] = {
    "Something-Something v2": {"train": 56_769, "val": 7_503, "action": 41},
    "EPIC-Kitchens 55": {"train": 23_492, "val": 4_979, "action": 2_513, "verb": 125, "noun": 352},
    "EPIC-Kitchens 100": {"action": 3_087, "verb": 97, "noun": 300},  # its 3,087 is 3,806 in the annotations
}
SLOWER = 0.99  # A file with less than this share of the clips' frame rate repeats frames


@dataclass(frozen=True, slots=True)
class CheckedClip:
    """A clip that was read as a test."""

    example: str
    media: str
    first: float  # the time of its first frame in the media, in seconds
    last: float


@dataclass(frozen=True, slots=True)
class DataReport:
    """The result of a check."""

    counts: Mapping[str, int]  # examples by split
    classes: Mapping[str, int]  # classes by task
    paper: Mapping[str, int]  # the paper's numbers by split and task; empty for other data sets
    histogram: tuple[tuple[str, int, int], ...]  # (action, examples of train, of val), the most frequent first
    files: int  # checked videos, folders and tar files; videos of a packed data set, a feature store or an LMDB
    missing: tuple[str, ...]
    bad: tuple[tuple[str, str], ...]  # (file, reason): it does not open or decode, or its frame rate is wrong
    overlap: tuple[tuple[str, str], ...]  # (what, splits) of clips, files and groups in several splits
    notices: tuple[str, ...] = ()  # what the data set lacks, and settings that are probably unintended
    stored: bool = False  # whether `files` are videos of a packed data set, a feature store or an LMDB
    clips: tuple[CheckedClip, ...] = ()  # with depth "frames": of the first and the last example of each file

    @property
    def ok(self) -> bool:
        """Whether every file exists and opens. Overlap may be intended, such as a participant in both splits."""
        return not self.missing and not self.bad


MediaCheck = tuple[str, float | None, list[CheckedClip]]  # problem of a file (or ""), its frame rate, clips read


def check_data(
    source: Source, *, clip: ClipConfig | None = None, depth: Depth = "headers", processes: int | None = None
) -> DataReport:
    """Check whether the files of a data set exist ("files"), open ("headers"), or decode completely ("frames").

    Folders and tar files of images are opened like videos: their numbers must have no gaps, and their frame rate must
    fit the duration of the video. With "frames", a clip of the first and the last example of each file is read too.
    """
    annotations, clip = source.annotations, clip or ClipConfig()
    early = {annotations.examples[i].id for i in early_actions(annotations, clip)}
    missing: tuple[str, ...] = ()
    checked: list[MediaCheck] = []
    if (problems := source.problems(clip, depth)) is not None:
        files = len({example.video or example.id for example in annotations.examples})
        bad = [(name, why) for name, why in problems if name not in early]
    else:
        media = _by_media(annotations.examples)
        files = len(media)
        missing = tuple(sorted({str(path) for path, _ in media if not path.exists()}))
        there = [examples for (path, _), examples in media.items() if path.exists()]
        if depth != "files":
            work = partial(_check_media, annotations.task, clip, depth)
            checked = run_jobs("checking files", work, there, processes=processes)
        bad = [(_name(of[0]), problem) for of, (problem, *_) in zip(there, checked, strict=False) if problem]
    return DataReport(
        counts=annotations.counts(),
        classes={task: len(names) for task, names in annotations.classes.items()},
        paper=PAPER.get(annotations.name, {}),
        histogram=_histogram(annotations),
        files=files,
        missing=missing,
        bad=tuple(bad),
        overlap=_overlap(annotations.examples),
        notices=(*annotations.notices, *_notices(annotations.task, clip, len(early), checked)),
        stored=problems is not None,
        clips=tuple(one for _, _, clips in checked for one in clips),
    )


def _notices(task: Task, clip: ClipConfig, early: int, checked: Sequence[MediaCheck]) -> Iterator[str]:
    """Of actions that are too early, and of files with too low a frame rate."""
    if early:
        yield early_notice(early, "", clip)
    rates = [fps for _, fps, _ in checked if fps]
    slow = [fps for fps in rates if fps < SLOWER * clip.fps]
    if slow and task != "anticipation":
        lower = f"a lower frame rate than clip.fps = {clip.fps:g}, down to {min(slow):g}: clips repeat their frames"
        yield f"{len(slow):,} of {len(rates):,} files have {lower}. Set clip.fps to {min(slow):g} to show each once"


def _by_media(examples: Sequence[Example]) -> dict[tuple[Path, str], list[Example]]:
    """The examples of each file, or of each video if one folder holds the images of several."""
    found: dict[tuple[Path, str], list[Example]] = {}
    ordered = sorted(examples, key=lambda e: (str(e.media), e.video, e.start))
    for (media, _), of in groupby(ordered, lambda e: (e.media, e.video)):
        first, *others = of
        found.setdefault((media, frame_prefix(first)), []).extend((first, *others))
    return found


def _name(example: Example) -> str:
    prefix = frame_prefix(example)
    return str(example.media / f"{prefix}*" if prefix else example.media)


def _check_media(task: Task, clip: ClipConfig, depth: Depth, examples: Sequence[Example]) -> MediaCheck:
    example, everything = examples[0], depth == "frames"
    fps: float | None
    try:
        if is_image_sequence(example.media):
            images = open_images(example, (32, 32))
            for number in images.numbers if everything else ():
                images.read(number)
            problem, fps = gaps(example, images), images.fps
        else:
            from horst.video import VideoFile  # images are read without FFmpeg

            with VideoFile(example.media, size=(32, 32), threads=1) as video:
                for _ in video.frames() if everything else ():
                    pass
                problem, fps = str(video.report) if everything and not video.report.complete else "", video.info.fps
        return problem, fps, _read_clips(task, clip, examples) if everything and not problem else []
    except (VideoError, DataError, OSError) as error:
        return str(error).removeprefix(f"{example.media}: "), None, []


def _read_clips(task: Task, clip: ClipConfig, examples: Sequence[Example]) -> list[CheckedClip]:
    """The clips of the first and the last example."""
    found = []
    for example in {example.id: example for example in (examples[0], examples[-1])}.values():
        with suppress(InputError):  # nothing precedes the action
            times = read_clip(example, task, clip).times
            found.append(CheckedClip(example.id, _name(example), float(np.nanmin(times)), float(np.nanmax(times))))
    return found


def _histogram(annotations: Annotations) -> tuple[tuple[str, int, int], ...]:
    count = Counter((e.split, e.labels["action"]) for e in annotations.examples if e.labels)
    count.update((e.split, segment.label) for e in annotations.examples for segment in e.segments)
    actions = annotations.classes.get("action", ())
    rows = [(name, count["train", i], count["val", i]) for i, name in enumerate(actions)]
    return tuple(sorted(rows, key=lambda row: -row[1] - row[2]))


def _overlap(examples: tuple[Example, ...]) -> tuple[tuple[str, str], ...]:
    """(what, splits) of ids, files and groups in several splits."""
    places: dict[str, set[str]] = defaultdict(set)
    for example in examples:
        places[f"clip {example.id}"].add(example.split)
        if example.group:
            places[f"group {example.group}"].add(example.split)
        if not example.media.is_dir():
            places[f"file {example.media}"].add(example.split)
    return tuple((what, ", ".join(sorted(splits))) for what, splits in sorted(places.items()) if len(splits) > 1)
