"""Which sessions are accepted, which are evicted, and which models are unloaded."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import FPS, slow_down, tiny, wait_for

from horst.errors import BusyError
from horst.finetune import Finetuner, FinetuneState, Recordings
from horst.serving import Limits
from horst.serving.cost import WINDOW, StepCost
from horst.serving.manager import OVERLOAD_SECONDS, ModelManager
from horst.serving.scheduler import Session
from horst.streaming import NeverReset, PeriodicReset, ResetPolicy

MODEL = tiny()


@contextmanager
def manager(
    base: float, per_state: float, *, finetuning: Callable[[], bool] = lambda: False, **limits: float
) -> Iterator[ModelManager]:
    """A step of n states takes base + per_state * n seconds. Tests call `_relieve` themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StepCost, "measure", classmethod(lambda cls, pool: cls(base, per_state)))
        patch.setattr(ModelManager, "_watch", lambda self: None)
        finetuner = Finetuner(Recordings("does-not-exist"), "does-not-exist")
        patch.setattr(finetuner, "state", lambda: FinetuneState("running" if finetuning() else "idle"))
        made = ModelManager("tiny", MODEL, finetuner, Limits(**limits))  # type: ignore[arg-type]
        try:
            yield made
        finally:
            made.stop()


def enter(manager: ModelManager, states: int = 1) -> Session:
    def policy(model: object) -> ResetPolicy:
        return NeverReset() if states == 1 else PeriodicReset(3.0, states)

    session = Session()
    manager.open(session, None, policy)
    return session


def fill(manager: ModelManager, states: int = 1) -> int:
    """Number of sessions that are accepted until one is rejected."""
    count = 0
    try:
        while True:
            enter(manager, states)
            count += 1
    except BusyError:
        return count


def cost(manager: ModelManager) -> StepCost:
    return manager._schedulers["tiny"].cost


@settings(max_examples=15, deadline=None)
@given(
    base=st.floats(0.0, 0.05), each=st.floats(0.001, 0.05), states=st.integers(1, 3), load=st.sampled_from((0.5, 0.8))
)
def test_as_many_sessions_are_accepted_as_fit(base: float, each: float, states: int, load: float) -> None:
    """The model runs FPS times per second. The first session is always accepted."""
    fit = (load / FPS - base) / (each * states)
    with manager(base, each, streams=40, load=load) as made:
        assert fill(made, states) in {max(1, min(math.floor(fit + error), 40)) for error in (-1e-9, 1e-9)}
        assert made.metrics.busy == 1


def test_closed_session_makes_room_at_once() -> None:
    with manager(0.01, 0.03) as made:
        inside = [enter(made) for _ in range(5)]
        for _ in range(20):
            assert fill(made) == 0
            made.close(inside.pop())
            inside.append(enter(made))


def test_slow_machine_accepts_fewer_sessions() -> None:
    """A state takes 20 ms and runs 5 times per second: 8 fit into a load of 0.8."""
    for factor, fit in ((1.0, 8), (2.0, 4)):
        with manager(0.0, 0.02, load=0.8) as made:
            slow_down(cost(made), factor, WINDOW)
            assert fill(made) == fit


def test_newest_session_is_evicted_after_a_long_overload() -> None:
    with manager(0.0, 0.02, load=0.8) as made:
        sessions = [enter(made) for _ in range(8)]
        slow_down(cost(made), 1.05, WINDOW)  # more than a new session may cause, but no overload
        for now in range(100):
            made._relieve(float(now))
        assert all(session.evicted is None for session in sessions)
        slow_down(cost(made), 1.6, WINDOW)
        made._relieve(100.0)
        made._relieve(100.0 + OVERLOAD_SECONDS - 0.1)
        assert all(session.evicted is None for session in sessions)
        made._relieve(100.0 + OVERLOAD_SECONDS)
        wait_for(lambda: sessions[-1].evicted is not None)
        assert all(session.evicted is None for session in sessions[:-1])
        slow_down(cost(made), 1.0, WINDOW)  # a pause: the seconds are counted again
        made._relieve(200.0)
        slow_down(cost(made), 1.6, WINDOW)
        made._relieve(201.0)
        assert made.metrics.busy == 1


def test_overload_is_relative_to_the_limit() -> None:
    for load, stays in ((0.3, False), (0.8, True)):
        with manager(0.0, 0.01, load=load) as made:
            sessions = [enter(made) for _ in range(6)]
            slow_down(cost(made), 1.5, WINDOW)  # a load of 0.45
            made._relieve(0.0)
            made._relieve(OVERLOAD_SECONDS)
            if stays:
                assert made.metrics.busy == 0
            else:
                wait_for(lambda: sessions[-1].evicted is not None)  # noqa: B023


def test_last_session_is_never_evicted() -> None:
    with manager(0.0, 0.02) as made:
        sessions = [enter(made) for _ in range(3)]
        slow_down(cost(made), 1000.0, WINDOW)
        for now in range(60):
            made._relieve(float(now))
            time.sleep(0.005)
        wait_for(lambda: [session.evicted is None for session in sessions] == [True, False, False])
        assert made.metrics.busy == 2


def test_no_session_is_evicted_during_finetuning() -> None:
    running = True
    with manager(0.0, 0.02, finetuning=lambda: running) as made:
        sessions = [enter(made) for _ in range(3)]
        slow_down(cost(made), 100.0, WINDOW)
        for now in range(60):
            made._relieve(float(now))
        assert made.metrics.busy == 0
        running = False
        made._relieve(60.0)
        made._relieve(60.0 + OVERLOAD_SECONDS)
        wait_for(lambda: sessions[-1].evicted is not None)


def test_unused_models_are_unloaded_oldest_first() -> None:
    with manager(0.01, 0.01, models=3) as made:
        for older, newer in (("a", "z"), ("z", "a")):  # not by name
            made._models = {"tiny": (0.0, MODEL), older: (0.0, MODEL), newer: (0.0, MODEL)}
            made._make_room()
            assert list(made._models) == ["tiny", newer]
            made._make_room()  # there is room already
            assert list(made._models) == ["tiny", newer]
        for name, known in (("used", ["tiny", "used"]), ("b", None)):
            made._models[name] = (0.0, MODEL)
            made._scheduler(name, MODEL).open(Session(), NeverReset())
            if known is not None:
                made._make_room()
                assert list(made._models) == known
        with pytest.raises(BusyError, match="3 models are in use"):
            made._make_room()
