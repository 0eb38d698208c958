"""Counters of a server in the text format of Prometheus, without a dependency."""

import os
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # upper bounds of the latency histogram in seconds


class Metrics:
    """Counters; any thread may update them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self.frames: Counter[str] = Counter()  # answers by status
        self.busy = 0  # sessions rejected or evicted
        self.streams = 0  # open sessions
        self.opened = 0
        self.failures = 0  # internal errors
        self._latency = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def count(self, status: str, seconds: float) -> None:
        """Count a frame by status; `seconds` from arrival to answer make the latency of those that were predicted."""
        with self._lock:
            self.frames[status] += 1
            if status == "predicted":
                self._latency[sum(seconds > end for end in BUCKETS)] += 1
                self._seconds += seconds

    def add(self, **changes: int) -> None:
        with self._lock:
            for name, change in changes.items():
                setattr(self, name, getattr(self, name) + change)

    def text(self, load: float) -> str:
        """`load`: fraction of time that the models need for the open sessions."""
        with self._lock:
            ends = [f'_bucket{{le="{end}"}}' for end in (*BUCKETS, "+Inf")]
            latency: dict[str, object] = dict(zip(ends, accumulate(self._latency), strict=True))
            latency |= {"_sum": f"{self._seconds:.6f}", "_count": sum(self._latency)}
            statuses = ("predicted", "not_due", "skipped", "rejected")
            frames = {f'{{status="{status}"}}': self.frames[status] for status in statuses}
            metrics = [
                ("streams", "gauge", "Open sessions.", self.streams),
                ("streams_opened_total", "counter", "Accepted sessions.", self.opened),
                ("busy_total", "counter", "Sessions rejected or evicted because the server was full.", self.busy),
                ("failures_total", "counter", "Internal errors.", self.failures),
                ("load", "gauge", "Fraction of time that the open sessions need.", round(load, 4)),
                ("memory_bytes", "gauge", "Resident memory.", memory()),
                ("uptime_seconds", "gauge", "Time since the start.", round(time.monotonic() - self._start, 3)),
                ("frames_total", "counter", "Frames by the status of their answer.", frames),
                ("latency_seconds", "histogram", "From the arrival of a frame to its prediction.", latency),
            ]
        lines = []
        for name, kind, text, value in metrics:
            lines += [f"# HELP horst_{name} {text}", f"# TYPE horst_{name} {kind}"]
            values = value if isinstance(value, dict) else {"": value}
            lines += [f"horst_{name}{suffix} {one}" for suffix, one in values.items()]
        return "\n".join(lines) + "\n"


def memory() -> int:
    """Resident memory of this process in bytes; its maximum where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with suppress(ImportError):  # Windows
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return 0
