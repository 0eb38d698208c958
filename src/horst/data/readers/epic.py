"""EPIC-Kitchens 55 and 100, for anticipation: RULSTM's CSV files or the official ones.

RULSTM's files have no header (id, video, start, end, verb, noun, action; frames at 30 a second, numbered from 1) and
number the actions in actions.csv. The official files have time stamps, verbs and nouns; actions are then the pairs that
occur in training and validation, numbered in the order of (verb, noun) unless actions.csv is there too.

EPIC-Kitchens 55 has no official validation split: with the official files, the videos that RULSTM's
validation_videos.csv lists are for validation and all others for training. That is RULSTM's split.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from horst.data.example import Annotations, Example
from horst.data.readers.epic_frames import PUBLIC, RULSTM_FPS, Frames, Version, pictures_of, read_video_info
from horst.data.readers.epic_sets import ek100_sets, many_shot_classes
from horst.data.readers.media import find_media
from horst.data.readers.tables import need, read_rows, read_text, seconds, whole
from horst.errors import DataError

T = TypeVar("T")
COLUMNS = ("id", "video", "start", "end", "verb", "noun", "action")
RULSTM = {"train": ("training.csv",), "val": ("validation.csv",)}
RULSTM_PUBLIC = "https://github.com/fpv-iplab/rulstm (RULSTM/data)"
VALIDATION_VIDEOS = "validation_videos.csv"
UNLABELLED = {"ek55": ("test_seen.csv", "test_unseen.csv"), "ek100": ("test_timestamps.csv",)}
OFFICIAL = {
    "ek55": {"train": ("EPIC_train_action_labels.csv",)},
    "ek100": {"train": ("EPIC_100_train.csv",), "val": ("EPIC_100_validation.csv",)},
}
OFFICIAL_UNLABELLED = {
    "ek55": ("EPIC_test_s1_timestamps.csv", "EPIC_test_s2_timestamps.csv"),
    "ek100": ("EPIC_100_test_timestamps.csv",),
}


def read_epic(
    annotations: str | Path,
    media: str | Path | None = None,
    *,
    version: Version = "ek55",
    files: Literal["rulstm", "official"] = "rulstm",
    frames: Frames | None = None,
    many_shot: Literal["rulstm", "official"] = "rulstm",
    name: str | None = None,
) -> Annotations:
    """The segments whose CSV files lie in `annotations`.

    Args:
        annotations: Folder of the CSV files of one version.
        media: Folder of the videos, frame folders or tar files, see `find_media`; without it nothing can be shown.
        version: ek55 or ek100.
        files: Whose CSV files to read.
        frames: Frames per second of numbered frames; see `horst.data.readers.epic_frames`. Videos do not need it.
        many_shot: Which EK55 actions count as many-shot: RULSTM's, whose verb or noun is, or the official list of 819.
        name: What to call the data set, for others in the same format.
    """
    folder = Path(annotations)
    if version not in UNLABELLED:
        raise DataError(f"version is {version!r}; choose from 'ek55', 'ek100'")
    rows = list(_rulstm(folder, version) if files == "rulstm" else _official(folder, version))
    _refuse_duplicates(rows)
    verbs, nouns = _classes(folder, version, "verb"), _classes(folder, version, "noun")
    parts, actions = _actions(folder, verbs, nouns, rows)
    number = {pair: i for i, pair in enumerate(parts)}
    videos = {row.video: Path(row.video) for row in rows}
    if media is not None:
        videos = {video: find_media(Path(media), video) for video in videos}
    info = read_video_info(folder, version)
    pictures = {
        video: pictures_of(video, path, frames, info.get(video), folder, version) if media is not None else None
        for video, path in videos.items()
    }
    examples = []
    for row in rows:
        labels = {}
        if row.verb is not None and row.noun is not None:
            labels = {"verb": row.verb, "noun": row.noun, "action": number[row.verb, row.noun]}
            if row.action is not None and row.action != labels["action"]:
                raise DataError(
                    f"{row.place}: segment {row.id} has action {row.action}; actions.csv says {labels['action']}"
                )
        examples.append(
            Example(
                id=row.id,
                split=row.split,
                media=videos[row.video],
                labels=labels,
                start=(row.start - 1) / RULSTM_FPS,
                end=row.end / RULSTM_FPS,
                start_frame=row.start,
                video=row.video,
                group=row.video.split("_")[0],
                pictures=pictures[row.video],
            )
        )
    validation = [example for example in examples if example.split == "val"]
    subsets, few = many_shot_classes(folder, parts, many_shot) if version == "ek55" else ({}, ())
    sets, less = ek100_sets(folder, validation) if version == "ek100" else ({}, ())
    return Annotations(
        name=name or {"ek55": "EPIC-Kitchens 55", "ek100": "EPIC-Kitchens 100"}[version],
        task="anticipation",
        examples=tuple(examples),
        classes={"action": actions, "verb": verbs, "noun": nouns},
        action_parts=parts,
        subsets=subsets,
        example_sets=sets,
        notices=(*few, *less),
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """A segment: frames from 1 on at 30 a second, and classes where they are known."""

    place: str
    """File and line."""
    split: str
    id: str
    video: str
    start: int
    end: int
    verb: int | None = None
    noun: int | None = None
    action: int | None = None


def _rulstm(folder: Path, version: Version) -> Iterator[_Row]:
    files = {**RULSTM, "test": UNLABELLED[version]}
    _need_one(folder, (*RULSTM["train"], *RULSTM["val"]), f"RULSTM's are at {RULSTM_PUBLIC}")
    for split, path in _there(folder, files):
        columns = COLUMNS[:4] if split == "test" else COLUMNS
        for line, row in read_rows(path, columns):
            start, end = (whole(path, line, row, column, least=1) for column in columns[2:4])
            classes = [whole(path, line, row, column) for column in columns[4:]]
            ident, video = need(path, line, row, "id"), need(path, line, row, "video")
            yield _checked(_Row(f"{path}, line {line}", split, ident, video, start, end, *classes))


def _official(folder: Path, version: Version) -> Iterator[_Row]:
    files = {**OFFICIAL[version], "test": OFFICIAL_UNLABELLED[version]}
    _need_one(
        folder, [name for names in OFFICIAL[version].values() for name in names], f"they are at {PUBLIC[version]}"
    )
    validation = _validation_videos(folder) if version == "ek55" else frozenset()
    for split, path in _there(folder, files):
        for line, row in read_rows(path):
            times = [seconds(path, line, row, column) for column in ("start_timestamp", "stop_timestamp")]
            # In floating point, as RULSTM's were made.
            start, end = (max(1, math.floor(time * RULSTM_FPS)) for time in times)
            labelled = ("verb_class", "noun_class") if split != "test" else ()
            classes = [whole(path, line, row, column) for column in labelled]
            ident = need(path, line, row, "uid" if version == "ek55" else "narration_id")
            video = need(path, line, row, "video_id")
            chosen = "val" if split == "train" and video in validation else split
            yield _checked(_Row(f"{path}, line {line}", chosen, ident, video, start, end, *classes))


def _there(folder: Path, files: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, Path]]:
    for split, names in files.items():
        for name in names:
            if (folder / name).exists():
                yield split, folder / name


def _need_one(folder: Path, names: Iterable[str], where: str) -> None:
    if not any((folder / name).exists() for name in names):
        words = " nor ".join(names)
        raise DataError(f"{folder}: there is {'neither ' if ' nor ' in words else 'no '}{words} in it; {where}")


def _validation_videos(folder: Path) -> frozenset[str]:
    """The videos of RULSTM's validation split: a name in each line."""
    path = folder / VALIDATION_VIDEOS
    if not path.exists():
        raise DataError(
            f"{path} is missing: EPIC-Kitchens 55 has no official validation split, and this list of videos makes one. "
            f"RULSTM's is at {RULSTM_PUBLIC}; or list videos of your choice, one in each line"
        )
    found = frozenset(line.strip() for line in read_text(path).splitlines() if line.strip())
    if not found:
        raise DataError(f"{path} lists no video: one in each line is needed")
    return found


