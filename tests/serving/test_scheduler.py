"""The scheduler answers every request of its sessions once, in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import videos
from servers import SIZE, tiny, wait_for

from horst.errors import BusyError
from horst.serving.cost import StepCost
from horst.serving.metrics import Metrics
from horst.serving.scheduler import FrameRequest, Scheduler, Session
from horst.streaming import NeverReset, SessionPool

MODEL = tiny()


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduler]:
    monkeypatch.setattr(StepCost, "measure", classmethod(lambda cls, pool: cls(0.01, 0.01)))
    made = Scheduler("tiny", MODEL, 8, Metrics())
    yield made
    made.stop()


def opened(scheduler: Scheduler) -> Session:
    session = Session()
    scheduler.open(session, NeverReset())
    return session


def frame(number: int, at: float | None = None) -> FrameRequest:
    return FrameRequest(number, number / MODEL.fps if at is None else at, image=videos.picture(number, *SIZE))


def answered(session: Session, requests: list[FrameRequest]) -> list[str | None]:
    """Statuses of requests of one session that are submitted at once."""
    for request in requests:
        session.submit(request)
    session.scheduler.wake()
    wait_for(lambda: all(request.status is not None for request in requests))
    return [request.status for request in requests]


def test_cost_is_updated_by_steps_of_half_the_states_or_more(scheduler: Scheduler) -> None:
    sessions = [opened(scheduler) for _ in range(4)]
    assert len(scheduler.sessions) == 4
    updates = []
    for number, count in enumerate((1, 2, 3, 4, 1)):
        requests = [frame(number) for _ in range(count)]
        for session, request in zip(sessions, requests, strict=False):
            session.submit(request)
        scheduler.wake()
        wait_for(lambda: all(request.status is not None for request in requests))  # noqa: B023
        assert {request.status for request in requests} == {"predicted"}
        assert all(request.image is None and request.answered >= request.arrived for request in requests)
        updates.append(len(scheduler.cost._ratios))
    assert updates == [0, 1, 2, 3, 3]


def test_load_of_open_sessions(scheduler: Scheduler) -> None:
    assert scheduler.load() == 0
    assert scheduler.load(1) == pytest.approx(MODEL.fps * 0.02)
    sessions = [opened(scheduler) for _ in range(2)]
    assert scheduler.load() == pytest.approx(MODEL.fps * 0.03)
    assert scheduler.load(2) == pytest.approx(MODEL.fps * 0.05)
    assert sessions[0].opened <= sessions[1].opened
    scheduler.close(sessions[0])
    assert scheduler.load() == pytest.approx(MODEL.fps * 0.02)  # at once
    wait_for(lambda: scheduler.sessions == sessions[1:])


def test_frame_between_samples_and_reset(scheduler: Scheduler) -> None:
    """Time may go back after a reset."""
    requests = [frame(0), frame(1, 0.01), FrameRequest(2, 0.0, reset=True), frame(3, 0.0)]
    assert answered(opened(scheduler), requests) == ["predicted", "not_due", "reset", "predicted"]


def test_frames_beyond_the_queue_are_skipped(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 12 frames that arrive at once, 8 may wait. The others are answered too."""
    monkeypatch.setattr("horst.streaming.pool.MAX_AGE", 60.0)
    requests = [frame(i) for i in range(12)]
    assert answered(opened(scheduler), requests) == ["skipped"] * 4 + ["predicted"] * 8
    assert [request.prediction is None for request in requests] == [True] * 4 + [False] * 8
    times = [request.prediction.time for request in requests if request.prediction is not None]
    assert times == pytest.approx([i / MODEL.fps for i in range(4, 12)])


def test_frame_with_several_samples_gets_the_newest_prediction(scheduler: Scheduler) -> None:
    session = opened(scheduler)
    for number, age in ((0, 1), (4, 5), (5, 6)):
        request = frame(number)
        assert answered(session, [request]) == ["predicted"]
        assert request.prediction is not None
        assert (request.prediction.time, request.prediction.age) == (pytest.approx(number / MODEL.fps), age)


def test_failing_steps_evict_after_the_third(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    session, step = opened(scheduler), SessionPool.step

    def failing(self: SessionPool) -> object:
        step(self)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(SessionPool, "step", failing)
    for number in range(3):
        assert session.evicted is None
        assert answered(session, [frame(number)]) == ["skipped"]
    wait_for(lambda: session.evicted is not None)
    assert scheduler.metrics.failures == 3
    monkeypatch.undo()
    assert answered(opened(scheduler), [frame(0)]) == ["predicted"]


def test_stopped_scheduler_evicts_its_sessions_and_opens_none(scheduler: Scheduler) -> None:
    session = opened(scheduler)
    undecoded = FrameRequest(0, 0.0)
    session.submit(undecoded)
    scheduler.stop("maintenance")
    assert (session.evicted, undecoded.status) == ("maintenance", "skipped")
    with pytest.raises(BusyError, match="stopping"):
        opened(scheduler)
