"""Bad input and bad options get a typed error that names the value, and change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from cases import random_clip, small_core

from horst.errors import ConfigError, InputError, StateError
from horst.layers import HORST, HORSTConfig, HORSTState

SHAPE = {"in_channels": 3, "hidden": (4, 6), "stride": (1, 2)}


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(1, 2, 5, 7, 5).double(), "5 channels; this core takes 3"),
        (torch.zeros(1, 0, 3, 7, 5).double(), "empty"),
        (torch.zeros(0, 2, 3, 7, 5).double(), "empty"),
        (torch.zeros(2, 3, 7, 5).double(), r"\(2, 3, 7, 5\); it must be \(B, T, C, H, W\)"),
        (torch.zeros(1, 2, 3, 1, 5).double(), "vanishes"),
        (torch.zeros(1, 2, 3, 7, 5), "float32 and the model torch.float64"),
        (torch.zeros(1, 2, 3, 7, 5, device="meta").double(), "on meta and the model on cpu"),
    ],
)
def test_bad_clip(x: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        small_core("paper")(x)


@pytest.mark.parametrize(
    "lengths",
    [
        [0, 2],
        [2, 4],
        [-1, 2],
        [2],
        [2, 2, 2],
        [1.5, 2],
        torch.tensor(2),
        5,
        [float("nan"), 2],
        [None, 1],
        torch.ones(2, 1),
    ],
)
def test_lengths_out_of_range(lengths: Any) -> None:
    with pytest.raises(InputError, match="lengths"):
        small_core("paper")(random_clip(2, 3), lengths=lengths)


def with_layer(state: HORSTState, **changes: torch.Tensor) -> HORSTState:
    return replace(state, layers=(replace(state.layers[0], **changes), *state.layers[1:]))


def test_states_of_other_models_raise() -> None:
    core = small_core("paper")
    frame = random_clip(1, 1)[:, 0]
    good = core.init_state(1, 7, 5)
    wrong: dict[str, Any] = {
        "another batch": core.init_state(2, 7, 5),
        "another frame size": core.init_state(1, 9, 5),
        "another order": small_core("paper", order=4).init_state(1, 7, 5),
        "other channels": small_core("paper", hidden=(4, 8)).init_state(1, 7, 5),
        "another variant": small_core("silu").init_state(1, 7, 5),
        "values of another width": with_layer(good, values=good.layers[0].values[:, :, :2]),
        "filters of another size": with_layer(good, filters=good.layers[0].filters[:, :2]),
        "counts of another batch": with_layer(good, count=torch.zeros(2, dtype=torch.int64)),
        "values elsewhere": with_layer(good, values=good.layers[0].values.to("meta")),
        "another device": good.map(lambda t: t.to("meta")),
        "another dtype": core.init_state(1, 7, 5, dtype=torch.float32),
        "no state": None,
        "something else": {"keys": 1},
    }
    wanted = core.step(frame, good)[0].y
    for name, state in wrong.items():
        with pytest.raises(StateError):
            core.step(frame, state)
        if state is not None:
            with pytest.raises(StateError):
                core(frame.unsqueeze(1), state)
        assert torch.equal(core.step(frame, good)[0].y, wanted), name


def test_init_state_checks_its_size() -> None:
    core = small_core("paper")
    with pytest.raises(InputError, match="batch_size is 0"):
        core.init_state(0, 7, 5)
    with pytest.raises(InputError, match="vanishes"):
        core.init_state(1, 1, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": []}, "variant is"),
        ({"variant": "official"}, "variant is 'official'; choose from 'paper', 'released'"),
        ({"attention": "full"}, "attention is 'full'; choose from 'spatial-temporal'"),
        ({"key_value": "e+h"}, "key_value is 'e\\+h'"),
        ({"order": 0}, "order is 0"),
        ({"order": 2.0}, "order is 2.0"),
        ({"hidden": ()}, "hidden is"),
        ({"hidden": 8}, "hidden is 8"),
        ({"hidden": ("a",)}, "hidden.*'a'"),
        ({"stride": (1,)}, "stride has 1 entries and hidden 2"),
        ({"heads": 3}, "4 channels, which is not a multiple of 3 heads"),
        ({"ordr": 3}, "no entry 'ordr', did you mean 'order'"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        HORST(**{**SHAPE, **options})


def test_arrays_are_not_tensors() -> None:
    with pytest.raises(InputError, match="a ndarray, not a tensor"):
        small_core("paper")(np.zeros((1, 2, 3, 7, 5)))


def test_config_and_options_are_exclusive() -> None:
    config = HORSTConfig(**SHAPE)
    assert HORST(config).config is config
    with pytest.raises(ConfigError, match="not both"):
        HORST(config, order=5)


def test_missing_options() -> None:
    with pytest.raises(ConfigError, match="needs the entry 'hidden'"):
        HORST(in_channels=3)


def test_variants_fill_unset_options() -> None:
    paper, released = (HORSTConfig(**SHAPE, variant=v) for v in ("paper", "released"))
    assert (paper.key_value, paper.queue, paper.output, paper.activation) == ("encoding+h", "h", "residual", "relu")
    assert (released.queue, released.output, released.activation) == ("statt", "concat+se", "silu")
    assert (paper.temporal_scale, released.temporal_scale) == ("chw", "chw")
    assert HORSTConfig(**SHAPE, variant="released", activation="relu").activation == "relu"
