"""3D-CNN: 3-D convolutions by frames, the mean of the frames seen, no look into the future, two ways of padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from horst.errors import ConfigError, InputError
from horst.models.methods.cnn3d import CNN3D, CNN3DConfig

PADDINGS = ["causal", "centred"]


def small(padding: str = "causal", **options: Any) -> CNN3D:
    torch.manual_seed(0)
    config = CNN3DConfig(**{"in_channels": 3, "hidden": (4, 5), "stride": (1, 2), "padding": padding, **options})
    return CNN3D(config).double()


def clip(frames: int = 6) -> Tensor:
    return torch.randn(2, frames, 3, 5, 7, dtype=torch.float64)


def network(core: CNN3D, x: Tensor, before: int) -> Tensor:
    """The stack on a whole clip (B, T, C, H, W): `before` of the k - 1 zeros come before it, the rest after."""
    x = x.transpose(1, 2)
    for block, stride in zip(core.layers, core.config.stride, strict=True):
        span = core.config.kernel - 1
        x = F.max_pool3d(x, (1, stride, stride))
        x = F.conv3d(
            F.pad(x, (0, 0, 0, 0, before, span - before)), block.conv.weight, block.conv.bias, padding=(0, 1, 1)
        )
        frames = [F.layer_norm(f, f.shape[1:]) for f in x.unbind(2)]  # each frame by itself
        scale, shift = block.norm.weight.view(-1, 1, 1, 1), block.norm.bias.view(-1, 1, 1, 1)
        x = F.relu(torch.stack(frames, 2) * scale + shift)
    return x.transpose(1, 2)


@torch.no_grad()
def test_causal_is_one_network_and_a_running_mean() -> None:
    core, x = small(), clip()
    features = network(core, x, before=2)
    out, state = core(x)
    for t in range(6):
        torch.testing.assert_close(out.y[:, t], features[:, : t + 1].mean(1))
    torch.testing.assert_close(state.memory["mean"], features.mean(1))


@torch.no_grad()
def test_the_mean_continues_in_a_stream_with_its_own_count() -> None:
    core, x = small(hidden=(4,), stride=(1,)), clip(9)
    features = network(core, x, before=2)
    _, state = core(x, lengths=[8, 3])
    assert state.count.tolist() == [8, 3]
    out, state = core.step(torch.stack([x[0, 8], x[1, 3]]), state)
    torch.testing.assert_close(out.y[0], features[0].mean(0))
    torch.testing.assert_close(out.y[1], features[1, :4].mean(0))
    assert state.nbytes == core.init_state(2, 5, 7).nbytes


@torch.no_grad()
def test_centred_is_the_network_on_each_prefix() -> None:
    core, x = small("centred"), clip()
    y = core(x)[0].y
    for t in range(6):
        torch.testing.assert_close(y[:, t], network(core, x[:, : t + 1], before=1).mean(1))
        torch.testing.assert_close(y[:, : t + 1], core(x[:, : t + 1])[0].y)


@torch.no_grad()
def test_centred_kernels_without_future_weights_are_causal() -> None:
    """[a, b, 0] at t - 1, t, t + 1 reads what [0, a, b] reads at t - 2, t - 1, t."""
    centred, causal, x = small("centred"), small(), clip()
    causal.load_state_dict(centred.state_dict())
    assert not torch.allclose(centred(x)[0].y, causal(x)[0].y)
    for there, here in zip(centred.layers, causal.layers, strict=True):
        there.conv.weight[:, :, 2] = 0
        here.conv.weight[:, :, 1:] = there.conv.weight[:, :, :2]
        here.conv.weight[:, :, 0] = 0
    torch.testing.assert_close(centred(x)[0].y, causal(x)[0].y)


@pytest.mark.parametrize("padding", PADDINGS)
@torch.no_grad()
def test_later_frames_have_no_influence(padding: str) -> None:
    core, x = small(padding), clip()
    y = core(x)[0].y
    for t in range(6):
        changed = x.clone()
        changed[:, t] += 10
        moved = (core(changed)[0].y - y).abs().amax((0, 2, 3, 4)) > 0
        assert moved.tolist() == [s >= t for s in range(6)]


@pytest.mark.parametrize("padding", PADDINGS)
@torch.no_grad()
def test_frames_after_the_end_are_ignored(padding: str) -> None:
    core, x = small(padding), clip()
    alone = core(x[1:, :4])[0].y
    x[1, 4:] = float("nan")
    out, state = core(x, lengths=[6, 4])
    torch.testing.assert_close(out.y[1:, :4], alone)
    assert (out.y[1, 4:] == 0).all()
    assert state.count.tolist() == [6, 4]


def test_centred_takes_whole_clips_only() -> None:
    core, x = small("centred"), clip()
    assert not core.streaming
    assert small().streaming
    _, state = core(x)
    with pytest.raises(InputError, match="whole clips only with these options"):
        core(x, state)
    with pytest.raises(InputError, match="whole clips only with these options"):
        core.step(x[:, 0], core.init_state(2, 5, 7))


@pytest.mark.parametrize("padding", PADDINGS)
def test_gradients_reach_every_weight(padding: str) -> None:
    core = small(padding)
    core(clip())[0].y[:, -1].square().sum().backward()
    for name, p in core.named_parameters():
        assert p.grad is not None, name
        assert p.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"padding": "same"}, "padding is 'same'; choose from 'causal', 'centred'"),
        ({"kernel": 1}, "kernel is 1"),
        ({"kernel": 4}, "odd"),
        ({"stride": (1,)}, "stride has 1 entries and hidden 2"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small(**options)
