"""Jobs: results in order, a failure ends them, and the progress bar counts finished ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from horst.data import jobs
from horst.data.jobs import available_cores, run_jobs


def square(number: int) -> int:
    if number == 13:
        raise ValueError("unlucky")
    return number * number


@pytest.mark.parametrize("processes", [1, 2])
def test_results_are_in_order(processes: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_jobs("squares", square, [3, 1, 2], processes=processes, done=2) == [9, 1, 4]
    told = capsys.readouterr().err
    assert "squares" in told
    assert "5/5" in told


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "350000 100000"}, 3),
        ({"cpu.max": "20000 100000"}, 1),
        ({"cpu.max": "1600000 100000"}, 8),
        ({"cpu.max": ""}, 8),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2),
    ],
)
def test_cores_of_a_container(
    files: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(jobs, "CGROUPS", tmp_path)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert available_cores() == cores


def test_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_jobs("squares", square, [], done=4) == []
    assert "4/4" in capsys.readouterr().err


def test_a_failure_is_raised() -> None:
    with pytest.raises(ValueError, match="unlucky"):
        run_jobs("squares", square, [1, 13, 2], processes=1)
