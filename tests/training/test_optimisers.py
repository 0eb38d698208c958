"""The learning rate over a run, the optimisers by name, and the weights that are evaluated."""

from __future__ import annotations

import math
from typing import Any

import pytest
import pytorch_optimizer
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from horst.errors import ConfigError
from horst.training.callbacks import slow_weights
from horst.training.config import OPTIMISERS, Optimiser, Schedule

schedules = st.builds(Schedule, warmup=st.floats(0, 3), decay=st.just(0.0) | st.floats(0.01, 1))


def test_the_papers_schedule() -> None:
    """Constant, then over the last quarter a cosine to 0."""
    factors = [Schedule().factor(step, 100, 10) for step in range(101)]
    assert factors[:76] == [1.0] * 76
    assert factors[87] == pytest.approx(0.5 * (1 + math.cos(math.pi * 12 / 25)))
    assert factors[75:] == sorted(factors[75:], reverse=True)
    assert factors[100] == pytest.approx(0, abs=1e-9)


@given(schedule=schedules, epochs=st.integers(1, 20), epoch=st.integers(1, 30))
def test_any_schedule_rises_once_and_falls_once(schedule: Schedule, epochs: int, epoch: int) -> None:
    steps = epochs * epoch
    factors = [schedule.factor(step, steps, epoch) for step in range(steps)]
    assert all(0 < factor <= 1 for factor in factors)
    top = factors.index(max(factors))
    assert factors[: top + 1] == sorted(factors[: top + 1])
    if schedule.warmup + schedule.decay * epochs <= epochs:  # else the fall begins inside the rise
        assert factors[top:] == sorted(factors[top:], reverse=True)
        for step, factor in enumerate(factors):
            if schedule.warmup * epoch <= step <= steps * (1 - schedule.decay):
                assert factor == 1
    if schedule.warmup * epoch < steps:
        assert schedule.factor(steps, steps, epoch) == (pytest.approx(0, abs=1e-9) if schedule.decay else 1.0)


def test_warm_up_rises_evenly_from_above_zero() -> None:
    factors = [Schedule(warmup=1).factor(step, 100, 10) for step in range(12)]
    assert factors[:10] == pytest.approx([n / 11 for n in range(1, 11)])
    assert factors[10:] == [1.0, 1.0]


def bowl() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    model.frozen = nn.Parameter(torch.ones(1), requires_grad=False)
    return model


def descend(model: nn.Module, optimiser: Any, steps: int) -> list[float]:
    losses = []
    for step in range(steps):
        x = torch.linspace(-1, 1, 12).view(4, 3) + step % 3
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("lookahead", [True, False])
@pytest.mark.parametrize("name", [*OPTIMISERS, "torch.optim:RAdam"])
def test_optimisers_by_name(name: str, lookahead: bool) -> None:
    model = bowl()
    optimiser = Optimiser(name=name, lr=0.02, lookahead=lookahead).create(model.parameters())
    losses = descend(model, optimiser, 60)
    assert losses[-1] < 0.5 * losses[2]
    trained = [p for group in optimiser.param_groups for p in group["params"]]
    assert [id(p) for p in trained] == [id(p) for p in model.parameters() if p.requires_grad]
    assert all(group["lr"] == 0.02 for group in optimiser.param_groups)
    assert bool(slow_weights(optimiser)) == lookahead
    assert isinstance(optimiser, torch.optim.Optimizer)


