"""The rows of a study's table: means, intervals, and differences to the run that the others are compared with.

docs/guides/studies.md explains intervals and p-values. From two or three seeds the paired bootstrap is too optimistic,
so the p-value of a difference is the larger one of the bootstrap and of Student's t over the differences of the seeds.
It is corrected for all comparisons of the study.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from horst.evaluation.evaluate import Evaluation
from horst.evaluation.report import SECONDS
from horst.studies.config import Study
from horst.studies.results import RunResult, SeedResult, fused_result
from horst.studies.statistics import (
    Statistic,
    group_resamples,
    holm,
    metric_statistic,
    paired_comparison,
    t_interval,
    t_p,
)

OVER_SEEDS, BOOTSTRAP = "t over seeds", "bootstrap over "
EXAMPLES, GROUPS = "examples", "groups of examples"
SIGNIFICANT = 0.05  # the level of corrected p-values
ENSEMBLE = "+ensemble"  # the end of the name of a row of averaged seeds


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A metric, or a difference, with its 95% interval, as fractions."""

    value: float
    low: float | None = None  # None if there is no interval
    high: float | None = None
    over: str = ""  # the kind of interval
    by_seed: dict[int, float] = field(default_factory=dict)
    p: float | None = None  # of a difference; None if it is not tested
    p_holm: float | None = None  # corrected for the number of comparisons

    @property
    def significant(self) -> bool:
        """Of a difference: whether it is one after the correction."""
        return self.p_holm is not None and self.p_holm <= SIGNIFICANT


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyRow:
    """One run of a study, all seeds."""

    name: str
    title: str
    seeds: list[int]
    parameters: int
    gflop: float
    seconds: float  # mean duration of one training; of all folds together
    frames_per_second: float | None
    values: dict[str, Estimate]
    against: str | None = None
    differences: dict[str, Estimate] = field(default_factory=dict)


def study_rows(study: Study, results: Sequence[RunResult], seeds: Mapping[str, Sequence[SeedResult]]) -> list[StudyRow]:
    """The rows of the runs that have a seed, in the study's order."""
    rows = []
    for run in study.runs:
        own = seeds.get(run.name)
        if not own:
            continue
        numbers = [one.seed for one in own]
        trained = [result for result in results if result.run in run.members and result.seed in numbers]
        models = list({result.run: result for result in trained}.values())  # one of each that is fused
        speeds = [result.frames_per_second for result in trained if result.frames_per_second is not None]
        baseline = study.baseline(run)
        others = seeds.get(baseline, ()) if baseline is not None else ()
        gaps = {metric: gap for metric in study.metrics if (gap := difference(own, others, metric)) is not None}
        row = StudyRow(
            name=run.name,
            title=run.label,
            seeds=numbers,
            parameters=sum(result.parameters for result in models),
            gflop=sum(result.gflop for result in models),
            seconds=sum(result.seconds for result in trained) / len(numbers),
            frames_per_second=statistics.median(speeds) if speeds else None,
            values={m: mean for m in study.metrics if (mean := estimate(own, m)) is not None},
            against=baseline if gaps else None,
            differences=gaps,
        )
        rows.append(row)
        if study.ensemble and len(own) > 1:
            rows.append(ensemble_row(row, own, trained[0].evaluation))
    return correct(rows)


def ensemble_row(row: StudyRow, own: Sequence[SeedResult], evaluation: Evaluation) -> StudyRow:
    """The mean of the probabilities of all seeds of a run: one prediction for each example, at the cost of all."""
    result = fused_result(own, evaluation)
    values = {m: found for m in row.values if (found := estimate([result], m)) is not None}
    return replace(
        row,
        name=f"{row.name}{ENSEMBLE}",
        title=f"{row.title}, {len(own)} seeds averaged",
        parameters=len(own) * row.parameters,
        gflop=len(own) * row.gflop,
        seconds=len(own) * row.seconds,
        values={m: replace(value, by_seed={}) for m, value in values.items()},
        against=None,
        differences={},
    )


def correct(rows: Sequence[StudyRow]) -> list[StudyRow]:
    """The rows with p-values that are corrected for the number of comparisons in all of them."""
    tested = {(row.name, m): gap.p for row in rows for m, gap in row.differences.items() if gap.p is not None}
    found = dict(zip(tested, holm(list(tested.values())), strict=True))
    return [
        replace(row, differences={m: replace(g, p_holm=found.get((row.name, m))) for m, g in row.differences.items()})
        for row in rows
    ]


def estimate(own: Sequence[SeedResult], metric: str) -> Estimate | None:
    """The mean over seeds; None if a seed does not have the metric, or NaN."""
    by_seed = {one.seed: one.metrics[metric] for one in own if math.isfinite(one.metrics.get(metric, math.nan))}
    if len(by_seed) < len(own):
        return None
    values = list(by_seed.values())
    mean = statistics.fmean(values)
    if len(values) > 1:
        interval, over = t_interval(values), OVER_SEEDS
    elif (known := _statistics(own, metric)) is not None:
        weights, what = drawn(own)
        interval, over = known[0].interval(weights), BOOTSTRAP + what
    else:
        return Estimate(value=mean, by_seed=by_seed)
    most = math.inf if metric.endswith(SECONDS) else 1.0  # a fraction is between 0 and 1
    return Estimate(value=mean, low=max(0.0, interval.low), high=min(most, interval.high), over=over, by_seed=by_seed)


def difference(own: Sequence[SeedResult], others: Sequence[SeedResult], metric: str) -> Estimate | None:
    """The difference of the means over common seeds; None without common seeds or values by example."""
    mine, theirs = ({one.seed: one for one in several} for several in (own, others))
    common = sorted(mine.keys() & theirs.keys())  # so that the bootstrap does not depend on which run ended first
    pair = [_statistics([several[seed] for seed in common], metric) for several in (mine, theirs)]
    if not common or pair[0] is None or pair[1] is None:
        return None
    by_seed = {seed: a.value - b.value for seed, a, b in zip(common, pair[0], pair[1], strict=True)}
    if not all(map(math.isfinite, by_seed.values())):  # no example counts
        return None
    weights, what = drawn([*own, *others])
    found = paired_comparison(pair[0], pair[1], weights)
    p, over = found.p, BOOTSTRAP + what
    if len(common) > 1:
        over = f"{BOOTSTRAP}seeds and {what}"
        p = None if p is None else max(p, t_p(list(by_seed.values())))
    mean = statistics.fmean(by_seed.values())
    return Estimate(value=mean, low=found.low, high=found.high, over=over, by_seed=by_seed, p=p)


def drawn(seeds: Sequence[SeedResult]) -> tuple[Tensor, str]:
    """(R, N) how often each example counts in the resamples, and what they draw: groups if a run knows them."""
    groups = next((one.predictions.groups for one in seeds if one.predictions.groups), seeds[0].predictions.ids)
    return group_resamples(groups), EXAMPLES if len(set(groups)) == len(groups) else GROUPS


def _statistics(own: Sequence[SeedResult], metric: str) -> list[Statistic] | None:
    """The metric of each seed by example; None if a seed does not have it."""
    found = [metric_statistic(one.predictions, metric, discard=one.discard) for one in own]
    known = [one for one in found if one is not None]
    return known if len(known) == len(own) else None
