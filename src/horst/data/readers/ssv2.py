"""Something-Something v2: its JSON files and its webm videos, whole or a subset of its templates.

Annotations: a file of labels ({template without brackets: id as a string}) and one file a split (a list of {id, label,
template, placeholders}; the test split has ids alone). Both public namings of these files are found by themselves:
something-something-v2-train.json and train.json. Videos are <id>.webm in one folder.
A file mirror.json of our own ({template: template of the mirrored clip}) may say which clips can be flipped.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from horst.data.example import Annotations, Example
from horst.data.readers.folder import pictures_at
from horst.data.readers.tables import need, read_rows, read_text
from horst.errors import DataError, did_you_mean
from horst.io import read_json

SPLITS = {"train": "train", "validation": "val", "test": "test"}


def read_ssv2(
    annotations: str | Path,
    videos: str | Path,
    *,
    subset: str | Path | None = None,
    suffix: str = ".webm",
    frames_fps: float | None = None,
    name: str = "Something-Something v2",
) -> Annotations:
    """The data set whose JSON files lie in `annotations` and whose clips lie in `videos`.

    Args:
        annotations: Folder of the JSON files.
        videos: Folder of the clips.
        subset: File of templates to keep, one a line, or a CSV with a column `template`; classes are numbered in its
            order. All templates by default, numbered as in the label file.
        suffix: Ending of the clips' names: ".tar", or "" for folders, where they are numbered pictures.
        frames_fps: Pictures a second of such clips.
        name: What to call the data set, for others in the same format.
    """
    folder, clips = Path(annotations), Path(videos)
    labels = _labels(_find(folder, "labels", needed=True))
    templates = sorted(labels, key=labels.__getitem__) if subset is None else read_templates(Path(subset), labels)
    number = {template: i for i, template in enumerate(templates)}
    examples = []
    for part, split in SPLITS.items():
        file = _find(folder, part)
        if file is None:
            continue
        for item in _items(file):
            template = plain(item.get("template", ""))
            if template and template not in labels:
                raise DataError(
                    f"{file}: clip {item['id']} has the template {template!r}{did_you_mean(template, labels)}"
                )
            if template and template not in number:
                continue
            if not template and split != "test":
                raise DataError(f"{file}: clip {item['id']} has no template")
            known = {"action": number[template]} if template else {}
            media = clips / f"{item['id']}{suffix}"
            pictures = pictures_at(media, frames_fps)
            examples.append(Example(id=str(item["id"]), split=split, media=media, labels=known, pictures=pictures))
    if not examples:
        raise DataError(f"{folder}: there is none of train.json, validation.json, test.json in it, by either naming")
    return Annotations(
        name=name,
        task="recognition",
        examples=tuple(examples),
        classes={"action": tuple(templates)},
        mirror=_mirror(folder / "mirror.json", number),
    )


def plain(template: str) -> str:
    """A template as the label file writes it: without brackets."""
    return template.replace("[", "").replace("]", "")


def read_templates(path: Path, labels: dict[str, int]) -> list[str]:
    """The templates of a subset file, each of which must be a label."""
    if path.suffix == ".csv":
        found = [(line, need(path, line, row, "template")) for line, row in read_rows(path)]
    else:
        found = list(enumerate(read_text(path).splitlines(), 1))
    templates: list[str] = []
    for line, text in found:
        template = plain(text.strip())
        if not template:
            continue
        if template not in labels:
            raise DataError(f"{path}, line {line}: {template!r} is no template{did_you_mean(template, labels)}")
        if template in templates:
            raise DataError(f"{path}, line {line}: {template!r} occurs twice; remove one of the lines")
        templates.append(template)
    if not templates:
        raise DataError(f"{path} names no template: one a line, or a CSV with a column 'template'")
    return templates


def _mirror(path: Path, number: dict[str, int]) -> tuple[int, ...]:
    """The class of each template after a horizontal flip, where a file {template: flipped template} says so."""
    if not path.exists():
        return ()
    data = read_json(path)
    if not isinstance(data, dict) or not all(isinstance(value, str) for value in data.values()):
        raise DataError(f"{path}: a mapping of templates to templates is needed")
    flipped = {plain(a): plain(b) for a, b in data.items()}
    return tuple(number.get(flipped.get(template, ""), -1) for template in number)


def _find(folder: Path, part: str, *, needed: bool = False) -> Path | None:
    names = [f"something-something-v2-{part}.json", f"{part}.json"]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    if needed:
        raise DataError(f"{folder}: there is neither {' nor '.join(names)} in it")
    return None


def _labels(path: Path | None) -> dict[str, int]:
    assert path is not None
    data = read_json(path)
    if not isinstance(data, dict) or not data:
        raise DataError(f"{path}: a mapping of templates to ids is needed")
    found: dict[str, int] = {}
    by_id: dict[int, str] = {}
    for template, number in data.items():
        if isinstance(number, bool) or not isinstance(number, int | str) or not re.fullmatch("[0-9]+", str(number)):
            raise DataError(f"{path}: {template!r} has the id {number!r}; ids must be whole numbers from 0 on")
        name = plain(template)
        if name in found:
            raise DataError(f"{path}: the template {name!r} occurs twice, with and without brackets; remove one")
        if (other := by_id.setdefault(int(number), template)) != template:
            raise DataError(f"{path}: {template!r} and {other!r} both have the id {number}; give each its own")
        found[name] = int(number)
    return found


def _items(path: Path) -> list[dict[str, Any]]:
    data = read_json(path)
    if not isinstance(data, list):
        raise DataError(f"{path}: a list of mappings with an id is needed, not {type(data).__name__}")
    seen: set[str] = set()
    for place, item in enumerate(data, 1):
        ident = item.get("id") if isinstance(item, dict) else None
        if isinstance(ident, bool) or not isinstance(ident, str | int) or ident == "":
            raise DataError(f"{path}, item {place}: it is {item!r:.100}; a list of mappings with an id is needed")
        if not isinstance(item.get("template", ""), str):
            raise DataError(f"{path}: clip {ident} has the template {item['template']!r}, which is no text")
        if str(ident) in seen:
            raise DataError(f"{path}, item {place}: the id {ident} occurs twice; remove one of the clips")
        seen.add(str(ident))
    return data
