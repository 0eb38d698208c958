"""Rows of a study's table, from what runs found and cost."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from horst.data.clips import ClipConfig
from horst.evaluation.predictions import Predictions, positions
from horst.studies.compare import OVER_SEEDS, Estimate, StudyRow, correct, difference, estimate, study_rows
from horst.studies.config import Study, StudyRun
from horst.studies.results import SeedResult, _speed, seed_results
from horst.studies.statistics import t_interval

COUNT = 60


def predictions(right: float, seed: int) -> Predictions:
    """Of which this share has the right class first, at every position."""
    draw = torch.Generator().manual_seed(seed)
    places = positions("recognition", ClipConfig())
    labels = torch.randint(4, (COUNT,), generator=draw)
    hit = torch.rand(COUNT, generator=draw) < right
    said = torch.where(hit, labels, (labels + 1) % 4)
    scores = torch.nn.functional.one_hot(said, 4).float()[:, None].expand(-1, len(places), -1)
    none = torch.zeros(COUNT, len(places), dtype=torch.float64)
    return Predictions(
        task="recognition", positions=places, ids=tuple(f"{i:03d}" for i in range(COUNT)), labels={"action": labels},
        scores={"action": scores.clone()}, read=torch.ones(COUNT, dtype=torch.bool),
        empty=torch.zeros(COUNT, dtype=torch.bool), answers=said[:, None].clone(),
        lengths=torch.ones(COUNT, dtype=torch.int64), last_seen=none, limits=none,
    )  # fmt: skip


METRIC = "action/top1@25%"


def sample(seed: int, right: float) -> SeedResult:
    given = predictions(right, seed)
    share = float((given.scores["action"][:, 0].argmax(-1) == given.labels["action"]).double().mean())
    return SeedResult(seed, {METRIC: share}, given, False)


def outcome(run: str, seed: int, seconds: float, speed: float | None) -> Any:
    costs = {"parameters": 1000, "gflop": 0.5, "seconds": seconds, "frames_per_second": speed}
    return SimpleNamespace(run=run, seed=seed, **costs)


STUDY = Study(
    name="s", title="S", question="?", base="x.yaml", metrics=(METRIC, "area"), against="one",
    runs=tuple(StudyRun(name=name) for name in ("one", "two", "three")),
)  # fmt: skip


def test_a_row_is_the_mean_of_its_seeds() -> None:
    found = {"one": [sample(s, 0.5) for s in (0, 1, 2)], "two": [sample(s, 0.9) for s in (1, 2, 3)]}
    costs = [outcome("one", s, 10.0 + s, speed) for s, speed in ((0, 100.0), (1, None), (2, 300.0))]
    costs += [outcome("two", s, 20.0, None) for s in (1, 2, 3)] + [outcome("one", 9, 1e9, 1e9)]
    one, two = study_rows(STUDY, costs, found)  # nothing of the third is done
    assert (one.name, one.seeds, one.seconds, one.frames_per_second) == ("one", [0, 1, 2], 11.0, 200.0)
    assert (two.seconds, two.frames_per_second, two.parameters, two.gflop) == (20.0, None, 1000, 0.5)
    values = [s.metrics[METRIC] for s in found["one"]]
    assert one.values[METRIC].value == pytest.approx(sum(values) / 3)
    assert (one.values[METRIC].low, one.values[METRIC].over) == (pytest.approx(t_interval(values).low), OVER_SEEDS)
    assert set(one.values) == {METRIC}  # nobody measured the area
    assert (one.against, one.differences) == (None, {})
    assert two.against == "one"
    gap = two.differences[METRIC]
    assert list(gap.by_seed) == [1, 2]  # those that both have
    by_seed = {s: found["two"][s - 1].metrics[METRIC] - found["one"][s].metrics[METRIC] for s in (1, 2)}
    assert gap.by_seed == pytest.approx(by_seed)
    assert gap.value == pytest.approx(sum(by_seed.values()) / 2)
    assert gap.low < gap.value < gap.high  # type: ignore[operator]
    assert gap.over == "bootstrap over seeds and examples"
    assert asdict(two)["differences"][METRIC]["value"] == gap.value
    assert gap.p_holm == 2 * gap.p  # type: ignore[operator]  # of two comparisons that are the same


def test_intervals_of_shares_stay_in_0_to_1() -> None:
    high = estimate([sample(0, 1.0), sample(1, 0.9)], METRIC)
    low = estimate([sample(0, 0.0), sample(1, 0.1)], METRIC)
    assert high is not None
    assert low is not None
    assert high.high == 1.0
    assert low.low == 0.0
    seconds = [replace(sample(s, 0.5), metrics={"action/time_to_action": v}) for s, v in ((0, 1.0), (1, 3.0))]
    late = estimate(seconds, "action/time_to_action")
    assert late is not None
    assert late.high is not None
    assert late.high > 3  # seconds may be more than 1


def test_a_single_seed_has_examples_alone() -> None:
    one = estimate([sample(0, 0.5)], METRIC)
    assert one is not None
    assert one.over == "bootstrap over examples"
    assert one.low < one.value < one.high  # type: ignore[operator]
    gap = difference([sample(0, 0.9)], [sample(0, 0.3)], METRIC)
    assert gap is not None
    assert gap.over == "bootstrap over examples"
    assert gap.p is not None
    assert gap.p < 0.05
    assert not gap.significant  # before the correction
    bare = estimate([replace(sample(0, 0.5), metrics={"verb/top1@1s": 0.5})], "verb/top1@1s")  # predictions do not tell
    assert bare is not None
    assert (bare.low, bare.high) == (None, None)
    assert estimate([sample(0, 0.5), replace(sample(1, 0.5), metrics={})], METRIC) is None
    assert difference([sample(0, 0.5)], [sample(1, 0.5)], METRIC) is None


def test_significance_is_corrected_over_the_whole_study() -> None:
    costs = {"seeds": [0], "parameters": 1, "gflop": 1.0, "seconds": 1.0, "frames_per_second": None, "values": {}}
    gaps = [{METRIC: 0.01, "area": 0.04, "calibration@50%": None}, {METRIC: 0.03, "area": 0.005}]
    rows = [
        StudyRow(name=name, title=name, differences={m: Estimate(value=0.1, p=p) for m, p in gap.items()}, **costs)
        for name, gap in zip("ab", gaps, strict=True)
    ]
    found = correct(rows)
    corrected = [{m: gap.p_holm for m, gap in row.differences.items()} for row in found]
    assert corrected == [
        {METRIC: pytest.approx(0.03), "area": pytest.approx(0.06), "calibration@50%": None},
        {METRIC: pytest.approx(0.06), "area": pytest.approx(0.02)},
    ]
    assert [[gap.significant for gap in row.differences.values()] for row in found] == [
        [True, False, False],
        [False, True],
    ]
    assert [gap.p for gap in found[1].differences.values()] == [0.03, 0.005]


def test_a_seed_without_all_its_folds_is_left_out(tmp_path: Path) -> None:
    folded = replace(STUDY, folds=({}, {}))
    assert seed_results(folded, [outcome("one", 0, 1.0, None)], tmp_path) == {}


def test_speed_is_the_median_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert _speed(log) is None
    log.write_text("nothing\n")
    assert _speed(log) is None
    log.write_text("epoch 1: 1,200 frames/s\nepoch 2: 90 frames/s\nepoch 3: 1,000 frames/s\n")
    assert _speed(log) == 1000.0


def test_averaged_seeds_are_a_row_of_their_own() -> None:
    """Three seeds, each wrong on a third of the examples and unsure there: together they are right."""
    base = predictions(1.0, 0)
    own = []
    for seed in range(3):
        scores = 4 * base.scores["action"]
        wrong = torch.arange(COUNT) % 3 == seed
        scores[wrong] = 0.25 * scores[wrong].roll(1, -1)
        own.append(SeedResult(seed, {METRIC: 2 / 3}, replace(base, scores={"action": scores}), False))
    costs = [outcome("one", seed, 10.0, None) for seed in range(3)]
    evaluation = SimpleNamespace(classes={"action": 4}, data="made")
    costs = [SimpleNamespace(**vars(cost), evaluation=evaluation) for cost in costs]
    row, averaged = study_rows(replace(STUDY, ensemble=True), costs, {"one": own})
    assert study_rows(STUDY, costs, {"one": own}) == [row]
    assert row.values[METRIC].value == pytest.approx(2 / 3)
    assert averaged.title == "one, 3 seeds averaged"
    assert averaged.values[METRIC].value == 1.0
    assert averaged.values[METRIC].over == "bootstrap over examples"
    assert (averaged.parameters, averaged.gflop, averaged.seconds) == (3000, 1.5, 30.0)
    assert (averaged.against, averaged.differences) == (None, {})


def test_fused_runs_are_a_row_that_is_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each of two runs is unsure and wrong on its own half of the examples: fused they are right, for each seed."""
    base, half = predictions(1.0, 0), torch.arange(COUNT) % 2
    stored = {}
    for part, name in enumerate(("one", "two")):
        scores = 4 * base.scores["action"]
        scores[half == part] = 0.25 * scores[half == part].roll(1, -1)
        stored[name] = replace(base, scores={"action": scores})
    monkeypatch.setattr(Predictions, "load", lambda file: stored[file.parents[1].name.split("-")[0]])
    evaluation = SimpleNamespace(classes={"action": 4}, data="made", counts={})
    results = [
        SimpleNamespace(**vars(outcome(name, seed, 10.0, None)), evaluation=evaluation, folder=f"{name}-{seed}",
                        metrics={METRIC: 0.5, "area": 0.5})
        for name, seeds in (("one", (0, 1, 2)), ("two", (1, 2)))
        for seed in seeds
    ]  # fmt: skip
    fused = StudyRun(name="three", title="both", fuse=("one", "two"))
    study = replace(STUDY, runs=(*STUDY.runs[:2], fused), ensemble=True)
    seeds = seed_results(study, results, tmp_path)
    assert [one.seed for one in seeds["three"]] == [1, 2]  # those that both have
    rows = {row.name: row for row in study_rows(study, results, seeds)}
    both = rows["three"]
    assert (both.title, both.seeds) == ("both", [1, 2])
    assert (both.values[METRIC].value, both.values["area"].value) == (1.0, pytest.approx(1.0))
    assert (both.parameters, both.gflop, both.seconds) == (2000, 1.0, 20.0)
    assert both.differences[METRIC].value == pytest.approx(0.5)  # to the run "one"
    assert rows["three+ensemble"].parameters == 4000
    assert "three" not in seed_results(study, results[:3], tmp_path)  # while nothing of "two" is done
