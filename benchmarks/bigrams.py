"""What the order of actions alone tells about the next action: the reference for models of the task "online".

    python -m benchmarks.bigrams cad120.yaml      # a data set of whole videos, as for `horst extract`

Predicts each action but the first of its video at start - tau_a. "Prior" predicts the most frequent action, "bigram"
the one that most often follows the action that began last, "trigram" also uses the one before it. Both know the true
labels of these actions, which a model does not. Each group, such as a person, is left out once, the others are counted,
and the examples of all groups are pooled. Equal counts are decided by those of the shorter context.
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections import Counter, defaultdict
from pathlib import Path

import torch
from rich.table import Table

from horst.console import Console
from horst.data.config import DataConfig
from horst.data.example import UNKNOWN, Annotations, Example
from horst.data.source import open_source
from horst.errors import ConfigError, DataError
from horst.evaluation.metrics import accuracy_of_ranks, label_ranks, recall_of_ranks
from horst.video.sampling import SLACK

ORDERS = ("prior", "bigram", "trigram")
Context = tuple[int, ...]  # the last actions, the latest one last


def examples(video: Example, tau: float) -> list[tuple[Context, int]]:
    """(labels of the last two actions that have begun, or UNKNOWN; the next action) of each action evaluated."""
    starts, labels = [s.start for s in video.segments], [s.label for s in video.segments]
    found = []
    for start, label in zip(starts[1:], labels[1:], strict=True):
        if (time := start - tau) > -SLACK:
            begun = bisect_right(starts, time + SLACK)
            found.append(((UNKNOWN, UNKNOWN, *labels[:begun])[-2:], label))
    return found


def measure(annotations: Annotations, tau: float) -> dict[str, tuple[int, float, float]]:
    """(examples, top-1, class-mean top-1) of each order."""
    groups: dict[str | None, list[tuple[Context, int]]] = defaultdict(list)
    for video in annotations.examples:
        groups[video.group] += examples(video, tau)
    if len(groups) < 2:
        raise DataError(f"{annotations.name} has {len(groups)} group of videos; leaving one out needs two or more")
    classes, labels = len(annotations.classes["action"]), torch.tensor([n for g in groups.values() for _, n in g])
    scores: dict[str, list[list[float]]] = {order: [] for order in ORDERS}
    for left_out, targets in groups.items():
        counts: dict[Context, Counter[int]] = defaultdict(Counter)
        for context, label in (e for group, known in groups.items() if group != left_out for e in known):
            for length in range(len(ORDERS)):
                counts[context[2 - length :]][label] += 1
        for context, _ in targets:
            row = [0.0] * classes
            for length, order in enumerate(ORDERS):
                seen = counts[context[2 - length :]]
                row = [seen[label] + shorter / (1 + max(row)) for label, shorter in enumerate(row)]
                scores[order].append(row)
    ranks = {order: label_ranks(torch.tensor(rows, dtype=torch.float64), labels) for order, rows in scores.items()}
    return {
        order: (len(labels), accuracy_of_ranks(found, labels, 1), recall_of_ranks(found, labels, 1))
        for order, found in ranks.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tau", type=float, nargs="+", default=[1.0, 0.5, 0.25], help="seconds before the action")
    args = parser.parse_args()
    annotations = open_source(DataConfig.from_file(args.data)).annotations
    if annotations.task != "online":
        raise ConfigError(f"{args.data}: the task is {annotations.task}; bigrams are for `task: online`")
    table = Table("tau_a", "examples", "", "top-1", "class-mean top-1")
    for tau in args.tau:
        for order, (count, top1, recall) in measure(annotations, tau).items():
            table.add_row(f"{tau:g} s", str(count), order, f"{100 * top1:.1f}", f"{100 * recall:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
