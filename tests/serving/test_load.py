"""How many streams are let in, and when one has to go, on machines whose steps cost what the test says."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import FPS, tiny

from horst.errors import BusyError
from horst.serving import Limits
from horst.serving import load as loads
from horst.serving.engine import Engine, Guest
from horst.serving.hall import STRAINED, Hall
from horst.serving.load import TRUST, WINDOW, Cost
from horst.serving.metrics import Metrics
from horst.streaming import NeverReset, PeriodicReset, ResetPolicy, SessionPool

MODEL = tiny()


@contextmanager
def hall(base: float, each: float, *, lesson: Callable[[], bool] = lambda: False, **limits: float) -> Iterator[Hall]:
    """A step of n states takes base + each * n seconds. Its watch sleeps: tests call `_ease` themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cost, "measured", classmethod(lambda cls, pool: cls(base, each)))
        patch.setattr(Hall, "_watch", lambda self: None)
        made = Hall("tiny", MODEL, limits=Limits(**limits), metrics=Metrics(), lesson=lesson)  # type: ignore[arg-type]
        try:
            yield made
        finally:
            made.close()


def enter(hall: Hall, states: int = 1) -> tuple[Engine, Guest]:
    def policy(model: object) -> ResetPolicy:
        return NeverReset() if states == 1 else PeriodicReset(3.0, states)

    return hall.open(None, policy, 0.0, False, lambda: None)


def fill(hall: Hall, states: int = 1) -> int:
    """How many are let in until one is told busy."""
    count = 0
    try:
        while True:
            enter(hall, states)
            count += 1
    except BusyError:
        return count


def cost_of(hall: Hall) -> Cost:
    return hall._engines["tiny"].cost


def dear(cost: Cost, factor: float, steps: int) -> None:
    for _ in range(steps):
        cost.learn(4, factor * (cost.base + 4 * cost.each))


@settings(max_examples=15, deadline=None)
@given(
    base=st.floats(0.0, 0.05), each=st.floats(0.001, 0.05), states=st.integers(1, 3), load=st.sampled_from((0.5, 0.8))
)
def test_as_many_are_let_in_as_fit(base: float, each: float, states: int, load: float) -> None:
    """The model is asked FPS times a second. The first is let in whatever it costs."""
    fit = (load / FPS - base) / (each * states)
    with hall(base, each, streams=40, load=load) as made:
        assert fill(made, states) in {max(1, min(math.floor(fit + error), 40)) for error in (-1e-9, 1e-9)}
        assert made.metrics.busy == 1


def test_the_place_of_one_that_left_is_free_at_once() -> None:
    with hall(0.01, 0.03) as made:
        inside = [enter(made) for _ in range(5)]
        for _ in range(20):
            assert fill(made) == 0
            made.leave(*inside.pop())
            inside.append(enter(made))


def test_slow_steps_count_when_they_are_the_rule() -> None:
    """A state takes 20 ms and is asked 5 times a second: 0.8 s hold eight."""
    for slow, fit in ((1, 8), (TRUST - 1, 8), (WINDOW, 4)):
        with hall(0.0, 0.02, load=0.8) as made:
            dear(cost_of(made), 2.0, slow)
            assert fill(made) == fit
    with hall(0.0, 0.02, load=0.8) as made:  # one in five, while a machine does something else too
        for _ in range(WINDOW):
            dear(cost_of(made), 1.0, 4)
            dear(cost_of(made), 50.0, 1)
        assert fill(made) == 8


def test_a_machine_that_is_quick_again_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = Cost(0.01, 0.01)
    dear(cost, 10.0, 200)
    assert cost.factor == pytest.approx(10)
    dear(cost, 0.5, WINDOW)
    assert cost.factor == pytest.approx(0.5)
    dear(cost, 10.0, 200)
    monkeypatch.setattr(loads, "FRESH", -1.0)  # long ago
    assert cost.factor == 1


def test_costs_are_measured() -> None:
    pool = SessionPool(MODEL, 8)
    cost = Cost.measured(pool)
    assert 0 < cost.step(1) < cost.step(8)
    assert cost.step(0) == 0
    assert pool.batched_step.frame_counts == [0] * 8


def test_the_newest_goes_where_it_is_too_much_for_long() -> None:
    with hall(0.0, 0.02, load=0.8) as made:
        guests = [enter(made) for _ in range(8)]
        dear(cost_of(made), 1.05, WINDOW)  # beyond what would be let in, but it can be held
        for now in range(100):
            made._ease(float(now))
        assert all(guest.sent_away is None for _, guest in guests)
        dear(cost_of(made), 1.6, WINDOW)
        made._ease(100.0)
        made._ease(100.0 + STRAINED - 0.1)
        assert all(guest.sent_away is None for _, guest in guests)
        made._ease(100.0 + STRAINED)
        wait(lambda: guests[-1][1].sent_away is not None)
        assert all(guest.sent_away is None for _, guest in guests[:-1])
        dear(cost_of(made), 1.0, WINDOW)  # a rest: the seconds are counted anew
        made._ease(200.0)
        dear(cost_of(made), 1.6, WINDOW)
        made._ease(201.0)
        assert made.metrics.busy == 1


def test_the_limit_says_what_is_too_much() -> None:
    for load, stays in ((0.3, False), (0.8, True)):
        with hall(0.0, 0.01, load=load) as made:
            guests = [enter(made) for _ in range(6)]
            dear(cost_of(made), 1.5, WINDOW)  # 0.45 of the time
            made._ease(0.0)
            made._ease(STRAINED)
            if stays:
                assert made.metrics.busy == 0
            else:
                wait(lambda: guests[-1][1].sent_away is not None)  # noqa: B023


def test_the_last_one_stays() -> None:
    with hall(0.0, 0.02) as made:
        guests = [enter(made) for _ in range(3)]
        dear(cost_of(made), 1000.0, WINDOW)
        for now in range(60):
            made._ease(float(now))
            time.sleep(0.005)
        wait(lambda: [guest.sent_away is None for _, guest in guests] == [True, False, False])
        assert made.metrics.busy == 2


def test_nobody_goes_for_a_lesson() -> None:
    under_way = True
    with hall(0.0, 0.02, lesson=lambda: under_way) as made:
        guests = [enter(made) for _ in range(3)]
        dear(cost_of(made), 100.0, WINDOW)
        for now in range(60):
            made._ease(float(now))
        assert made.metrics.busy == 0
        under_way = False
        made._ease(60.0)
        made._ease(60.0 + STRAINED)
        wait(lambda: guests[-1][1].sent_away is not None)


def wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not until():
        assert time.monotonic() < end
        time.sleep(0.005)
