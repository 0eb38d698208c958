"""From predictions to named numbers, flat, as fractions of 1.

    recognition     action/top1@25%, action/top5@25%, calibration@25% for every observed fraction;
                    area (under top-1 over the observed fraction), decided (the mean fraction from which on the answer
                    stays the final one)
    anticipation    action/top1@1s, action/top5@1s, action/recall5@1s (mean top-5 recall) for action, verb, noun and
                    every tau_a; action/time_to_action (seconds); action/recall5@1s/many-shot, .../unseen, .../tail
                    where the annotations name such classes or examples

Verb and noun are summed from actions where the model does not predict them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import torch
from torch import Tensor

from horst.data.batches import UNKNOWN
from horst.data.clips import ClipConfig
from horst.data.example import Annotations, Split, Task
from horst.evaluation.metrics import (
    accuracy_of_ranks,
    area,
    calibration_error,
    decided,
    label_ranks,
    marginalize,
    mean_topk_recall,
    probabilities,
    recall_of_ranks,
    time_of_ranks,
    topk_accuracy,
)
from horst.evaluation.predictions import Predictions, position_name, positions

PARTS = ("verb", "noun")
"""Of an action, in the order of `Annotations.action_parts`."""
DISCARDING = "EPIC-Kitchens 55"
RECALLED = "EPIC-Kitchens 100"
"""Whose table is of mean top-5 recall."""
EXPECTED = {
    DISCARDING: (("many-shot",), "subsets", "classes: their lists are missing"),
    RECALLED: (
        ("unseen", "tail"),
        "example_sets",
        "examples: their lists are missing, or folds replaced them",
    ),
}
"""The sets that the protocol of a data set evaluates apart, where annotations hold them, and why they may be absent."""
Member = TypeVar("Member", int, str)


def measure(predictions: Predictions, annotations: Annotations, *, rulstm_empty: bool = False) -> dict[str, float]:
    """All metrics. Tasks without any label have none.

    Args:
        predictions: Of one split.
        annotations: Of the same data set, whichever splits it holds.
        rulstm_empty: Where verbs and nouns are summed from actions, treat those without actions as RULSTM does.
    """
    dropped = left_out(predictions, annotations)
    counted = predictions.select(~dropped) if dropped.any() else predictions
    found: dict[str, float] = {}
    for task, scores in all_scores(counted, annotations, rulstm_empty=rulstm_empty).items():
        labels = counted.labels[task]
        known = labels != UNKNOWN
        if not known.any():
            continue
        ranks = torch.stack([label_ranks(scores[:, p], labels) for p in range(len(counted.positions))], 1)
        for p, name in enumerate(counted.names()):
            found |= {f"{task}/top{k}@{name}": accuracy_of_ranks(ranks[:, p], labels, k) for k in (1, 5)}
            if counted.task == "anticipation":
                recall = f"{task}/recall5@{name}"
                found[recall] = recall_of_ranks(ranks[:, p], labels, 5)
                found |= _subsets(recall, task, ranks[:, p], labels, counted.ids, annotations)
            elif (known & counted.read).any():
                found[f"calibration@{name}"] = calibration_error(scores[:, p], labels)
        if counted.task == "anticipation":
            found[f"{task}/time_to_action"] = time_of_ranks(ranks, labels, 5, counted.positions)
    if counted.task == "recognition" and len(counted.positions) > 1 and len(counted):
        if "action/top1@100%" in found:
            found["area"] = area(counted.positions, [found[f"action/top1@{name}"] for name in counted.names()])
        found["decided"] = decided(counted.answers, counted.lengths)
    return found


def unmeasured(predictions: Predictions, annotations: Annotations) -> dict[str, str]:
    """What of the protocol `measure` cannot find, and why: "verb", "action/recall5/unseen"."""
    dropped = left_out(predictions, annotations)
    counted = predictions.select(~dropped) if dropped.any() else predictions
    found: dict[str, str] = {}
    scored = {*predictions.scores, *(PARTS if annotations.action_parts else ())}
    for task in annotations.classes:
        if task not in scored:
            found[task] = f"the model does not predict it, and the data does not say which {task} an action has"
            continue
        labels = counted.labels[task]
        if not (labels != UNKNOWN).any():
            found[task] = "no evaluated example has a label"
            continue
        if counted.task == "recognition":
            continue
        there = set(labels[labels != UNKNOWN].tolist())
        ids = {ident for ident, label in zip(counted.ids, labels.tolist(), strict=True) if label != UNKNOWN}
        for name, classes in _of_task(task, annotations.subsets).items():
            if not classes & there:
                found[f"{task}/recall5/{name}"] = "no evaluated example is of these classes"
        for name, members in _of_task(task, annotations.example_sets).items():
            if not members & ids:
                found[f"{task}/recall5/{name}"] = "no evaluated example is in this set"
    for data, (sets, kind, file) in EXPECTED.items():
        absent = [name for name in sets if not any(one.split()[0] == name for one in getattr(annotations, kind))]
        if annotations.name == data and absent:
            found["recall5/" + ", ".join(absent)] = f"the data has no such {file}"
    return found


def summary(task: Task, clip: ClipConfig | None = None, data: str = "") -> str:
    """The one metric by which models of a task are compared: the higher the better.

    Recognition: the area under top-1, or top-1 at the fraction that is shown where that is a part. Anticipation: action
    top-5 accuracy at 1 s, as RULSTM's code chooses its epochs on EPIC-Kitchens 55; on EPIC-Kitchens 100 (`data`) mean
    top-5 recall, as that code does there. Where nothing is anticipated from 1 s before: at the nearest time.
    """
    there = positions(task, clip or ClipConfig())
    if task == "recognition":
        return "area" if len(there) > 1 else f"action/top1@{position_name(task, there[0])}"
    kind = "recall5" if data == RECALLED else "top5"
    return f"action/{kind}@{position_name(task, min(there, key=lambda tau: abs(tau - 1)))}"


def metric_names(annotations: Annotations, split: Split, clip: ClipConfig, predicted: Iterable[str]) -> list[str]:
    """The fractions that `measure` will find of a split, the higher the better, where a model predicts these tasks."""
    names = [position_name(annotations.task, position) for position in positions(annotations.task, clip)]
    examples = annotations.split(split).examples
    summed = [part for part in PARTS if annotations.action_parts and part in annotations.classes]
    found = []
    for task in dict.fromkeys([*predicted, *summed]):
        known = [example for example in examples if task in example.labels]
        if not known:
            continue
        found += [f"{task}/top{k}@{name}" for name in names for k in (1, 5)]
        if annotations.task == "anticipation":
            classes = {example.labels[task] for example in known}
            sets = [name for name, members in _of_task(task, annotations.subsets).items() if members & classes]
            ids = {example.id for example in known}
            sets += [name for name, members in _of_task(task, annotations.example_sets).items() if members & ids]
            found += [f"{task}/recall5@{name}{end}" for name in names for end in ("", *(f"/{one}" for one in sets))]
        elif len(names) > 1:
            found.append("area")
    return found


def left_out(predictions: Predictions, annotations: Annotations) -> Tensor:
    """(N,) bool: what a protocol does not count at all.

    EPIC-Kitchens 55 is evaluated without segments that no frame precedes; everywhere else they are misses.
    """
    discarding = annotations.name == DISCARDING or "many-shot action" in annotations.subsets
    return predictions.empty if discarding else torch.zeros_like(predictions.empty)


def all_scores(predictions: Predictions, annotations: Annotations, *, rulstm_empty: bool = False) -> dict[str, Tensor]:
    """(N, P, C) by task; verb and noun as logarithms of summed probabilities where the model does not say them."""
    scores = dict(predictions.scores)
    for part, name in enumerate(PARTS if annotations.action_parts else ()):
        if name in annotations.classes and name not in scores:
            classes, count = [pair[part] for pair in annotations.action_parts], len(annotations.classes[name])
            # Position by position: in double precision all of them would take much memory.
            summed = [
                marginalize(probabilities(scores["action"][:, p].double()), classes, count, rulstm_empty)
                for p in range(len(predictions.positions))
            ]
            scores[name] = torch.stack(summed, 1).log()
    return scores


def prior(annotations: Annotations, split: Split) -> dict[str, float]:
    """What always saying the most frequent classes of the training split gives: action/top1, action/top5, ...

    Empty where there is no training split.
    """
    if "train" not in annotations.counts():
        return {}
    found: dict[str, float] = {}
    for task, names in annotations.classes.items():
        train, labels = (
            torch.tensor([e.labels.get(task, UNKNOWN) for e in annotations.split(s).examples]) for s in ("train", split)
        )
        train = train[train != UNKNOWN]
        if not len(train) or labels.eq(UNKNOWN).all():
            continue
        scores = torch.bincount(train, minlength=len(names)).double().expand(len(labels), -1)
        top1, top5 = topk_accuracy(scores, labels, (1, 5))
        found |= {f"{task}/top1": top1, f"{task}/top5": top5}
        if annotations.task == "anticipation":
            found[f"{task}/recall5"] = mean_topk_recall(scores, labels, 5)
    return found


def _subsets(
    metric: str, task: str, ranks: Tensor, labels: Tensor, ids: tuple[str, ...], annotations: Annotations
) -> dict[str, float]:
    """Recall on sets of classes and of examples; none where nothing of a set was evaluated."""
    found = {}
    for name, classes in _of_task(task, annotations.subsets).items():
        if torch.isin(labels, torch.tensor(sorted(classes))).any():
            found[f"{metric}/{name}"] = recall_of_ranks(ranks, labels, 5, classes)
    for name, members in _of_task(task, annotations.example_sets).items():
        rows = torch.tensor([ident in members for ident in ids]) & (labels != UNKNOWN)
        if rows.any():
            found[f"{metric}/{name}"] = recall_of_ranks(ranks[rows], labels[rows], 5)
    return found


def _of_task(task: str, sets: Mapping[str, frozenset[Member]]) -> dict[str, frozenset[Member]]:
    """Those that belong to a task ("tail verb", called "tail") or to all ("unseen")."""
    others = {other for other in ("action", *PARTS) if other != task}
    return {
        name.removesuffix(f" {task}"): members
        for name, members in sets.items()
        if name.rpartition(" ")[2] not in others
    }
