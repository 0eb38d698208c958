"""What each example counts in a metric of `horst.evaluation.measure`: from predictions to a `Statistic`.

Shapes: N examples, P positions, C classes.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

from horst.data.clips import ClipConfig
from horst.data.example import UNKNOWN, Task
from horst.errors import ConfigError, did_you_mean
from horst.evaluation.metrics import bin_of, decided, label_ranks
from horst.evaluation.predictions import Predictions, position_name, positions
from horst.heads import TASKS
from horst.studies.statistics import Statistic

LOWER_IS_BETTER = ("calibration", "decided")


def known_metrics(clip: ClipConfig, task: Task) -> list[str]:
    """Names that runs on such clips may have."""
    places = [position_name(task, place) for place in positions(task, clip)]
    if task == "recognition":
        kinds = ("action/top1", "action/top5", "calibration")
        return [*(f"{kind}@{place}" for kind in kinds for place in places), "area", "decided"]
    at = [f"{part}/{kind}@{place}" for part in TASKS for kind in ("top1", "top5", "recall5") for place in places]
    return [*at, *(f"{part}/time_to_action" for part in TASKS)]


def check_metric(name: str, clip: ClipConfig, task: Task) -> None:
    """ConfigError, with near matches, where no run has such a metric; "@1s/unseen" may be of any subset."""
    known = known_metrics(clip, task)
    subset = re.fullmatch(r"(\w+/recall5@[^/]+)/.+", name)
    if (subset[1] if subset else name) not in known:
        raise ConfigError(f"metrics has {name!r}, which nobody measures in {task}{did_you_mean(name, known)}")


def statistic(predictions: Predictions, metric: str, *, discard: bool = False) -> Statistic | None:
    """By example; None where these predictions do not tell (a subset's, or what was summed from actions).

    Args:
        predictions: Of one model.
        metric: Its name.
        discard: Leave out what no frame precedes, as the protocol of some data has it.
    """
    found = re.fullmatch(r"(?:(action|verb|noun)/)?([a-z_]+\d?)(?:@([^/]+))?", metric)
    if found is None:
        return None
    task, kind, place = found[1] or "action", found[2], found[3]
    if task not in predictions.scores or (place is not None and place not in predictions.names()):
        return None
    scores, labels = predictions.scores[task], predictions.labels[task]
    counted = labels != UNKNOWN
    if discard:
        counted = counted & ~predictions.empty
    if kind == "decided" and predictions.task == "recognition":
        rows = zip(predictions.answers.split(1), predictions.lengths.split(1), strict=True)
        return Statistic(torch.tensor([decided(*row) for row in rows], dtype=torch.float64), torch.ones_like(counted))
    if kind == "calibration" and place is not None:
        return _calibration(scores[:, predictions.names().index(place)], labels, counted)
    shown = range(len(predictions.positions)) if place is None else [predictions.names().index(place)]
    ranks = torch.stack([label_ranks(scores[:, p], labels) for p in shown], 1)
    if kind == "area" and place is None and len(predictions.positions) > 1:
        x = torch.tensor(predictions.positions, dtype=torch.float64)
        return Statistic(torch.trapezoid((ranks < 1).double(), x, dim=1) / (x[-1] - x[0]), counted)
    if kind == "time_to_action" and predictions.task == "anticipation":
        hits = torch.cat([ranks < 5, torch.ones(len(ranks), 1, dtype=torch.bool)], 1)
        return Statistic(torch.tensor([*predictions.positions, 0.0]).double()[hits.int().argmax(1)], counted)
    if kind in ("top1", "top5") and place is not None:
        return Statistic((ranks[:, 0] < int(kind[3:])).double(), counted)
    if kind == "recall5" and place is not None:
        return Statistic((ranks[:, 0] < 5).double(), counted, labels.clamp(min=0), "mean of groups")
    return None


def _calibration(scores: Tensor, labels: Tensor, counted: Tensor) -> Statistic:
    """Of answers by bins of confidence: how often they are right, less how sure they are."""
    said = counted & (scores > -torch.inf).any(1)
    confidence, answer = torch.softmax(scores.double(), 1).nan_to_num(0.0).max(1)
    gap = (answer == labels).double() - confidence
    return Statistic(gap.where(said, 0.0), said, bin_of(confidence), "gaps of groups")
