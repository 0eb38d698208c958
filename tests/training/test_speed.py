"""What a run chooses by itself: precision and CUDA graphs, by the machine."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
import torch

from horst.training.config import RunConfig, TrainerOptions
from horst.training.speed import be_deterministic, chosen_as, resolve


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return RunConfig.from_file("ssv2/horst_25_released")


def choose(config: RunConfig, **options: Any) -> tuple[TrainerOptions, str]:
    chosen, said = resolve(replace(config, trainer=TrainerOptions(**options)))
    return chosen.trainer, "\n".join(said)


def gpu(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)


def test_the_papers_runs_are_fast_on_a_gpu(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, (9, 0))
    assert (config.trainer.precision, config.trainer.graphs, config.trainer.backend) == ("auto",) * 3
    chosen, said = choose(config, devices=4)
    assert (chosen.precision, chosen.graphs) == ("bf16-mixed", True)
    assert "Some GPU computes in bf16" in said
    assert "CUDA graphs on" in said


def test_deterministic_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    try:
        be_deterministic()
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        assert not torch.backends.cudnn.benchmark
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"  # one's own setting is kept
        monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
        be_deterministic()
        assert os.environ.pop("CUBLAS_WORKSPACE_CONFIG") == ":4096:8"
    finally:
        torch.use_deterministic_algorithms(False)


def test_what_is_requested_is_done(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, (9, 0))
    chosen, said = choose(config, precision="32-true", graphs=False)
    assert (chosen.precision, chosen.graphs) == ("32-true", False)
    assert said.count("requested") == 2
    assert resolve(replace(config, trainer=chosen))[0].trainer == chosen


@pytest.mark.parametrize(
    ("capability", "options", "expected", "why"),
    [
        ((7, 5), {}, ("32-true", True), "does not compute in bf16"),
        ((9, 0), {"accumulate": 2}, ("bf16-mixed", False), "trainer.accumulate is 2"),
        ((9, 0), {"accelerator": "cpu"}, ("32-true", False), "for NVIDIA GPUs"),
    ],
)
def test_what_cannot_be_is_off_and_the_reason_is_said(
    config: RunConfig,
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int],
    options: Any,
    expected: Any,
    why: str,
) -> None:
    gpu(monkeypatch, capability)
    chosen, said = choose(config, **options)
    assert (chosen.precision, chosen.graphs) == expected
    assert why in said


def test_a_cpu_trains_as_before(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    chosen, _ = choose(config)
    assert (chosen.precision, chosen.graphs) == ("32-true", False)


def test_a_run_of_another_machine_is_that_of_its_config(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study that was run on a GPU can be reported on a laptop; what was asked for must be what was done."""
    gpu(monkeypatch, (9, 0))
    done, _ = resolve(config)
    monkeypatch.undo()
    assert chosen_as(config, done) == done
    asked = replace(config, trainer=replace(config.trainer, precision="32-true"))
    assert chosen_as(asked, done).trainer.precision == "32-true"
