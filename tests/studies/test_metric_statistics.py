"""What examples count, put together, is what `measure` says; folds are put together exactly once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_predictions import about, predictions

from horst.data.clips import ClipConfig
from horst.errors import ConfigError, DataError
from horst.evaluation.measure import measure
from horst.evaluation.predictions import pool, sorted_by_id
from horst.studies.statistics import check_metric, known_metrics, metric_statistic


@pytest.mark.parametrize("task", ["recognition", "anticipation"])
@pytest.mark.parametrize("data", ["made", "EPIC-Kitchens 55"])
def test_every_metric_is_that_of_measure(task: str, data: str) -> None:
    given = predictions(task)
    found = measure(given, about(task, data))
    assert set(found) <= set(known_metrics(ClipConfig(steps=14, stride=0.25), task))  # type: ignore[arg-type]
    discard = data != "made"
    if task == "recognition":
        given = replace(given, empty=torch.zeros_like(given.empty))
        found = measure(given, about(task, data))
    for metric, value in found.items():
        told = metric_statistic(given, metric, discard=discard)
        assert told is not None, metric
        assert told.value == pytest.approx(value, abs=1e-9), metric


def test_what_predictions_do_not_tell() -> None:
    given = predictions("recognition")
    for metric in ("verb/top1@25%", "action/top1@33%", "action/recall5@1s/unseen", "action/time_to_action"):
        assert metric_statistic(given, metric) is None


def test_metrics_that_nobody_measures_are_refused() -> None:
    for metric in ("action/top1@25%", "area", "calibration@50%"):
        check_metric(metric, ClipConfig(), "recognition")
    for metric in ("verb/recall5@1s", "action/recall5@1s/unseen"):
        check_metric(metric, ClipConfig(), "anticipation")
    says = r"'action/top1@24%', which is not measured in recognition, did you mean .*'action/top1@25%'"
    with pytest.raises(ConfigError, match=says):
        check_metric("action/top1@24%", ClipConfig(), "recognition")
    with pytest.raises(ConfigError, match="is not measured in recognition"):
        check_metric("action/top1@1s", ClipConfig(), "recognition")


def test_folds_are_pooled_exactly_once() -> None:
    whole = predictions("recognition", 50)
    fold = torch.arange(50) % 3
    parts = [whole.select(fold == k) for k in range(3)]
    parts[1] = replace(parts[1], answers=parts[1].answers[:, : int(parts[1].lengths.max())])  # a fold of short clips
    pooled = pool(parts)
    assert sorted(pooled.ids) == sorted(whole.ids)
    assert measure(pooled, about("recognition")) == pytest.approx(measure(whole, about("recognition")))
    back, before = sorted_by_id(pooled), sorted_by_id(whole)
    assert back.ids == before.ids
    assert torch.equal(back.scores["action"], before.scores["action"])
    with pytest.raises(DataError, match="is for validation in two folds"):
        pool([*parts, parts[0]])
    other = replace(parts[0], scores={"action": parts[0].scores["action"][..., :5]})
    with pytest.raises(DataError, match="on other classes"):
        pool([other, *parts[1:]])


def test_names_that_make_no_metric() -> None:
    given = predictions("recognition")
    for metric in (
        "action/top1",
        "action/recall5",
        "calibration",
        "area@25%",
        "action/top3@25%",
        "action/other@25%",
        "",
    ):
        assert metric_statistic(given, metric) is None, metric
    late = predictions("anticipation")
    for metric in ("decided", "verb/top5", "area@1s", "verb/time_to_actions"):
        assert metric_statistic(late, metric) is None, metric
    single = replace(
        given,
        positions=given.positions[:1],
        scores={"action": given.scores["action"][:, :1]},
        last_seen=given.last_seen[:, :1],
        limits=given.limits[:, :1],
    )
    assert metric_statistic(single, "area") is None  # a single place has no area
    assert metric_statistic(single, f"action/top1@{single.names()[0]}") is not None


def test_every_known_metric() -> None:
    clip = ClipConfig(steps=14, stride=0.25)
    shown = known_metrics(clip, "recognition")
    assert shown[-2:] == ["area", "decided"]
    kinds = ("action/top1", "action/top5", "calibration")
    assert len(shown) == len(set(shown)) == 2 + len(kinds) * len(predictions("recognition").positions)
    early = known_metrics(clip, "anticipation")
    parts, places = ("action", "verb", "noun"), predictions("anticipation").names()
    ranked = {f"{part}/{kind}@{at}" for part in parts for kind in ("top1", "top5", "recall5") for at in places}
    assert set(early) == ranked | {f"{part}/time_to_action" for part in parts}
    for metric in ("verb/recall5@1s/unseen/more", "verb/top5@1s"):
        check_metric(metric, clip, "anticipation")
    for metric in ("verb/top5@1s/unseen", "verb/recall5@1s/", "verb/recall5@9s/unseen", "verb/recall5/unseen"):
        with pytest.raises(ConfigError, match="is not measured in anticipation"):
            check_metric(metric, clip, "anticipation")


def test_a_worked_example() -> None:
    """Two clips, two places: the label's rank is 0 and 1 for the first, 5 and 0 for the second."""
    scores = torch.tensor(
        [[[9.0, 1, 2, 3, 4, 5, 6], [8.0, 9, 1, 2, 3, 4, 5]], [[1.0, 9, 8, 7, 6, 5, 0], [9.0] + [0] * 6]]
    )
    given = replace(
        predictions("recognition", 2),
        positions=(0.25, 0.75),
        labels={"action": torch.tensor([0, 0])},
        scores={"action": scores},
        last_seen=torch.zeros(2, 2, dtype=torch.float64),
        limits=torch.zeros(2, 2, dtype=torch.float64),
    )
    wanted = {
        "action/top1@25%": [1, 0],
        "action/top1@75%": [0, 1],
        "action/top5@25%": [1, 0],
        "action/top5@75%": [1, 1],
        "action/recall5@25%": [1, 0],
        "area": [0.5, 0.5],
    }
    for metric, values in wanted.items():
        told = metric_statistic(given, metric)
        assert told is not None
        assert told.values.tolist() == values, metric
        assert told.counted.tolist() == [True, True]
    late = replace(given, task="anticipation", positions=(1.0, 0.5))
    told = metric_statistic(late, "action/time_to_action")
    assert told is not None
    assert told.values.tolist() == [1.0, 0.5]
    never = replace(late, scores={"action": -scores})
    told = metric_statistic(never, "action/time_to_action")
    assert told is not None
    assert told.values.tolist() == [0.0, 1.0]
