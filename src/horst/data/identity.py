"""What "the same data" means, for kept clips, runs and studies alike.

Three things decide what a model is shown:

    media      the files: size and modification time of each; of a folder those of all files in it
    examples   ids, splits, labels and times, and the names of the classes in their order
    sampling   the ClipConfig, the task, and what decodes (READING, and the versions of the decoders)

Kept clips are compared by media and sampling. Runs and studies are compared by media and examples; the sampling is in
their configs.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from horst.data.clips import ClipConfig
from horst.data.config import Source
from horst.data.example import Example
from horst.data.packed import Packed
from horst.errors import ConfigError, DataError
from horst.io import digest, file_stamp, read_json, write_text

READING = 1
"""Raise it whenever other pixels or times are read from the same file."""
FORMAT = 1
RECORD = "data.json"
"""The name of the file in a run folder."""
LEARNT = ("train", "val")
"""The splits that a run reads."""
ABOUT_CLASS = ("split", "labels", "group")
"""What of an example does not change its clip."""
PLACE = tuple(f.name for f in fields(Example) if f.name not in (*ABOUT_CLASS, "id", "media"))
"""What says where in its media an example is."""
SHOWN = 3


def clip_key(example: Example, config: ClipConfig, data: str) -> list[Any]:
    """All that makes a clip but for the bytes of its media: not the split, which differs by fold, nor its labels."""
    told = {name: getattr(example, name) for name in ("id", "media", *PLACE)}
    return [READING, decoders(), data, asdict(config), told]


@cache
def decoders() -> dict[str, str]:
    """The packages that turn files into pixels."""
    found = {}
    for name in ("av", "pillow"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


@dataclass(frozen=True, slots=True)
class DataIdentity:
    """The examples and files of the training and validation splits: plain data, kept in a run's folder."""

    task: str
    classes: dict[str, list[str]]
    meaning: str
    """Digest of what else is said of classes: their parts, and what they are after a flip."""
    media: dict[str, str]
    """What each file or folder is, by its place in the data set."""
    examples: list[list[Any]]
    """[id, split, {task: class}, digest of its times, place of its media], in their order."""

    @classmethod
    def of(cls, source: Source) -> DataIdentity:
        """Of an opened data set. It looks at every file once, and reads none."""
        annotations = source.annotations
        examples = [e for e in annotations.examples if e.split in LEARNT]
        reader = getattr(source.read, "__self__", None)
        if isinstance(reader, Packed):
            places, media = {reader.folder: "packed"}, {"packed": reader.digest}
        else:
            places = _places(examples)
            with ThreadPoolExecutor(8) as pool:  # a disk far away answers many at once
                media = dict(zip(places.values(), pool.map(file_stamp, places), strict=True))
        names = annotations.classes
        return cls(
            task=annotations.task,
            classes={task: list(of) for task, of in names.items()},
            meaning=digest([annotations.action_parts, annotations.mirror]),
            media=media,
            examples=[
                [
                    e.id,
                    e.split,
                    {task: names[task][label] for task, label in e.labels.items()},
                    digest({name: getattr(e, name) for name in PLACE})[:12],
                    places[e.media],
                ]
                for e in examples
            ],
        )

    @property
    def digest(self) -> str:
        return digest(asdict(self))

    def write(self, folder: Path) -> None:
        """Into the folder of a run."""
        about = {"format": FORMAT, "digest": self.digest, **asdict(self)}
        write_text(folder / RECORD, json.dumps(about, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, folder: Path) -> DataIdentity | None:
        """The data of the run in `folder`; None for a run without a record."""
        path = folder / RECORD
        if not path.exists():
            return None
        data = read_json(path)
        try:
            if data.pop("format") != FORMAT:
                raise ValueError(f"it is not of format {FORMAT}")
            told = data.pop("digest")
            found = cls(**data)
            if found.digest != told:
                raise ValueError("its digest is another one")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"{path} is damaged ({error}): delete it to go on without comparing the data with those of the run"
            ) from error
        return found

    def check(self, now: DataIdentity, folder: Path) -> None:
        """Refuse to go on with the run in `folder` on data other than these."""
        if changes := self.differences(now):
            raise ConfigError(
                f"{folder} was trained on other data: {'; '.join(changes)}. Restore the data or start a new run. "
                f"If the files were only copied or touched, delete {folder / RECORD} and resume again"
            )

    def differences(self, now: DataIdentity) -> list[str]:
        """What changed from these data to those of `now`, in words; empty where they are the same."""
        if self == now:
            return []
        if self.task != now.task:
            return [f"the task was {self.task} and is {now.task}"]
        told = [line for task in {**self.classes, **now.classes} for line in self._classes(now, task)]
        before, after = _by_key(self.examples), _by_key(now.examples)
        splits = {key[1]: key[0] for key in after}
        gone = [key for key in before if key not in after]
        moved = [key for key in gone if (splits.get(key[1], key[0]), key[1]) not in {*before, key}]
        moved_to = {(splits[key[1]], key[1]) for key in moved}
        both = [key for key in before if key in after]
        told += _some("example", "moved", moved, lambda key: f"{key[1]} from {key[0]} to {splits[key[1]]}")
        told += _some("example", "missing", [k for k in gone if k not in moved], lambda key: f"{key[1]} ({key[0]})")
        new = [key for key in after if key not in before and key not in moved_to]
        told += _some("example", "new", new, lambda key: f"{key[1]} ({key[0]})")
        for place, what in ((0, "have other labels"), (1, "have other times"), (2, "are in other files")):
            changed = [key for key in both if before[key][place] != after[key][place]]
            told += _some("example", what, [_change(k[1], before[k], after[k], place) for k in changed], str)
        shared = [name for name in self.media if name in now.media]
        told += _some("file", "were replaced", [m for m in shared if self.media[m] != now.media[m]], str)
        return told or ["examples are in another order, or classes have other parts"]

    def _classes(self, now: DataIdentity, task: str) -> list[str]:
        old, new = self.classes.get(task, []), now.classes.get(task, [])
        gone, added = [n for n in old if n not in new], [n for n in new if n not in old]
        if len(gone) == len(added) == 1:
            return [f"the {task} {gone[0]!r} is now {added[0]!r}"]
        told = _some(task, "missing", gone, repr) + _some(task, "new", added, repr)
        return told or ([f"the {task}s are in another order"] if old != new else [])


