"""Late frames: the oldest are skipped first, the newest never."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import videos

from horst.errors import VideoError
from horst.streaming import FrameQueue, LatestFrames
from horst.video.frame import Frame


def test_queue_without_limits_keeps_all_frames() -> None:
    queue: FrameQueue[int] = FrameQueue()
    queue.push(range(100))
    assert [queue.pop()[0] for _ in range(100)] == list(range(100))
    assert queue.skipped == len(queue) == 0


def test_queue_skips_the_oldest_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr("horst.streaming.late.time.perf_counter", lambda: now)
    queue: FrameQueue[int] = FrameQueue(max_waiting=3, max_age=0.5)
    queue.push([0, 1, 2, 3, 4])
    assert queue.skipped == 2
    assert queue.pop() == (2, 10.0)
    now = 10.6
    queue.push([5])
    assert queue.pop() == (5, 10.6)
    assert queue.skipped == 4
    queue.push([6, 7])
    now = 99.0
    assert queue.pop() == (7, 10.6)  # the newest is never too late
    assert (queue.skipped, len(queue)) == (5, 0)


def test_latest_frames_skips_for_a_slow_reader_and_raises_the_error_at_the_end() -> None:
    def camera() -> Iterator[Frame]:
        for i in range(60):
            time.sleep(0.005)
            yield Frame(videos.picture(i % 50), i / 200, i)
        raise VideoError("camera:0", "it went away")

    seen = []

    def watch(frames: LatestFrames) -> None:
        for frame in frames:
            seen.append(frame.index)
            time.sleep(0.05)

    with LatestFrames(camera()) as frames, pytest.raises(VideoError, match="went away"):
        watch(frames)
    assert seen == sorted(set(seen))
    assert 3 <= len(seen) < 30
    assert seen[-1] >= 50
    assert len(seen) + frames.skipped == 60


def test_latest_frames_stops() -> None:
    def camera() -> Iterator[Frame]:
        for i in range(1000):
            yield Frame(videos.picture(0), i / 10, i)
            time.sleep(0.01)

    with LatestFrames(camera()) as frames:
        assert next(frames).index == 0
        frames.stop()
        assert len(list(frames)) <= 1
