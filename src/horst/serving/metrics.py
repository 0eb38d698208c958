"""What a server counts, as text that Prometheus reads: a few lines of our own, so that nothing needs installing."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Seconds: upper ends of the latency histogram."""


class Metrics:
    """Counts of one server; any thread may add to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self.frames: Counter[str] = Counter()
        """Answers by status."""
        self.busy = 0
        """Streams that were turned away or sent away."""
        self.streams = 0
        """Open now."""
        self.opened = 0
        self.failures = 0
        """Errors of our own."""
        self._latency = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def answered(self, statuses: Iterable[tuple[str, float | None]]) -> None:
        """Frames with their status, and the seconds from arrival to answer of those that were predicted."""
        with self._lock:
            for status, seconds in statuses:
                self.frames[status] += 1
                if seconds is not None:
                    self._latency[sum(seconds > end for end in BUCKETS)] += 1
                    self._seconds += seconds

    def add(self, **changes: int) -> None:
        with self._lock:
            for name, change in changes.items():
                setattr(self, name, getattr(self, name) + change)

    def text(self, load: float) -> str:
        """`load`: the part of the time that the models need for the streams they have."""
        with self._lock:
            lines = [
                *_metric("streams", "gauge", "Streams that are open.", self.streams),
                *_metric("streams_opened_total", "counter", "Streams that were let in.", self.opened),
                *_metric("busy_total", "counter", "Streams that were turned or sent away.", self.busy),
                *_metric("failures_total", "counter", "Errors of the server itself.", self.failures),
                *_metric("load", "gauge", "Part of the time that the open streams take, as measured.", round(load, 4)),
                *_metric("memory_bytes", "gauge", "Resident memory.", memory()),
                *_metric("uptime_seconds", "gauge", "Since the start.", round(time.monotonic() - self._start, 3)),
                "# HELP horst_frames_total Frames by the status of their answer.",
                "# TYPE horst_frames_total counter",
            ]
            for status in ("predicted", "held", "skipped", "refused"):
                lines.append(f'horst_frames_total{{status="{status}"}} {self.frames[status]}')
            lines += [
                "# HELP horst_latency_seconds From a frame's arrival to its prediction.",
                "# TYPE horst_latency_seconds histogram",
            ]
            total = 0
            for end, count in zip((*map(str, BUCKETS), "+Inf"), self._latency, strict=True):
                total += count
                lines.append(f'horst_latency_seconds_bucket{{le="{end}"}} {total}')
            lines += [f"horst_latency_seconds_sum {self._seconds:.6f}", f"horst_latency_seconds_count {total}"]
        return "\n".join(lines) + "\n"


def memory() -> int:
    """Bytes of memory that this process holds; its highest mark where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        try:
            import resource
        except ImportError:  # Windows
            return 0
        import sys

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _metric(name: str, kind: str, told: str, value: float) -> list[str]:
    return [f"# HELP horst_{name} {told}", f"# TYPE horst_{name} {kind}", f"horst_{name} {value}"]
