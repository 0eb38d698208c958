"""What a step costs: measured at the start, and updated by later steps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from servers import SIZE, slow_down, tiny

from horst.serving import cost as module
from horst.serving.cost import PRIOR, PROBE_STATES, PROBES, WINDOW, StepCost
from horst.streaming import SessionPool


@pytest.mark.parametrize("slow", [1.0, 2.0])
def test_cost_is_linear_in_the_states(slow: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool whose steps take 10 ms plus 2 ms per state and 1 ms per frame, on a clock of its own."""
    now = 0.0

    class BatchedStep:
        size, calls = SIZE, 0

        def __len__(self) -> int:
            return 2 * PROBE_STATES

        def __call__(self, frames: object, rows: range, first: Sequence[int]) -> None:
            nonlocal now
            self.calls += 1
            now += slow * (0.010 + 0.002 * len(rows) + 0.001 * len(set(first)))

        def reset(self) -> None:
            pass

    class Pool:
        batched_step = BatchedStep()

    monkeypatch.setattr(module.time, "perf_counter", lambda: now)
    cost = StepCost.measure(Pool())  # type: ignore[arg-type]
    assert (cost.base, cost.per_state) == (pytest.approx(slow * 0.010), pytest.approx(slow * 0.002))
    assert cost.seconds(6, 2) == pytest.approx(slow * 0.024)
    assert Pool.batched_step.calls <= 3 * PROBES


def test_measuring_resets_the_pool() -> None:
    pool = SessionPool(tiny(), 8)
    cost = StepCost.measure(pool)
    assert 0 < cost.seconds(1, 1) < cost.seconds(8, 8)
    assert cost.seconds(0, 0) == 0
    assert pool.batched_step.frame_counts == [0] * 8


@pytest.mark.parametrize(("steps", "factor"), [(1, 1), (PRIOR - 1, 1), (WINDOW, 2)])
def test_few_slow_steps_do_not_count(steps: int, factor: float) -> None:
    cost = StepCost(0.0, 0.02)
    slow_down(cost, 2.0, steps)
    assert cost.factor == factor


def test_single_slow_steps_do_not_count() -> None:
    cost = StepCost(0.0, 0.02)
    for _ in range(WINDOW):
        slow_down(cost, 1.0, 4)
        slow_down(cost, 50.0, 1)
    assert cost.factor == 1


def test_machine_that_is_fast_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = StepCost(0.01, 0.01)
    slow_down(cost, 10.0, 200)
    assert cost.factor == pytest.approx(10)
    slow_down(cost, 0.5, WINDOW)
    assert cost.factor == pytest.approx(0.5)
    slow_down(cost, 10.0, 200)
    monkeypatch.setattr(module, "MAX_AGE", -1.0)  # all steps are too old
    assert cost.factor == 1
