"""Intervals against printed tables, and against the plain loops that they stand for."""

from __future__ import annotations

import math
import random
import statistics

import pytest
import torch

from horst.errors import InputError
from horst.studies.statistics import (
    Statistic,
    _quantiles,
    bootstrap_p,
    group_resamples,
    holm,
    paired_comparison,
    resamples,
    t_inside,
    t_interval,
    t_p,
    t_quantile,
)


@pytest.mark.parametrize(
    ("freedom", "printed"),
    [(1, 12.706205), (2, 4.302653), (3, 3.182446), (4, 2.776445), (9, 2.262157), (10, 2.228139), (30, 2.042272)],
)
def test_quantiles_are_those_of_printed_tables(freedom: int, printed: float) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(printed, abs=1e-6)


@pytest.mark.parametrize("freedom", [1, 2, 5, 8])
def test_the_share_inside_is_the_integral_of_the_density(freedom: int) -> None:
    scale = math.gamma((freedom + 1) / 2) / (math.sqrt(freedom * math.pi) * math.gamma(freedom / 2))
    for t in (0.3, 1.0, 2.5):
        steps = 20_000
        middles = ((i + 0.5) * t / steps for i in range(steps))
        area = sum((1 + x * x / freedom) ** (-(freedom + 1) / 2) for x in middles) * t / steps
        assert t_inside(t, freedom) == pytest.approx(2 * scale * area, abs=1e-7)


def test_an_interval_over_seeds() -> None:
    """By hand: mean 0.5, deviation 0.1, 4.303 * 0.1 / sqrt(3)."""
    found = t_interval([0.4, 0.5, 0.6])
    assert (found.low, found.high) == pytest.approx((0.5 - 0.248414, 0.5 + 0.248414), abs=1e-6)
    with pytest.raises(InputError, match="2 values or more"):
        t_interval([0.5])


def test_an_interval_over_seeds_holds_the_truth_as_often_as_it_says() -> None:
    draw = random.Random(0)
    held = 0
    for _ in range(2000):
        found = t_interval([draw.gauss(3.0, 2.0) for _ in range(3)])
        held += found.low <= 3.0 <= found.high
    assert held / 2000 == pytest.approx(0.95, abs=0.015)


def test_resamples_are_always_the_same_and_draw_as_many_as_there_are() -> None:
    first = resamples(37, 50)
    resamples.cache_clear()
    assert torch.equal(first, resamples(37, 50))
    assert first.sum(1).eq(37).all()
    assert not torch.equal(first, resamples(37, 50, seed=1))


def random_statistic(kind: str, count: int, seed: int) -> Statistic:
    draw = torch.Generator().manual_seed(seed)
    values = torch.rand(count, generator=draw).round() if kind != "gaps of groups" else torch.rand(count) - 0.5
    counted = torch.rand(count, generator=draw) > 0.1
    groups = torch.randint(4, (count,), generator=draw)
    return Statistic(values.double(), counted, None if kind == "mean" else groups, kind)  # type: ignore[arg-type]


def by_hand(one: Statistic, drawn: list[int]) -> float:
    rows = [i for i in drawn if one.counted[i]]
    values = one.values.tolist()
    if one.groups is None:
        return statistics.fmean(values[i] for i in rows)
    groups: dict[int, list[float]] = {}
    for i in rows:
        groups.setdefault(int(one.groups[i]), []).append(values[i])
    if one.how == "mean of groups":
        return statistics.fmean(map(statistics.fmean, groups.values()))
    return sum(abs(sum(group)) for group in groups.values()) / len(rows)


@pytest.mark.parametrize("kind", ["mean", "mean of groups", "gaps of groups"])
def test_a_statistic_of_weights_is_that_of_examples_drawn(kind: str) -> None:
    one, weights = random_statistic(kind, 23, seed=3), resamples(23, 40)
    found = one.weighted(weights)
    for row, value in zip(weights, found, strict=True):
        drawn = [i for i, times in enumerate(row.int().tolist()) for _ in range(times)]
        assert float(value) == pytest.approx(by_hand(one, drawn))
    assert one.value == pytest.approx(by_hand(one, list(range(23))))


