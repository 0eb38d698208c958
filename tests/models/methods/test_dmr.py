"""DMR: predicted features, how guesses are read, and that they specialise."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.models.methods.dmr import DMR, DMRConfig
from horst.training.losses import feature_loss

FEATURES = 5


def dmr(**options: object) -> DMR:
    torch.manual_seed(0)
    return DMR(DMRConfig.from_dict({"in_channels": FEATURES, "hidden": 6, "ahead": 3, **options})).double().eval()


def clip(frames: int = 4) -> Tensor:
    return torch.randn(2, frames, FEATURES, 2, 3, dtype=torch.float64)


@pytest.mark.parametrize("mlp", [None, 4])
def test_the_output_is_the_mean_of_the_last_guesses(mlp: int | None) -> None:
    core, x = dmr(guesses=2, mlp=mlp), clip()
    out, state = core(x)
    assert out.future is not None
    assert out.future.shape == (2, 4, 2, 3, FEATURES)
    assert out.y.shape == (2, 4, mlp or FEATURES, 1, 1)
    assert not state.memory
    assert state.count.tolist() == [4, 4]
    found = 0
    for m, network in enumerate(core.networks):
        first, _, second = network
        predicted = torch.relu(x.mean((-2, -1)) @ first.weight.T + first.bias) @ second.weight.T + second.bias
        torch.testing.assert_close(out.future[:, :, m].flatten(2), predicted)
        last = predicted[..., -FEATURES:]
        found = found + (last if core.mlp is None else torch.relu(core.mlp(last))) / 2
    torch.testing.assert_close(out.y[..., 0, 0], found)


def test_a_linear_classifier_of_it_is_the_mean_of_classifiers() -> None:
    core, head, x = dmr(mlp=4), nn.Linear(4, 7).double(), clip()
    out = core(x)[0]
    assert out.future is not None
    assert core.mlp is not None
    scores = head(torch.relu(core.mlp(out.future[..., -1, :])))  # (B, T, M, 7)
    torch.testing.assert_close(head(out.y[..., 0, 0]), scores.mean(2))


def test_it_has_no_memory() -> None:
    core, x = dmr(), clip()
    other = x.clone()
    other[:, [0, 1, 3]] += 1
    assert torch.equal(core(x)[0].y[:, 2], core(other)[0].y[:, 2])


@pytest.mark.parametrize("guesses", [1, 2])
def test_guesses_specialise_on_a_future_with_two_modes(guesses: int) -> None:
    """After the same frame comes +v or -v. One guess can only say the mean of both, which is off by |v|."""
    core = dmr(guesses=guesses, ahead=1, hidden=16).train()
    v = torch.tensor([1.0, -2.0, 0.5, 1.5, -1.0], dtype=torch.float64)
    now = torch.ones(64, FEATURES, dtype=torch.float64)
    sign = torch.where(torch.arange(64) % 2 == 0, 1.0, -1.0)
    x = torch.stack([now, sign[:, None] * v], 1)[..., None, None]
    valid = torch.ones(64, 2, dtype=torch.bool)
    optimiser = torch.optim.Adam(core.parameters(), lr=0.02)
    for _ in range(60):
        future = core(x)[0].future
        assert future is not None
        loss = feature_loss(future, x[..., 0, 0], valid).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    alone = v.square().mean().item()
    assert loss.item() < 0.05 * alone if guesses == 2 else loss.item() > 0.99 * alone


@pytest.mark.parametrize("wrong", [{"guesses": 0}, {"ahead": 0}, {"hidden": 0}, {"mlp": 0}, {"dropout": 1.5}])
def test_bad_options(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        dmr(**wrong)
