"""The benchmark of whole runs, without a GPU."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import small_runs

from benchmarks import gpu_run


def test_a_run_is_timed(somethings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gpu_run.STARTED, str(time.time()))
    monkeypatch.setattr(gpu_run, "SKIPPED", 1)
    config = small_runs.config(somethings, batches={"size": 2}, trainer={"epochs": 2})
    (tmp_path / "run.yaml").write_text(config.to_yaml())
    found = gpu_run.timed(str(tmp_path / "run.yaml"), [])
    assert 0 < found["first_step"] < 100
    assert found["frames"] > 0
    assert any("precision 32-true" in line for line in found["choices"])
