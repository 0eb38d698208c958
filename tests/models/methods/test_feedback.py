"""The feedback network: two stacked LSTMs without what is fed back, which reaches the next frame and not its own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from horst.errors import ConfigError
from horst.models.methods.lstm import Feedback, FeedbackConfig


def core(**options: object) -> Feedback:
    torch.manual_seed(0)
    return Feedback(FeedbackConfig.from_dict({"in_channels": 5, "hidden": 7, **options})).double()


def clip(frames: int = 6) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(2, frames, 5, 3, 4, dtype=torch.float64)


@pytest.mark.parametrize("projection", [0, 3])
def test_without_feedback_it_is_two_stacked_lstms(projection: int) -> None:
    model, x = core(projection=projection), clip()
    stacked = nn.LSTM(5, 7, 2, batch_first=True).double()
    with torch.no_grad():
        model.lstm_b.weight_ih[:, 7:] = 0
        for i, cell in enumerate((model.lstm_a, model.lstm_b)):
            for name, weight in cell.named_parameters():
                getattr(stacked, f"{name}_l{i}").copy_(weight[:, :7] if i and name == "weight_ih" else weight)
    first = nn.LSTM(5, 7, batch_first=True).double()
    first.load_state_dict({k: v for k, v in stacked.state_dict().items() if k.endswith("l0")})
    pooled = x.mean((-2, -1))
    wanted = torch.relu(model.fuse(torch.cat([first(pooled)[0], stacked(pooled)[0]], -1)))
    torch.testing.assert_close(model(x)[0].y[..., 0, 0], wanted)


@pytest.mark.parametrize("projection", [0, 3])
def test_the_output_is_fed_back_to_the_next_frame_only(projection: int) -> None:
    model, x = core(projection=projection), clip()
    _, state = model(x[:, :3])
    fed = state.memory["y"].clone().requires_grad_()
    changed = type(state)({**state.memory, "y": fed}, state.count, state.config)
    out, after = model.step(x[:, 3], changed)
    assert torch.autograd.grad(out.y.sum(), fed)[0].any()
    assert torch.equal(after.memory["y"], out.y[..., 0, 0])  # what the frame after this one will read
    weight = model.project.weight if projection else model.lstm_b.weight_ih
    y = model(x)[0].y
    for t, reached in enumerate([False, True]):
        (gradient,) = torch.autograd.grad(y[:, t].sum(), weight, retain_graph=True)
        assert gradient[:, 0 if projection else 7 :].any() == reached  # no output before the first frame


@pytest.mark.parametrize("projection", [0, 3])
def test_a_clip_equals_its_steps_with_gradients(projection: int) -> None:
    model, found = core(projection=projection), []
    for by_steps in (False, True):
        x = clip().requires_grad_()
        if by_steps:
            state, outs = model.init_state(2, 3, 4), []
            for frame in x.unbind(1):
                out, state = model.step(frame, state)
                outs.append(out.y)
            y = torch.stack(outs, 1)
        else:
            out, state = model(x)
            y = out.y
        grads = torch.autograd.grad(y.sin().sum(), [x, *model.parameters()])
        assert all(g.any() for g in grads)
        found.append([y, *(state.memory[name] for name in ("h_a", "c_a", "h_b", "c_b", "y")), *grads])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_a_state_keeps_its_precision_under_autocast() -> None:
    model = Feedback(FeedbackConfig(in_channels=5, hidden=7))
    with torch.autocast("cpu", torch.bfloat16):
        _, state = model(clip().float())
        _, state = model.step(clip().float()[:, 0], state)
    assert all(value.dtype == torch.float32 for value in state.memory.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [({"projection": -1}, "projection is -1"), ({"hidden": 0}, "hidden is 0"), ({"dropout": 1.5}, "dropout is 1.5")],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        core(**options)


def test_about_describes_it() -> None:
    assert "the output fed back" in FeedbackConfig(in_channels=5).about
    assert "3 channels of the output fed back" in FeedbackConfig(in_channels=5, projection=3).about
