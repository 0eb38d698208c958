"""RULSTM's branch against recorded outputs of its public code: as it anticipates, and in sequence completion."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from horst.compat.rulstm import rulstm_from_official
from horst.errors import CheckpointError, InputError


@pytest.fixture(scope="module")
def recorded(data: Path) -> dict[str, Tensor]:
    return load_file(data / "rulstm.safetensors")


@pytest.fixture(scope="module")
def weights(recorded: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix("weight."): v for k, v in recorded.items() if k.startswith("weight.")}


@torch.no_grad()
@pytest.mark.parametrize(("complete", "name"), [(False, "output"), (True, "output_sequence_completion")])
def test_it_equals_the_release(
    complete: bool, name: str, recorded: dict[str, Tensor], weights: dict[str, Tensor]
) -> None:
    model = rulstm_from_official(weights)
    assert not model.training
    found = model(recorded["input"], complete=complete)
    torch.testing.assert_close(found, recorded[name], rtol=0, atol=1e-6)


@torch.no_grad()
def test_steps_of_core_and_head_equal_the_release(recorded: dict[str, Tensor], weights: dict[str, Tensor]) -> None:
    """As a stream runs them: one frame, and how many frames the action is away."""
    model, x = rulstm_from_official(weights), recorded["input"]
    state = model.core.init_state(x.shape[0], 1, 1)
    for t in range(14):
        out, state = model.core.step(x[:, t, :, None, None], state)
        logits = model.head(**{name: out.named(name) for name in model.head.reads}, unroll=14 - t)
        torch.testing.assert_close(logits.action, recorded["output"][:, t], rtol=0, atol=1e-6)


def test_a_wrapped_checkpoint_loads(weights: dict[str, Tensor]) -> None:
    model = rulstm_from_official({f"module.{k}": v for k, v in weights.items()})
    assert (model.core.config.in_channels, model.core.config.hidden, model.head.classes) == (10, 12, {"action": 19})
    assert model.core.config.dropout == model.head.dropout.p == 0.8


def test_what_does_not_fit_is_named(weights: dict[str, Tensor]) -> None:
    key = "unrolling_lstm.weight_ih_l0"
    with pytest.raises(CheckpointError, match=f"no '{key}'"):
        rulstm_from_official({k: v for k, v in weights.items() if k != key})
    with pytest.raises(CheckpointError, match=r"unroling.*did you mean.*unrolling"):
        rulstm_from_official({**weights, "unroling_lstm.weight_ih_l0": weights[key]})
    with pytest.raises(CheckpointError, match="weight_hh_l1"):  # it has one layer
        rulstm_from_official({**weights, "unrolling_lstm.weight_hh_l1": weights[key]})
    with pytest.raises(CheckpointError, match="shape"):
        rulstm_from_official({**weights, key: torch.zeros(48, 11)})
    with pytest.raises(CheckpointError, match="shape"):
        rulstm_from_official({**weights, "classifier.1.weight": torch.zeros(19, 13)})
    with pytest.raises(CheckpointError, match="NaN"):
        rulstm_from_official({**weights, key: weights[key] * float("nan")})
    for bad in (torch.zeros(3), torch.zeros(0, 12), torch.zeros(1, 2, 3)):
        with pytest.raises(CheckpointError, match=r"classifier\.1\.weight"):
            rulstm_from_official({**weights, "classifier.1.weight": bad})
    with pytest.raises(CheckpointError, match="not a tensor"):
        rulstm_from_official({**weights, "classifier.1.weight": 5})  # type: ignore[dict-item]


def test_features_of_another_shape(weights: dict[str, Tensor]) -> None:
    with pytest.raises(InputError, match=r"it must be \(B, T, F\)"):
        rulstm_from_official(weights)(torch.zeros(3, 10))
    with pytest.raises(InputError, match="9 channels"):
        rulstm_from_official(weights)(torch.zeros(1, 3, 9))
