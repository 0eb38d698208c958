"""Late fusion of predictions: one run alone, the same run twice, order, ids, weights, and runs that do not fit."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_predictions import about, predictions
from torch import Tensor

from horst.errors import DataError
from horst.evaluation.fusion import fuse_predictions, learn_weights, mean_loss
from horst.evaluation.measure import measure, unmeasured
from horst.evaluation.metrics import probabilities
from horst.evaluation.predictions import Predictions
from horst.models.fused import mean_scores

every_task = pytest.mark.parametrize("task", ["recognition", "anticipation"])


def runs(task: str, count: int = 3, size: int = 40) -> list[Predictions]:
    """Several runs on the same examples with the same clips, each with scores of its own."""
    first = predictions(task, size)
    found = [first]
    for seed in range(1, count):
        draw = torch.Generator().manual_seed(seed)
        scores = {
            name: (2 * torch.randn(value.shape, generator=draw)).masked_fill(value == -torch.inf, -torch.inf)
            for name, value in first.scores.items()
        }
        found.append(replace(first, scores=scores))
    return found


def same(one: Predictions, other: Predictions) -> bool:
    fields = (one.task, one.positions, one.ids, one.missing, one.groups)
    tensors = other.tensors()
    return fields == (other.task, other.positions, other.ids, other.missing, other.groups) and all(
        torch.equal(value, tensors[name]) for name, value in one.tensors().items()
    )


def shuffled(run: Predictions, seed: int = 5) -> Predictions:
    return run.select(torch.randperm(len(run), generator=torch.Generator().manual_seed(seed)))


@every_task
@pytest.mark.parametrize("weights", [[1.0], [0.5, 0.5], [0.3, 0.7], [0.1, 0.2, 0.7], [0.0, 1.0]])
def test_the_same_run_several_times_is_that_run_to_the_last_bit(task: str, weights: list[float]) -> None:
    run = predictions(task)
    assert same(fuse_predictions([run] * len(weights), weights), run)


@every_task
def test_probabilities_are_the_weighted_mean(task: str) -> None:
    several, weights = runs(task), [0.2, 0.5, 0.3]
    fused = fuse_predictions(several, weights)
    for name, scores in fused.scores.items():
        wanted = sum(w * probabilities(run.scores[name].double()) for w, run in zip(weights, several, strict=True))
        assert isinstance(wanted, Tensor)
        torch.testing.assert_close(probabilities(scores.double()), wanted, atol=1e-6, rtol=0)
        assert torch.equal(scores == -torch.inf, several[0].scores[name] == -torch.inf)  # misses stay misses


@every_task
def test_order_has_no_effect(task: str) -> None:
    several, weights = runs(task), [0.2, 0.5, 0.3]
    whole = measure(fuse_predictions(several, weights), about(task))
    for order in permutations(range(3)):
        fused = fuse_predictions([several[i] for i in order], [weights[i] for i in order])
        assert measure(fused, about(task)) == pytest.approx(whole, abs=1e-9)
        learned = learn_weights([several[i] for i in order])
        assert learned == pytest.approx([learn_weights(several)[i] for i in order], abs=1e-6)


@every_task
def test_examples_are_matched_by_id(task: str) -> None:
    several = runs(task)
    moved = [several[0], *map(shuffled, several[1:])]
    assert moved[1].ids != several[0].ids
    assert same(fuse_predictions(moved, [0.2, 0.5, 0.3]), fuse_predictions(several, [0.2, 0.5, 0.3]))
    assert learn_weights(moved) == learn_weights(several)


@settings(max_examples=20, deadline=None)
@given(count=st.integers(2, 4), seed=st.integers(0, 1000), noise=st.floats(0.1, 8))
def test_learned_weights_are_never_worse_than_a_single_run(count: int, seed: int, noise: float) -> None:
    """Runs that know the label, with noise that grows from run to run."""
    several, draw = [], torch.Generator().manual_seed(seed)
    for number, run in enumerate(runs("recognition", count, size=15)):
        hot = torch.nn.functional.one_hot(run.labels["action"].clamp(min=0), 9)[:, None].float()
        scores = hot + noise * number * torch.randn(run.scores["action"].shape, generator=draw)
        several.append(replace(run, scores={"action": scores.masked_fill(~run.read[:, None, None], -torch.inf)}))
    weights = learn_weights(several)
    assert sum(weights) == pytest.approx(1)
    assert min(weights) >= 0
    corners = torch.eye(count).tolist()
    assert mean_loss(several, weights) <= min(mean_loss(several, one) for one in [*corners, [1 / count] * count]) + 1e-9


def test_a_run_that_knows_nothing_gets_no_weight() -> None:
    good, bad = runs("recognition", 2)
    known = torch.nn.functional.one_hot(good.labels["action"].clamp(min=0), 9)[:, None].float()
    good = replace(good, scores={"action": (6 * known).expand_as(good.scores["action"])})
    bad = replace(bad, scores={"action": -6 * good.scores["action"]})
    assert learn_weights([bad, good]) == pytest.approx([0, 1], abs=1e-3)


def test_what_one_run_cannot_read_another_one_predicts() -> None:
    one, other = runs("recognition", 2)
    row = int(one.read.nonzero()[0])
    blind = one.scores["action"].clone()
    blind[row] = -torch.inf
    read = one.read.clone()
    read[row] = False
    lost = replace(one, scores={"action": blind}, read=read, missing=((one.ids[row], "damaged"),))
    fused = fuse_predictions([lost, other], [0.9, 0.1])
    assert fused.read[row]
    assert fused.missing == ()
    torch.testing.assert_close(fused.scores["action"][row], other.scores["action"][row])
    alone = fuse_predictions([lost, other], [1.0, 0.0])
    assert alone.missing == lost.missing
    assert not alone.read[row]


def test_a_leak_of_one_run_is_a_leak_of_all() -> None:
    one, other = runs("anticipation", 2)
    late = replace(other, last_seen=other.last_seen + 3)
    for pair in ([one, late], [late, one]):
        assert torch.equal(fuse_predictions(pair, [0.5, 0.5]).last_seen, late.last_seen)


def test_answers_at_frames_are_known_only_where_all_runs_agree() -> None:
    one, other = runs("recognition", 2)
    assert "decided" in measure(fuse_predictions([one, other], [0.5, 0.5]), about("recognition"))
    other = replace(other, answers=other.answers.flip(1))
    fused = fuse_predictions([one, other], [0.5, 0.5])
    assert "decided" not in measure(fused, about("recognition"))
    assert "only at the evaluated positions" in unmeasured(fused, about("recognition"))["decided"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda run: replace(run, positions=tuple(p + 1 for p in run.positions)), "predicts at"),
        (
            lambda run: replace(run, scores={"action": run.scores["action"][..., :8]}),
            "predicts 8 actions, not 9 actions",
        ),
        (lambda run: replace(run, ids=("another", *run.ids[1:])), "has no predictions for 0-"),
        (lambda run: replace(run, ids=(run.ids[1], *run.ids[1:])), "occurs twice"),
        (lambda run: replace(run, labels={"action": (run.labels["action"] + 1) % 9}), "other labels of action for 0-"),
        (lambda _: predictions("anticipation"), "is of anticipation, not recognition"),
    ],
)
def test_runs_that_do_not_fit(change: object, says: str) -> None:
    one, other = runs("recognition", 2)
    with pytest.raises(DataError, match=f"run 2 .*{says}"):
        fuse_predictions([one, change(other)], [0.5, 0.5])  # type: ignore[operator]


def test_nothing_to_learn_from() -> None:
    run = predictions("recognition")
    unknown = replace(run, labels={"action": torch.full_like(run.labels["action"], -1)})
    with pytest.raises(DataError, match="use equal ones"):
        learn_weights([unknown, unknown])


def test_frames_of_detection() -> None:
    """Each frame is an example of its video; the actions of every position are what weights are learned from."""
    one, other = runs("recognition", 2)
    drawn = torch.randint(9, one.scores["action"].shape[:2], generator=torch.Generator().manual_seed(3))
    targets, videos = torch.nn.functional.one_hot(drawn, 9).bool(), tuple(f"v{i % 4}" for i in range(len(one)))
    lost = next(video for video, read in zip(videos, one.read.tolist(), strict=True) if not read)
    frames = {"task": "detection", "answers": one.answers[:, :0], "targets": targets, "groups": videos}
    one, other = (replace(run, **frames, missing=((lost, "damaged"),)) for run in (one, other))
    assert same(fuse_predictions([one, one], [0.5, 0.5]), one)
    right = replace(one, scores={"action": (5.0 * targets).masked_fill(~one.read[:, None, None], -torch.inf)})
    assert learn_weights([right, other]) == pytest.approx([1, 0], abs=0.05)
    with pytest.raises(DataError, match="other actions going on"):
        fuse_predictions([one, replace(other, targets=targets.roll(1, -1))], [0.5, 0.5])


def test_scores_far_apart_stay_finite() -> None:
    one, other = torch.tensor([[1e4, 0.0, -1e4]]), torch.tensor([[-1e4, 0.0, 1e4]])
    fused = mean_scores([one, other], [0.25, 0.75])
    torch.testing.assert_close(torch.softmax(fused, -1), torch.tensor([[0.25, 0.0, 0.75]]))
