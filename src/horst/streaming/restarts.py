"""When a live stream starts afresh. Early recognition leans on the start of an action, which a camera does not tell.

    Never()                 one state that runs on; `Stream.reset` is the caller's
    Every(seconds, of=3)    `of` states that start one after the other, each again after `seconds`: the surest answers
    OnMotion()              one state that starts when something begins to move after a while of stillness

A policy may keep several states of one stream: `places`. It says before each frame which of them start afresh, and
after it whose answer counts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from horst.errors import InputError
from horst.video.frame import Image, check_number


class Restarts(Protocol):
    """A policy, with the memory of one stream: every stream has its own."""

    @property
    def places(self) -> int:
        """States that it needs."""
        ...

    def before(self, image: Image, time: float, *, fresh: bool) -> list[int]:
        """The places that start with this frame; `fresh`: the stream itself does."""
        ...

    def choose(self, probabilities: NDArray[np.float32]) -> int:
        """The place whose answer counts, from those of all (places, classes)."""
        ...


@dataclass(slots=True)
class Never:
    """The caller knows when something starts, or nothing does: anticipation."""

    places: int = field(default=1, init=False)

    def before(self, image: Image, time: float, *, fresh: bool) -> list[int]:
        return [0] if fresh else []

    def choose(self, probabilities: NDArray[np.float32]) -> int:
        return 0


@dataclass(slots=True)
class Every:
    """Staggered restarts: one of the states has begun close to whatever begins."""

    seconds: float = 3.0
    """The life of a state."""
    of: int = 3
    """States."""
    _begun: list[float] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        check_number("seconds", self.seconds)
        if type(self.of) is not int or self.of < 1:
            raise InputError(f"of is {self.of!r}; it takes a whole number from 1 on")

    @property
    def places(self) -> int:
        return self.of

    def before(self, image: Image, time: float, *, fresh: bool) -> list[int]:
        if fresh:  # all start now, and their second starts are staggered
            self._begun = [time - self.seconds * place / self.of for place in range(self.of)]
            return list(range(self.of))
        due = [place for place, begun in enumerate(self._begun) if time - begun >= self.seconds - 1e-6]
        for place in due:
            self._begun[place] = time
        return due

    def choose(self, probabilities: NDArray[np.float32]) -> int:
        return int(probabilities.max(1).argmax())


@dataclass(slots=True)
class OnMotion:
    """Starts afresh when the picture changes after it has been still."""

    level: float = 2.0
    """Mean change between two frames, in grey levels of 255, that counts as motion."""
    still: float = 0.3
    """Seconds of stillness that end whatever was going on."""
    places: int = field(default=1, init=False)
    _last: NDArray[np.float32] | None = field(default=None, init=False)
    _still_since: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_number("level", self.level)
        check_number("still", self.still, zero=True)

    def before(self, image: Image, time: float, *, fresh: bool) -> list[int]:
        grey = image[::4, ::4].mean(-1, dtype=np.float32)  # a sixteenth of the pixels tells as much
        before, self._last = self._last, grey
        if fresh or before is None or before.shape != grey.shape:
            self._still_since = time
            return [0]
        if float(np.abs(grey - before).mean()) < self.level:
            self._still_since = time if self._still_since is None else self._still_since
            return []
        rested = self._still_since is not None and time - self._still_since >= self.still
        self._still_since = None
        return [0] if rested else []

    def choose(self, probabilities: NDArray[np.float32]) -> int:
        return 0


def restarts_by_name(
    name: str, tasks: Collection[str], *, seconds: float = 3.0, states: int = 3, endless: bool = True
) -> Restarts:
    """Never, Every or OnMotion. `auto`: staggered restarts where a model recognises in an `endless` stream, else none.

    `tasks` are those of the model: one that foresees actions leans on no beginning.
    """
    if name == "auto":
        name = "every" if endless and set(tasks) == {"action"} else "never"
    if name == "every":
        return Every(seconds, states)
    if name not in ("never", "motion"):
        raise InputError(f"restarts is {name!r}; choose from 'auto', 'never', 'every', 'motion'")
    return OnMotion() if name == "motion" else Never()