def _checked(row: _Row) -> _Row:
    if row.end < row.start:
        raise DataError(f"{row.place}: segment {row.id} ends at frame {row.end}, before its start {row.start}")
    return row


def _refuse_duplicates(rows: list[_Row]) -> None:
    """An id has one meaning in its split."""
    first: dict[tuple[str, str], str] = {}
    for row in rows:
        before = first.setdefault((row.split, row.id), row.place)
        if before != row.place:
            raise DataError(f"{row.place}: the id {row.id!r} stands in {before} too; remove one of the segments")


def _classes(folder: Path, version: Version, part: str) -> tuple[str, ...]:
    name, ident, key = (
        (f"EPIC_{part}_classes.csv", f"{part}_id", "class_key")
        if version == "ek55"
        else (f"EPIC_100_{part}_classes.csv", "id", "key")
    )
    path = folder / name
    if not path.exists():  # RULSTM's folder does not hold it, and its actions do not have all classes
        raise DataError(f"{path} is missing; it names all {part}s. Put it there from {PUBLIC[version]}")
    found = _numbered(path, ident, lambda line, row: need(path, line, row, key))
    return tuple(found)


def _numbered(path: Path, ident: str, value: Callable[[int, dict[str, str]], T]) -> list[T]:
    """The values of the rows in the order of their ids, which count from 0."""
    found: dict[int, T] = {}
    for line, row in read_rows(path):
        number = whole(path, line, row, ident)
        if number in found:
            raise DataError(f"{path}, line {line}: {ident} {number} occurs twice; remove one of the rows")
        found[number] = value(line, row)
    if sorted(found) != list(range(len(found))):
        raise DataError(f"{path}: {ident} must count from 0 without a gap")
    return [found[i] for i in range(len(found))]


def _actions(
    folder: Path, verbs: tuple[str, ...], nouns: tuple[str, ...], rows: list[_Row]
) -> tuple[tuple[tuple[int, int], ...], tuple[str, ...]]:
    """(verb, noun) and name of every action."""
    path = folder / "actions.csv"
    if path.exists():
        pairs = _numbered(
            path, "id", lambda line, row: (whole(path, line, row, "verb"), whole(path, line, row, "noun"))
        )
    else:
        pairs = sorted({(r.verb, r.noun) for r in rows if r.verb is not None and r.noun is not None})
    known = set(pairs)
    for row in rows:
        if row.verb is not None and (row.verb, row.noun) not in known:
            raise DataError(
                f"{row.place}: there is no action of verb {row.verb} and noun {row.noun} in {path}, as segment "
                f"{row.id} has"
            )
    for verb, noun in pairs:
        if not (0 <= verb < len(verbs) and 0 <= noun < len(nouns)):
            raise DataError(f"{folder}: an action has verb {verb} of {len(verbs)} and noun {noun} of {len(nouns)}")
    return tuple(pairs), tuple(f"{verbs[verb]} {nouns[noun]}" for verb, noun in pairs)
