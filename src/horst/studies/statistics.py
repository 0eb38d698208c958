"""Metrics by example, their intervals and p-values: Student's t over seeds, the bootstrap over examples and seeds.

A metric is a function of how often each example counts: once each for the metric itself, as often as it was drawn in a
resample. Runs that are compared see the same resamples, which pairs them.

Shapes: N examples, P positions, C classes, S seeds, R resamples, G groups of examples.
"""

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from horst.data.clips import ClipConfig
from horst.data.example import UNKNOWN, Task
from horst.errors import ConfigError, InputError, did_you_mean
from horst.evaluation.detection import average_precision, frame_scores, metric_names
from horst.evaluation.measure import PARTS
from horst.evaluation.metrics import bin_of, decided, label_ranks
from horst.evaluation.predictions import Predictions, position_name, positions

LEVEL = 0.95
RESAMPLES = 2000
CHUNK = 250  # resamples of frames at once


class Interval(NamedTuple):
    low: float
    high: float


class Comparison(NamedTuple):
    """The bootstrap interval of a difference and its two-sided p-value; None if it is not tested."""

    low: float
    high: float
    p: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """A metric of one model, by examples."""

    values: Tensor  # (N,) float64
    counted: Tensor  # (N,) bool: which examples are in the denominator
    groups: Tensor | None = None  # (N,) int64
    how: Literal["mean", "mean of groups", "gaps of groups"] = "mean"
    """Over examples; over groups of their means (recall); or the sum of |sum| of the groups by N (calibration)."""

    def weighted(self, weights: Tensor) -> Tensor:
        """(R,) the metric when each example counts as often as `weights` (R, N) say; NaN if none counts."""
        weights = weights * self.counted
        total = weights.sum(1)
        if self.how == "mean" or self.groups is None:
            return weights @ self.values / total
        member = torch.nn.functional.one_hot(self.groups).double()  # (N, G)
        sums = weights @ (member * self.values[:, None])  # (R, G)
        if self.how == "gaps of groups":
            return sums.abs().sum(1) / total
        counts = weights @ member
        return (sums / counts).nan_to_num(0.0).sum(1) / counts.gt(0).sum(1)

    @property
    def tested(self) -> bool:
        """Whether differences have p-values; those of calibration errors do not, their intervals are rough."""
        return self.how != "gaps of groups"

    @property
    def value(self) -> float:
        return float(self.weighted(torch.ones(1, len(self.values), dtype=torch.float64)))

    def interval(self, weights: Tensor) -> Interval:
        """The bootstrap interval over other examples."""
        return _quantiles(self.weighted(weights), self.value, self)


@dataclass(frozen=True, slots=True, eq=False)
class MeanPrecision(Statistic):
    """mAP or mcAP of frames, whose `values` are unused: it ranks the frames of all videos together."""

    scores: Tensor | None = None  # (N, C)
    targets: Tensor | None = None  # (N, C) bool
    calibrated: bool = False

    def weighted(self, weights: Tensor) -> Tensor:
        assert self.scores is not None
        assert self.targets is not None
        rows = self.counted.nonzero()[:, 0]
        parts = []
        for chunk in weights.split(CHUNK):
            drawn = chunk[:, rows]
            found = [
                average_precision(self.scores[rows, c], self.targets[rows, c], drawn, calibrated=self.calibrated)
                for c in range(1, self.scores.shape[1])  # without the background
                if self.targets[rows, c].any()
            ]
            parts.append(torch.stack(found).nanmean(0))
        return torch.cat(parts)


def known_metrics(clip: ClipConfig, task: Task) -> list[str]:
    """The metrics that runs on such clips may have."""
    if task == "detection":
        return metric_names(clip)
    places = [position_name(task, place) for place in positions(task, clip)]
    if task == "recognition":
        kinds = ("action/top1", "action/top5", "calibration")
        return [*(f"{kind}@{place}" for kind in kinds for place in places), "area", "decided"]
    parts = ("action",) if task == "online" else ("action", *PARTS)
    kinds = ("top1", "top5", "recall5", *(("recall1",) if task == "online" else ()))
    at = [f"{part}/{kind}@{place}" for part in parts for kind in kinds for place in places]
    return [*at, *(f"{part}/time_to_action" for part in parts)]


def check_metric(name: str, clip: ClipConfig, task: Task) -> None:
    """ConfigError, with the closest names, if no run has such a metric. Any subset is accepted: "@1s/unseen"."""
    known = known_metrics(clip, task)
    subset = re.fullmatch(r"(\w+/recall5@[^/]+)/.+", name)
    if (subset[1] if subset else name) not in known:
        raise ConfigError(f"metrics has {name!r}, which is not measured in {task}{did_you_mean(name, known)}")


