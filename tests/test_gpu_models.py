"""The benchmark of whole models runs without a GPU, and times nothing that computes something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_models

SIZES = {"batch": 2, "frames": 3, "size": 32, "repeats": 1}
SMALL = ["--device=cpu", "--models", "conv_lstm_tiny", *(f"--{name}={value}" for name, value in SIZES.items())]


@pytest.fixture(autouse=True)
def one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_models, "TURNS", 1)


def test_a_model_has_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu_models.main([*SMALL, "--json", str(tmp_path / "figures.json")])
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("CPU, torch ")
    assert "2 clips of 3 frames" in told[0]
    (row,) = (line.strip("| ").split(" | ") for line in told if line.startswith("| conv_lstm_tiny"))
    found = json.loads((tmp_path / "figures.json").read_text())["train"][0]
    assert row[1:4] == [f"{value:.2f}" for value in (found["plain"]["ms"], found["kernels"]["ms"])] + [
        f"{found['plain']['ms'] / found['kernels']['ms']:.2f}"
    ]


@pytest.mark.parametrize("broken", [1.01, float("nan")])
def test_other_gradients_are_not_timed(monkeypatch: pytest.MonkeyPatch, broken: float) -> None:
    outcome = gpu_models.outcome

    def perturbed(name: str, kind: str, args: Any) -> Any:
        (loss, *gradients), backends = outcome(name, kind, args)
        return [loss, *(g * broken if kind == "kernels" else g for g in gradients)], backends

    monkeypatch.setattr(gpu_models, "outcome", perturbed)
    monkeypatch.setattr(gpu_models, "timed", lambda *_: pytest.fail("timed"))
    with pytest.raises(SystemExit, match=r"conv_lstm_tiny: .* nothing is timed"):
        gpu_models.main(SMALL)


def test_what_cannot_be_measured_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(name: str, kind: str, args: Any) -> Any:
        if kind == "plain":
            raise gpu_models.NoFigureError("out of memory")
        return lambda: None

    monkeypatch.setattr(gpu_models, "prepared", full)
    gpu_models.main(SMALL)
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("| conv_lstm_tiny"))
    assert row.startswith("| conv_lstm_tiny | out of memory | ")
    assert row.endswith(" | - | - | 0.00 |")
