"""Jobs: results in order, a failure ends them, and the progress bar counts finished ones."""

from __future__ import annotations

import pytest

from horst.data.jobs import run_jobs


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


def test_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_jobs("squares", square, [], done=4) == []
    assert "4/4" in capsys.readouterr().err


def test_a_failure_is_raised() -> None:
    with pytest.raises(ValueError, match="unlucky"):
        run_jobs("squares", square, [1, 13, 2], processes=1)
