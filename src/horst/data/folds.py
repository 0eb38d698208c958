"""Cross-validation: the examples of train and val dealt out anew, so that each is for validation in one fold.

Folds depend on the seed and on what the examples are: not on their order, on the splits that they had, or on where
their files lie. So runs on several machines agree on them, and so do the forms in which a data set is kept.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from horst.data.example import Annotations, Example
from horst.errors import ConfigError, DataError

DEALT = ("train", "val")
Tie = tuple[str, str]
"""Of what kind, and its name."""
UNKNOWN = -1
"""The class of examples that nobody labelled."""


def refold(annotations: Annotations, *, count: int, index: int, seed: int = 0, by_media: bool = True) -> Annotations:
    """The same examples in the same order, of train and val those of fold `index` as val and all others as train.

    Sets of examples that are evaluated apart are dropped, with a notice: they were drawn up for another validation
    split, and would be there in part. Classes, and sets of classes, stay.

    Args:
        annotations: All splits; test stays as it is.
        count: How many folds there are, from 2 on.
        index: Of the fold that is for validation, from 0 to count - 1.
        seed: Of the order in which groups of one size are dealt out.
        by_media: Whether a file says what belongs together. In packed data it does not.
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
    notices = annotations.notices
    if annotations.example_sets:
        names = ", ".join(annotations.example_sets)
        notices += (f"sets of the original validation split are not evaluated with folds: {names}",)
    return replace(annotations, examples=examples, example_sets={}, notices=notices)


def together(examples: Sequence[Example], *, by_media: bool = True) -> list[list[Example]]:
    """Examples that must not be torn apart: those with a tie in common, and those that they have one with in turn."""
    above: dict[Tie, Tie] = {}  # leads, step by step, to the tie that stands for all that hang together

    def top(tie: Tie) -> Tie:
        above.setdefault(tie, tie)
        while above[tie] != tie:
            above[tie] = tie = above[above[tie]]  # half the way for whoever comes next
        return tie

    tied = [(example, ties(example, by_media=by_media)) for example in examples]
    for _, (first, *others) in tied:
        for other in others:
            above[top(other)] = top(first)
    found: dict[Tie, list[Example]] = {}
    for example, (first, *_) in tied:
        found.setdefault(top(first), []).append(example)
    return list(found.values())


def ties(example: Example, *, by_media: bool = True) -> list[Tie]:
    """What an example shares with others: its group, its video, else its file; where there is none, it is by itself.

    A file is not asked where a video is named: it may be a folder with the frames of all videos.
    """
    found = [("group", example.group), ("video", example.video)]
    if by_media and not example.video:
        found.append(("media", str(example.media)))
    return [tie for tie in found if tie[1]] or [("id", example.id)]


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
