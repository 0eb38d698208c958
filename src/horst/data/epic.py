"""EPIC-Kitchens 55 and 100, for anticipation: RULSTM's CSV files or the official ones.

RULSTM's files have no header (id, video, start, end, verb, noun, action; frames at 30 a second, numbered from 1) and
number the actions in actions.csv. The official EPIC-100 files have time stamps, verbs and nouns; actions are then the
pairs that occur in training and validation, numbered in the order of (verb, noun) unless actions.csv is there too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from horst.data.example import Annotations, Example
from horst.data.media import find_media
from horst.data.tables import need, read_rows, seconds, whole
from horst.errors import DataError

Version = Literal["ek55", "ek100"]
COLUMNS = ("id", "video", "start", "end", "verb", "noun", "action")
FPS = 30.0
"""Of the re-encoding that all frame numbers refer to."""
OFFICIAL = {"train": "EPIC_100_train.csv", "val": "EPIC_100_validation.csv"}
RULSTM = {"train": "training.csv", "val": "validation.csv"}
UNLABELLED = {"ek55": ("test_seen.csv", "test_unseen.csv"), "ek100": ("test_timestamps.csv",)}


def read_epic(
    annotations: str | Path,
    media: str | Path | None = None,
    *,
    version: Version = "ek55",
    files: Literal["rulstm", "official"] = "rulstm",
    many_shot: Literal["rulstm", "official"] = "rulstm",
    name: str | None = None,
) -> Annotations:
    """The segments whose CSV files lie in `annotations`.

    Args:
        annotations: Folder of the CSV files of one version.
        media: Folder of the videos, frame folders or tar files, see `find_media`; without it nothing can be shown.
        version: ek55 or ek100.
        files: Whose CSV files to read.
        many_shot: Which EK55 actions count as many-shot: RULSTM's, whose verb or noun is, or the official list of 819.
        name: What to call the data set, for others in the same format.
    """
    folder = Path(annotations)
    if version not in UNLABELLED:
        raise DataError(f"version is {version!r}; choose from 'ek55', 'ek100'")
    verbs, nouns = _classes(folder, version, "verb"), _classes(folder, version, "noun")
    rows = _rulstm(folder, version) if files == "rulstm" else _official(folder)
    parts, actions = _actions(folder, verbs, nouns, rows)
    number = {pair: i for i, pair in enumerate(parts)}
    examples = []
    for row in rows:
        labels = {}
        if row.verb is not None and row.noun is not None:
            labels = {"verb": row.verb, "noun": row.noun, "action": number[row.verb, row.noun]}
            if row.action is not None and row.action != labels["action"]:
                raise DataError(
                    f"{folder}: segment {row.id} has action {row.action}; actions.csv says {labels['action']}"
                )
        examples.append(
            Example(
                id=row.id,
                split=row.split,
                media=find_media(Path(media), row.video) if media is not None else Path(row.video),
                labels=labels,
                start=(row.start - 1) / FPS,
                end=row.end / FPS,
                start_frame=row.start,
                video=row.video,
                group=row.video.split("_")[0],
            )
        )
    return Annotations(
        name=name or {"ek55": "EPIC-Kitchens 55", "ek100": "EPIC-Kitchens 100"}[version],
        task="anticipation",
        examples=tuple(examples),
        classes={"action": actions, "verb": verbs, "noun": nouns},
        action_parts=parts,
        subsets=_many_shot(folder, parts, many_shot) if version == "ek55" else {},
        example_sets=_ek100_sets(folder, examples) if version == "ek100" else {},
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """A segment: frames from 1 on at 30 a second, and classes where they are known."""

    split: str
    id: str
    video: str
    start: int
    end: int
    verb: int | None = None
    noun: int | None = None
    action: int | None = None


def _rulstm(folder: Path, version: Version) -> list[_Row]:
    rows = []
    for split, name in RULSTM.items():
        path = folder / name
        for line, row in read_rows(path, COLUMNS) if path.exists() else ():
            start, end, verb, noun, action = (whole(path, line, row, c) for c in COLUMNS[2:])
            rows.append(_Row(split, row["id"], row["video"], start, end, verb, noun, action))
    if not rows:
        raise DataError(f"{folder}: there is neither {' nor '.join(RULSTM.values())} in it")
    for name in UNLABELLED[version]:
        path = folder / name
        for line, row in read_rows(path, COLUMNS[:4]) if path.exists() else ():
            start, end = (whole(path, line, row, c) for c in COLUMNS[2:4])
            rows.append(_Row("test", row["id"], row["video"], start, end))
    return rows


def _official(folder: Path) -> list[_Row]:
    rows = []
    for split, name in OFFICIAL.items():
        path = folder / name
        for line, row in read_rows(path) if path.exists() else ():
            times = (seconds(path, line, row, column) for column in ("start_timestamp", "stop_timestamp"))
            start, end = (max(1, math.floor(time * FPS)) for time in times)  # in floating point, as RULSTM's were made
            classes = whole(path, line, row, "verb_class"), whole(path, line, row, "noun_class")
            rows.append(_Row(split, need(path, line, row, "narration_id"), row["video_id"], start, end, *classes))
    if not rows:
        raise DataError(f"{folder}: there is neither {' nor '.join(OFFICIAL.values())} in it")
    return rows


def _classes(folder: Path, version: Version, part: str) -> tuple[str, ...]:
    name, ident, key = (
        (f"EPIC_{part}_classes.csv", f"{part}_id", "class_key")
        if version == "ek55"
        else (f"EPIC_100_{part}_classes.csv", "id", "key")
    )
    path = folder / name
    found = {whole(path, line, row, ident): need(path, line, row, key) for line, row in read_rows(path)}
    if sorted(found) != list(range(len(found))):
        raise DataError(f"{path}: {ident} must count from 0 without a gap")
    return tuple(found[i] for i in range(len(found)))


def _actions(
    folder: Path, verbs: tuple[str, ...], nouns: tuple[str, ...], rows: list[_Row]
) -> tuple[tuple[tuple[int, int], ...], tuple[str, ...]]:
    """(verb, noun) and name of every action."""
    path = folder / "actions.csv"
    if path.exists():
        columns = ("verb", "noun")
        found = {whole(path, n, row, "id"): [whole(path, n, row, c) for c in columns] for n, row in read_rows(path)}
        if sorted(found) != list(range(len(found))):
            raise DataError(f"{path}: ids must count from 0 without a gap")
        pairs = [(found[i][0], found[i][1]) for i in range(len(found))]
    else:
        pairs = sorted({(r.verb, r.noun) for r in rows if r.verb is not None and r.noun is not None})
    known = set(pairs)
    for row in rows:
        if row.verb is not None and (row.verb, row.noun) not in known:
            raise DataError(
                f"{path}: there is no action of verb {row.verb} and noun {row.noun}, as segment {row.id} has"
            )
    for verb, noun in pairs:
        if not (0 <= verb < len(verbs) and 0 <= noun < len(nouns)):
            raise DataError(f"{folder}: an action has verb {verb} of {len(verbs)} and noun {noun} of {len(nouns)}")
    return tuple(pairs), tuple(f"{verbs[verb]} {nouns[noun]}" for verb, noun in pairs)


def _many_shot(folder: Path, parts: tuple[tuple[int, int], ...], which: str) -> dict[str, frozenset[int]]:
    """Classes with many training examples: verbs, nouns, and the actions made of them."""
    lists = {}
    for part in ("verb", "noun"):
        path = folder / f"EPIC_many_shot_{part}s.csv"
        if not path.exists():
            return {}
        lists[part] = frozenset(whole(path, line, row, f"{part}_class") for line, row in read_rows(path))
    if which == "official":
        path = folder / "EPIC_many_shot_actions.csv"
        pairs = {(whole(path, n, row, "verb_class"), whole(path, n, row, "noun_class")) for n, row in read_rows(path)}
        actions = frozenset(i for i, pair in enumerate(parts) if pair in pairs)
    else:
        actions = frozenset(i for i, (v, n) in enumerate(parts) if v in lists["verb"] or n in lists["noun"])
    return {"many-shot verb": lists["verb"], "many-shot noun": lists["noun"], "many-shot action": actions}


def _ek100_sets(folder: Path, examples: list[Example]) -> dict[str, frozenset[str]]:
    """Validation segments of unseen participants and of tail classes; an action is tail if its verb or noun is."""
    lists = {}
    for name, file, column in (
        ("unseen", "EPIC_100_unseen_participant_ids_validation.csv", "participant_id"),
        ("verb", "EPIC_100_tail_verbs.csv", "verb"),
        ("noun", "EPIC_100_tail_nouns.csv", "noun"),
    ):
        path = folder / file
        if not path.exists():
            return {}
        lists[name] = {need(path, line, row, column) for line, row in read_rows(path)}
    validation = [e for e in examples if e.split == "val"]
    tail = {p: {e.id for e in validation if str(e.labels[p]) in lists[p]} for p in ("verb", "noun")}
    return {
        "unseen": frozenset(e.id for e in validation if e.group in lists["unseen"]),
        "tail verb": frozenset(tail["verb"]),
        "tail noun": frozenset(tail["noun"]),
        "tail action": frozenset(tail["verb"] | tail["noun"]),
    }
