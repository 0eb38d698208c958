"""Metrics of predictions by name, as fractions of 1.

    recognition     action/top1@25%, action/top5@25%, calibration@25% for every observed fraction;
                    area (under top-1 over the observed fraction), decided (the mean fraction after which the
                    prediction no longer changes)
    anticipation    action/top1@1s, action/top5@1s, action/recall5@1s (mean top-5 recall) for action, verb, noun and
                    every tau_a; action/time_to_action (seconds); action/recall5@1s/many-shot, .../unseen, .../tail
                    if the annotations name such classes or examples
    online          as anticipation, action/recall1@1s, and with `clip.sequence` action/ed@4 and action/ed@4/greedy: see
                    `horst.evaluation.sequences`; lower is better
    detection       action/map@0s and others: see `horst.evaluation.detection`

If the model predicts no verbs and nouns, their scores are summed from the actions.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from horst.data.clips import ClipConfig
from horst.data.example import UNKNOWN, Annotations, Split, Task
from horst.evaluation import detection, metrics, sequences
from horst.evaluation.predictions import Predictions, label_tensor, position_name, positions
from horst.heads import TASKS

PARTS = ("verb", "noun")  # parts of an action, in the order of `Annotations.action_parts`
LOWER_IS_BETTER = ("calibration", "decided", "ed")  # kinds: the part of a name between "/" and "@"
EK55, EK100 = "EPIC-Kitchens 55", "EPIC-Kitchens 100"


@dataclass(frozen=True, slots=True)
class Subset:
    """Classes or examples of a task that are evaluated separately."""

    name: str
    members: frozenset[int] | frozenset[str]  # class numbers, or ids of examples
    of_classes: bool

    def rows(self, labels: Tensor, ids: Sequence[str]) -> Tensor:
        """(N,) bool: labelled examples that belong to it."""
        inside = labels.tolist() if self.of_classes else ids
        return torch.tensor([one in self.members for one in inside], dtype=torch.bool) & (labels != UNKNOWN)


def measure(predictions: Predictions, annotations: Annotations, *, rulstm_empty: bool = False) -> dict[str, float]:
    """All metrics. A task without any label has none.

    `rulstm_empty`: treat verbs and nouns without actions as RULSTM does, if they are summed from actions.
    """
    if predictions.task == "detection":
        return detection.measure_frames(predictions)
    counted = _counted(predictions, annotations)
    ahead, found = counted.task != "recognition", dict[str, float]()
    for task, scores in all_scores(counted, annotations, rulstm_empty=rulstm_empty).items():
        labels = counted.labels[task]
        known = labels != UNKNOWN
        if not known.any():
            continue
        ranks = torch.stack([metrics.label_ranks(scores[:, p], labels) for p in range(len(counted.positions))], 1)
        sets = {s.name: rows for s in subsets(task, annotations) if (rows := s.rows(labels, counted.ids)).any()}
        for p, name in enumerate(counted.names()):
            at = counted.labels_at(task, p)
            if at.eq(UNKNOWN).all():
                continue
            found |= {f"{task}/top{k}@{name}": metrics.accuracy_of_ranks(ranks[:, p], at, k) for k in (1, 5)}
            if counted.task == "online":
                found[f"{task}/recall1@{name}"] = metrics.recall_of_ranks(ranks[:, p], at, 1)
            if ahead:
                found[f"{task}/recall5@{name}"] = metrics.recall_of_ranks(ranks[:, p], at, 5)
                for subset, rows in sets.items():
                    found[f"{task}/recall5@{name}/{subset}"] = metrics.recall_of_ranks(ranks[rows, p], labels[rows], 5)
            elif (known & counted.read).any():
                found[f"calibration@{name}"] = metrics.calibration_bins(scores[:, p], labels).error
        if ahead:
            found[f"{task}/time_to_action"] = metrics.time_of_ranks(ranks, labels, 5, counted.positions)
    if counted.sequence is not None and counted.following is not None:
        found |= sequences.measure_sequences(counted.sequence, counted.following, counted.ids)
    if not ahead and len(counted.positions) > 1 and len(counted):
        if "action/top1@100%" in found:
            found["area"] = metrics.area(counted.positions, [found[f"action/top1@{name}"] for name in counted.names()])
        if not _answers_unknown(counted):
            found["decided"] = metrics.decided(counted.answers, counted.lengths)
    return found


def unmeasured(predictions: Predictions, annotations: Annotations) -> dict[str, str]:
    """Metrics of the protocol that `measure` cannot compute, and why: "verb", "action/recall5/unseen"."""
    if predictions.task == "detection":
        return {}
    counted, found = _counted(predictions, annotations), dict[str, str]()
    for task in (task for task in annotations.classes if task != "present"):
        if task not in {*predictions.scores, *(PARTS if annotations.action_parts else ())}:
            found[task] = f"the model does not predict it, and the data does not say which {task} an action has"
        elif not (labels := counted.labels[task]).ne(UNKNOWN).any():
            found[task] = "no evaluated example has a label"
        elif counted.task != "recognition":
            for subset in subsets(task, annotations):
                if not subset.rows(labels, counted.ids).any():
                    what = "is of these classes" if subset.of_classes else "is in this set"
                    found[f"{task}/recall5/{subset.name}"] = f"no evaluated example {what}"
    if counted.following is not None and not counted.following.ne(UNKNOWN).all(1).any():
        z = counted.following.shape[1]
        found[sequences.metric_name(z)] = f"no evaluated action is the first of {z} in its video"
    if counted.task == "recognition" and len(counted.positions) > 1 and _answers_unknown(counted):
        found["decided"] = "evaluations keep scores only at the evaluated positions; fused runs need them at each frame"
    if annotations.name == EK55 and not any(name.startswith("many-shot") for name in annotations.subsets):
        found["recall5/many-shot"] = "the data has no such classes: their lists are missing"
    named = {name.split()[0] for name in annotations.example_sets}
    if annotations.name == EK100 and (absent := [name for name in ("unseen", "tail") if name not in named]):
        why = "the data has no such examples: their lists are missing, or folds replaced them"
        found[f"recall5/{', '.join(absent)}"] = why
    return found


def primary_metric(task: Task, clip: ClipConfig | None = None, data: str = "") -> str:
    """The metric by which models of a task are compared; higher is better.

    Recognition: the area under top-1, or top-1 at the end of a cut clip. Anticipation: action top-5 accuracy at 1 s, by
    which RULSTM's code selects epochs on EPIC-Kitchens 55; mean top-5 recall if `data` is EPIC-Kitchens 100, for the
    same reason. Online: top-1 accuracy at 1 s. If 1 s is not a position, the nearest one counts. Detection: mAP of
    frames.
    """
    if task == "detection":
        return "action/map@0s"
    there = positions(task, clip or ClipConfig())
    if task == "recognition":
        return "area" if len(there) > 1 else f"action/top1@{position_name(task, there[0])}"
    kind = "top1" if task == "online" else "recall5" if data == EK100 else "top5"
    return f"action/{kind}@{position_name(task, min(there, key=lambda tau: abs(tau - 1)))}"


def lower_is_better(metric: str) -> bool:
    return metric.partition("@")[0].rpartition("/")[2] in LOWER_IS_BETTER


def is_better(metric: str, value: float | None, best: float | None) -> bool:
    """Whether an epoch's value of a metric is better than the best so far. NaN, the recall of no class, never is."""
    if value is None or math.isnan(value):
        return False
    return best is None or (value < best if lower_is_better(metric) else value > best)