@pytest.mark.parametrize("lookahead", [True, False])
def test_a_backbone_has_its_own_rate(lookahead: bool) -> None:
    """With plain SGD, the first step of each part is its rate times the gradient."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    options = Optimiser(name="sgd", momentum=0.0, weight_decay=0.0, lr=0.1, backbone_lr=0.001, lookahead=lookahead)
    optimiser = options.create(model.parameters(), model[0])
    before = [p.detach().clone() for p in model.parameters()]
    model(torch.ones(2, 3)).sum().backward()
    optimiser.step()
    for p, was, rate in zip(model.parameters(), before, (0.001, 0.001, 0.1, 0.1), strict=True):
        assert p.grad is not None
        torch.testing.assert_close(p.detach(), was - rate * p.grad)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.5)
    assert schedule.get_last_lr() == [0.05, 0.0005]
    model[0].requires_grad_(False)
    for backbone in (model[0], None):
        with pytest.raises(ConfigError, match="backbone_lr is set, and nothing of the backbone is trained"):
            options.create(model.parameters(), backbone)


def test_weight_decay_and_momentum_are_passed_on() -> None:
    for name in OPTIMISERS:
        optimiser = Optimiser(name=name, weight_decay=0.03, momentum=0.7).create(bowl().parameters())
        assert {group["weight_decay"] for group in optimiser.param_groups} == {0.03}
        assert {group.get("momentum", 0.7) for group in optimiser.param_groups} == {0.7}


def test_options_of_an_optimiser() -> None:
    options = Optimiser(name="torch.optim:RAdam", lookahead=False, options={"betas": [0.8, 0.9]})
    assert options.create(bowl().parameters()).param_groups[0]["betas"] == [0.8, 0.9]


def published_adabelief(
    p: float, grads: list[float], lr: float, decay: float, *, decouple: bool, rectify: bool
) -> float:
    """The weight after these gradients, by the update of adabelief_pytorch 0.2.0 (betas 0.9, 0.999; eps 1e-16)."""
    mean = spread = 0.0
    most = 2 / (1 - 0.999) - 1
    for step, grad in enumerate(grads, 1):
        if decouple:
            p *= 1 - lr * decay
        else:
            grad = grad + decay * p
        mean = 0.9 * mean + 0.1 * grad
        spread = 0.999 * spread + 0.001 * (grad - mean) ** 2 + 1e-16
        first, second = 1 - 0.9**step, 1 - 0.999**step
        if not rectify:
            p -= lr / first * mean / (math.sqrt(spread) / math.sqrt(second) + 1e-16)
            continue
        length = most - 2 * step * 0.999**step / second
        if length < 5:
            p -= lr / first * mean
            continue
        share = (length - 4) / (most - 4) * (length - 2) / length * most / (most - 2)
        p -= lr * math.sqrt(second * share) / first * mean / (math.sqrt(spread) + 1e-16)
    return p


@pytest.mark.parametrize("rectify", [True, False])
@pytest.mark.parametrize("decouple", [True, False])
def test_adabelief_is_its_authors(decouple: bool, rectify: bool) -> None:
    p = nn.Parameter(torch.tensor([0.7], dtype=torch.float64))
    options = Optimiser(lr=0.01, weight_decay=0.3, lookahead=False, decouple=decouple, rectify=rectify)
    optimiser = options.create([p])
    grads = [math.sin(3 * step) + 0.2 for step in range(12)]
    for grad in grads:
        p.grad = torch.tensor([grad], dtype=torch.float64)
        optimiser.step()
    expected = published_adabelief(0.7, grads, 0.01, 0.3, decouple=decouple, rectify=rectify)
    assert p.item() == pytest.approx(expected, rel=1e-9)


def test_by_default_adabelief_is_decoupled_and_rectified() -> None:
    """As in its authors' package since 0.1.0."""
    (group,) = Optimiser(lookahead=False).create(bowl().parameters()).param_groups
    assert group["weight_decouple"] is True
    assert group["rectify"] is True


def test_slow_weights_are_lookaheads() -> None:
    """Every fifth step they go half of the way to the fast ones, which start again from there."""
    model, plain = bowl(), bowl()
    optimiser = Optimiser(name="sgd", momentum=0.0, lr=0.05).create(model.parameters())
    other = Optimiser(name="sgd", momentum=0.0, lr=0.05, lookahead=False).create(plain.parameters())
    start = [p.detach().clone() for p in model.parameters() if p.requires_grad]
    descend(model, optimiser, 4)
    for (p, slow), first in zip(slow_weights(optimiser), start, strict=True):
        assert torch.equal(slow, first)
        assert not torch.equal(p, slow)
    model = bowl()
    optimiser = Optimiser(name="sgd", momentum=0.0, lr=0.05).create(model.parameters())
    descend(model, optimiser, 5)
    descend(plain, other, 5)
    fast = [p for p in plain.parameters() if p.requires_grad]
    for (p, slow), first, far in zip(slow_weights(optimiser), start, fast, strict=True):
        torch.testing.assert_close(slow, (first + far) / 2)
        assert torch.equal(p, slow)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rectify": False},
        {"decouple": False},
        {"weight_decay": 0.0},
        {"options": {"fixed_decay": True, "betas": (0.8, 0.99), "eps": 1e-8}},
        {"options": {"ams_bound": True}},
        {"options": {"degenerated_to_sgd": False}},
    ],
)
def test_adabelief_is_the_published_one_to_the_last_bit(options: dict[str, Any]) -> None:
    """Over more steps than the rectification takes, with a parameter that gets no gradient at first."""
    chosen = Optimiser(lr=0.02, lookahead=False, **options)
    models = [nn.Sequential(nn.Linear(3, 70), nn.Tanh(), nn.Linear(70, 1)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    own = {"lr": 0.02, "weight_decay": chosen.weight_decay, **chosen.options}
    own |= {"weight_decouple": chosen.decouple, "rectify": chosen.rectify}
    published = pytorch_optimizer.AdaBelief(models[1].parameters(), **own)
    pairs = [(models[0], chosen.create(models[0].parameters())), (models[1], published)]
    for step in range(12):
        for model, optimiser in pairs:
            model[0].bias.requires_grad_(step > 3)
            descend(model, optimiser, 1)
    for found, wanted in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(found, wanted)
    saved, wanted = (optimiser.state_dict() for _, optimiser in pairs)
    assert saved["param_groups"] == wanted["param_groups"]
    assert saved["state"].keys() == wanted["state"].keys()
