"""Time spent waiting for data, by the clock of a CPU and by the events of a GPU."""

from __future__ import annotations

import time

import pytest
import torch

from horst.training.waiting import Waiting


def test_a_cpu_waits_between_its_steps() -> None:
    waiting = Waiting(torch.device("cpu"))
    waiting.go()
    before = waiting.total
    time.sleep(0.05)  # a step
    waiting.done()
    time.sleep(0.02)  # its data
    waiting.go()
    assert 0.02 <= waiting.total - before < 0.05


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
    waiting = Waiting(torch.device("cuda"))
    waiting.go()
    first = waiting.total
    for step, fetch, idle in ((10.0, 4.0, 0.0), (10.0, 25.0, 9.0), (10.0, 2.0, 0.0)):
        Clock.free = max(Clock.free, Clock.now) + step  # handed out at once, done later
        waiting.done()
        Clock.now += fetch
        before = waiting.total
        waiting.go()
        if idle:
            assert waiting.total - before == pytest.approx(idle)
    Clock.now += 100
    waiting.done()
    waiting.go()
    assert waiting.total - first == pytest.approx(9.0)  # the last pair is counted late, and had no gap