def metric_statistic(predictions: Predictions, metric: str, *, discard: bool = False) -> Statistic | None:
    """A metric of one model by example. None if the predictions lack it: a subset, or scores summed from actions.

    `discard` leaves out actions that no frame precedes, as the protocols of some data sets do.
    """
    found = re.fullmatch(r"(?:(action|verb|noun)/)?([a-z_]+\d?)(?:@([^/]+))?", metric)
    if found is None:
        return None
    task, kind, place = found[1] or "action", found[2], found[3]
    if task not in predictions.scores or (place is not None and place not in predictions.names()):
        return None
    if predictions.task == "detection":
        return _frame_statistic(predictions, kind, place)
    scores, labels = predictions.scores[task], predictions.labels[task]
    counted = (labels != UNKNOWN) & ~predictions.empty if discard else labels != UNKNOWN
    if kind == "decided" and predictions.task == "recognition":
        rows = zip(predictions.answers.split(1), predictions.lengths.split(1), strict=True)
        return Statistic(torch.tensor([decided(*row) for row in rows], dtype=torch.float64), torch.ones_like(counted))
    if kind == "calibration" and place is not None:  # by bins: how often predictions are right, minus their confidence
        scores = scores[:, predictions.names().index(place)]
        counted = counted & (scores > -torch.inf).any(1)
        confidence, answer = torch.softmax(scores.double(), 1).nan_to_num(0.0).max(1)
        gap = ((answer == labels).double() - confidence).where(counted, 0.0)
        return Statistic(gap, counted, bin_of(confidence), "gaps of groups")
    if place is not None:
        labels = predictions.labels_at(task, predictions.names().index(place))
        counted = counted & (labels != UNKNOWN)
    shown = range(len(predictions.positions)) if place is None else [predictions.names().index(place)]
    ranks = torch.stack([label_ranks(scores[:, p], labels) for p in shown], 1)
    if kind == "area" and place is None and len(predictions.positions) > 1:
        x = torch.tensor(predictions.positions, dtype=torch.float64)
        return Statistic(torch.trapezoid((ranks < 1).double(), x, dim=1) / (x[-1] - x[0]), counted)
    if kind == "time_to_action" and predictions.task != "recognition":
        hits = torch.cat([ranks < 5, torch.ones(len(ranks), 1, dtype=torch.bool)], 1)
        return Statistic(torch.tensor([*predictions.positions, 0.0]).double()[hits.int().argmax(1)], counted)
    if kind in ("top1", "top5") and place is not None:
        return Statistic((ranks[:, 0] < int(kind[3:])).double(), counted)
    if kind in ("recall1", "recall5") and place is not None:
        return Statistic((ranks[:, 0] < int(kind[6:])).double(), counted, labels.clamp(min=0), "mean of groups")
    return None


def _frame_statistic(predictions: Predictions, kind: str, place: str | None) -> Statistic | None:
    if place is None or kind not in ("map", "mcap", "top1"):
        return None
    scores, targets, known = frame_scores(predictions, predictions.names().index(place))
    if kind == "top1":
        right = targets.gather(1, scores.argmax(1, keepdim=True))[:, 0] & predictions.read
        return Statistic(right.double(), known)
    return MeanPrecision(known.double(), known, scores=scores, targets=targets, calibrated=kind == "mcap")


def t_interval(values: Sequence[float]) -> Interval:
    """Student's t interval of the mean of two or more independent values."""
    if len(values) < 2:
        raise InputError(f"an interval over seeds takes 2 values or more; there are {len(values)}")
    reach = t_quantile(0.5 + LEVEL / 2, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(statistics.fmean(values) - reach, statistics.fmean(values) + reach)


def t_p(values: Sequence[float]) -> float:
    """The two-sided p-value of Student's t: whether the mean of two or more independent values is 0."""
    error = statistics.stdev(values) / math.sqrt(len(values))
    mean = abs(statistics.fmean(values))
    return 1 - t_inside(mean / error, len(values) - 1) if error else float(not mean)


def bootstrap_p(values: Tensor) -> float:
    """The two-sided p-value of resampled differences (R,): twice the share on the other side of 0, at least 2/(R+1)."""
    known = values[~values.isnan()]
    other = min(int((known <= 0).sum()), int((known >= 0).sum()))
    return min(1.0, 2 * (other + 1) / (len(known) + 1))


def holm(values: Sequence[float]) -> list[float]:
    """P-values corrected for their number (Holm, 1979): all that are at most 5% hold together at that level."""
    found, highest = [0.0] * len(values), 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        found[index] = highest
    return found


def t_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's t with `freedom` degrees of freedom, for a probability `share` from 0.5 to 1."""
    low, high = 0.0, 1.0
    while t_inside(high, freedom) < 2 * share - 1:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if t_inside(middle, freedom) < 2 * share - 1 else (low, middle)
    return (low + high) / 2


def t_inside(t: float, freedom: int) -> float:
    """The probability of a value between -t and t: Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2 == 1
    term = total = cosine if odd else 1.0
    for k in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0))


@cache
def resamples(count: int, number: int = RESAMPLES, seed: int = 0) -> Tensor:
    """(R, N) how often each of `count` examples is drawn, if as many are drawn as there are; always the same."""
    drawn = torch.randint(count, (number, count), generator=torch.Generator().manual_seed(seed))
    ones = torch.ones_like(drawn, dtype=torch.float64)
    return torch.zeros_like(ones).scatter_add_(1, drawn, ones)


@cache
def group_resamples(groups: tuple[str, ...]) -> Tensor:
    """(R, N) how often each example counts if whole groups are drawn: as many as there are groups."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(groups))}
    return resamples(len(numbers))[:, [numbers[name] for name in groups]]


def paired_comparison(seeds: Sequence[Statistic], others: Sequence[Statistic], weights: Tensor) -> Comparison:
    """The difference of two means over seeds. Both models see the same resampled examples and seeds."""
    pairs = list(zip(seeds, others, strict=True))
    gaps = torch.stack([one.weighted(weights) - other.weighted(weights) for one, other in pairs])  # (S, R)
    drawn = resamples(len(pairs), len(weights), seed=1).T / len(pairs)
    mean = statistics.fmean(one.value - other.value for one, other in pairs)
    means = (gaps * drawn).sum(0)
    return Comparison(*_quantiles(means, mean, seeds[0]), bootstrap_p(means) if seeds[0].tested else None)


def _quantiles(values: Tensor, value: float, of: Statistic) -> Interval:
    ends = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=values.dtype)
    low, high = torch.nanquantile(values, ends).tolist()
    if of.how == "gaps of groups":
        # A resample has larger gaps than the sample. Reflecting at the value cancels most of that.
        return Interval(2 * value - high, 2 * value - low)
    return Interval(low, high)
