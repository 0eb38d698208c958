"""What examples count, put together, is what `measure` says; folds are put together exactly once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_predictions import about, predictions

from horst.data.clips import ClipConfig
from horst.errors import ConfigError, DataError
from horst.evaluation.measure import measure
from horst.studies.outcomes import pool, sorted_by_id
from horst.studies.values import check_metric, known_metrics, statistic


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
        told = statistic(given, metric, discard=discard)
        assert told is not None, metric
        assert told.value == pytest.approx(value, abs=1e-9), metric


def test_what_predictions_do_not_tell() -> None:
    given = predictions("recognition")
    for metric in ("verb/top1@25%", "action/top1@33%", "action/recall5@1s/unseen", "action/time_to_action"):
        assert statistic(given, metric) is None


def test_metrics_that_nobody_measures_are_refused() -> None:
    for metric in ("action/top1@25%", "area", "calibration@50%"):
        check_metric(metric, ClipConfig(), "recognition")
    for metric in ("verb/recall5@1s", "action/recall5@1s/unseen"):
        check_metric(metric, ClipConfig(), "anticipation")
    says = r"'action/top1@24%', which nobody measures in recognition, did you mean .*'action/top1@25%'"
    with pytest.raises(ConfigError, match=says):
        check_metric("action/top1@24%", ClipConfig(), "recognition")
    with pytest.raises(ConfigError, match="nobody measures in recognition"):
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
