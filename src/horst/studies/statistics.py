"""Intervals: Student's t over seeds, the bootstrap over examples and seeds. Pure functions; the bootstrap is seeded.

A metric is a function of how often each example counts: once each for the metric itself, as often as it was drawn in a
resample. Runs that are compared see the same resamples, which is what pairs them.

Shapes: N examples, S seeds, R resamples, G groups of examples.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from horst.errors import InputError

LEVEL = 0.95
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """A metric of one model, by examples."""

    values: Tensor
    """(N,) float64."""
    counted: Tensor
    """(N,) bool: which examples are in the denominator."""
    groups: Tensor | None = None
    """(N,) int64."""
    how: Literal["mean", "mean of groups", "gaps of groups"] = "mean"
    """Over examples; over groups of their means (recall); or the sum of |sum| of the groups by N (calibration)."""

    def of(self, weights: Tensor) -> Tensor:
        """(R,) the metric, where each example counts as often as `weights` (R, N) say; NaN where none counts."""
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
    def value(self) -> float:
        return float(self.of(torch.ones(1, len(self.values), dtype=torch.float64)))


def t_interval(values: Sequence[float]) -> Interval:
    """Of the mean of independent values, of which there are two at least."""
    if len(values) < 2:
        raise InputError(f"an interval over seeds takes 2 values or more; there are {len(values)}")
    reach = t_quantile(0.5 + LEVEL / 2, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(statistics.fmean(values) - reach, statistics.fmean(values) + reach)


def t_quantile(share: float, freedom: int) -> float:
    """The value below which Student's t with so many degrees of freedom lies with this probability."""
    if not 0 < share < 1 or freedom < 1:
        raise InputError(f"a quantile takes a share between 0 and 1 and a degree of freedom; got {share}, {freedom}")
    if share < 0.5:
        return -t_quantile(1 - share, freedom)
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
    term, total = (cosine, cosine) if odd else (1.0, 1.0)
    for k in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0))


@cache
def resamples(count: int, number: int = RESAMPLES, seed: int = 0) -> Tensor:
    """(R, N) how often each of `count` examples is drawn, where as many are drawn as there are; always the same."""
    drawn = torch.randint(count, (number, count), generator=torch.Generator().manual_seed(seed))
    return torch.zeros(number, count, dtype=torch.float64).scatter_add_(
        1, drawn, torch.ones((), dtype=torch.float64).expand(number, count)
    )


def bootstrap_interval(one: Statistic, weights: Tensor) -> Interval:
    """Where other examples might have been drawn."""
    return _inner(one.of(weights), one.value, one)


def paired_interval(seeds: Sequence[Statistic], others: Sequence[Statistic], weights: Tensor) -> Interval:
    """Of the difference of two means over seeds, where other examples and other seeds might have been drawn: the same
    ones for both models."""
    pairs = list(zip(seeds, others, strict=True))
    gaps = torch.stack([one.of(weights) - other.of(weights) for one, other in pairs])  # (S, R)
    drawn = resamples(len(pairs), len(weights), seed=1).T / len(pairs)
    return _inner((gaps * drawn).sum(0), statistics.fmean(one.value - other.value for one, other in pairs), seeds[0])


def _inner(values: Tensor, value: float, of: Statistic) -> Interval:
    ends = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=values.dtype)
    low, high = torch.nanquantile(values, ends).tolist()
    if of.how == "gaps of groups":
        # A resample has larger gaps than what it is drawn from; reflected at the value, most of that cancels out.
        return Interval(2 * value - high, 2 * value - low)
    return Interval(low, high)
