"""Every method learns a batch with its own config: the loss is finite, it falls, and each parameter has a gradient."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from horst.data.batches import Batch
from horst.data.config import DataConfig
from horst.data.example import Annotations
from horst.data.source import open_source
from horst.models.registry import METHODS, PRETRAINED, Method
from horst.synth.make import make_kitchen, make_somethings
from horst.training.build import build_model
from horst.training.config import RunConfig
from horst.training.module import TrainingModule

ROOT = Path(__file__).parents[2]
SIZE = {"recognition": (24, 24), "anticipation": (24, 40)}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Annotations]:
    """Annotations as the package makes them; pictures are not needed here."""
    folder = tmp_path_factory.mktemp("data")
    made = {
        "recognition": make_somethings(folder / "s", 8, size=16, packed=True, processes=1),
        "anticipation": make_kitchen(folder / "k", 2, size=(32, 56), packed=True, processes=1),
    }
    return {task: open_source(DataConfig.from_file(file)).annotations for task, file in made.items()}


def batch(method: Method, annotations: Annotations) -> Batch:
    """Six clips of noise with labels of the data, of which two are shorter."""
    frames = 14 if method.task == "anticipation" else 5
    chosen = annotations.examples[:6]
    lengths = torch.tensor([frames] * 4 + [frames - 1] * 2)
    place = torch.arange(frames)
    random = torch.Generator().manual_seed(0)
    shape = (len(chosen), frames, 3, *SIZE[method.task])
    return Batch(
        frames=torch.randint(0, 256, shape, generator=random, dtype=torch.uint8),
        lengths=lengths,
        times=torch.zeros(len(chosen), frames, dtype=torch.float64),
        observed=place < lengths.unsqueeze(1),
        labels={task: torch.tensor([e.labels[task] for e in chosen]) for task in annotations.classes},
        ids=tuple(e.id for e in chosen),
        indices=tuple(range(len(chosen))),
    )


def run_of(method: Method) -> RunConfig:
    """The config of a method on what the package draws; HORST's are named otherwise."""
    folder = "somethings" if method.task == "recognition" else "kitchen"
    name = "gpu" if method.model_name("tiny") in PRETRAINED else method.name
    config = RunConfig.from_file(f"{folder}/{name}")
    # a small backbone and no dropout, so that a step is quick and the same each time
    options = {**config.model.options, **method.options_for("tiny"), "backbone": {"name": "stem", "widths": [6, 8]}}
    trainer = replace(config.trainer, graphs=False, precision="32-true", accelerator="cpu", backend="auto")
    return replace(config, model=replace(config.model, options=options), trainer=trainer)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_it_learns_a_batch(method: Method, data: dict[str, Annotations], monkeypatch: pytest.MonkeyPatch) -> None:
    annotations = data[method.task]
    config = run_of(method)
    config = replace(config, data=replace(config.data, clip=replace(config.data.clip, size=SIZE[method.task])))
    torch.manual_seed(0)
    module = TrainingModule(build_model(config, annotations), config, annotations)
    monkeypatch.setattr(type(module), "current_epoch", 0)
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    given = batch(method, annotations)
    optimiser = torch.optim.Adam(module.parameters(), 0.003)
    losses = []
    for step in range(4):
        found = module.training_step(given, step)
        assert found is not None
        optimiser.zero_grad()
        found["loss"].backward()
        grads = {n: p.grad for n, p in module.model.named_parameters()}
        assert [n for n, grad in grads.items() if grad is None] == []
        optimiser.step()
        losses.append(float(found["loss"].detach()))
    # Not at the first step: values that are made of an empty past alone start at zero, and so do their gradients.
    silent = [n for n, grad in grads.items() if grad is not None and not grad.any() and n.endswith("weight")]
    assert [n for n in silent if method.options.get("order") != 1 or "filter_q" not in n] == []  # S = 1 has no choice
    assert all(torch.isfinite(torch.tensor(losses)))
    assert losses[-1] < losses[0]
