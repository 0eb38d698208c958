"""From samples to the rows of a table: means, intervals, and differences to the run that others are compared with.

Two seeds or more give an interval of Student's t over seeds: what another seed might give. A single seed gives one of
the bootstrap over validation examples: what other examples might give. A difference has one of the paired bootstrap
over the seeds that both have and over examples: the same ones, drawn again, for both. Drawn from two or three seeds, it
is narrow, so a difference counts as sure where Student's t over the seeds' differences leaves out 0 as well.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from horst.evaluation.formatting import SECONDS
from horst.studies.config import Study
from horst.studies.outcomes import Outcome, Sample
from horst.studies.statistics import (
    Interval,
    Statistic,
    bootstrap_interval,
    paired_interval,
    resamples,
    t_interval,
)
from horst.studies.values import statistic

OVER_SEEDS, OVER_EXAMPLES, OVER_BOTH = "t over seeds", "bootstrap over examples", "bootstrap over seeds and examples"


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A number and its interval of 95%, as fractions."""

    value: float
    low: float | None = None
    high: float | None = None
    """None where nothing tells."""
    over: str = ""
    """What the interval is of."""
    by_seed: dict[int, float] = field(default_factory=dict)

    @property
    def sure(self) -> bool:
        """Of a difference: whether its interval leaves out 0, and over several seeds Student's t as well."""
        if self.low is None or self.high is None:
            return False
        intervals = [Interval(self.low, self.high)]
        if len(self.by_seed) > 1:
            intervals.append(t_interval(list(self.by_seed.values())))
        return all(one.low > 0 for one in intervals) or all(one.high < 0 for one in intervals)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One run of a study, all seeds."""

    name: str
    title: str
    seeds: list[int]
    parameters: int
    gflop: float
    seconds: float
    """Of one training, on average; with folds that of all."""
    frames_per_second: float | None
    values: dict[str, Estimate]
    against: str | None = None
    differences: dict[str, Estimate] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def rows(study: Study, outcomes: Sequence[Outcome], found: Mapping[str, Sequence[Sample]]) -> list[Row]:
    """Of the runs that have a sample, in the study's order."""
    made = []
    for run in study.runs:
        own = found.get(run.name)
        if not own:
            continue
        seeds = [sample.seed for sample in own]
        costs = [o for o in outcomes if o.run == run.name and o.seed in seeds]
        speeds = [o.frames_per_second for o in costs if o.frames_per_second is not None]
        rival = study.rival(run)
        others = found.get(rival, ()) if rival is not None else ()
        means = {metric: mean for metric in study.metrics if (mean := estimate(own, metric)) is not None}
        apart = {metric: gap for metric in study.metrics if (gap := difference(own, others, metric)) is not None}
        made.append(
            Row(
                name=run.name,
                title=run.label,
                seeds=seeds,
                parameters=costs[0].parameters,
                gflop=costs[0].gflop,
                seconds=sum(o.seconds for o in costs) / len(seeds),
                frames_per_second=statistics.median(speeds) if speeds else None,
                values=means,
                against=rival if apart else None,
                differences=apart,
            )
        )
    return made


def estimate(own: Sequence[Sample], metric: str) -> Estimate | None:
    """The mean over seeds; None where a seed has no such number, or NaN."""
    by_seed = {
        sample.seed: sample.metrics[metric] for sample in own if math.isfinite(sample.metrics.get(metric, math.nan))
    }
    if len(by_seed) < len(own):
        return None
    values = list(by_seed.values())
    mean = statistics.fmean(values)
    if len(values) > 1:
        interval, over = t_interval(values), OVER_SEEDS
    elif (told := _statistics(own, metric)) is not None:
        interval, over = bootstrap_interval(told[0], resamples(len(own[0].predictions))), OVER_EXAMPLES
    else:
        return Estimate(value=mean, by_seed=by_seed)
    most = math.inf if metric.endswith(SECONDS) else 1.0  # a share is nowhere else
    return Estimate(value=mean, low=max(0.0, interval.low), high=min(most, interval.high), over=over, by_seed=by_seed)


def difference(own: Sequence[Sample], others: Sequence[Sample], metric: str) -> Estimate | None:
    """Of the means over common seeds; None where there are none, or predictions do not tell the metric by example.

    Seeds are paired by number and sorted: the bootstrap over seeds must not depend on which run ended first.
    """
    common = sorted({sample.seed for sample in own} & {other.seed for other in others})
    if not common:
        return None
    mine, theirs = (_statistics([_of(several, seed) for seed in common], metric) for several in (own, others))
    if mine is None or theirs is None:
        return None
    by_seed = {seed: a.value - b.value for seed, a, b in zip(common, mine, theirs, strict=True)}
    if not all(map(math.isfinite, by_seed.values())):  # no example counts
        return None
    interval = paired_interval(mine, theirs, resamples(len(own[0].predictions)))
    value, over = statistics.fmean(by_seed.values()), OVER_BOTH if len(common) > 1 else OVER_EXAMPLES
    return Estimate(value=value, low=interval.low, high=interval.high, over=over, by_seed=by_seed)


def _statistics(own: Sequence[Sample], metric: str) -> list[Statistic] | None:
    found = [statistic(sample.predictions, metric, discard=sample.discard) for sample in own]
    told = [one for one in found if one is not None]
    return told if len(told) == len(own) else None


def _of(several: Sequence[Sample], seed: int) -> Sample:
    return next(sample for sample in several if sample.seed == seed)
