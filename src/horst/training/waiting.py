"""How long a run waits for its data: a CPU by the clock, a GPU by its own events.

A GPU works behind the program that feeds it: while the next batch is awaited it may still be busy with the last one,
and that is no waiting. Two events, one after a step and one before the next, tell how long it really had nothing to do.
"""

from __future__ import annotations

import time
from collections import deque

import torch


class Waiting:
    """Between `done`, after a step, and `go`, when the next batch is there."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.total = 0.0
        """Seconds so far; of a GPU, without steps that it has not finished."""
        self._since = time.perf_counter()
        self._done: torch.cuda.Event | None = None
        self._pairs: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque()

    def go(self) -> None:
        if self._done is not None:
            self._pairs.append((self._done, self._mark()))
            self._done = None
        else:  # the first batch of an epoch, or a CPU
            self.total += time.perf_counter() - self._since
        while self._pairs and self._pairs[0][1].query():
            done, go = self._pairs.popleft()
            self.total += done.elapsed_time(go) / 1e3

    def done(self) -> None:
        self._since = time.perf_counter()
        if self.device.type == "cuda":
            self._done = self._mark()

    def _mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event
