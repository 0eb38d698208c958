"""The loss: which frames count, against a plain loop, and nothing of the padding in it."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from horst.errors import DataError
from horst.heads import Logits
from horst.training.config import Loss
from horst.training.losses import clip_loss, frame_weights

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
    weights = frame_weights(Loss(steps=steps, ramp=ramp), valid, observed, anticipated=2)  # type: ignore[arg-type]
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


@given(
    lengths=lengths_of_clips,
    steps=STEPS,
    tasks=st.sampled_from([("action",), ("action", "verb", "noun")]),
    smoothing=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 999),
)
@settings(max_examples=60, deadline=None)
def test_it_is_a_plain_loop(
    lengths: list[int], steps: str, tasks: tuple[str, ...], smoothing: float, seed: int
) -> None:
    logits, labels = draw(lengths, tasks, seed)
    valid = valid_of(lengths)
    weights = frame_weights(Loss(steps=steps), valid, valid, anticipated=3)  # type: ignore[arg-type]
    found = clip_loss(logits, labels, weights, valid, smoothing)
    for row, n in enumerate(lengths):
        expected = torch.zeros(())
        for task in tasks:
            if labels[task][row] == -1:
                continue
            frames = {"last": [n - 1], "every": range(n), "anticipation": range(max(0, n - 3), n)}[steps]
            each = [F.cross_entropy(logits[task][row, t], labels[task][row], label_smoothing=smoothing) for t in frames]
            expected = expected + torch.stack(each).mean()
        torch.testing.assert_close(found.loss[row], expected)
        assert bool(found.labelled[row]) == any(labels[task][row] != -1 for task in tasks)
        assert bool(found.right[row]) == bool(logits.action[row, n - 1].argmax() == labels["action"][row])


@given(
    lengths=lengths_of_clips,
    steps=STEPS,
    rubbish=st.sampled_from([math.nan, math.inf, -math.inf, 1e30]),
    more=st.integers(0, 2),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_nothing_of_the_padding_is_in_it(lengths: list[int], steps: str, rubbish: float, more: int, seed: int) -> None:
    logits, labels = draw(lengths, ("action",), seed)
    options = Loss(steps=steps, label_smoothing=0.1)  # type: ignore[arg-type]
    found = []
    for fill, frames in ((0.0, max(lengths)), (rubbish, max(lengths) + more)):
        valid = valid_of(lengths, frames)
        scores = F.pad(logits.action, (0, 0, 0, frames - max(lengths)))
        scores = torch.where(valid[..., None], scores, fill).requires_grad_()
        weights = frame_weights(options, valid, valid, anticipated=3)
        clips = clip_loss(Logits(scores), labels, weights, valid, options.label_smoothing)
        (clips.loss * torch.arange(1, len(lengths) + 1)).sum().backward()
        assert scores.grad is not None
        assert not scores.grad[~valid].any()
        found.append((clips, scores.grad[:, : max(lengths)]))
    (a, grad_a), (b, grad_b) = found
    torch.testing.assert_close(grad_a, grad_b, rtol=1e-6, atol=0)  # sums of more numbers are summed in another order
    torch.testing.assert_close(tuple(a), tuple(b), rtol=1e-6, atol=0)


def test_labels_that_nobody_knows() -> None:
    """They are no loss and no gradient; where nothing is known, the clip does not count."""
    action = torch.randn(3, 2, 5, requires_grad=True)
    verb = torch.randn(3, 2, 3, requires_grad=True)
    labels = {"action": torch.tensor([2, -1, -1]), "verb": torch.tensor([0, 1, -1]), "noun": torch.tensor([0, 0, 0])}
    valid = valid_of([2, 1, 2])
    found = clip_loss(Logits(action, verb), labels, frame_weights(Loss(), valid, valid, 0), valid, 0.0)
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
        clip_loss(Logits(torch.zeros(1, 1, 5)), {"verb": torch.zeros(1, dtype=torch.int64)}, weights, valid, 0.0)
