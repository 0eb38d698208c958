"""Late frames: which ones are skipped when a model is slower than its source.

One rule for all live sources: skip the oldest waiting frames first, and never the newest one. A late answer is worth
less than a current one. Frames of files are never skipped: they wait until the model is ready.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, Self, TypeVar

from horst.video.frame import Frame

MAX_WAITING = 8  # frames of one stream that may wait
MAX_AGE = 0.5  # seconds after which a waiting frame is skipped if a newer one waits too
T = TypeVar("T")


class FrameQueue(Generic[T]):
    """Frames of one stream that wait for the model. Without limits (None) nothing is skipped."""

    def __init__(self, max_waiting: int | None = None, max_age: float | None = None) -> None:
        self.max_waiting, self.max_age = max_waiting, max_age
        self.skipped = 0
        self._frames: deque[tuple[T, float]] = deque()

    def __len__(self) -> int:
        return len(self._frames)

    def push(self, frames: Iterable[T]) -> None:
        now = time.perf_counter()
        self._frames.extend((frame, now) for frame in frames)
        if self.max_waiting is not None:
            self.keep_newest(self.max_waiting)

    def pop(self) -> tuple[T, float]:
        """The oldest frame that is not too old, or the newest one; and when it arrived, by `time.perf_counter`."""
        if self.max_age is not None:
            oldest = time.perf_counter() - self.max_age
            self.keep_newest(max(1, sum(arrived >= oldest for _, arrived in self._frames)))
        return self._frames.popleft()

    def keep_newest(self, count: int) -> None:
        """Skip all but the newest `count` frames."""
        while len(self) > count:
            self.skipped += 1
            self._frames.popleft()

    def clear(self) -> None:
        self._frames.clear()


class LatestFrames(Iterator[Frame]):
    """The newest frame of a live source, which a thread reads. Frames that arrive while the model runs are skipped.

    with LatestFrames(LiveSource(source="camera:0").frames()) as frames:
        for prediction in model.stream(live=True).watch(frames):
            ...
    """

    def __init__(self, frames: Iterable[Frame]) -> None:
        self._source, self._queue = frames, FrameQueue[Frame](max_waiting=1)
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._ended = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._read, daemon=True, name="camera").start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def skipped(self) -> int:
        return self._queue.skipped

    def stop(self) -> None:
        """End the iteration. Takes no lock, so a signal handler may call it."""
        self._ended = True

    def __next__(self) -> Frame:
        with self._changed:
            while not self._changed.wait_for(lambda: len(self._queue) or self._ended, 0.2):
                pass  # `stop` notifies nobody
            if self._queue:
                return self._queue.pop()[0]
        if self._error is not None:
            raise self._error
        raise StopIteration

    def _read(self) -> None:
        try:
            for frame in self._source:
                with self._changed:
                    self._queue.push([frame])
                    self._changed.notify()
                if self._ended:
                    return
        except BaseException as error:  # raised where the frames are consumed
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify()
