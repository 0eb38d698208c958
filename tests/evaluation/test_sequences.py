"""Edit distance at Z against a plain recursion, against single edits, and on worked examples."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from horst.errors import InputError
from horst.evaluation.sequences import edit_distance_at, edit_distances

both = pytest.mark.parametrize("transpositions", [True, False])


def recursion(a: Sequence[int], b: Sequence[int], transpositions: bool) -> int:
    """By trying every edit of the last action."""
    if not a or not b:
        return len(a) + len(b)
    tried = [
        recursion(a[:-1], b, transpositions) + 1,
        recursion(a, b[:-1], transpositions) + 1,
        recursion(a[:-1], b[:-1], transpositions) + (a[-1] != b[-1]),
    ]
    if transpositions and len(a) > 1 and len(b) > 1 and (a[-1], a[-2]) == (b[-2], b[-1]):
        tried.append(recursion(a[:-2], b[:-2], transpositions) + 1)
    return min(tried)


@both
@given(given=st.data(), actions=st.integers(1, 5), sequences=st.integers(1, 3), classes=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_it_is_the_recursion(
    transpositions: bool, given: st.DataObject, actions: int, sequences: int, classes: int
) -> None:
    numbers = st.lists(st.integers(0, classes - 1), min_size=actions, max_size=actions)
    labels = given.draw(st.lists(numbers, min_size=2, max_size=2))
    predicted = [[given.draw(numbers) for _ in range(sequences)] for _ in labels]
    found = edit_distances(torch.tensor(predicted), torch.tensor(labels), transpositions=transpositions)
    wanted = [[recursion(s, b, transpositions) for s in of] for of, b in zip(predicted, labels, strict=True)]
    assert found.tolist() == wanted
    best = sum(min(distances) for distances in wanted) / len(wanted) / actions
    at = edit_distance_at(torch.tensor(predicted), torch.tensor(labels), actions, transpositions=transpositions)
    assert at == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize(
    ("predicted", "damerau", "levenshtein"),
    [
        ([1, 2, 3, 4], 0, 0),
        ([1, 2, 9, 4], 1, 1),  # one replaced
        ([2, 1, 3, 4], 1, 2),  # two swapped
        ([2, 3, 4, 9], 2, 2),  # all one place too early
        ([9, 9, 9, 9], 4, 4),
        ([-1, -1, -1, -1], 4, 4),  # nothing predicted
    ],
)
def test_worked_examples(predicted: list[int], damerau: int, levenshtein: int) -> None:
    given, labels = torch.tensor([[predicted]]), torch.tensor([[1, 2, 3, 4]])
    assert edit_distances(given, labels).item() == damerau
    assert edit_distances(given, labels, transpositions=False).item() == levenshtein
    assert edit_distance_at(given, labels, 4) == damerau / 4


def test_only_the_first_z_actions_and_the_closest_sequence_count() -> None:
    predicted = torch.tensor([[[5, 5, 5], [1, 2, 9]], [[7, 8, 8], [9, 9, 9]]])
    labels = torch.tensor([[1, 2, 3], [7, 8, 9]])
    assert edit_distance_at(predicted, labels, 2) == 0
    assert edit_distance_at(predicted, labels, 3) == pytest.approx(1 / 3)
    assert edit_distance_at(predicted[:, :1], labels, 3) == pytest.approx((1 + 1 / 3) / 2)


def test_examples_with_unknown_actions_are_left_out() -> None:
    predicted, labels = torch.tensor([[[1, 2]], [[1, 2]]]), torch.tensor([[1, -1], [1, 3]])
    assert edit_distance_at(predicted, labels, 2) == 0.5
    assert edit_distance_at(predicted, labels, 1) == 0
    assert math.isnan(edit_distance_at(predicted[:1], labels[:1], 2))


@pytest.mark.parametrize(
    ("predicted", "labels", "z", "match"),
    [
        (torch.zeros(2, 3, 4).long(), torch.zeros(2, 3).long(), 1, r"\(N, K, Z\)"),
        (torch.zeros(2, 4).long(), torch.zeros(2, 4).long(), 1, r"\(N, K, Z\)"),
        (torch.zeros(2, 0, 4).long(), torch.zeros(2, 4).long(), 1, "at least one sequence"),
        (torch.zeros(2, 3, 4), torch.zeros(2, 4).long(), 1, "predictions are torch.float32"),
        (torch.zeros(2, 3, 4).long(), torch.full((2, 4), -2), 1, "labels have the action -2"),
        (torch.zeros(2, 3, 4).long(), torch.zeros(2, 4).long(), 5, "z is 5"),
    ],
)
def test_bad_input(predicted: torch.Tensor, labels: torch.Tensor, z: int, match: str) -> None:
    with pytest.raises(InputError, match=match):
        edit_distance_at(predicted, labels, z)
