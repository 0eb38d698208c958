"""Which steps tell what a model costs, and which models make room for another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import videos
from servers import SIZE, tiny

from horst.errors import BusyError
from horst.serving import Limits
from horst.serving.engine import Engine, Guest, Ticket
from horst.serving.hall import Hall
from horst.serving.load import MANY, PROBES, Cost
from horst.serving.metrics import Metrics
from horst.streaming import NeverReset

MODEL = tiny()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr(Cost, "measured", classmethod(lambda cls, pool: cls(0.01, 0.01)))
    made = Engine("tiny", MODEL, 8, Metrics())
    yield made
    made.stop()


def wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not until():
        assert time.monotonic() < end
        time.sleep(0.005)


def show(engine: Engine, guests: list[Guest], number: int) -> list[Ticket]:
    """One frame for each of them, in one step."""
    tickets = [Ticket(number, number / MODEL.fps, image=videos.picture(number, *SIZE)) for _ in guests]
    for guest, ticket in zip(guests, tickets, strict=True):
        engine.hand_over(guest, ticket)
    engine.stir()
    wait(lambda: all(ticket.status is not None for ticket in tickets))
    return tickets


def test_steps_of_half_the_streams_or_more_tell_the_cost(engine: Engine) -> None:
    guests = [engine.open(NeverReset(), 0.0, False, lambda: None) for _ in range(4)]
    assert len(engine) == 4
    learnt = []
    for number, count in enumerate((1, 2, 3, 4, 1)):
        tickets = show(engine, guests[:count], number)
        assert {ticket.status for ticket in tickets} == {"predicted"}
        assert all(ticket.image is None and ticket.answered >= ticket.arrived for ticket in tickets)
        wait(lambda: not engine._stir)
        time.sleep(0.02)  # what was learnt is written after the answer
        learnt.append(len(engine.cost._steps))
    assert learnt == [0, 1, 2, 3, 3]


def test_the_load_is_that_of_the_streams_inside(engine: Engine) -> None:
    assert engine.load() == 0
    assert engine.load(1) == pytest.approx(MODEL.fps * 0.02)
    guests = [engine.open(NeverReset(), 0.0, False, lambda: None) for _ in range(2)]
    assert engine.load() == pytest.approx(MODEL.fps * 0.03)
    assert engine.load(2) == pytest.approx(MODEL.fps * 0.05)
    assert engine.newest == max(guest.opened for guest in guests)
    engine.close(guests[0])
    assert engine.load() == pytest.approx(MODEL.fps * 0.02)  # at once
    wait(lambda: len(engine) == 1)


def test_a_frame_between_two_ticks_is_held_and_a_reset_waits_for_nobody(engine: Engine) -> None:
    guest = engine.open(NeverReset(), 0.0, False, lambda: None)
    first = Ticket(0, 0.0, image=videos.picture(0, *SIZE))
    between = Ticket(1, 0.01, image=videos.picture(1, *SIZE))
    reset = Ticket(2, 0.0, reset=True)
    again = Ticket(3, 0.0, image=videos.picture(2, *SIZE))  # time may go back after a reset
    for ticket in (first, between, reset, again):
        engine.hand_over(guest, ticket)
    engine.stir()
    wait(lambda: again.status is not None)
    assert [ticket.status for ticket in (first, between, reset, again)] == ["predicted", "held", "reset", "predicted"]


def test_frames_that_the_model_could_not_keep_up_with_are_skipped(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 12 frames that come at once, 8 may wait. Each of the others is answered too."""
    monkeypatch.setattr("horst.streaming.pool.MAX_AGE", 60.0)
    guest = engine.open(NeverReset(), 0.0, False, lambda: None)
    tickets = [Ticket(i, i / MODEL.fps, image=videos.picture(i, *SIZE)) for i in range(12)]
    for ticket in tickets:
        engine.hand_over(guest, ticket)
    engine.stir()
    wait(lambda: all(ticket.status is not None for ticket in tickets))
    assert [ticket.status for ticket in tickets] == ["skipped"] * 4 + ["predicted"] * 8
    assert [ticket.prediction is None for ticket in tickets] == [True] * 4 + [False] * 8
    times = [ticket.prediction.time for ticket in tickets if ticket.prediction is not None]
    assert times == pytest.approx([i / MODEL.fps for i in range(4, 12)])


def test_a_frame_that_decides_several_ticks_gets_the_newest_answer(engine: Engine) -> None:
    guest = engine.open(NeverReset(), 0.0, False, lambda: None)
    for number, age in ((0, 1), (4, 5), (5, 6)):
        (ticket,) = show(engine, [guest], number)
        assert ticket.status == "predicted"
        assert ticket.prediction is not None
        assert (ticket.prediction.time, ticket.prediction.age) == (pytest.approx(number / MODEL.fps), age)


@pytest.mark.parametrize("slow", [1.0, 2.0])
def test_costs_are_linear_in_the_states(slow: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool whose steps take 10 ms and 2 ms for each state, on a clock of its own."""
    now = 0.0

    class Streams:
        size, calls = SIZE, 0

        def __len__(self) -> int:
            return 2 * MANY

        def __call__(self, frames: object, places: range) -> None:
            nonlocal now
            self.calls += 1
            now += slow * (0.010 + 0.002 * len(places))

        def reset(self) -> None:
            pass

    class SessionPool:
        batched_step = Streams()

    monkeypatch.setattr("horst.serving.load.time.perf_counter", lambda: now)
    cost = Cost.measured(SessionPool())  # type: ignore[arg-type]
    assert (cost.base, cost.each) == (pytest.approx(slow * 0.010), pytest.approx(slow * 0.002))
    assert cost.step(5) == pytest.approx(slow * 0.020)
    assert SessionPool.batched_step.calls <= 2 * PROBES


def test_models_that_nobody_uses_make_room_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cost, "measured", classmethod(lambda cls, pool: cls(0.01, 0.01)))
    monkeypatch.setattr(Hall, "_watch", lambda self: None)
    hall = Hall("mine", MODEL, limits=Limits(models=3), metrics=Metrics())
    try:
        for older, newer in (("a", "z"), ("z", "a")):  # not by their names
            hall._models = {"mine": (0.0, MODEL), older: (0.0, MODEL), newer: (0.0, MODEL)}
            hall._make_room()
            assert list(hall._models) == ["mine", newer]
            hall._make_room()  # there is room
            assert list(hall._models) == ["mine", newer]
        hall._models["used"] = (0.0, MODEL)
        hall._engine("used", MODEL).open(NeverReset(), 0.0, False, lambda: None)
        hall._make_room()
        assert list(hall._models) == ["mine", "used"]
        hall._models["b"] = (0.0, MODEL)
        hall._engine("b", MODEL).open(NeverReset(), 0.0, False, lambda: None)
        with pytest.raises(BusyError, match="3 models are in use"):
            hall._make_room()
    finally:
        hall.close()
