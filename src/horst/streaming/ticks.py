"""From frames with times to the frames that a model is asked about: the same as if the video were a file.

A model is asked 1/fps seconds apart, at ticks that count from its first frame. At a tick it sees the frame that is
shown then: the last one that began at the tick or before it. So a camera of 25 or 60 frames a second, one that drops
some, and a file are the same to it.

- A frame that begins at a tick is used at once. A tick between two frames is decided when the second one arrives.
- Ticks during which nothing arrived repeat the last frame, up to `gap` seconds. After a longer silence the stream
  starts afresh (`on_gap="reset"`), or goes on as if no time had passed (`on_gap="hold"`).
- A clock that goes back more than `gap`, or to before the first frame, starts afresh too; a frame that is a little
  late is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from horst.errors import InputError
from horst.video.frame import check_number
from horst.video.sampling import SLACK

OnGap = Literal["reset", "hold"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tick(Generic[T]):
    """One question to the model."""

    time: float
    """Seconds, in the clock of the frames."""
    frame: T
    number: int
    """From 0 on, since the last start."""

    @property
    def fresh(self) -> bool:
        """Whether the stream starts with it."""
        return self.number == 0


class Ticker(Generic[T]):
    """The ticks of one stream."""

    def __init__(self, fps: float, *, gap: float = 2.0, on_gap: OnGap = "reset") -> None:
        self.fps, self.gap = check_number("fps", fps), check_number("gap", gap)
        if on_gap not in ("reset", "hold"):
            raise InputError(f"on_gap is {on_gap!r}; choose from 'reset', 'hold'")
        self.on_gap = on_gap
        self.dropped = 0
        """Frames that came too late."""
        self._start: float | None = None
        self._count = 0
        self._last: tuple[float, T] | None = None

    def push(self, frame: T, time: float) -> Iterator[Tick[T]]:
        """The ticks that a frame decides, in order; often none."""
        check_number("the frame's time", time, negative=True)
        if self._start is None or self._last is None:
            self._begin(time)
        elif not self._follows(time):
            if self._last[0] - time <= self.gap and time >= self._start:
                self.dropped += 1
                return
            self._begin(time)  # the clock was set back
        elif time - self._last[0] > self.gap:
            if self.on_gap == "reset":
                self._begin(time)
            else:  # the next tick is now
                self._start = time - self._count / self.fps
        # What was shown until now is the answer to all ticks before this frame.
        while self._last is not None and self._next + SLACK < time:
            yield self._tick(self._last[1])
        self._last = time, frame
        if time >= self._next - SLACK:
            yield self._tick(frame)

    def finish(self, end: float) -> Iterator[Tick[T]]:
        """The ticks up to the end of a video, during which its last frame is shown."""
        check_number("end", end, negative=True)
        if self._start is None or self._last is None:
            return
        count = math.ceil(round((end - self._start - SLACK) * self.fps, 6))  # as `sampling.ticks` counts
        while self._count < count:
            yield self._tick(self._last[1])

    def reset(self) -> None:
        """The next frame is a first one."""
        self._start, self._count, self._last = None, 0, None

    @property
    def _next(self) -> float:
        assert self._start is not None
        return self._start + self._count / self.fps

    def _begin(self, time: float) -> None:
        self._start, self._count, self._last = time, 0, None

    def _follows(self, time: float) -> bool:
        assert self._last is not None
        return time >= self._last[0]

    def _tick(self, frame: T) -> Tick[T]:
        tick = Tick(self._next, frame, self._count)
        self._count += 1
        return tick
