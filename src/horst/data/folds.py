"""Cross-validation: the examples of train and val are assigned to folds, so that each is for validation in one fold.

They depend on the seed and on the examples, not on their order, their splits or the location of their files: all
machines, and all formats of a data set, have the same folds.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from horst.data.example import FIT_SPLITS, UNKNOWN, Annotations, Example
from horst.errors import ConfigError, DataError

Link = tuple[str, str]  # (kind, name) of what examples may have in common


def refold(annotations: Annotations, *, count: int, index: int, seed: int = 0, by_media: bool = True) -> Annotations:
    """The same examples in the same order; of train and val, those of fold `index` are val and all others train.

    Sets of examples with their own metrics belong to the original validation split. They are dropped, with a notice.
    `by_media`: whether examples of one file stay together; False for packed data, where all have one file.
    """
    examples = [example for example in annotations.examples if example.split in FIT_SPLITS]
    if not examples:
        raise ConfigError(f"{annotations.name}: there are no examples in train and val; leave fold out of the data")
    repeated = [ident for ident, times in Counter(e.id for e in examples).items() if times > 1]
    if repeated:
        several = f"several examples of train and val have the id {repeated[0]!r}"
        raise DataError(f"{annotations.name}: {several}; folds need unique ids")
    groups = connected(examples, by_media=by_media)
    if len(groups) < count:
        few = f"{count} folds need {count} groups or more, and its {len(examples)} examples are of {len(groups)}"
        raise ConfigError(f"{annotations.name}: {few}; choose a smaller fold.count")
    validation = {example.id for example in assign_folds(groups, count, seed)[index]}
    splits = {example.id: "val" if example.id in validation else "train" for example in examples}
    moved = tuple(replace(e, split=splits[e.id]) if e.split in FIT_SPLITS else e for e in annotations.examples)
    notices = annotations.notices
    if absolute := next((e.id for e in examples if Path(e.id).is_absolute()), None):
        remedy = "give relative paths or ids, or another machine may have other folds"
        notices += (f"folds depend on the ids of examples, which are absolute paths ({absolute}): {remedy}",)
    if annotations.example_sets:
        names = ", ".join(annotations.example_sets)
        notices += (f"sets of the original validation split are not evaluated with folds: {names}",)
    return replace(annotations, examples=moved, example_sets={}, notices=notices)


def example_groups(annotations: Annotations, *, by_media: bool = True) -> tuple[str, ...]:
    """The group of each example, named by the first of its ids: examples of one recording are not independent.

    Recognition: what folds keep together. Anticipation: the video where it is named, not the participant: a validation
    split has few of those.
    """
    examples = annotations.examples
    if annotations.task != "recognition":
        examples = tuple(replace(e, group="") if e.video else e for e in examples)
    groups = [[example.id for example in group] for group in connected(examples, by_media=by_media)]
    names = {ident: min(group) for group in groups for ident in group}
    return tuple(names[example.id] for example in examples)


def connected(examples: Sequence[Example], *, by_media: bool = True) -> list[list[Example]]:
    """Groups of examples that are linked, directly or through others (union-find)."""
    parent: dict[Link, Link] = {}

    def root(link: Link) -> Link:
        parent.setdefault(link, link)
        while parent[link] != link:
            parent[link] = link = parent[parent[link]]  # path halving
        return link

    linked = [(example, links(example, by_media=by_media)) for example in examples]
    for _, (first, *others) in linked:
        for other in others:
            parent[root(other)] = root(first)
    groups: dict[Link, list[Example]] = {}
    for example, (first, *_) in linked:
        groups.setdefault(root(first), []).append(example)
    return list(groups.values())


def links(example: Example, *, by_media: bool = True) -> list[Link]:
    """What an example shares with others: its group, its video, or else its file; its id if it has none of them.

    The file does not count if a video is named: it may be a folder with the frames of all videos.
    """
    found = [("group", example.group), ("video", example.video)]
    if by_media and not example.video:
        found.append(("media", str(example.media)))
    return [link for link in found if link[1]] or [("id", example.id)]


def assign_folds(groups: Sequence[Sequence[Example]], count: int, seed: int) -> list[list[Example]]:
    """The examples of each fold. Groups are assigned, the largest first, so that classes and sizes stay balanced.

    The objective is the sum over folds of squared class counts, each divided by the size of the class, and of squared
    sizes likewise. Adding a group to a fold increases it by what the two have in common.
    """
    total = Counter(_label(example) for group in groups for example in group)
    everything = total.total()
    folds: list[list[Example]] = [[] for _ in range(count)]
    labels: list[Counter[int]] = [Counter() for _ in range(count)]
    for group in sorted(groups, key=lambda group: (-len(group), _order(group, seed))):
        added = sorted(Counter(_label(example) for example in group).items())  # sorted: sums of floats are the same
        in_common = [
            sum(labels[k][label] * n / total[label] for label, n in added) + len(folds[k]) * len(group) / everything
            for k in range(count)
        ]
        chosen = in_common.index(min(in_common))
        folds[chosen] += group
        labels[chosen].update(dict(added))
    return folds


def _order(group: Sequence[Example], seed: int) -> str:
    """The place of a group in the shuffled order: a hash of its first id, which is the same on every machine."""
    return hashlib.sha256(f"{seed} {min(example.id for example in group)}".encode()).hexdigest()


def _label(example: Example) -> int:
    return example.labels.get("action", UNKNOWN)
