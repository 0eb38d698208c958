"""TSN: the mean of the last frames, of streams of any age."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from horst.errors import ConfigError
from horst.models.methods.tsn import TSN, TSNConfig

FEATURES = 5


def tsn(**options: object) -> TSN:
    torch.manual_seed(0)
    return TSN(TSNConfig.from_dict({"in_channels": FEATURES, **options})).double().eval()


@given(segments=st.integers(1, 6), frames=st.integers(1, 7), hidden=st.sampled_from([None, 3]), seen=st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_the_consensus_is_a_mean(segments: int, frames: int, hidden: int | None, seen: int) -> None:
    core = tsn(segments=segments, hidden=hidden)
    x = torch.randn(2, seen + frames, FEATURES, 2, 3, dtype=torch.float64)
    state = core(x[:, :seen])[1] if seen else None
    y = core(x[:, seen:], state)[0].y
    f = x.mean((-2, -1))
    f = f if core.layer is None else torch.relu(f @ core.layer.weight.T + core.layer.bias)
    assert y.shape == (2, frames, core.channels, 1, 1)
    for t in range(frames):
        now = seen + t
        torch.testing.assert_close(y[:, t, :, 0, 0], f[:, max(0, now + 1 - segments) : now + 1].mean(1))


def test_a_linear_classifier_of_it_is_the_consensus_of_classifiers() -> None:
    core, head = tsn(hidden=4, segments=3), torch.nn.Linear(4, 7).double()
    x = torch.randn(2, 3, FEATURES, 1, 1, dtype=torch.float64)
    scores = [head(core(frame.unsqueeze(1))[0].y.flatten(1)) for frame in x.unbind(1)]
    torch.testing.assert_close(head(core(x)[0].y[:, -1].flatten(1)), torch.stack(scores).mean(0))


def test_empty_entries_are_not_read() -> None:
    core = tsn(segments=4)
    x = torch.randn(1, 3, FEATURES, 1, 1, dtype=torch.float64)
    state = core.init_state(1, 1, 1)
    state.memory["queue"].fill_(torch.nan)
    torch.testing.assert_close(core(x, state)[0].y, core(x)[0].y)


@pytest.mark.parametrize("hidden", [None, 3])
def test_a_core_without_parameters_has_a_device(hidden: int | None) -> None:
    core = tsn(hidden=hidden)
    assert len(list(core.parameters())) == (0 if hidden is None else 2)
    assert not [name for name in core.state_dict() if "like" in name]
    assert core.init_state(1, 2, 2).memory["queue"].dtype == torch.float64
    assert core.float().init_state(1, 2, 2).memory["queue"].dtype == torch.float32
    assert core.to("meta").init_state(1, 2, 2).memory["queue"].device.type == "meta"


def test_dropout_is_for_training() -> None:
    core = tsn(dropout=0.5)
    x = torch.ones(1, 50, FEATURES, 1, 1, dtype=torch.float64)
    torch.testing.assert_close(core(x)[0].y, x)
    assert len(core.train()(x)[0].y.unique()) > 1


@pytest.mark.parametrize("wrong", [{"segments": 0}, {"hidden": 0}, {"dropout": 1.0}, {"dropout": -0.1}, {"parts": 3}])
def test_bad_options(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        tsn(**wrong)