def metric_names(annotations: Annotations, split: Split, clip: ClipConfig, predicted: Iterable[str]) -> list[str]:
    """The metrics by which the best epoch can be chosen, of those that `measure` computes for a split.

    `predicted` are the tasks of the model.
    """
    if annotations.task == "detection":
        return detection.metric_names(clip)
    names = [position_name(annotations.task, position) for position in positions(annotations.task, clip)]
    examples = annotations.split(split).examples
    ids = [example.id for example in examples]
    summed = [part for part in PARTS if annotations.action_parts and part in annotations.classes]
    found = []
    for task in dict.fromkeys([*predicted, *summed]):
        labels = label_tensor(examples, task)
        if labels.eq(UNKNOWN).all():
            continue
        found += [f"{task}/top{k}@{name}" for name in names for k in (1, 5)]
        if annotations.task != "recognition":
            sets = [f"/{s.name}" for s in subsets(task, annotations) if s.rows(labels, ids).any()]
            found += [f"{task}/recall5@{name}{end}" for name in names for end in ("", *sets)]
            found += [f"{task}/recall1@{name}" for name in names if annotations.task == "online"]
        elif len(names) > 1:
            found.append("area")
    z = clip.sequence if annotations.task == "online" else None
    if z is not None and any(len(example.segments) > z for example in examples):  # the first one is not predicted
        found += [sequences.metric_name(z), f"{sequences.metric_name(z)}/greedy"]
    return found


