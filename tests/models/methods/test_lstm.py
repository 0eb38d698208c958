"""The LSTM core: torch's LSTM with torch's weights, on means, with what heads need to go on from it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.models.methods.lstm import LSTM, LSTMConfig


def core(**options: object) -> LSTM:
    torch.manual_seed(0)
    return LSTM(LSTMConfig.from_dict({"in_channels": 5, "hidden": 7, **options})).double()


def clip(frames: int = 6) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(2, frames, 5, 3, 4, dtype=torch.float64)


@pytest.mark.parametrize("layers", [1, 3])
def test_it_is_the_lstm_of_torch(layers: int) -> None:
    ours, theirs = core(layers=layers), nn.LSTM(5, 7, layers, batch_first=True).double()
    for i, cell in enumerate(ours.layers):
        for name, weight in cell.named_parameters():
            getattr(theirs, f"{name}_l{i}").data.copy_(weight)
    x = clip()
    out, state = ours(x)
    wanted, (h, c) = theirs(x.mean((-2, -1)))
    torch.testing.assert_close(out.y[..., 0, 0], wanted)
    for i in range(layers):
        torch.testing.assert_close(state.memory[f"h{i}"], h[i])
        torch.testing.assert_close(state.memory[f"c{i}"], c[i])


@pytest.mark.parametrize("layers", [1, 2])
def test_a_clip_equals_its_steps_with_gradients(layers: int) -> None:
    """All that heads may read: y, c and x."""
    model, found = core(layers=layers), []
    for by_steps in (False, True):
        x = clip().requires_grad_()
        if by_steps:
            state, outs = model.init_state(2, 3, 4), []
            for frame in x.unbind(1):
                out, state = model.step(frame, state)
                outs.append(out)
            read = [torch.stack([out.named(name) for out in outs], 1) for name in model.gives]
        else:
            out, state = model(x)
            read = [out.named(name) for name in model.gives]
        loss = sum((a.sin() * (i + 1)).sum() for i, a in enumerate(read))
        found.append([*read, *state.memory.values(), *torch.autograd.grad(loss, [x, *model.parameters()])])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_dropout_is_of_the_input_in_training_alone() -> None:
    model, x = core(dropout=0.5), clip()
    out, _ = model(x)
    again, _ = model(x)
    assert not torch.equal(out.y, again.y)
    assert torch.equal(out.named("x")[..., 0, 0], x.mean((-2, -1)))  # a head draws its own mask
    model.eval()
    assert torch.equal(model(x)[0].y, model(x)[0].y)


def test_counts_of_the_release() -> None:
    """With a classifier of EPIC-Kitchens-55 and -100 behind it."""
    with torch.device("meta"):
        model = LSTM(LSTMConfig(in_channels=1024))
        sizes = [sum(p.numel() for m in (model, nn.Linear(1024, n)) for p in m.parameters()) for n in (2513, 3806)]
    assert sizes == [10_972_625, 12_297_950]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 0}, "hidden is 0"),
        ({"layers": 0}, "layers is 0"),
        ({"dropout": 1.0}, r"dropout is 1\.0"),
        ({"dropout": -0.1}, "dropout is -0.1"),
        ({"hiden": 3}, "did you mean 'hidden'"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        core(**options)


def test_about_describes_it() -> None:
    assert LSTMConfig(in_channels=5, hidden=7).about == "1 LSTM layer of 7 channels on the mean of each map"
    assert LSTMConfig(in_channels=5, hidden=7, layers=2).about.startswith("2 LSTM layers")
