"""Evaluation under latency: cost 0 is offline evaluation; higher costs make predictions later and fewer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import horst
from horst.errors import InputError
from horst.evaluation.evaluate import clip_for, evaluate
from horst.evaluation.latency import COSTS, LabelledClip, evaluate_live, live_steps, step_time, steps_before
from horst.models import Predictor
from horst.synth.fresh import Fresh, fresh_somethings
from horst.video.sampling import observed_frames

FRACTIONS = 0.1, 0.25, 0.5, 0.7, 1.0
lengths, rates = st.integers(1, 60), st.sampled_from([4.0, 6.0, 12.0, 25.0])
fractions = st.sampled_from([0.1, 0.2, 0.25, 0.3, 0.5, 0.75, 0.9, 1.0])
costs = st.floats(0, 3, allow_nan=False)


@given(lengths, rates, fractions)
def test_cost_0_uses_the_last_observed_frame(frames: int, fps: float, fraction: float) -> None:
    taken, ready = live_steps(frames, fps, 0.0)
    assert taken == list(range(frames))
    assert steps_before(ready, fraction * frames / fps) == observed_frames(frames, fraction)


@given(lengths, rates, costs)
def test_each_step_takes_the_newest_frame(frames: int, fps: float, cost: float) -> None:
    taken, ready = live_steps(frames, fps, cost)
    assert (taken[0], ready[0]) == (0, cost)
    assert taken[-1] == frames - 1
    for (frame, free), (following, done) in itertools.pairwise(zip(taken, ready, strict=True)):
        begin = done - cost
        assert following > frame
        assert begin >= free - 1e-9  # the model was free
        assert following / fps <= begin + 1e-9  # the frame had arrived
        assert (following + 1) / fps > begin - 1e-6 or following == frames - 1  # and none was newer


@given(lengths, rates, costs, st.floats(1, 3), fractions)
def test_a_higher_cost_never_sees_more(frames: int, fps: float, cost: float, more: float, fraction: float) -> None:
    moment = fraction * frames / fps
    (_, cheap), (_, slow) = live_steps(frames, fps, cost), live_steps(frames, fps, cost * more)
    assert len(slow) <= len(cheap)
    assert steps_before(slow, moment) <= steps_before(cheap, moment)


@given(lengths, rates)
def test_no_prediction_if_a_step_outlasts_the_clip(frames: int, fps: float) -> None:
    assert steps_before(live_steps(frames, fps, frames / fps)[1], frames / fps) == 0


@pytest.fixture(scope="module")
def model() -> Predictor:
    torch.manual_seed(0)
    small = {"backbone": {"name": "stem", "widths": [4, 4, 6]}, "hidden": [6], "stride": [2], "order": 3}
    return horst.create_model("horst_tiny", num_classes=24, size=(112, 112), fps=6.0, **small).eval()


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    return fresh_somethings(tmp_path_factory.mktemp("fresh"), 6, seed=3)


@pytest.fixture(scope="module")
def clips(model: Predictor, fresh: Fresh) -> list[LabelledClip]:
    examples = fresh.annotations.split("val").examples
    return [(fresh.clip(example, clip_for(fresh, model)).frames, example.labels["action"]) for example in examples]


def test_cost_0_is_offline_evaluation(fresh: Fresh) -> None:
    trained = horst.open_model("somethings").eval()
    examples = fresh.annotations.split("val").examples
    seen = [(fresh.clip(example, clip_for(fresh, trained)).frames, example.labels["action"]) for example in examples]
    (row,) = evaluate_live(trained, seen, [0.0], FRACTIONS)
    offline = evaluate(trained, fresh, progress=False).metrics
    assert row.accuracy == {f: pytest.approx(offline[f"action/top1@{100 * f:g}%"]) for f in FRACTIONS}
    assert row.accuracy[1.0] > 0.5  # not for nothing
    assert row.seen == 1
    assert set(row.answered.values()) == {1.0}


def test_the_model_sees_only_its_frames(model: Predictor, clips: list[LabelledClip]) -> None:
    cost = 0.4
    (row,) = evaluate_live(model, clips, [cost], [1.0])
    right = []
    for frames, label in clips:
        state = model.init_state(1, *model.size)
        now, answer, last = 0.0, None, -1
        while True:  # second by second, one step after the other
            newest = min(int((now + 1e-9) * model.fps), len(frames) - 1)
            if newest == last:
                if last == len(frames) - 1:
                    break
                now = (last + 1) / model.fps
                continue
            last, now = newest, now + cost
            image = torch.from_numpy(frames[newest]).permute(2, 0, 1)[None]
            with torch.inference_mode():
                out, state = model.step(image, state)
            if now < len(frames) / model.fps - 1e-9:
                answer = int(out.logits.action.argmax())
        right.append(answer == label)
    assert row.accuracy[1.0] == pytest.approx(np.mean(right))
    assert 0.3 < row.seen < 0.6


def test_too_slow_for_any_prediction(model: Predictor, clips: list[LabelledClip]) -> None:
    rows = evaluate_live(model, clips, [0.0, 0.05, 0.5, 100.0])
    assert set(rows[-1].accuracy.values()) == set(rows[-1].answered.values()) == {0.0}
    for cheap, slow in itertools.pairwise(rows):
        assert slow.seen <= cheap.seen
        assert all(slow.answered[f] <= cheap.answered[f] for f in cheap.answered)
    assert 0 < step_time(model, steps=3) < 5


def test_invalid_arguments(model: Predictor) -> None:
    with pytest.raises(InputError, match="no clips"):
        evaluate_live(model, [])
    with pytest.raises(InputError, match="cost is -1"):
        live_steps(3, 6.0, -1)
    with pytest.raises(InputError, match="frames is 0"):
        live_steps(0, 6.0, 1)
    with pytest.raises(InputError, match="anticipates"):
        evaluate_live(horst.open_model("kitchen").eval(), [])


def test_default_costs() -> None:
    assert (0.0, *(0.01 * 2**i for i in range(7))) == COSTS