def left_out(predictions: Predictions, annotations: Annotations) -> Tensor:
    """(N,) bool: examples that the protocol does not count.

    On EPIC-Kitchens 55 these are segments that no frame precedes. On other data they are misses.
    """
    discards = annotations.name == EK55 or "many-shot action" in annotations.subsets
    return predictions.empty if discards else torch.zeros_like(predictions.empty)


def all_scores(predictions: Predictions, annotations: Annotations, *, rulstm_empty: bool = False) -> dict[str, Tensor]:
    """(N, P, C) by task; verbs and nouns that the model does not predict are logarithms of summed probabilities."""
    scores = dict(predictions.scores)
    for part, name in enumerate(PARTS if annotations.action_parts else ()):
        if name in annotations.classes and name not in scores:
            classes, count = [pair[part] for pair in annotations.action_parts], len(annotations.classes[name])
            # One position at a time: in double precision all of them would take much memory.
            actions = (metrics.probabilities(at.double()) for at in scores["action"].unbind(1))
            summed = [metrics.marginalize(at, classes, count, rulstm_empty) for at in actions]
            scores[name] = torch.stack(summed, 1).log()
    return scores


def prior(annotations: Annotations, split: Split) -> dict[str, float]:
    """Metrics of always predicting the most frequent training classes: action/top1, action/top5, ...

    Empty if there is no training split.
    """
    if "train" not in annotations.counts() or annotations.task == "detection":
        return {}
    found: dict[str, float] = {}
    for task, names in annotations.classes.items():
        train, labels = (label_tensor(annotations.split(s).examples, task) for s in ("train", split))
        train = train[train != UNKNOWN]
        if len(train) and labels.ne(UNKNOWN).any():
            counts = torch.bincount(train, minlength=len(names)).double()
            ranks = metrics.label_ranks(counts.expand(len(labels), -1), labels)
            found |= {f"{task}/top{k}": metrics.accuracy_of_ranks(ranks, labels, k) for k in (1, 5)}
            if annotations.task != "recognition":
                found[f"{task}/recall5"] = metrics.recall_of_ranks(ranks, labels, 5)
    return found


def subsets(task: str, annotations: Annotations) -> list[Subset]:
    """The subsets of a task ("tail verb", here "tail") and those of all tasks ("unseen")."""
    others = {other for other in TASKS if other != task}
    return [
        Subset(name.removesuffix(f" {task}"), members, of_classes)
        for sets, of_classes in ((annotations.subsets, True), (annotations.example_sets, False))
        for name, members in sets.items()
        if name.rpartition(" ")[2] not in others
    ]


def _answers_unknown(predictions: Predictions) -> bool:
    """Whether clips were read and the answers at their frames are not known; see `horst.evaluation.fusion`."""
    return not predictions.answers.shape[1] and bool(predictions.read.any())


def _counted(predictions: Predictions, annotations: Annotations) -> Predictions:
    dropped = left_out(predictions, annotations)
    return predictions.select(~dropped) if dropped.any() else predictions