def _places(examples: Sequence[Example]) -> dict[Path, str]:
    """Names of files that are the same wherever the data set lies."""
    media = dict.fromkeys(e.media for e in examples)
    if not media:
        return {}
    base = os.path.commonpath({os.path.abspath(path.parent) for path in media})
    return {path: Path(os.path.relpath(path, base)).as_posix() for path in media}


def _by_key(examples: Sequence[Sequence[Any]]) -> dict[tuple[str, str], Sequence[Any]]:
    """(labels, times, media) by split and id; ids that occur several times in a split are numbered."""
    seen: Counter[tuple[str, str]] = Counter()
    found: dict[tuple[str, str], Sequence[Any]] = {}
    for ident, split, *rest in examples:
        count = seen[split, ident]
        seen[split, ident] += 1
        found[split, f"{ident} #{count + 1}" if count else ident] = rest
    return found


def _change(ident: str, before: Sequence[Any], after: Sequence[Any], at: int) -> str:
    return ident if at == 1 else f"{ident}: {_said(before[at])} before, {_said(after[at])} now"


def _said(value: Any) -> str:
    return ", ".join(f"{task} {name!r}" for task, name in value.items()) if isinstance(value, dict) else str(value)


def _some(what: str, how: str, items: Sequence[Any], say: Callable[[Any], str]) -> list[str]:
    if not items:
        return []
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return [f"{len(items)} {what}{'s' if len(items) > 1 else ''} {how} ({', '.join(map(say, items[:SHOWN]))}{more})"]
