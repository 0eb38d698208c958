"""What a graph takes and gives, said before anything is exported."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

import horst
from horst.errors import ConfigError
from horst.export.contract import _normalisation, contract
from horst.export.step import StepModule, example
from horst.models import Predictor


@pytest.fixture(scope="module")
def model() -> Predictor:
    torch.manual_seed(0)
    small = {"backbone": {"name": "stem", "widths": [4, 6]}, "hidden": [6], "stride": [2], "order": 3}
    return horst.create_model("horst_tiny", num_classes=3, size=(24, 32), fps=5.0, **small).eval()


def test_a_step_has_the_tensors_that_the_model_steps_with(model: Predictor) -> None:
    told = contract(model, "step")
    state = dict(model.init_state(2, *model.size).tensors())
    assert [port.name for port in told.inputs] == ["frame", *state]
    assert told.inputs[0].shape == ["batch", 3, 24, 32]
    assert told.inputs[0].dtype == "uint8"
    assert told.inputs[1:] == told.state
    for port in told.state:
        assert port.shape == ["batch", *state[port.name].shape[1:]]
        assert getattr(torch, port.dtype) == state[port.name].dtype
    out, after = model.step(torch.zeros(2, 3, 24, 32, dtype=torch.uint8), model.init_state(2, *model.size))
    logits: Tensor = out.logits.action
    assert told.outputs[0]._asdict() == {"name": "action", "shape": ["batch", logits.shape[-1]], "dtype": "float32"}
    assert [port.name for port in told.outputs[1:]] == [told.about["state"][name] for name, _ in after.tensors()]
    assert told.about["inputs"] == [port._asdict() for port in told.inputs]
    assert told.about["outputs"] == [port._asdict() for port in told.outputs]


@pytest.mark.parametrize(("frames", "axis"), [(None, "time"), (1, 1), (7, 7)])
def test_a_clip_of_any_length_or_a_fixed_one(model: Predictor, frames: int | None, axis: int | str) -> None:
    told = contract(model, "clip", frames=frames)
    assert told.inputs[0].shape == ["batch", axis, 3, 24, 32]
    assert told.outputs[0].shape == ["batch", axis, 3]
    assert told.state == ()
    assert told.about["state"] == {}


def test_what_a_graph_cannot_be(model: Predictor) -> None:
    for frames in (0, -1):
        with pytest.raises(ConfigError, match=f"frames is {frames}; it must be 1 or more"):
            contract(model, "clip", frames=frames)
    with pytest.raises(ConfigError, match=r"frames is 3; .* only for what='clip'"):
        contract(model, "step", frames=3)
    with pytest.raises(ConfigError, match="does not unroll"):
        contract(model, "step", unroll=1)
    unrolling = horst.open_model("kitchen")
    if unrolling.head.unrolls:
        assert contract(unrolling, "step", unroll=1).about["unroll"] == 1
        with pytest.raises(ConfigError, match="unroll is 0"):
            contract(unrolling, "step", unroll=0)
        with pytest.raises(ConfigError, match="pass unroll"):
            contract(unrolling, "step")


def test_a_model_that_takes_whole_clips_has_no_step() -> None:
    given = {"backbone": {"name": "stem", "widths": [4]}, "hidden": (4,), "stride": (2,), "padding": "centred"}
    model = horst.create_model("cnn3d_tiny", num_classes=3, size=(24, 32), **given)
    with pytest.raises(ConfigError, match="takes only whole clips"):
        contract(model, "step")
    assert contract(model, "clip").what == "clip"


def test_a_step_takes_the_state_of_every_layer() -> None:
    """Two layers: what the exported step says is what the model's own step says, frame by frame."""
    torch.manual_seed(0)
    small = {"backbone": {"name": "stem", "widths": [4, 6]}, "hidden": [6, 5], "stride": [2, 1], "order": 3}
    model = horst.create_model("horst_tiny", num_classes=3, size=(24, 32), fps=5.0, **small).eval()
    step = StepModule(model)
    state, (_, *tensors) = model.init_state(2, *model.size), example(contract(model, "step"), 2)
    for _ in range(5):
        frame = torch.randint(256, (2, 3, 24, 32), dtype=torch.uint8)
        with torch.inference_mode():
            out, state = model.step(frame, state)
            logits, *tensors = step(frame, *tensors)
        torch.testing.assert_close(logits, out.logits.action, rtol=1e-5, atol=1e-6)


def test_normalisation_is_told(model: Predictor) -> None:
    told = contract(model, "step").about["normalisation"]
    assert told["in_graph"] is True
    for name in ("mean", "std"):
        if name in told:
            values = getattr(model.backbone.normalise, name).flatten().tolist()
            assert told[name] == pytest.approx(values, abs=5e-5)


def test_normalisation_has_four_decimals(model: Predictor) -> None:
    normalise = copy.deepcopy(model.backbone.normalise)
    normalise.mean.fill_(1.23456)
    normalise.std.fill_(65.43218)
    told = _normalisation(SimpleNamespace(backbone=SimpleNamespace(normalise=normalise)))  # type: ignore[arg-type]
    assert told == {"in_graph": True, "mean": [1.2346] * 3, "std": [65.4322] * 3}
    assert _normalisation(SimpleNamespace(backbone=None)) == {"in_graph": True}  # type: ignore[arg-type]
