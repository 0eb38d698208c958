"""The decoder against a plain loop, which frame each prediction is for, and that it learns."""

from __future__ import annotations

from typing import Any

import torch
from feature_prediction import FEATURES, circling, error, lstm, read, train

from horst.models.methods.rulstm import EncoderDecoderHead


def head(**options: Any) -> EncoderDecoderHead:
    torch.manual_seed(0)
    return EncoderDecoderHead(24, features=FEATURES, num_classes=5, **{"dropout": 0.0, **options})


def test_it_is_a_loop_that_reads_its_own_features() -> None:
    core, model, features = lstm(torch.float64), head(steps=6).double(), circling(2, 6, seed=0).double()
    logits = read(core, model, features)
    assert logits.future is not None
    assert logits.future.shape == (2, 6, 6, FEATURES)
    out, _ = core(features[..., None, None])
    for t in range(6):
        h, c, x = (out.named(name)[:, t, :, 0, 0] for name in ("y", "c", "x"))
        for k in range(1, 6 - t + 1):
            h, c = model.lstm(x, h, c)
            x = model.fc_x(h)
            torch.testing.assert_close(logits.future[:, t, k - 1], x)
        torch.testing.assert_close(logits.action[:, t], model.fc(h))
        assert not logits.future[:, t, 6 - t :].any()  # no prediction beyond the horizon


def test_one_frame_and_several_horizons() -> None:
    core, model, features = lstm().eval(), head().eval(), circling(2, 5, seed=0)
    whole = read(core, model, features, unroll=[[3, 1]] * 5)
    assert whole.action.shape == (2, 5, 2, 5)
    out, _ = core(features[..., None, None])
    frame = {name: out.named(name)[:, 4] for name in model.reads}
    last = model(**frame, unroll=[3, 1])
    torch.testing.assert_close(last.action, whole.action[:, 4])
    torch.testing.assert_close(last.future, whole.future[:, 4])  # (B, K, F)


def test_completion_reads_the_real_features() -> None:
    core, model, features = lstm(), head(steps=5), circling(2, 5, seed=0)
    out, _ = core(features[..., None, None])
    logits = read(core, model, features, complete=True)
    h, c = (out.named(name)[:, 1, :, 0, 0] for name in ("y", "c"))
    for k in range(1, 5):
        h, c = model.lstm(features[:, k], h, c)
        torch.testing.assert_close(logits.future[:, 1, k - 1], model.fc_x(h))
    torch.testing.assert_close(logits.action[:, 1], model.fc(h))


def test_it_learns_to_predict_the_right_frame() -> None:
    core, model = lstm(), head()
    train(core, model, ahead=3, steps=200)
    features = circling(32, 8, seed=1000)
    future = read(core, model, features, unroll=3).future.detach()
    for k in (1, 2, 3):
        last = features.unsqueeze(2).expand(-1, -1, 3, -1)
        assert error(future, features, k) < 0.05 * error(last, features, k)
        for other in {1, 2, 3} - {k}:  # the prediction k frames ahead is for no other frame
            swapped = future.clone()
            swapped[:, :, k - 1] = future[:, :, other - 1]
            assert error(swapped, features, k) > 10 * error(future, features, k)


def test_every_parameter_learns_from_the_action() -> None:
    core, model = lstm(), head(steps=4)
    read(core, model, circling(2, 4, seed=0)).action.sin().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in [*core.parameters(), *model.parameters()])
