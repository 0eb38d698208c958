"""One's own videos: a folder {train,val}/<label>/*.mp4, or a CSV file with a row for each clip or action.

Columns and options: docs/guides/data.md. `frames_fps` is the frame rate of clips that are folders or tar files of
images, unless a column fps has a value. `mirror` states which clips may be flipped horizontally in training: {left:
right} swaps these two actions and keeps all others, {} keeps all. Without it nothing is flipped.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from horst.config import Task
from horst.data.clips import check_number, unknown_rate
from horst.data.example import Annotations, Example, SequenceTiming
from horst.data.readers.tables import CsvRow, read_rows
from horst.data.segments import WHOLE_VIDEOS, whole_videos
from horst.errors import ConfigError, DataError, did_you_mean
from horst.video.frame import IMAGE_SUFFIXES, VIDEO_SUFFIXES, is_image_sequence
from horst.video.sampling import start_frame

SPLITS = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


def read_folder(
    root: str | Path, *, frames_fps: float | None = None, mirror: Mapping[str, str] | None = None
) -> Annotations:
    """Clips by split and label, from the names of their folders."""
    root = Path(root)
    if not root.is_dir():
        raise DataError(f"{root}: there is no such folder")
    files = [
        (SPLITS[folder.name], file)
        for folder in sorted(p for p in root.iterdir() if p.is_dir() and p.name in SPLITS)
        for file in sorted(folder.glob("*/*"))
        if _is_clip(file)
    ]
    if not files:
        known = ", ".join(VIDEO_SUFFIXES)
        raise DataError(f"{root}: there is no video in it; put clips into {{train,val}}/<label>/, as {known}")
    names = sorted({file.parent.name for _, file in files})
    examples = []
    for split, file in files:
        labels, timing = {"action": names.index(file.parent.name)}, sequence_timing(file, frames_fps)
        ident = str(file.relative_to(root))
        examples.append(Example(id=ident, split=split, media=file, labels=labels, timing=timing))
    classes, flips = {"action": tuple(names)}, mirror_classes(names, mirror)
    return Annotations(name=root.name, task="recognition", examples=tuple(examples), classes=classes, mirror=flips)


def _is_clip(path: Path) -> bool:
    if path.is_dir():
        return any(file.suffix.lower() in IMAGE_SUFFIXES for file in path.iterdir())
    return path.suffix == ".tar" or path.suffix.lower() in VIDEO_SUFFIXES


def sequence_timing(media: Path, fps: float | None) -> SequenceTiming | None:
    """The timing of a folder or tar file of images; None for a video. DataError if `fps` is needed and None."""
    if fps is not None:
        check_number("frames_fps", fps)
    if media.suffix.lower() in VIDEO_SUFFIXES or not is_image_sequence(media):
        return None
    if fps is None:
        raise unknown_rate(media)
    return SequenceTiming(fps=fps)


def mirror_classes(names: Sequence[str], pairs: Mapping[str, str] | None) -> tuple[int, ...]:
    """The action after a horizontal flip, for each action; empty if nothing may be flipped."""
    if pairs is None:
        return ()
    if not isinstance(pairs, Mapping):
        raise ConfigError(f"mirror is {pairs!r}; it takes pairs of actions, as {{left: right}}")
    other = {**{one: two for two, one in pairs.items()}, **pairs}
    for name in other:
        if name not in names:
            raise ConfigError(f"mirror names {name!r}, which is no action{did_you_mean(name, names)}")
        if other[other[name]] != name:
            raise ConfigError(f"mirror names {name!r} in several pairs; an action flipped twice must stay the same")
    return tuple(names.index(other.get(name, name)) for name in names)


def read_csv(
    path: str | Path,
    *,
    root: str | Path | None = None,
    task: Task = "recognition",
    frames_fps: float | None = None,
    mirror: Mapping[str, str] | None = None,
) -> Annotations:
    """The clips or actions in a CSV file. `root`: the folder of relative paths in it; by default its own."""
    path = Path(path)
    base = Path(root) if root is not None else path.parent
    rows = list(read_rows(path))
    if not rows:
        raise DataError(f"{path} is empty: columns are path, split, label, and start, end, verb, noun as needed")
    columns = rows[0].cells
    if task != "recognition" and "start" not in columns:
        raise DataError(f"{path} has no column 'start'{did_you_mean('start', columns)}: the task {task} needs it")
    whole = task in WHOLE_VIDEOS
    verb_noun = () if whole else ("verb", "noun")
    parts = {"action": "label"} | {part: part for part in verb_noun if part in columns}
    classes = {part: tuple(sorted({row.text(column) for row in rows})) for part, column in parts.items()}
    examples: list[Example] = []
    first: dict[tuple[str, str], int] = {}
    for row in rows:
        name = row.text("split").lower()
        if name not in SPLITS:
            raise DataError(f"{row}: split is {name!r}{did_you_mean(name, SPLITS)}; train, val or test is needed")
        start = row.seconds("start") if row.get("start") else 0.0
        end = row.seconds("end") if row.get("end") else None
        if end is not None and end <= start:
            raise DataError(f"{row}: the action ends at {end:g} s, which is not after its start {start:g} s")
        media, split = row.text("path"), SPLITS[name]
        ident = row.get("id") or (f"{media}@{start:g}" if "start" in columns else media)
        if (before := first.setdefault((split, ident), row.line)) != row.line:
            remedy = "remove the row, or give the file a column id"
            raise DataError(f"{row}: the id {ident!r} is in line {before} too; {remedy}")
        fps = row.positive("fps") if row.get("fps") else frames_fps
        examples.append(
            Example(
                id=ident,
                split=split,
                media=base / media,
                labels={part: classes[part].index(row.cells[column]) for part, column in parts.items()},
                start=start,
                end=end,
                start_frame=start_frame(start) if task == "anticipation" else None,
                group=row.get("group"),
                timing=sequence_timing(base / media, fps),
            )
        )
    found = Annotations(
        name=path.stem,
        task="anticipation" if whole else task,
        examples=tuple(examples),
        classes=classes,
        action_parts=_action_parts(rows, classes) if {"verb", "noun"} <= set(parts) else (),
        mirror=mirror_classes(classes["action"], mirror),
    )
    return whole_videos(found, task) if whole else found


def _action_parts(rows: list[CsvRow], classes: Mapping[str, tuple[str, ...]]) -> tuple[tuple[int, int], ...]:
    """(verb, noun) of every action. An action has one pair."""
    first: dict[str, CsvRow] = {}
    for row in rows:
        before = first.setdefault(row.text("label"), row)
        new, old = (f"{r.cells['verb']!r} {r.cells['noun']!r}" for r in (row, before))
        if old != new:
            both = f"the action {row.text('label')!r} is {new} here and {old} in line {before.line}"
            raise DataError(f"{row}: {both}; give each pair of verb and noun its own label")
    chosen = [first[action].cells for action in classes["action"]]
    return tuple((classes["verb"].index(c["verb"]), classes["noun"].index(c["noun"])) for c in chosen)
