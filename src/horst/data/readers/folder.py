"""One's own videos: a folder {train,val}/<label>/*.mp4, or a CSV with a row for every clip or action.

CSV columns: path, split, label; and where a video holds several actions start and end (seconds or h:m:s), where actions
have parts verb and noun. With start times the actions can be anticipated as well as recognised.

A clip may be a folder or a tar file of numbered pictures too. How many there are a second, pictures do not tell:
`frames_fps`, or a column fps in the CSV file, says so.

Whether a clip may be shown mirrored in training, nobody can tell from its label: `mirror` says so. {left: right} swaps
these two and leaves all other actions as they are, {} leaves all as they are, and without it nothing is mirrored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from horst.data.clips import check_number
from horst.data.example import Annotations, Example, Pictures, Task
from horst.data.readers.pictures import is_pictures, no_rate
from horst.data.readers.tables import need, positive, read_rows, seconds
from horst.errors import ConfigError, DataError, did_you_mean
from horst.video.frame import IMAGE_SUFFIXES
from horst.video.sampling import start_frame

VIDEOS = (".mp4", ".webm", ".mkv", ".mov", ".avi", ".m4v", ".mpg", ".mpeg", ".ts")
SPLITS = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


def read_folder(
    root: str | Path, *, frames_fps: float | None = None, mirror: Mapping[str, str] | None = None
) -> Annotations:
    """Clips by split and label, from the names of folders.

    Args:
        root: The folder.
        frames_fps: Pictures a second of the clips that are folders or tar files of pictures.
        mirror: See above.
    """
    root = Path(root)
    if not root.is_dir():
        raise DataError(f"{root}: there is no such folder")
    found = []
    for folder in sorted(p for p in root.iterdir() if p.is_dir()):
        if folder.name in SPLITS:
            files = sorted(p for p in folder.glob("*/*") if p.suffix.lower() in VIDEOS or _is_clip(p))
            found += [(SPLITS[folder.name], file.parent.name, file) for file in files]
    if not found:
        raise DataError(
            f"{root}: there is no video in it; put clips into {{train,val}}/<label>/, as {', '.join(VIDEOS)}"
        )
    names = sorted({label for _, label, _ in found})
    examples = tuple(
        Example(
            id=str(file.relative_to(root)),
            split=split,
            media=file,
            labels={"action": names.index(label)},
            pictures=pictures_at(file, frames_fps),
        )
        for split, label, file in found
    )
    return Annotations(
        name=root.name,
        task="recognition",
        examples=examples,
        classes={"action": tuple(names)},
        mirror=mirrored(names, mirror),
    )


def _is_clip(path: Path) -> bool:
    """Whether it is a tar file, or a folder with pictures in it."""
    if path.is_dir():
        return any(file.suffix.lower() in IMAGE_SUFFIXES for file in path.iterdir())
    return path.suffix == ".tar"


def pictures_at(media: Path, fps: float | None) -> Pictures | None:
    """The rate of a clip that is a folder or a tar file of pictures; None for a video. DataError without a rate."""
    if fps is not None:
        check_number("frames_fps", fps)
    if media.suffix.lower() in VIDEOS or not is_pictures(media):
        return None
    if fps is None:
        raise no_rate(media)
    return Pictures(fps=fps)


def mirrored(names: Sequence[str], pairs: Mapping[str, str] | None) -> tuple[int, ...]:
    """The action that each one is when its clip is mirrored; empty where nothing is to be."""
    if pairs is None:
        return ()
    if not isinstance(pairs, Mapping):
        raise ConfigError(f"mirror is {pairs!r}; it takes actions by the ones they become, as {{left: right}}")
    other = {**{one: two for two, one in pairs.items()}, **pairs}
    for name in other:
        if name not in names:
            raise ConfigError(f"mirror names {name!r}, which is no action{did_you_mean(name, names)}")
        if other[other[name]] != name:
            raise ConfigError(f"mirror names {name!r} in several pairs; mirrored twice, an action is what it was")
    return tuple(names.index(other.get(name, name)) for name in names)


def read_csv(
    path: str | Path,
    *,
    root: str | Path | None = None,
    task: Task = "recognition",
    frames_fps: float | None = None,
    mirror: Mapping[str, str] | None = None,
) -> Annotations:
    """The clips or actions that a CSV file lists.

    Args:
        path: The file.
        root: What paths in it are relative to; by default its own folder.
        task: recognition or anticipation.
        frames_fps: Pictures a second of the rows that are folders or tar files of pictures and have no column fps.
        mirror: See above.
    """
    path = Path(path)
    base = Path(root) if root is not None else path.parent
    rows = list(read_rows(path))
    if not rows:
        raise DataError(f"{path} lists nothing: columns are path, split, label, and start, end, verb, noun as needed")
    columns = rows[0][1]
    if task == "anticipation" and "start" not in columns:
        raise DataError(
            f"{path} has no column 'start'{did_you_mean('start', columns)}: to anticipate, it must be known"
        )
    names = {part: _names(path, rows, part) for part in ("label", "verb", "noun") if part in columns or part == "label"}
    examples: list[Example] = []
    first: dict[tuple[str, str], int] = {}
    for line, row in rows:
        split = need(path, line, row, "split").lower()
        if split not in SPLITS:
            raise DataError(
                f"{path}, line {line}: split is {split!r}{did_you_mean(split, SPLITS)}; train, val or test is needed"
            )
        start = seconds(path, line, row, "start") if row.get("start") else 0.0
        end = seconds(path, line, row, "end") if row.get("end") else None
        if end is not None and end <= start:
            raise DataError(
                f"{path}, line {line}: the action ends at {end:g} s, which is not after its start {start:g} s"
            )
        labels = {"action" if part == "label" else part: known.index(row[part]) for part, known in names.items()}
        media = need(path, line, row, "path")
        ident = row.get("id") or (f"{media}@{start:g}" if "start" in row else media)
        if (before := first.setdefault((SPLITS[split], ident), line)) != line:
            raise DataError(
                f"{path}, line {line}: the id {ident!r} stands in line {before} too; remove the row, or give the file "
                "a column id"
            )
        examples.append(
            Example(
                id=ident,
                split=SPLITS[split],
                media=base / media,
                labels=labels,
                start=start,
                end=end,
                start_frame=start_frame(start) if task == "anticipation" else None,
                group=row.get("group", ""),
                pictures=pictures_at(base / media, positive(path, line, row, "fps") if row.get("fps") else frames_fps),
            )
        )
    classes = {"action" if part == "label" else part: tuple(known) for part, known in names.items()}
    return Annotations(
        name=path.stem,
        task=task,
        examples=tuple(examples),
        classes=classes,
        action_parts=_action_parts(path, rows, names),
        mirror=mirrored(classes["action"], mirror),
    )


def _action_parts(
    path: Path, rows: list[tuple[int, dict[str, str]]], names: Mapping[Any, list[str]]
) -> tuple[tuple[int, int], ...]:
    """(verb, noun) of every action, as the rows say; none without both columns. A label has one pair."""
    if "verb" not in names or "noun" not in names:
        return ()
    first: dict[str, tuple[int, str, str]] = {}
    for line, row in rows:
        before, verb, noun = first.setdefault(row["label"], (line, row["verb"], row["noun"]))
        if (verb, noun) != (row["verb"], row["noun"]):
            raise DataError(
                f"{path}: the action {row['label']!r} is {verb!r} {noun!r} in line {before} and {row['verb']!r} "
                f"{row['noun']!r} in line {line}; give each pair of verb and noun a label of its own"
            )
    return tuple((names["verb"].index(first[a][1]), names["noun"].index(first[a][2])) for a in names["label"])


def _names(path: Path, rows: list[tuple[int, dict[str, str]]], part: str) -> list[str]:
    return sorted({need(path, line, row, part) for line, row in rows})
