"""Something-Something v2: its JSON files and webm videos, complete or a subset of its templates.

Annotations are a label file ({template without brackets: id as text}) and one file for each split (a list of {id,
label, template, placeholders}; the test split has only ids), named as something-something-v2-train.json or train.json.
Videos are <id>.webm in one folder. An optional file of horst, mirror.json ({template: template of the mirrored clip}),
lists the clips that may be flipped.
"""

import re
from pathlib import Path
from typing import Any

from horst.data.example import UNKNOWN, Annotations, Example
from horst.data.readers.folder import sequence_timing
from horst.data.readers.tables import read_lines, read_rows
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
    """The annotations of Something-Something v2: the JSON files and the clips are in two folders.

    `subset` is a file of templates to keep, one in each line, or a CSV file with a column `template`. Classes are
    numbered in its order. By default all templates are kept, numbered as in the label file. The names of clips end with
    `suffix`: ".tar" or "" for tar files or folders of images, whose frame rate is `frames_fps`. `name` is for other
    data sets in the same format.
    """
    folder = Path(annotations)
    labels = _read_labels(folder)
    templates = sorted(labels, key=labels.__getitem__) if subset is None else _read_templates(Path(subset), labels)
    number = {template: i for i, template in enumerate(templates)}
    examples = []
    for part, split in SPLITS.items():
        for item in _read_items(file) if (file := _find(folder, part)) else ():
            template = without_brackets(item.get("template", ""))
            if template and template not in labels:
                close = did_you_mean(template, labels)
                raise DataError(f"{file}: clip {item['id']} has the unknown template {template!r}{close}")
            if not template and split != "test":
                raise DataError(f"{file}: clip {item['id']} has no template")
            if template and template not in number:
                continue
            media, label = Path(videos) / f"{item['id']}{suffix}", {"action": number[template]} if template else {}
            timing = sequence_timing(media, frames_fps)
            examples.append(Example(id=str(item["id"]), split=split, media=media, labels=label, timing=timing))
    if not examples:
        raise DataError(f"{folder} has no train.json, validation.json or test.json, by either naming")
    classes, mirror = {"action": tuple(templates)}, _read_mirror(folder / "mirror.json", number)
    return Annotations(name=name, task="recognition", examples=tuple(examples), classes=classes, mirror=mirror)


def without_brackets(template: str) -> str:
    """A template as it is in the label file."""
    return template.replace("[", "").replace("]", "")


def _read_templates(path: Path, labels: dict[str, int]) -> list[str]:
    """The templates of a subset file."""
    lines = [(r.line, r.text("template")) for r in read_rows(path)] if path.suffix == ".csv" else read_lines(path)
    templates: list[str] = []
    for line, text in lines:
        template = without_brackets(text)
        if template not in labels:
            raise DataError(f"{path}, line {line}: {template!r} is no template{did_you_mean(template, labels)}")
        if template in templates:
            raise DataError(f"{path}, line {line}: {template!r} occurs twice; remove one of the lines")
        templates.append(template)
    if not templates:
        raise DataError(f"{path} has no template: write one in each line, or a CSV file with a column 'template'")
    return templates


def _read_mirror(path: Path, number: dict[str, int]) -> tuple[int, ...]:
    if not path.exists():
        return ()
    data = read_json(path)
    if not isinstance(data, dict) or not all(isinstance(value, str) for value in data.values()):
        raise DataError(f"{path}: a mapping of templates to templates is needed")
    flipped = {without_brackets(a): without_brackets(b) for a, b in data.items()}
    return tuple(number.get(flipped.get(template, ""), UNKNOWN) for template in number)


def _find(folder: Path, part: str) -> Path | None:
    paths = [folder / f"something-something-v2-{part}.json", folder / f"{part}.json"]
    return next((path for path in paths if path.is_file()), None)


def _read_labels(folder: Path) -> dict[str, int]:
    """Ids by template."""
    path = _find(folder, "labels")
    if path is None:
        raise DataError(f"{folder} has neither something-something-v2-labels.json nor labels.json")
    data = read_json(path)
    if not isinstance(data, dict) or not data:
        raise DataError(f"{path}: a mapping of templates to ids is needed")
    labels: dict[str, int] = {}
    by_id: dict[int, str] = {}
    for template, number in data.items():
        if isinstance(number, bool) or not isinstance(number, int | str) or not re.fullmatch("[0-9]+", str(number)):
            raise DataError(f"{path}: {template!r} has the id {number!r}; ids must be whole numbers from 0 on")
        name = without_brackets(template)
        if name in labels:
            raise DataError(f"{path}: the template {name!r} occurs twice, with and without brackets; remove one")
        if (other := by_id.setdefault(int(number), template)) != template:
            raise DataError(f"{path}: {template!r} and {other!r} both have the id {number}; give each its own")
        labels[name] = int(number)
    return labels


def _read_items(path: Path) -> list[dict[str, Any]]:
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
