"""When the state of a live stream is reset. Early recognition depends on the start of an action; a camera has none.

A policy may keep several states for one stream. Before each frame it decides which states to reset, and after it which
state answers.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from horst.errors import InputError
from horst.video.frame import Image, check_number


class ResetPolicy(Protocol):
    """A policy and its memory of one stream: every stream needs its own object."""

    states: int = 1

    def resets(self, image: Image, time: float, *, first: bool) -> list[int]:
        """The states to reset before this frame; `first`: the stream itself starts with it."""
        return [0] if first else []

    def choose(self, probabilities: NDArray[np.float32]) -> int:
        """The state that answers, given the probabilities of all (states, classes)."""
        return 0


@dataclass
class NeverReset(ResetPolicy):
    """The caller knows when an action starts (`StreamSession.reset`), or it does not matter, as in anticipation."""


@dataclass
class PeriodicReset(ResetPolicy):
    """Staggered resets: one of the states was always reset shortly before an action. The most confident one answers."""

    seconds: float = 3.0  # between two resets of a state
    states: int = 3
    _started: list[float] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        check_number("seconds", self.seconds)
        if type(self.states) is not int or self.states < 1:
            raise InputError(f"states is {self.states!r}; it must be an integer of at least 1")

    def resets(self, image: Image, time: float, *, first: bool) -> list[int]:
        if first:  # all start now; their next resets are staggered
            self._started = [time - self.seconds * state / self.states for state in range(self.states)]
            return list(range(self.states))
        due = [state for state, started in enumerate(self._started) if time - started >= self.seconds - 1e-6]
        for state in due:
            self._started[state] = time
        return due

    def choose(self, probabilities: NDArray[np.float32]) -> int:
        return int(probabilities.max(1).argmax())


@dataclass
class MotionReset(ResetPolicy):
    """Resets when the image changes after it was still."""

    level: float = 2.0  # mean change between two frames, in grey levels of 255, that counts as motion
    still: float = 0.3  # seconds without motion after which the next motion resets
    _last: NDArray[np.float32] | None = field(default=None, init=False)
    _still_since: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_number("level", self.level)
        check_number("still", self.still, zero=True)

    def resets(self, image: Image, time: float, *, first: bool) -> list[int]:
        grey = image[::4, ::4].mean(-1, dtype=np.float32)  # one pixel of 16 is enough
        previous, self._last = self._last, grey
        if first or previous is None or previous.shape != grey.shape:
            self._still_since = time
            return [0]
        if float(np.abs(grey - previous).mean()) < self.level:
            self._still_since = time if self._still_since is None else self._still_since
            return []
        rested = self._still_since is not None and time - self._still_since >= self.still
        self._still_since = None
        return [0] if rested else []


def reset_policy(
    name: str, tasks: Collection[str], *, seconds: float = 3.0, states: int = 3, live: bool = True
) -> ResetPolicy:
    """A policy by name: "never", "every", "motion" or "auto".

    "auto" is "every" if the model recognizes actions (its only task is "action") in a `live` stream, else "never".
    """
    if name == "auto":
        name = "every" if live and set(tasks) == {"action"} else "never"
    if name == "every":
        return PeriodicReset(seconds, states)
    if name not in ("never", "motion"):
        raise InputError(f"reset is {name!r}; choose from 'auto', 'never', 'every', 'motion'")
    return MotionReset() if name == "motion" else NeverReset()
