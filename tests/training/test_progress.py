"""Time spent timer for data, by the clock of a CPU and by the events of a GPU."""

from __future__ import annotations

import time

import pytest
import torch

from horst.training.progress import DataWaitTimer


def test_a_cpu_waits_between_its_steps() -> None:
    timer = DataWaitTimer(torch.device("cpu"))
    timer.stop()
    before = timer.total
    time.sleep(0.05)  # a step
    timer.start()
    time.sleep(0.02)  # its data
    timer.stop()
    assert 0.02 <= timer.total - before < 0.05


class Clock:
    """A GPU's queue, played: an event happens when all before it is done."""

    now = free = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: object) -> None:
        Clock.free = max(Clock.free, Clock.now)
        self.at = Clock.free

    def query(self) -> bool:
        return self.at <= Clock.now

    def elapsed_time(self, other: Clock) -> float:
        return 1e3 * (other.at - self.at)


def test_a_gpu_does_not_wait_while_it_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", Clock)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    timer = DataWaitTimer(torch.device("cuda"))
    timer.stop()
    first = timer.total
    for step, fetch, idle in ((10.0, 4.0, 0.0), (10.0, 25.0, 9.0), (10.0, 2.0, 0.0)):
        Clock.free = max(Clock.free, Clock.now) + step  # handed out at once, done later
        timer.start()
        Clock.now += fetch
        before = timer.total
        timer.stop()
        if idle:
            assert timer.total - before == pytest.approx(idle)
    Clock.now += 100
    timer.start()
    timer.stop()
    assert timer.total - first == pytest.approx(9.0)  # the last pair is counted late, and had no gap
