"""Samples frames with timestamps at the rate of a model, exactly as if they came from a file.

docs/guides/streaming.md has the rules. A frame that begins at a sampling time is used at once. A sampling time between
two frames is decided when the second frame arrives.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from horst.errors import InputError
from horst.video.frame import check_number
from horst.video.sampling import SLACK

LONGEST = 3600.0  # seconds for which a frame may be repeated: each takes steps of the model
OnGap = Literal["reset", "continue"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SampledFrame(Generic[T]):
    """One input of the model."""

    time: float  # seconds, on the clock of the frames
    frame: T
    number: int  # counts from 0 since the last reset
    sequence: int  # counts resets: frames of another sequence are not a continuation


class FrameSampler(Generic[T]):
    """The sampled frames of one stream."""

    def __init__(self, fps: float, *, gap: float = 2.0, on_gap: OnGap = "reset") -> None:
        self.fps, self.gap = check_number("fps", fps), check_number("gap", gap)
        if self.gap > LONGEST:
            raise InputError(
                f"gap is {gap:g} s; it is at most {LONGEST:g} s, as the last frame is repeated for so long"
            )
        if on_gap not in ("reset", "continue"):
            raise InputError(f"on_gap is {on_gap!r}; choose from 'reset', 'continue'")
        self.on_gap = on_gap
        self.dropped = 0  # frames that arrived out of order
        self._start = 0.0
        self._count = self._sequence = 0
        self._last: tuple[float, T] | None = None  # None: the next frame starts a sequence

    def push(self, frame: T, time: float) -> Iterator[SampledFrame[T]]:
        """The samples that a new frame decides, in order; often none."""
        check_number("the frame's time", time, negative=True)
        if self._last is None:
            self._restart(time)
        elif time < self._last[0]:
            if self._last[0] - time <= self.gap and time >= self._start:
                self.dropped += 1
                return
            self._restart(time)  # the clock was set back
        elif time - self._last[0] > self.gap:
            if self.on_gap == "reset":
                self._restart(time)
            else:  # the next sampling time is now
                self._start = time - self._count / self.fps
        # The previous frame is the sample at all sampling times before this frame.
        while self._last is not None and self._next + SLACK < time:
            yield self._sample(self._last[1])
        self._last = time, frame
        if time >= self._next - SLACK:
            yield self._sample(frame)

    def finish(self, end: float) -> Iterator[SampledFrame[T]]:
        """The samples until the end of a video, which repeat its last frame."""
        check_number("end", end, negative=True)
        if self._last is None:
            return
        end = min(end, self._last[0] + LONGEST)  # damaged files announce any duration
        count = math.ceil(round((end - self._start - SLACK) * self.fps, 6))  # as `sampling.ticks` counts
        while self._count < count:
            yield self._sample(self._last[1])

    def reset(self) -> None:
        """The next frame starts a new sequence."""
        self._last = None

    @property
    def _next(self) -> float:
        return self._start + self._count / self.fps

    def _restart(self, time: float) -> None:
        self._start, self._count, self._last = time, 0, None
        self._sequence += 1

    def _sample(self, frame: T) -> SampledFrame[T]:
        sample = SampledFrame(self._next, frame, self._count, self._sequence)
        self._count += 1
        return sample
