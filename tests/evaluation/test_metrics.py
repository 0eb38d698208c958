"""Metrics equal RULSTM's recorded values and a slow loop over examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from horst.errors import InputError
from horst.evaluation.metrics import (
    accuracy_of_ranks,
    area,
    bin_of,
    calibration_bins,
    decided,
    label_ranks,
    marginalize,
    probabilities,
    recall_of_ranks,
    time_of_ranks,
)

INF = torch.inf
TIMES = (2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25)  # seconds before the action at which RULSTM's protocol predicts


@pytest.fixture(scope="module")
def golden(data: Path) -> dict[str, Tensor]:
    return load_file(data / "rulstm_metrics.safetensors")


def close(found: float | list[float], wanted: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), wanted.double(), rtol=0, atol=tolerance)


def topk_accuracy(scores: Tensor, labels: Tensor, ks: Sequence[int]) -> list[float]:
    return [accuracy_of_ranks(label_ranks(scores, labels), labels, k) for k in ks]


def mean_topk_recall(scores: Tensor, labels: Tensor, k: int) -> float:
    return recall_of_ranks(label_ranks(scores, labels), labels, k)


def time_to_action(scores: Tensor, labels: Tensor, k: int = 5, times: tuple[float, ...] = TIMES) -> float:
    ranks = torch.stack([label_ranks(scores[:, p], labels) for p in range(len(times))], 1)
    return time_of_ranks(ranks, labels, k, times)


def recall_of_classes(scores: Tensor, labels: Tensor, k: int, classes: list[int]) -> float:
    rows = torch.isin(labels, torch.tensor(classes))
    return mean_topk_recall(scores[rows], labels[rows], k)


def random_scores(seed: int, *, tied: bool = False) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(97, 13, generator=generator)
    return scores.round() if tied else scores, torch.randint(-1, 13, (97,), generator=generator)


def test_equal_to_rulstm(golden: dict[str, Tensor]) -> None:
    scores, labels = golden["scores"], golden["labels"]
    for t in range(scores.shape[1]):
        close(topk_accuracy(scores[:, t], labels, (1, 5)), golden["topk_accuracy"][:, t])
        close(mean_topk_recall(scores[:, t], labels, 5), golden["mean_top5_recall"][t])
        many = recall_of_classes(scores[:, t], labels, 5, golden["many_shot"].tolist())
        close(many, golden["mean_top5_recall_many_shot"][t])
    close(100 * mean_topk_recall(scores[:, 4], labels, 5), golden["meter_top5_recall_t4"])
    close(time_to_action(scores, labels), golden["time_to_action_top5"], 1e-6)


@pytest.mark.parametrize("part", ["verb", "noun"])
def test_marginals_equal_to_rulstm(golden: dict[str, Tensor], part: str) -> None:
    wanted, classes = golden[f"{part}_probability"], golden[f"action_{part}"]
    actions = probabilities(golden["scores"])
    for rulstm in (False, True):  # all classes of the recorded values have actions
        torch.testing.assert_close(marginalize(actions, classes, wanted.shape[-1], rulstm_empty=rulstm), wanted)


def test_classes_without_actions() -> None:
    actions = torch.tensor([[0.5, 0.2, 0.3]])
    assert marginalize(actions, [2, 0, 2], 4).tolist() == [pytest.approx([0.2, 0, 0.8, 0])]
    assert marginalize(actions, [2, 0, 2], 4, rulstm_empty=True).tolist() == [pytest.approx([0.2, 0.5, 0.8, 0.5])]


@pytest.mark.parametrize("tied", [False, True])
def test_equal_to_a_loop(tied: bool) -> None:
    scores, labels = random_scores(3, tied=tied)
    hits: dict[int, list[bool]] = {}
    for row, label in zip(scores.tolist(), labels.tolist(), strict=True):
        best = sorted(range(13), key=lambda c, row=row: (-row[c], c))[:4]
        if label >= 0:
            hits.setdefault(label, []).append(label in best)
    flat = [hit for of_class in hits.values() for hit in of_class]
    assert topk_accuracy(scores, labels, [4, 100]) == [sum(flat) / len(flat), 1.0]
    recalls = {c: sum(h) / len(h) for c, h in hits.items()}
    close(mean_topk_recall(scores, labels, 4), torch.tensor(list(recalls.values()), dtype=torch.float64).mean())
    close(recall_of_classes(scores, labels, 4, [2, 5]), torch.tensor([recalls[2], recalls[5]]).double().mean(), 1e-7)


@given(
    classes=st.integers(1, 5),
    data=st.lists(st.tuples(st.integers(0, 4), st.lists(st.sampled_from([-INF, 0, 1, 2]), min_size=5, max_size=5))),
    k=st.integers(1, 7),
)
@settings(max_examples=150, deadline=None)
def test_edge_cases_equal_to_a_loop(classes: int, data: list[tuple[int, list[float]]], k: int) -> None:
    """Ties, k above the number of classes, absent classes, unpredicted classes, unknown labels, no examples."""
    labels = torch.tensor([label if label < classes else -1 for label, _ in data], dtype=torch.int64)
    scores = torch.tensor([row[:classes] for _, row in data]).reshape(-1, classes)
    hits: dict[int, list[bool]] = {}
    for row, label in zip(scores.tolist(), labels.tolist(), strict=True):
        best = sorted((c for c in range(classes) if row[c] > -INF), key=lambda c, row=row: (-row[c], c))[:k]
        if label >= 0:
            hits.setdefault(label, []).append(label in best)
    flat = [hit for of_class in hits.values() for hit in of_class]
    recalls = [sum(h) / len(h) for h in hits.values()]
    if not flat:
        with pytest.raises(InputError, match="no example has a label"):
            topk_accuracy(scores, labels, [k])
        return
    assert topk_accuracy(scores, labels, [k]) == [sum(flat) / len(flat)]
    assert mean_topk_recall(scores, labels, k) == pytest.approx(sum(recalls) / len(recalls))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_bins_include_their_upper_end(values: list[float], bins: int) -> None:
    confidence = torch.tensor(values, dtype=torch.float64)
    for value, place in zip(confidence.tolist(), bin_of(confidence, bins).tolist(), strict=True):
        assert place == max(0, min(bins - 1, math.ceil(value * bins) - 1))


def test_ties_rank_by_class_number() -> None:
    same = torch.zeros(3, 4)
    assert topk_accuracy(same, torch.tensor([0, 1, 3]), (1, 2, 3, 4)) == [1 / 3, 2 / 3, 2 / 3, 1]


def test_unpredicted_classes_are_misses() -> None:
    nothing = torch.full((2, 3), -INF)
    assert topk_accuracy(nothing, torch.tensor([0, 1]), (1, 3, 10)) == [0, 0, 0]
    assert not probabilities(nothing).any()
    assert time_to_action(nothing[:, None].expand(-1, 8, -1), torch.tensor([0, 1])) == 0


def test_time_to_action() -> None:
    scores = torch.zeros(4, 3, 6)
    scores[0, :, 0] = 1  # from the first on
    scores[1, 1, 1] = 1  # once, in the middle
    scores[2, 2, 2] = 1  # at last
    labels = torch.tensor([0, 1, 2, 3])
    assert time_to_action(scores, labels, k=1, times=(3.0, 2.0, 1.0)) == (3 + 2 + 1 + 0) / 4
    labels[3] = -1
    assert time_to_action(scores, labels, k=1, times=(3.0, 2.0, 1.0)) == 2


def test_calibration() -> None:
    """A confidence of 80% with an accuracy of 80% has no error."""
    scores = torch.tensor([0.8, 0.2]).log().repeat(10, 1)
    labels = torch.tensor([0] * 8 + [1] * 2)
    assert calibration_bins(scores, labels).error == pytest.approx(0, abs=1e-6)
    assert calibration_bins(scores, torch.zeros(10, dtype=torch.int64)).error == pytest.approx(0.2, abs=1e-6)
    unread = torch.cat([scores, torch.full((5, 2), -INF)])
    assert calibration_bins(unread, torch.cat([labels * 0, torch.ones(5).long()])).error == pytest.approx(0.2, abs=1e-6)


def test_decided() -> None:
    answers = torch.tensor([[1, 1, 1, 1], [0, 1, 0, 2], [3, 2, 2, -1], [-1, -1, -1, -1]])
    assert decided(answers, torch.tensor([4, 4, 3, 0])) == pytest.approx((1 / 4 + 4 / 4 + 2 / 3 + 1) / 4)


def test_area() -> None:
    assert area([0.1, 0.2, 1.0], [0.5, 0.5, 0.5]) == pytest.approx(0.5)
    assert area([0.0, 0.25, 1.0], [0.0, 1.0, 1.0]) == pytest.approx(0.875)


@pytest.mark.parametrize(
    ("positions", "values"), [([0.0, 1.0], [1.0]), ([0.0, 1.0], [1.0] * 3), ([0.0], [1.0]), ([], [])]
)
def test_no_curve(positions: list[float], values: list[float]) -> None:
    with pytest.raises(InputError, match=f"{len(positions)} positions and {len(values)} values make no curve"):
        area(positions, values)


def test_invalid_arguments() -> None:
    scores, labels = random_scores(1)
    broken = scores.clone()
    broken[7, 2] = torch.nan
    for bad_scores, bad_labels, k, says in (
        (broken, labels, 5, "scores of example 7 are NaN"),
        (scores, labels.clone().fill_(13), 5, "example 0 has label 13; there are 13 classes"),
        (scores, labels.clone().fill_(-2), 5, "example 0 has label -2"),
        (scores, labels.float(), 5, "whole numbers"),
        (scores, labels[:-1], 5, "are needed"),
        (scores[:, None], labels, 5, "are needed"),
        (scores, labels.clone().fill_(-1), 5, "no example has a label"),
        (scores[:0], labels[:0], 5, "no example has a label"),
        (scores, labels, 0, "k is 0"),
    ):
        with pytest.raises(InputError, match=says):
            topk_accuracy(bad_scores, bad_labels, [k])
        with pytest.raises(InputError, match=says):
            mean_topk_recall(bad_scores, bad_labels, k)
    with pytest.raises(InputError, match="one each is needed"):
        marginalize(scores, [0, 1], 2)
    with pytest.raises(InputError, match="classes 0 to 12; there are 12"):
        marginalize(scores, list(range(13)), 12)
