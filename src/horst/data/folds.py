"""Cross-validation: the examples of train and val dealt out anew, so that each is for validation in one fold.

Folds depend on the seed and on what the examples are: not on their order, on the splits that they had, or on where
their files lie. So runs on several machines agree on them, and so do the forms in which a data set is kept.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from horst.data.example import Annotations, Example
from horst.errors import ConfigError, DataError

DEALT = ("train", "val")
UNKNOWN = -1
"""The class of examples that nobody labelled."""


def refold(annotations: Annotations, *, count: int, index: int, seed: int = 0, by_media: bool = True) -> Annotations:
    """The same examples in the same order, of train and val those of fold `index` as val and all others as train.

    Sets of examples that are evaluated apart are dropped: they were drawn up for another validation split, and would
    be there in part. Classes, and sets of classes, stay.

    Args:
        annotations: All splits; test stays as it is.
        count: How many folds there are, from 2 on.
        index: Of the fold that is for validation, from 0 to count - 1.
        seed: Of the order in which groups of one size are dealt out.
        by_media: Whether a file says what belongs together, where nobody names a group. In packed data it does not.
    """
    dealt = [example for example in annotations.examples if example.split in DEALT]
    if not dealt:
        raise ConfigError(
            f"{annotations.name}: there is nothing to fold, neither in train nor in val; leave fold out of the data"
        )
    doubled = [ident for ident, times in Counter(e.id for e in dealt).items() if times > 1]
    if doubled:
        raise DataError(
            f"{annotations.name}: {doubled[0]!r} stands for several examples of train and val; "
            "to fold them, each needs an id of its own"
        )
    groups = together(dealt, by_media=by_media)
    if len(groups) < count:
        raise ConfigError(
            f"{annotations.name}: {count} folds need {count} groups or more, and its {len(dealt)} examples are of "
            f"{len(groups)}; choose a smaller fold.count"
        )
    valid = {example.id for example in deal(groups, count, seed)[index]}
    examples = tuple(
        replace(e, split="val" if e.id in valid else "train") if e.split in DEALT else e for e in annotations.examples
    )
    return replace(annotations, examples=examples, example_sets={})


def together(examples: Sequence[Example], *, by_media: bool = True) -> list[list[Example]]:
    """Examples that must not be torn apart: of one group, else of one video, else of one file; else one by itself."""
    found: dict[Hashable, list[Example]] = {}
    for example in examples:
        key = ("media", str(example.media)) if by_media else ("id", example.id)
        if example.group or example.video:
            key = ("group", example.group) if example.group else ("video", example.video)
        found.setdefault(key, []).append(example)
    return list(found.values())


def deal(groups: Sequence[Sequence[Example]], count: int, seed: int) -> list[list[Example]]:
    """The examples of each fold: groups go, the largest first, to where they leave class counts and sizes most even.

    Even is what has the least sum over folds of squared counts, each class in proportion to its size, and of squared
    sizes likewise. To add a group to a fold adds to that what the two have in common.
    """
    total = Counter(_class(example) for group in groups for example in group)
    everything = total.total()
    folds: list[list[Example]] = [[] for _ in range(count)]
    held: list[Counter[int]] = [Counter() for _ in range(count)]
    for group in sorted(groups, key=lambda group: (-len(group), _place(group, seed))):
        more = sorted(Counter(_class(example) for example in group).items())  # floats are added up in one order
        in_common = [
            sum(held[k][label] * n / total[label] for label, n in more) + len(folds[k]) * len(group) / everything
            for k in range(count)
        ]
        chosen = in_common.index(min(in_common))
        folds[chosen] += group
        held[chosen].update(dict(more))
    return folds


def _place(group: Sequence[Example], seed: int) -> str:
    """In the shuffled order: by its first id, which is the same on every machine."""
    return hashlib.sha256(f"{seed} {min(example.id for example in group)}".encode()).hexdigest()


def _class(example: Example) -> int:
    return example.labels.get("action", UNKNOWN)
