"""The running average of the weights: its decay while it is young, and that it is what is evaluated and saved."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import small_runs
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from horst.training.callbacks import AveragedWeights
from horst.training.fit import train


def module(weights: Tensor) -> Any:
    network = nn.Linear(1, len(weights), bias=False)
    with torch.no_grad():
        network.weight.copy_(weights[:, None])
    return SimpleNamespace(network=network, device=torch.device("cpu"))


def average_of(weights: list[Tensor], decay: float, first: int = 0) -> Tensor:
    """The average of weights[0], before step `first` + 1, and those after each step that followed."""
    found = weights[0].double()
    for step, value in enumerate(weights[1:], first + 1):
        kept = min(decay, (1 + step) / (10 + step))
        found = kept * found + (1 - kept) * value.double()
    return found


def run(averages: AveragedWeights, weights: list[Tensor], first: int = 0, batches: int = 1) -> None:
    trained = module(weights[0])
    averages.on_train_start(SimpleNamespace(global_step=first), trained)
    for step, value in enumerate(weights[1:], first + 1):
        for batch in range(batches):  # of which the last makes a step
            done = batch == batches - 1
            with torch.no_grad():
                trained.network.weight.copy_(value[:, None] if done else torch.full_like(value, 99.0)[:, None])
            trainer = SimpleNamespace(global_step=step if done else step - 1)
            averages.on_train_batch_end(trainer, trained, None, None, batch)


@given(decay=st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.999, 1.0]), steps=st.integers(0, 40), batches=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_a_young_average_follows_quickly(decay: float, steps: int, batches: int) -> None:
    """By min(decay, (1 + n) / (10 + n)) after step n, whatever the number of batches that make a step."""
    random = torch.Generator().manual_seed(steps)
    weights = list(torch.randn(steps + 1, 3, generator=random))
    averages = AveragedWeights(decay)
    run(averages, weights, batches=batches)
    torch.testing.assert_close(averages.average["weight"].flatten().double(), average_of(weights, decay))


def test_a_resumed_average_is_as_old_as_it_was() -> None:
    weights = list(torch.randn(25, 3, generator=torch.Generator().manual_seed(0)))
    whole, before, after = AveragedWeights(0.999), AveragedWeights(0.999), AveragedWeights(0.999)
    run(whole, weights, batches=2)
    run(before, weights[:11], batches=2)
    after.load_state_dict(before.state_dict())
    run(after, weights[10:], first=10, batches=2)
    torch.testing.assert_close(after.average, whole.average)


def test_without_a_decay_there_is_none() -> None:
    averages = AveragedWeights(None)
    run(averages, [torch.zeros(2), torch.ones(2)])
    assert averages.average == {}


@pytest.mark.parametrize("ema", [0.999, 0.3])
def test_what_is_saved_is_the_average(ema: float, somethings: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """Of a real run: put together here from the weights after each of its steps."""
    seen: list[dict[str, Tensor]] = []

    def copied(network: Any) -> dict[str, Tensor]:
        return {name.removeprefix("model."): p.detach().clone() for name, p in network.named_parameters()}

    start, end = AveragedWeights.on_train_start, AveragedWeights.on_train_batch_end

    def on_start(self: AveragedWeights, trainer: Any, trained: Any) -> None:
        seen.append(copied(trained.network))
        start(self, trainer, trained)

    def on_end(self: AveragedWeights, trainer: Any, trained: Any, *args: Any) -> None:
        seen.append(copied(trained.network))
        end(self, trainer, trained, *args)

    monkeypatch.setattr(AveragedWeights, "on_train_start", on_start)
    monkeypatch.setattr(AveragedWeights, "on_train_batch_end", on_end)
    options = {"name": "adamw", "lookahead": False, "lr": 0.01}
    config = small_runs.config(somethings, optimiser=options, trainer={"epochs": 2, "ema": ema, "validate_every": 0})
    done = train(config, tmp_path / "run", console=small_runs.silent())
    saved = small_runs.weights(done.last)
    assert len(seen) == 1 + 2 * 5
    assert set(seen[0]) <= set(saved)
    for name in seen[0]:
        expected = average_of([weights[name] for weights in seen], ema)
        torch.testing.assert_close(saved[name].double(), expected, rtol=1e-4, atol=1e-6, msg=name)
    assert any(not torch.allclose(saved[name], seen[-1][name], rtol=1e-3) for name in seen[0])
