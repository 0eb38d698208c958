"""Rows of a study's table: seeds are paired by their number, and what is no number is told by no number."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from horst.evaluation.predictions import Predictions
from horst.studies.compare import OVER_SEEDS, difference, estimate
from horst.studies.results import SeedResult
from horst.studies.statistics import metric_statistic, paired_comparison, resamples, t_p

METRIC = "action/top1@50%"
COUNT, CLASSES = 12, 3


def predictions(right: Sequence[bool], labels: Sequence[int] | None = None) -> Predictions:
    """Of one model, which names the clips of `right` rightly."""
    truth = torch.arange(COUNT) % CLASSES if labels is None else torch.tensor(labels)
    said = torch.where(torch.tensor(right), truth, (truth + 1) % CLASSES)
    scores = torch.nn.functional.one_hot(said.clamp(min=0), CLASSES).float()[:, None].expand(COUNT, 2, CLASSES)
    return Predictions(
        task="recognition",
        positions=(0.5, 1.0),
        ids=tuple(f"{i:02}" for i in range(COUNT)),
        labels={"action": truth},
        scores={"action": scores},
        read=torch.ones(COUNT, dtype=torch.bool),
        empty=torch.zeros(COUNT, dtype=torch.bool),
        answers=torch.zeros(COUNT, 1, dtype=torch.int64),
        lengths=torch.ones(COUNT, dtype=torch.int64),
        last_seen=torch.zeros(COUNT, 2, dtype=torch.float64),
        limits=torch.zeros(COUNT, 2, dtype=torch.float64),
    )


def sample(seed: int, right: Sequence[bool]) -> SeedResult:
    return SeedResult(seed, {METRIC: sum(right) / COUNT}, predictions(right), discard=False)


answers = st.lists(st.booleans(), min_size=COUNT, max_size=COUNT)
runs = st.dictionaries(st.integers(0, 5), answers, min_size=1, max_size=4)


@settings(max_examples=25, deadline=None)
@given(own=runs, others=runs, shuffled=st.randoms(use_true_random=False))
def test_seeds_are_paired_by_their_number(
    own: dict[int, list[bool]], others: dict[int, list[bool]], shuffled: random.Random
) -> None:
    """Whatever the order in which runs ended, and with seeds that only one of the two has."""
    common = sorted(own.keys() & others.keys())
    mine, theirs = ([sample(*item) for item in several.items()] for several in (own, others))
    shuffled.shuffle(mine)
    shuffled.shuffle(theirs)
    found = difference(mine, theirs, METRIC)
    if not common:
        assert found is None
        return
    assert found is not None
    wanted = {seed: (sum(own[seed]) - sum(others[seed])) / COUNT for seed in common}
    assert found.by_seed == pytest.approx(wanted)
    assert found.value == pytest.approx(sum(wanted.values()) / len(wanted))
    assert found.over == ("bootstrap over seeds and examples" if len(common) > 1 else "bootstrap over examples")
    pairs = [[metric_statistic(predictions(several[seed]), METRIC) for seed in common] for several in (own, others)]
    interval = paired_comparison(*pairs, resamples(COUNT))  # type: ignore[arg-type]
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert interval.p is not None
    gaps = list(wanted.values())
    assert found.p == pytest.approx(max(interval.p, t_p(gaps)) if len(common) > 1 else interval.p)


def test_pairs_of_equal_seeds_leave_no_doubt() -> None:
    """Each seed is better by the same clip: paired wrongly, the differences would be of both signs."""
    several = {0: 2, 1: 6, 2: 10}
    own = [sample(seed, [i <= n for i in range(COUNT)]) for seed, n in several.items()]
    others = [sample(seed, [i < several[seed] for i in range(COUNT)]) for seed in (1, 2, 0)]
    found = difference(own, others, METRIC)
    assert found is not None
    assert list(found.by_seed.values()) == pytest.approx([1 / COUNT] * 3)


def test_a_mean_with_a_seed_that_has_no_number_is_none() -> None:
    good = [sample(seed, [i < 3 + seed for i in range(COUNT)]) for seed in range(3)]
    found = estimate(good, METRIC)
    assert found is not None
    assert (found.over, found.value) == (OVER_SEEDS, pytest.approx(4 / COUNT))
    for metrics in ({}, {METRIC: math.nan}):
        bad = [*good[:2], replace(good[2], metrics=metrics)]
        assert estimate(bad, METRIC) is None
        assert estimate(bad[2:], METRIC) is None


def test_a_difference_that_counts_no_clip_is_none() -> None:
    """No clip has a label: there is nothing to compare, and no interval from 0 to 1 either."""
    unknown = [SeedResult(0, {METRIC: math.nan}, predictions([True] * COUNT, [-1] * COUNT), discard=False)]
    assert difference(unknown, unknown, METRIC) is None
    assert estimate(unknown, METRIC) is None


def test_examples_of_a_group_are_drawn_together() -> None:
    """Six groups of two equal examples say as much as six examples: the interval is wider than over twelve."""
    right = [i // 2 % 3 == 0 for i in range(COUNT)]
    alone = sample(0, right)
    groups = tuple(f"{i // 2:02}" for i in range(COUNT))
    grouped = replace(alone, predictions=replace(alone.predictions, groups=groups))
    one, other = estimate([alone], METRIC), estimate([grouped], METRIC)
    assert one is not None
    assert other is not None
    assert (one.over, other.over) == ("bootstrap over examples", "bootstrap over groups of examples")
    assert other.value == one.value
    assert other.high - other.low > 1.2 * (one.high - one.low)  # type: ignore[operator]
    nothing = sample(0, [False] * COUNT)  # of an earlier version, without groups
    gap = difference([nothing], [grouped], METRIC)
    assert gap is not None
    assert gap.over == "bootstrap over groups of examples"
    both = difference([grouped, replace(grouped, seed=1)], [nothing, replace(nothing, seed=1)], METRIC)
    assert both is not None
    assert both.over == "bootstrap over seeds and groups of examples"
