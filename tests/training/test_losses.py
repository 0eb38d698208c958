"""The loss of a clip: which frames count, against a plain loop, and nothing of the padding in it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from horst.errors import ConfigError, DataError, InputError
from horst.heads import Logits
from horst.training.config import LOSSES, Loss
from horst.training.losses import (
    clip_loss,
    exponential_weights,
    frame_weights,
    ranking_loss,
    register_loss,
    smooth_top_k,
    truncated_top_k,
)

CLASSES = {"action": 5, "verb": 3, "noun": 4}
STEPS = st.sampled_from(["last", "every", "anticipation"])
lengths_of_clips = st.lists(st.integers(1, 7), min_size=1, max_size=4)


def valid_of(lengths: list[int], frames: int = 0) -> Tensor:
    return torch.arange(max([*lengths, frames])) < torch.tensor(lengths)[:, None]


def draw(lengths: list[int], tasks: tuple[str, ...], seed: int) -> tuple[Logits, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths))
    logits = {task: torch.randn(*shape, CLASSES[task], generator=generator) for task in tasks}
    labels = {task: torch.randint(-1, CLASSES[task], shape[:1], generator=generator) for task in tasks}
    return Logits(**logits), labels


@given(lengths=lengths_of_clips, steps=STEPS, seed=st.integers(0, 99), more=st.integers(0, 3), ramp=st.booleans())
@settings(max_examples=60, deadline=None)
def test_frames_that_count(lengths: list[int], steps: str, seed: int, more: int, ramp: bool) -> None:
    valid = valid_of(lengths, max(lengths) + more)
    observed = valid & (torch.rand(valid.shape, generator=torch.Generator().manual_seed(seed)) < 0.7)
    options = Loss(steps=steps, ramp=ramp, times="mean")  # type: ignore[arg-type]
    weights = frame_weights(options, valid, observed, anticipated=2)
    assert not weights[~valid].any()
    for row, n in enumerate(lengths):
        candidates = {
            "last": [n - 1],
            "every": [t for t in range(n) if observed[row, t]],
            "anticipation": [t for t in range(max(0, n - 2), n) if observed[row, t]],
        }[steps]
        assert weights[row].nonzero().flatten().tolist() == candidates
        counted = weights[row, candidates]
        assert float(counted.sum()) == pytest.approx(1 if candidates else 0, abs=1e-6)
        if not ramp and candidates:
            torch.testing.assert_close(counted, torch.full_like(counted, 1 / len(candidates)))
    if not ramp:  # the sum over anticipation times; elsewhere there is none
        summed = frame_weights(replace(options, times="sum"), valid, observed, anticipated=2)
        assert torch.equal(summed, (weights > 0).float() if steps == "anticipation" else weights)


@given(
    lengths=lengths_of_clips,
    steps=STEPS,
    tasks=st.sampled_from([("action",), ("action", "verb", "noun")]),
    smoothing=st.sampled_from([0.0, 0.1]),
    times=st.sampled_from(["sum", "mean"]),
    seed=st.integers(0, 999),
)
@settings(max_examples=60, deadline=None)
def test_it_is_a_plain_loop(
    lengths: list[int], steps: str, tasks: tuple[str, ...], smoothing: float, times: str, seed: int
) -> None:
    logits, labels = draw(lengths, tasks, seed)
    valid = valid_of(lengths)
    options = Loss(steps=steps, label_smoothing=smoothing, times=times)  # type: ignore[arg-type]
    weights = frame_weights(options, valid, valid, anticipated=3)
    found = clip_loss(logits, labels, weights, valid, options)
    for row, n in enumerate(lengths):
        expected = torch.zeros(())
        for task in tasks:
            if labels[task][row] == -1:
                continue
            frames = {"last": [n - 1], "every": range(n), "anticipation": range(max(0, n - 3), n)}[steps]
            each = [F.cross_entropy(logits[task][row, t], labels[task][row], label_smoothing=smoothing) for t in frames]
            summed = steps == "anticipation" and times == "sum"
            expected = expected + (torch.stack(each).sum() if summed else torch.stack(each).mean())
        torch.testing.assert_close(found.loss[row], expected)
        assert bool(found.labelled[row]) == any(labels[task][row] != -1 for task in tasks)
        assert bool(found.right[row]) == bool(logits.action[row, n - 1].argmax() == labels["action"][row])


@given(
    lengths=lengths_of_clips,
    steps=STEPS,
    rubbish=st.sampled_from([math.nan, math.inf, -math.inf, 1e30]),
    more=st.integers(0, 2),
    seed=st.integers(0, 99),
    more_options=st.sampled_from(
        [
            {"label_smoothing": 0.1},
            {"exponential": 0.5, "ranking": 2.0, "ranking_form": "both"},
            {"name": "smooth_top_k", "k": 2, "temperature": 0.5},
            {"name": "truncated_top_k", "k": 3},
        ]
    ),
)
@settings(max_examples=60, deadline=None)
def test_nothing_of_the_padding_is_in_it(
    lengths: list[int], steps: str, rubbish: float, more: int, seed: int, more_options: dict[str, Any]
) -> None:
    logits, labels = draw(lengths, ("action",), seed)
    options = Loss(steps=steps, **more_options)  # type: ignore[arg-type]
    found = []
    for fill, frames in ((0.0, max(lengths)), (rubbish, max(lengths) + more)):
        valid = valid_of(lengths, frames)
        scores = F.pad(logits.action, (0, 0, 0, frames - max(lengths)))
        scores = torch.where(valid[..., None], scores, fill).requires_grad_()
        weights = frame_weights(options, valid, valid, anticipated=3)
        clips = clip_loss(Logits(scores), labels, weights, valid, options)
        (clips.loss * torch.arange(1, len(lengths) + 1)).sum().backward()
        assert scores.grad is not None
        assert not scores.grad[~valid].any()
        found.append((clips, scores.grad[:, : max(lengths)]))
    (a, grad_a), (b, grad_b) = found
    # Sums of more numbers are summed in another order. An entry near 0 is a difference of larger terms, so the bound is
    # relative to the largest entry: relative to itself, fp32 rounding alone exceeds 1e-6 (1.5e-5 with seed 5).
    torch.testing.assert_close(grad_a, grad_b, rtol=0, atol=1e-6 * grad_a.abs().max().item())
    torch.testing.assert_close(tuple(a), tuple(b), rtol=1e-6, atol=0)


def test_labels_that_nobody_knows() -> None:
    """They are no loss and no gradient; where nothing is known, the clip does not count."""
    action = torch.randn(3, 2, 5, requires_grad=True)
    verb = torch.randn(3, 2, 3, requires_grad=True)
    labels = {"action": torch.tensor([2, -1, -1]), "verb": torch.tensor([0, 1, -1]), "noun": torch.tensor([0, 0, 0])}
    valid = valid_of([2, 1, 2])
    found = clip_loss(Logits(action, verb), labels, frame_weights(Loss(), valid, valid, 0), valid, Loss())
    assert found.labelled.tolist() == [True, True, False]
    found.loss.sum().backward()
    assert action.grad is not None
    assert verb.grad is not None
    assert [bool(g.any()) for g in action.grad] == [True, False, False]
    assert [bool(g.any()) for g in verb.grad] == [True, True, False]


def test_a_model_and_data_that_have_nothing_in_common() -> None:
    valid = valid_of([1])
    weights = frame_weights(Loss(), valid, valid, 0)
    with pytest.raises(DataError, match="verb"):
        clip_loss(Logits(torch.zeros(1, 1, 5)), {"verb": torch.zeros(1, dtype=torch.int64)}, weights, valid, Loss())


@given(lengths=lengths_of_clips, rate=st.floats(0, 60), steps=STEPS, seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_weights_of_an_exponential(lengths: list[int], rate: float, steps: str, seed: int) -> None:
    """exp(-rate (T - t)), 1 in sum, whatever was not observed and however little the frames before the last count."""
    valid = valid_of(lengths)
    observed = valid & (torch.rand(valid.shape, generator=torch.Generator().manual_seed(seed)) < 0.7)
    uniform = frame_weights(Loss(steps=steps), valid, observed, anticipated=2)  # type: ignore[arg-type]
    options = Loss(steps=steps, exponential=rate, times="mean")  # type: ignore[arg-type]
    weights = frame_weights(options, valid, observed, anticipated=2)
    for row, n in enumerate(lengths):
        counted = uniform[row].nonzero().flatten().tolist()
        raw = [math.exp(-rate * (n - 1 - t)) if t in counted else 0.0 for t in range(valid.shape[1])]
        expected = torch.tensor([r / sum(raw) if counted else 0.0 for r in raw])
        torch.testing.assert_close(weights[row], expected, rtol=1e-4, atol=1e-12)


@given(
    lengths=lengths_of_clips,
    seed=st.integers(0, 999),
    name=st.sampled_from(["cross_entropy", "smooth_top_k", "truncated_top_k"]),
    ranking=st.sampled_from([0.0, 3.0]),
    chosen=st.sampled_from([None, ("verb", "noun"), ("noun", "action")]),
)
@settings(max_examples=60, deadline=None)
def test_it_is_put_together_from_its_parts(
    lengths: list[int], seed: int, name: str, ranking: float, chosen: tuple[str, ...] | None
) -> None:
    logits, labels = draw(lengths, ("action", "verb", "noun"), seed)
    if chosen == ("verb", "noun"):
        ranking, name = 0.0, "cross_entropy" if name == "truncated_top_k" else name
    valid = valid_of(lengths)
    options = Loss(steps="every", name=name, k=2, temperature=0.7, ranking=ranking, tasks=chosen)  # type: ignore[arg-type]
    found = clip_loss(logits, labels, frame_weights(options, valid, valid, 0), valid, options)
    for row, n in enumerate(lengths):
        expected = torch.zeros(())
        for task in chosen or logits:
            scores, target = logits[task][row, :n], labels[task][row].expand(n)
            if name == "smooth_top_k":
                each = smooth_top_k(scores, target, 2, 0.7)
            elif name == "truncated_top_k" and task == "action":
                each = truncated_top_k(scores, target, 2)
            else:
                each = F.cross_entropy(scores, target, ignore_index=-1, reduction="none")
            expected = expected + each.mean()
        if ranking:
            one = slice(row, row + 1)
            expected = (
                expected + ranking * ranking_loss(logits.action[one, :n], labels["action"][one], valid[one, :n]).mean()
            )
        torch.testing.assert_close(found.loss[row], expected)
        assert bool(found.labelled[row]) == any(labels[task][row] != -1 for task in chosen or logits)


def test_tasks_that_are_not_there() -> None:
    logits, labels = draw([2], ("action", "verb"), 0)
    valid = valid_of([2])
    options = Loss(tasks=("verb", "noun"))
    with pytest.raises(DataError, match=r"loss.tasks names noun, but the data has labels for action, verb"):
        clip_loss(logits, labels, frame_weights(options, valid, valid, 0), valid, options)


@pytest.mark.parametrize("more", [{"name": "smooth_top_k"}, {"name": "truncated_top_k"}, {"ranking": 1.0}])
def test_unknown_labels_give_no_gradient(more: dict[str, Any]) -> None:
    action = torch.randn(2, 3, 6, requires_grad=True)
    valid = valid_of([3, 3])
    options = Loss(steps="every", k=3, **more)
    weights = frame_weights(options, valid, valid, 0)
    found = clip_loss(Logits(action), {"action": torch.tensor([-1, 4])}, weights, valid, options)
    found.loss.sum().backward()
    assert action.grad is not None
    assert torch.isfinite(action.grad).all()
    assert [bool(g.any()) for g in action.grad] == [False, True]
    assert found.loss[0] == 0


def test_each_frame_counts_a_fixed_part_of_the_next() -> None:
    counted = torch.tensor([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]]).bool()
    found = exponential_weights(counted, 0.5)
    e = math.exp(-0.5)
    torch.testing.assert_close(found, torch.tensor([[e**3, e**2, e, 1], [e**2, 0, 1, 0], [0, 0, 0, 0]]))


def test_no_rate_is_no_difference_and_a_huge_one_leaves_the_last() -> None:
    counted = torch.ones(1, 200, dtype=torch.bool)
    assert torch.equal(exponential_weights(counted, 0.0), torch.ones(1, 200))
    assert exponential_weights(counted, 1e6).nonzero().tolist() == [[0, 199]]


class Doubled(torch.nn.Module):
    """Twice the cross-entropy, for labels that are all known."""

    def __init__(self, by: float = 2.0, reduction: str = "none") -> None:
        super().__init__()
        self.by, self.reduction = by, reduction

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        assert labels.min() >= 0
        return self.by * F.cross_entropy(scores, labels, reduction=self.reduction)


def test_a_loss_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LOSSES, "_entries", dict(LOSSES._entries))  # for this test alone
    register_loss("doubled")(Doubled)
    valid = valid_of([3, 2, 1])
    logits, labels = draw([3, 2, 1], ("action", "verb"), 0)
    labels["verb"][1] = -1
    weights = frame_weights(Loss(steps="every"), valid, valid, 0)
    expected = clip_loss(logits, labels, weights, valid, Loss(steps="every"))
    for name, options, factor in (
        ("doubled", {}, 2.0),
        ("doubled", {"by": 3.0}, 3.0),
        ("torch.nn:CrossEntropyLoss", {"reduction": "none"}, 1.0),
    ):
        found = clip_loss(logits, labels, weights, valid, Loss(steps="every", name=name, options=options))
        torch.testing.assert_close(found.loss, factor * expected.loss)
        assert torch.equal(found.labelled, expected.labelled)
    for options, error, says in (
        ({"of": 3}, ConfigError, "loss 'doubled' has no option 'of'"),
        ({"reduction": "mean"}, InputError, "must not reduce"),
    ):
        with pytest.raises(error, match=says):
            clip_loss(logits, labels, weights, valid, Loss(name="doubled", options=options))
    with pytest.raises(ConfigError, match="there is no loss 'dubled', did you mean 'doubled'"):
        Loss(name="dubled")
    with pytest.raises(ConfigError, match=r"loss.options are for a loss of your own; smooth_top_k has none"):
        Loss(name="smooth_top_k", options={"k": 3})
