"""Residual anticipation: differences add up, frame by frame; and it learns what comes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from feature_prediction import FEATURES, circling, error, lstm, read, train
from torch import nn

from horst.models.methods.rulstm import ImagineHead
from horst.training.losses import feature_loss


def head(**options: Any) -> ImagineHead:
    torch.manual_seed(0)
    return ImagineHead(24, features=FEATURES, num_classes=5, **{"dropout": 0.0, **options})


def test_without_differences_the_last_frame_is_repeated() -> None:
    core, model, features = lstm(), head(steps=5, dropout=0.8), torch.randn(2, 1, FEATURES).expand(-1, 5, -1)
    nn.init.zeros_(model.fc_x.weight)
    nn.init.zeros_(model.fc_x.bias)
    future = read(core, model, features).future  # in training: dropout does not change predicted features
    for t in range(5):
        torch.testing.assert_close(future[:, t, : 5 - t], features[:, : 5 - t])


def test_equal_differences_make_a_straight_line() -> None:
    """The prediction at frame t for k frames ahead is for frame t + k: the loss is zero."""
    core, model, difference = lstm(torch.float64), head(steps=6).double(), torch.tensor([0.5, -1.0, 0.0, 2.0])
    nn.init.zeros_(model.fc_x.weight)
    model.fc_x.bias.data.copy_(difference)
    features = torch.randn(2, 1, FEATURES).double() + torch.arange(6)[:, None] * difference
    future = read(core, model, features).future
    assert feature_loss(future, features, torch.ones(2, 6, dtype=torch.bool)).max() < 1e-20


@pytest.mark.parametrize("residual", [True, False])
def test_it_is_a_loop_that_reads_its_own_predictions(residual: bool) -> None:
    core, model = lstm(torch.float64), head(steps=5, residual=residual).double()
    features = circling(2, 5, seed=0).double()
    logits, (out, _) = read(core, model, features), core(features[..., None, None])
    for t in range(5):
        h, c, x = (out.named(name)[:, t, :, 0, 0] for name in ("y", "c", "x"))
        for k in range(1, 5 - t + 1):
            h, c = model.lstm(x, h, c)
            x = x + model.fc_x(h) if residual else model.fc_x(h)
            torch.testing.assert_close(logits.future[:, t, k - 1], x)
        torch.testing.assert_close(logits.action[:, t], model.fc(h))


def test_completion_adds_differences_to_the_real_features() -> None:
    core, model, features = lstm(), head(steps=5), circling(2, 5, seed=0)
    nn.init.zeros_(model.fc_x.weight)
    nn.init.zeros_(model.fc_x.bias)
    future = read(core, model, features, complete=True).future
    for k in range(1, 4):
        torch.testing.assert_close(future[:, 2, k - 1], features[:, k + 1])


def test_it_learns_to_predict() -> None:
    core, model = lstm(), head()
    train(core, model, ahead=3, steps=150)
    features = circling(32, 8, seed=1000)
    future = read(core, model, features, unroll=3).future.detach()
    for k in (1, 2, 3):
        last = features.unsqueeze(2).expand(-1, -1, 3, -1)
        assert error(future, features, k) < 0.05 * error(last, features, k)


def test_the_contrastive_loss_trains_every_parameter_except_the_classifier() -> None:
    core, model, features = lstm(), head(steps=4), circling(3, 4, seed=0)
    valid = torch.ones(3, 4, dtype=torch.bool)
    feature_loss(read(core, model, features).future, features, valid, "contrastive").sum().backward()
    learnt = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert learnt == {name for name, _ in model.named_parameters()} - {"fc.weight", "fc.bias"}
    assert all(p.grad is not None and p.grad.any() for p in core.parameters())
