"""Our Conv-TT-LSTM and ConvLSTM against recorded outputs of the public cells: clip and steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from horst.compat.conv_tt_lstm import conv_lstm_from_official, conv_tt_lstm_from_official
from horst.errors import CheckpointError, ConfigError
from horst.layers import RecurrentCore

LIMIT = 1e-6
TRAIN = {"order": 3, "steps": 5, "ranks": 4}


@pytest.fixture(scope="module")
def recorded(data: Path) -> dict[str, Tensor]:
    with safe_open(data / "conv_tt_lstm.safetensors", "pt") as file:
        config = json.loads(file.metadata()["config"])
        assert {name: config[name] for name in TRAIN} == TRAIN
        return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  (no mapping)


def weights_of(cell: str, recorded: dict[str, Tensor]) -> dict[str, Tensor]:
    prefix = f"{cell}.weight."
    return {k.removeprefix(prefix): v for k, v in recorded.items() if k.startswith(prefix)}


def cell_of(name: str, recorded: dict[str, Tensor]) -> RecurrentCore:
    weights = weights_of(name, recorded)
    if name == "conv_lstm":
        return conv_lstm_from_official(weights)
    return conv_tt_lstm_from_official(weights, **TRAIN)


@torch.no_grad()
@pytest.mark.parametrize("name", ["conv_lstm", "conv_tt_lstm"])
def test_cells_equal_the_public_ones(name: str, recorded: dict[str, Tensor]) -> None:
    core, x = cell_of(name, recorded), recorded["input"]
    assert not core.training
    assert (core.config.in_channels, core.config.hidden, core.config.kernel) == (5, (6,), 3)
    torch.testing.assert_close(core(x)[0].y, recorded[f"{name}.output"], rtol=0, atol=LIMIT)
    state = core.init_state(x.shape[0], *x.shape[-2:])
    for t in range(x.shape[1]):
        out, state = core.step(x[:, t], state)
        torch.testing.assert_close(out.y, recorded[f"{name}.output"][:, t], rtol=0, atol=LIMIT)


def test_wrapped_checkpoints_load(recorded: dict[str, Tensor]) -> None:
    weights = {f"module.{k}": v for k, v in weights_of("conv_tt_lstm", recorded).items()}
    assert conv_tt_lstm_from_official(weights, **TRAIN).config.ranks == 4


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("order", 2, "order is 2 and the checkpoint has 3"),
        ("order", 4, "order is 4 and the checkpoint has 3"),
        ("steps", 4, "reads 3: steps would be 5"),
        ("steps", 2, "steps would be 5"),
        ("ranks", 8, "ranks is 8 and 'layers_.0.weight' gives 4"),
        ("ranks", 0, "ranks is 0"),
        ("steps", True, "steps is True"),
    ],
)
def test_what_contradicts_the_weights_is_refused(
    option: str, value: Any, message: str, recorded: dict[str, Tensor]
) -> None:
    with pytest.raises(ConfigError, match=message):
        conv_tt_lstm_from_official(weights_of("conv_tt_lstm", recorded), **{**TRAIN, option: value})


def test_mismatches_are_named(recorded: dict[str, Tensor]) -> None:
    weights = weights_of("conv_tt_lstm", recorded)
    for key in weights:
        with pytest.raises(CheckpointError, match=f"no '{key}'"):
            conv_tt_lstm_from_official({k: v for k, v in weights.items() if k != key}, **TRAIN)
        for bad in (torch.zeros(3), torch.zeros(()), weights[key] * float("nan"), weights[key][:1], "text"):
            with pytest.raises((CheckpointError, ConfigError)):
                conv_tt_lstm_from_official({**weights, key: bad}, **TRAIN)  # type: ignore[dict-item]
    with pytest.raises(CheckpointError, match=r"'layer\.0\.weight'.*did you mean"):
        conv_tt_lstm_from_official({**weights, "layer.0.weight": weights["layers.0.weight"]}, **TRAIN)
    with pytest.raises(CheckpointError, match="has no 'layers"):
        conv_tt_lstm_from_official({}, **TRAIN)
    even = {**weights, "layers_.0.weight": torch.zeros(4, 6, 2, 2, 3)}
    with pytest.raises(CheckpointError, match="kernel of 2x2"):
        conv_tt_lstm_from_official(even, **TRAIN)
    narrow = {**weights, "layers.2.weight": torch.zeros(24, 4, 3, 3)}
    with pytest.raises(CheckpointError, match="from an input and 4 past channels"):
        conv_tt_lstm_from_official(narrow, **TRAIN)


def test_a_conv_lstm_that_does_not_fit_is_named(recorded: dict[str, Tensor]) -> None:
    weights = weights_of("conv_lstm", recorded)
    with pytest.raises(CheckpointError, match=r"no 'conv\.bias'"):
        conv_lstm_from_official({"conv.weight": weights["conv.weight"]})
    with pytest.raises(CheckpointError, match=r"'cnv\.bias'.*did you mean"):
        conv_lstm_from_official({**weights, "cnv.bias": weights["conv.bias"]})
    for bad in (torch.zeros(()), torch.zeros(24), torch.zeros(24, 6, 3, 3), torch.zeros(23, 11, 3, 3)):
        with pytest.raises(CheckpointError, match=r"'conv\.weight' has shape"):
            conv_lstm_from_official({**weights, "conv.weight": bad})
    with pytest.raises(CheckpointError, match=r"layers\.0\.conv\.bias"):
        conv_lstm_from_official({**weights, "conv.bias": torch.zeros(3)})
