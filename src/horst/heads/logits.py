"""What every head returns, and what it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from horst.errors import InputError

TASKS = ("action", "verb", "noun")


@dataclass(frozen=True, slots=True)
class Logits:
    """Unnormalised scores by task, each (B, T, classes) for a clip and (B, classes) for a step.

    Attributes and keys name the same: `logits.verb`, `logits["verb"]`. Early recognition has `action` alone.
    """

    action: Tensor
    verb: Tensor | None = None
    noun: Tensor | None = None
    future: Tensor | None = None
    """What a head foretells of the core's pooled input, (B, T, K, C) for K frames ahead; no scores, so no task."""

    def __getitem__(self, task: str) -> Tensor:
        value = getattr(self, task, None) if task in self.keys() else None
        if value is None:
            raise KeyError(f"no logits for {task!r}; there are {', '.join(self.keys())}")
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def map(self, function: Callable[[Tensor], Tensor]) -> Logits:
        """`function` of the scores of every task, and of these alone."""
        return Logits(**{task: function(self[task]) for task in self})

    def keys(self) -> list[str]:
        """The tasks that this head predicts."""
        return [task for task in TASKS if getattr(self, task) is not None]


def check_maps(channels: int, **maps: Tensor) -> None:
    """Refuse maps that are not (B, T, channels, H, W) or (B, channels, H, W)."""
    for name, m in maps.items():
        if m.ndim not in (4, 5) or m.shape[-3] != channels:
            shape = f"(B, T, {channels}, H, W) or (B, {channels}, H, W)"
            raise InputError(f"{name} has shape {tuple(m.shape)}; this head takes {shape}")
