"""Which classes and segments of EPIC-Kitchens are evaluated apart: many-shot, unseen participants, tail classes.

Where a list is missing its metrics are missing too, and a notice says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from horst.data.example import Example
from horst.data.readers.epic_frames import PUBLIC
from horst.data.readers.tables import need, read_rows, read_text, whole
from horst.errors import DataError

Sets = dict[str, frozenset[str]]
UNSEEN = "EPIC_100_unseen_participant_ids_validation.csv"
TAIL = {"verb": "EPIC_100_tail_verbs.csv", "noun": "EPIC_100_tail_nouns.csv"}
RULSTM_IDS = {
    "unseen": "validation_unseen_participants_ids.csv",
    "tail verb": "validation_tail_verbs_ids.csv",
    "tail noun": "validation_tail_nouns_ids.csv",
    "tail action": "validation_tail_actions_ids.csv",
}
"""RULSTM's lists of segments, which stand in for the official ones."""


def many_shot_classes(
    folder: Path, parts: tuple[tuple[int, int], ...], which: str
) -> tuple[dict[str, frozenset[int]], tuple[str, ...]]:
    """EK55: classes with many training examples: verbs, nouns, and the actions made of them; and notices."""
    needed = ["EPIC_many_shot_verbs.csv", "EPIC_many_shot_nouns.csv"]
    needed += ["EPIC_many_shot_actions.csv"] if which == "official" else []
    if missing := [name for name in needed if not (folder / name).exists()]:
        return {}, (_notice(folder, missing, "many-shot", PUBLIC["ek55"]),)
    lists = {}
    for part in ("verb", "noun"):
        path = folder / f"EPIC_many_shot_{part}s.csv"
        lists[part] = frozenset(whole(path, line, row, f"{part}_class") for line, row in read_rows(path))
    if which == "official":
        path = folder / "EPIC_many_shot_actions.csv"
        pairs = {(whole(path, n, row, "verb_class"), whole(path, n, row, "noun_class")) for n, row in read_rows(path)}
        actions = frozenset(i for i, pair in enumerate(parts) if pair in pairs)
    else:
        actions = frozenset(i for i, (v, n) in enumerate(parts) if v in lists["verb"] or n in lists["noun"])
    return {"many-shot verb": lists["verb"], "many-shot noun": lists["noun"], "many-shot action": actions}, ()


def ek100_sets(folder: Path, validation: Sequence[Example]) -> tuple[Sets, tuple[str, ...]]:
    """EK100: validation segments of unseen participants and of tail classes; and notices.

    An action is tail if its verb or its noun is.
    """
    sets: Sets = {}
    missing: dict[str, list[str]] = {}
    if (folder / UNSEEN).exists():
        path = folder / UNSEEN
        unseen = {need(path, line, row, "participant_id") for line, row in read_rows(path)}
        sets["unseen"] = frozenset(e.id for e in validation if e.group in unseen)
    elif (folder / RULSTM_IDS["unseen"]).exists():
        sets["unseen"] = read_ids(folder / RULSTM_IDS["unseen"], validation)
    else:
        missing["unseen"] = [UNSEEN]
    if all((folder / name).exists() for name in TAIL.values()):
        for part, name in TAIL.items():
            path = folder / name
            classes = {whole(path, line, row, part) for line, row in read_rows(path)}
            sets[f"tail {part}"] = frozenset(e.id for e in validation if e.labels[part] in classes)
        sets["tail action"] = sets["tail verb"] | sets["tail noun"]
    elif all((folder / RULSTM_IDS[f"tail {part}"]).exists() for part in ("verb", "noun", "action")):
        sets |= {name: read_ids(folder / file, validation) for name, file in RULSTM_IDS.items() if name != "unseen"}
    else:
        missing["tail"] = [name for name in TAIL.values() if not (folder / name).exists()]
    if not validation:
        return sets, ()
    return sets, tuple(_notice(folder, names, what, PUBLIC["ek100"]) for what, names in missing.items())


def _notice(folder: Path, names: Sequence[str], what: str, where: str) -> str:
    return f"There will be no {what} metrics: {folder} lacks {' and '.join(names)}. Put it there from {where}"


def read_ids(path: Path, validation: Sequence[Example]) -> frozenset[str]:
    """The segments that a file names, one in each line; all of them must be there."""
    known = {example.id for example in validation}
    found = []
    for line, text in enumerate(read_text(path).splitlines(), 1):
        ident = text.strip()
        if ident and ident not in known:
            raise DataError(
                f"{path}, line {line}: there is no validation segment {ident!r}: it is of other annotations"
            )
        found += [ident] if ident else []
    return frozenset(found)