def test_a_paired_difference_is_that_of_a_loop() -> None:
    """Over three seeds, 23 examples, 300 resamples, in each of which seeds are drawn too."""
    mine, theirs = ([random_statistic("mean", 23, seed=s) for s in seeds] for seeds in ((0, 1, 4), (2, 3, 5)))
    weights = resamples(23, 300)
    gaps = []
    for row, seeds in zip(weights.int().tolist(), resamples(3, 300, seed=1).int().tolist(), strict=True):
        drawn = [i for i, times in enumerate(row) for _ in range(times)]
        chosen = [s for s, times in enumerate(seeds) for _ in range(times)]
        gaps.append(statistics.fmean(by_hand(mine[s], drawn) - by_hand(theirs[s], drawn) for s in chosen))
    expected = torch.tensor(gaps, dtype=torch.float64).quantile(torch.tensor([0.025, 0.975]).double())
    found = paired_comparison(mine, theirs, weights)
    assert (found.low, found.high) == pytest.approx(tuple(expected.tolist()))


def test_pairing_sees_what_is_common() -> None:
    """A model that is right wherever another is, and once more in 20, is better for sure: examples are the same."""
    right = (torch.arange(400) % 2 == 0).double()
    better = right.clone()
    better[1::40] = 1.0
    everywhere = torch.ones(400, dtype=torch.bool)
    one, other = Statistic(better, everywhere), Statistic(right, everywhere)
    weights = resamples(400)
    alone = one.interval(weights)
    found = paired_comparison([one], [other], weights)
    assert 0 < found.low < 0.025 < found.high < 0.05
    assert alone.high - alone.low > 3 * (found.high - found.low)
    none = paired_comparison([one], [one], weights)
    assert (none.low, none.high) == (0.0, 0.0)


def test_seeds_that_disagree_widen_a_difference() -> None:
    right, everywhere = (torch.arange(400) % 2 == 0).double(), torch.ones(400, dtype=torch.bool)
    better, worse = right.clone(), right.clone()
    better[1::8] = 1.0
    worse[::16] = 0.0
    one, up, down = (Statistic(values, everywhere) for values in (right, better, worse))
    same, mixed = (paired_comparison(seeds, [one, one], resamples(400)) for seeds in ([up, up], [up, down]))
    assert same.low > 0
    assert mixed.low < 0 < mixed.high


def test_models_that_are_alike_are_rarely_sure_to_differ() -> None:
    """The bootstrap alone, of three seeds, finds a difference in more than a fifth of such trials."""
    draw, everywhere = torch.Generator().manual_seed(0), torch.ones(30, dtype=torch.bool)
    weights, nothing = resamples(30, 200), Statistic(torch.zeros(30).double(), everywhere)
    apart = sure = 0
    for _ in range(400):
        seeds = [float(gap) for gap in torch.randn(3, generator=draw)]
        told = [Statistic(gap + 0.1 * torch.randn(30, generator=draw).double(), everywhere) for gap in seeds]
        found = paired_comparison(told, [nothing] * 3, weights)
        apart += found.low > 0 or found.high < 0
        assert found.p is not None
        sure += max(found.p, t_p([one.value for one in told])) <= 0.05
    assert apart > 80
    assert 4 < sure < 32


def test_calibrated_models_are_told_apart_less_often_than_by_plain_quantiles() -> None:
    """One is sure and one is not. Resamples err more than what they are drawn from, more so for the unsure one."""
    draw, everywhere, weights = torch.Generator().manual_seed(0), torch.ones(600, dtype=torch.bool), resamples(600, 200)

    def calibrated(low: float, high: float) -> Statistic:
        sure = low + (high - low) * torch.rand(600, generator=draw).double()
        right = (torch.rand(600, generator=draw) < sure).double()
        return Statistic(right - sure, everywhere, (sure * 15).long(), "gaps of groups")

    ours, plain = 0, 0
    for _ in range(50):
        one, other = calibrated(0.9, 1.0), calibrated(0.2, 0.8)
        found, twice = paired_comparison([one], [other], weights), 2 * (one.value - other.value)
        ours += found.low > 0 or found.high < 0
        plain += twice - found.high > 0 or twice - found.low < 0
    assert 2 * ours < plain


