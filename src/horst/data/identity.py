"""Whether two data sets are the same, for cached clips, runs and studies.

    media      the files: size and modification time of each, in a folder those of all files
    examples   ids, splits, labels and times, and the names of the classes in their order
    sampling   the ClipConfig, the task, and the decoder (READING, and the versions of the packages)

Cached clips are compared by media and sampling, runs and studies by media and examples: their configs have sampling.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from horst.data.clips import ClipConfig
from horst.data.example import FIT_SPLITS, Example
from horst.data.source import Source
from horst.errors import ConfigError, DataError
from horst.io import digest, read_json, write_text

READING = 1  # raise it whenever other pixels or times are read from the same file
FORMAT = 1
RECORD = "data.json"  # the name of the file in a run folder
MAX_LISTED = 3


def clip_key(example: Example, config: ClipConfig, data: str) -> list[Any]:
    """All that determines a clip except the contents of its media: not the split, which differs by fold, nor labels."""
    about = {"id": example.id, "media": example.media, **_place(example)}
    form = asdict(config)
    del form["sequence"]  # of targets alone; without it digests of older versions stay the same
    return [READING, decoders(), data, form, about]


def _place(example: Example) -> dict[str, Any]:
    """Where in its media an example is. Keys and text are those of older versions, so that digests stay the same."""
    place: dict[str, Any] = {name: getattr(example, name) for name in ("start", "end", "start_frame", "video")}
    timing = None if example.timing is None else str(example.timing).replace("SequenceTiming(", "Pictures(")
    segments = {"segments": example.segments} if example.segments else {}
    return place | {"pictures": timing} | segments


@cache
def decoders() -> dict[str, str]:
    """Versions of the packages that decode files."""
    return {name: package_version(name) or "" for name in ("av", "pillow")}


def package_version(name: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class DataIdentity:
    """The examples and files of the training and validation splits, stored in the folder of a run."""

    task: str
    classes: dict[str, list[str]]
    meaning: str  # digest of the parts of actions, and of their mirrored actions
    media: dict[str, str]  # stamps of files and folders by name; see `Source.media_stamps`
    examples: list[list[Any]]  # [id, split, {task: class}, digest of its times, name of its media], in their order

    @classmethod
    def of(cls, source: Source) -> Self:
        """The identity of an open data set. The size and time of every file are looked up; none is read."""
        annotations, names = source.annotations, source.annotations.classes
        examples = [e for e in annotations.examples if e.split in FIT_SPLITS]
        media, found = source.media_stamps(examples), []
        for e in examples:
            labels = {task: names[task][label] for task, label in e.labels.items()}
            found.append([e.id, e.split, labels, digest(_place(e))[:12], media[e.media][0]])
        classes = {task: list(of) for task, of in names.items()}
        meaning = digest([annotations.action_parts, annotations.mirror])
        return cls(annotations.task, classes, meaning, dict(media.values()), found)

    @property
    def digest(self) -> str:
        return digest(asdict(self))

    @property
    def examples_digest(self) -> str:
        """Of the examples alone: the same for copies of the files, on any machine."""
        return digest([self.task, self.classes, self.meaning, [example[:4] for example in self.examples]])[:16]

    def write(self, folder: Path) -> None:
        """Write the record into the folder of a run."""
        about = {"format": FORMAT, "digest": self.digest, **asdict(self)}
        write_text(folder / RECORD, json.dumps(about, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The data of the run in `folder`; None if it has no record."""
        if not (path := folder / RECORD).exists():
            return None
        data = read_json(path)
        try:
            if data.pop("format") != FORMAT:
                raise ValueError(f"it is not of format {FORMAT}")
            stored = data.pop("digest")
            found = cls(**data)
            if found.digest != stored:
                raise ValueError("its digest does not match")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            remedy = "delete it to continue without comparing the data with those of the run"
            raise DataError(f"{path} is damaged ({error}): {remedy}") from error
        return found

    def check(self, now: Self, folder: Path) -> None:
        """ConfigError if the run in `folder`, which was trained on these data, would continue on others."""
        if changes := self.differences(now):
            touched = f"If the files were only copied or touched, delete {folder / RECORD} and resume again"
            other = f"{folder} was trained on other data: {'; '.join(changes)}"
            raise ConfigError(f"{other}. Restore the data or start a new run. {touched}")

    def differences(self, now: Self) -> list[str]:
        """What changed from these data to `now`, in words; empty if they are the same."""
        if self == now:
            return []
        if self.task != now.task:
            return [f"the task was {self.task} and is {now.task}"]
        lines = [line for task in {**self.classes, **now.classes} for line in self._class_changes(now, task)]
        before, after = _by_key(self.examples), _by_key(now.examples)
        splits = {ident: split for split, ident in after}
        gone, new = [key for key in before if key not in after], [key for key in after if key not in before]
        moved = {ident: split for split, ident in gone if ident in splits and (splits[ident], ident) not in before}
        lines += _listed("example", "moved", [f"{i} from {split} to {splits[i]}" for i, split in moved.items()])
        for how, keys in (("missing", gone), ("new", new)):
            lines += _listed("example", how, [f"{ident} ({split})" for split, ident in keys if ident not in moved])
        for place, what in enumerate(("have other labels", "have other times", "are in other files")):
            changed = [key for key in before if key in after and before[key][place] != after[key][place]]
            lines += _listed("example", what, [_change(k[1], before[k], after[k], place) for k in changed])
        replaced = [m for m in self.media if m in now.media and self.media[m] != now.media[m]]
        lines += _listed("file", "were replaced", replaced)
        return lines or ["examples are in another order, or classes have other parts"]

    def _class_changes(self, now: Self, task: str) -> list[str]:
        old, new = self.classes.get(task, []), now.classes.get(task, [])
        gone, added = [n for n in old if n not in new], [n for n in new if n not in old]
        if len(gone) == len(added) == 1:
            return [f"the {task} {gone[0]!r} is now {added[0]!r}"]
        lines = _listed(task, "missing", [*map(repr, gone)]) + _listed(task, "new", [*map(repr, added)])
        return lines or ([f"the {task}s are in another order"] if old != new else [])


def _by_key(examples: Sequence[Sequence[Any]]) -> dict[tuple[str, str], Sequence[Any]]:
    """(labels, times, media) by split and id; ids that occur several times in a split are numbered."""
    seen: Counter[tuple[str, str]] = Counter()
    found: dict[tuple[str, str], Sequence[Any]] = {}
    for ident, split, *rest in examples:
        seen[split, ident] += 1
        count = seen[split, ident]
        found[split, f"{ident} #{count}" if count > 1 else ident] = rest
    return found


def _change(ident: str, before: Sequence[Any], after: Sequence[Any], at: int) -> str:
    old, new = (
        ", ".join(f"{task} {name!r}" for task, name in value.items()) if isinstance(value, dict) else str(value)
        for value in (before[at], after[at])
    )
    return ident if at == 1 else f"{ident}: {old} before, {new} now"


def _listed(what: str, how: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return [f"{len(names)} {what}{'s' if len(names) > 1 else ''} {how} ({', '.join(names[:MAX_LISTED])}{more})"]
