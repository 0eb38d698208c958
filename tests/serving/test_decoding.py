"""Sessions take turns in decoding, and large images do not delay small ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from servers import wait_for

from horst.serving import decoding
from horst.serving.decoding import LARGE, DecodeQueue, Decoders


@pytest.fixture
def decoders() -> Iterator[Decoders]:
    made = Decoders(1)
    yield made
    made.stop()


def test_sessions_take_turns(decoders: Decoders) -> None:
    gate, order, queues = threading.Event(), list[str](), {name: DecodeQueue(decoders) for name in "ab"}
    queues["a"].add(1, lambda: bool(gate.wait(10)))
    for name in "aaabb":
        queues[name].add(1, lambda name=name: order.append(name))
    gate.set()
    wait_for(lambda: len(order) == 5)
    assert "".join(order) == "babaa"


def test_small_images_do_not_wait_for_large_ones(decoders: Decoders) -> None:
    gate, done = threading.Event(), list[int]()
    DecodeQueue(decoders).add(LARGE + 1, lambda: bool(gate.wait(10)))
    DecodeQueue(decoders).add(LARGE + 1, lambda: done.append(2))
    DecodeQueue(decoders).add(LARGE, lambda: done.append(1))
    wait_for(lambda: done == [1])
    gate.set()
    wait_for(lambda: done == [1, 2])


def test_a_session_that_takes_too_long(decoders: Decoders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "BURST", 0.1)
    queue, done = DecodeQueue(decoders), list[int]()
    assert not queue.overdrawn
    queue.add(1, lambda: time.sleep(0.2))
    queue.add(1, lambda: done.append(1))
    wait_for(lambda: bool(done))
    assert queue.overdrawn
    time.sleep(0.2 / decoding.SHARE)
    assert not queue.overdrawn