def test_what_has_no_quantile_or_interval() -> None:
    assert t_quantile(0.5, 1) == pytest.approx(0.0, abs=1e-12)
    assert t_quantile(0.75, 1) == pytest.approx(1.0)  # Cauchy
    assert t_quantile(0.999, 1) == pytest.approx(318.308839)
    for values in ([], [1.0]):
        with pytest.raises(InputError, match=f"takes 2 values or more; there are {len(values)}"):
            t_interval(values)


def test_ends_are_the_quantiles_of_the_resamples() -> None:
    """Of the numbers 0 to 1000 the inner 95% are 25 to 975; gaps are reflected at the value."""
    values = torch.arange(1001.0, dtype=torch.float64)
    plain, gaps = (Statistic(values, values >= 0, how=how) for how in ("mean", "gaps of groups"))
    assert (_quantiles(values, 400.0, plain).low, _quantiles(values, 400.0, plain).high) == pytest.approx((25.0, 975.0))
    assert (_quantiles(values, 400.0, gaps).low, _quantiles(values, 400.0, gaps).high) == pytest.approx((-175.0, 775.0))
    lost = torch.cat([values, torch.full((9,), torch.nan, dtype=torch.float64)])  # no example counted
    assert _quantiles(lost, 400.0, plain) == _quantiles(values, 400.0, plain)


def test_resamples_by_default() -> None:
    drawn = resamples(7)
    assert drawn.shape == (2000, 7)
    assert torch.equal(drawn, resamples(7, 2000, 0))
    assert not torch.equal(drawn, resamples(7, 2000, 1))


def test_p_values_of_t_agree_with_its_interval() -> None:
    """Values of tables of Student's t: 4.303 with two degrees of freedom and 12.706 with one have p = 5%."""
    assert t_p([4.302653 - 3**0.5, 4.302653, 4.302653 + 3**0.5]) == pytest.approx(0.05, abs=1e-6)
    assert t_p([-13.706205, -11.706205]) == pytest.approx(0.05, abs=1e-6)
    assert t_p([0.5, 0.5]) == 0.0
    assert t_p([0.0, 0.0]) == 1.0


def test_p_values_of_the_bootstrap() -> None:
    values = torch.arange(-24.0, 975.0)  # 24 of 999 below 0, one is 0
    assert bootstrap_p(values) == bootstrap_p(-values) == pytest.approx(2 * 26 / 1000)
    assert bootstrap_p(torch.ones(999)) == pytest.approx(2 / 1000)
    assert bootstrap_p(torch.cat([torch.ones(999), torch.full((5,), torch.nan)])) == pytest.approx(2 / 1000)
    assert bootstrap_p(torch.zeros(9)) == 1.0


def test_holm_of_a_worked_example() -> None:
    """The smallest is multiplied by their number, the next by one less; none may be below a smaller one's."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_calibration_is_not_tested() -> None:
    values, everywhere = torch.linspace(0, 1, 20).double(), torch.ones(20, dtype=torch.bool)
    bins = torch.arange(20) % 3
    one, other = (Statistic(v, everywhere, bins, "gaps of groups") for v in (values, -values))
    assert paired_comparison([one], [other], resamples(20)).p is None


def test_whole_groups_are_drawn() -> None:
    drawn = group_resamples(("b", "a", "b", "c"))
    assert torch.equal(drawn, resamples(3)[:, [0, 1, 0, 2]])
    assert torch.equal(group_resamples(("x", "y", "z")), resamples(3))
