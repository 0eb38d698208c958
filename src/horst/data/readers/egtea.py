"""EGTEA Gaze+ in RULSTM's format (RULSTM/data/egtea), for anticipation.

training1.csv and validation1.csv (2, 3: the other splits) have no header: id, video, start, end, verb, noun, action;
frames at 30 fps, numbered from 1. actions.csv has none either: action, verb_noun as numbers, Verb_noun as names.
"""

from pathlib import Path

from horst.data.example import Annotations, Example
from horst.data.readers.epic import COLUMNS, RULSTM_PUBLIC, frame_segment
from horst.data.readers.tables import CsvRow, read_rows
from horst.errors import ConfigError, DataError

SPLITS = (1, 2, 3)
NAME = "EGTEA Gaze+"


def read_egtea(annotations: str | Path, *, split: int = 1) -> Annotations:
    """The annotations of one of the three splits, from RULSTM's folder."""
    folder = Path(annotations)
    if split not in SPLITS:
        raise ConfigError(f"split is {split}; EGTEA Gaze+ has the splits 1, 2 and 3")
    actions, parts, classes = _read_actions(folder / "actions.csv")
    examples: list[Example] = []
    for name, of in (("training", "train"), ("validation", "val")):
        path = folder / f"{name}{split}.csv"
        if not path.exists():
            raise DataError(f"{path} is missing; get it from {RULSTM_PUBLIC}")
        first: dict[str, CsvRow] = {}
        for row in read_rows(path, COLUMNS):
            ident = row.text("id")
            if (before := first.setdefault(ident, row)) is not row:
                raise DataError(f"{row}: the id {ident!r} is in {before} too; remove one of the segments")
            labels = {part: row.whole(part) for part in ("verb", "noun", "action")}
            pair, action = (labels["verb"], labels["noun"]), labels["action"]
            if action >= len(parts) or parts[action] != pair:
                known = f"(verb, noun) {parts[action]}" if action < len(parts) else "no such action"
                raise DataError(f"{row}: action {action} has (verb, noun) {pair}; actions.csv has {known}")
            frames = row.whole("start", least=1), row.whole("end", least=1)
            examples.append(frame_segment(row, ident, of, row.text("video"), frames, labels))
    return Annotations(
        name=NAME,
        task="anticipation",
        examples=tuple(examples),
        classes={"action": actions, **classes},
        action_parts=parts,
    )


def _read_actions(path: Path) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...], dict[str, tuple[str, ...]]]:
    """Names of actions, their (verb, noun), and the names of verbs and nouns."""
    if not path.exists():
        raise DataError(f"{path} is missing; get it from {RULSTM_PUBLIC}")
    names: list[str] = []
    parts: list[tuple[int, int]] = []
    found: dict[str, dict[int, str]] = {"verb": {}, "noun": {}}
    for row in read_rows(path, ("id", "parts", "name")):
        if row.whole("id") != len(names):
            raise DataError(f"{row}: id is {row.text('id')}; actions count from 0 without a gap, in order")
        verb, noun = row.text("parts").partition("_")[::2]
        texts = row.text("name").partition("_")[::2]
        if not (verb.isdigit() and noun.isdigit() and all(texts)):
            raise DataError(f"{row}: it takes numbers as 1_5 and names as Open_cabinet")
        for part, number, text in (("verb", int(verb), texts[0]), ("noun", int(noun), texts[1])):
            if found[part].setdefault(number, text) != text:
                raise DataError(f"{row}: {part} {number} is {text!r} here and {found[part][number]!r} before")
        names.append(" ".join(texts))
        parts.append((int(verb), int(noun)))
    for part, of in found.items():
        if sorted(of) != list(range(len(of))):
            raise DataError(f"{path}: {part}s must count from 0 without a gap")
    return tuple(names), tuple(parts), {part: tuple(of[i] for i in range(len(of))) for part, of in found.items()}
