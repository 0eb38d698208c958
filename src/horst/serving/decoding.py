"""Decoding of the images of all sessions, in threads.

Each session has one image in decoding at a time, so that sessions take turns. Large images have a thread of their own:
a small one never waits for them. A session whose images take too much time gets them rejected.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import perf_counter

from horst.serving.rate_limiter import RateLimiter

LARGE = 1 << 20  # pixels: about 20 ms of PNG
SHARE = 0.25  # of a core, that a session may use
BURST = 1.0  # seconds that it may use at once


class DecodeQueue:
    """The images of one session."""

    def __init__(self, decoders: "Decoders") -> None:
        self._decoders = decoders
        self._jobs: deque[tuple[bool, Callable[[], None]]] = deque()  # the first one runs
        self._lock = threading.Lock()
        self._time = RateLimiter(SHARE, BURST)

    @property
    def overdrawn(self) -> bool:
        """Whether the images so far took too long."""
        with self._lock:
            return self._time.spend(0.0) > 0

    def add(self, pixels: int, decode: Callable[[], None]) -> None:
        """Call `decode`, for an image of so many pixels, when it is its turn. It must not raise."""
        with self._lock:
            self._jobs.append((pixels > LARGE, decode))
            if len(self._jobs) == 1:
                self._start()

    def _start(self) -> None:
        with suppress(RuntimeError):  # the server is stopping
            self._decoders.pool(large=self._jobs[0][0]).submit(self._run, self._jobs[0][1])

    def _run(self, decode: Callable[[], None]) -> None:
        start = perf_counter()
        decode()
        with self._lock:
            self._time.spend(perf_counter() - start)
            self._jobs.popleft()
            if self._jobs:
                self._start()


class Decoders:
    """The threads."""

    def __init__(self, threads: int) -> None:
        self._small = ThreadPoolExecutor(threads, thread_name_prefix="decoder")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="large decoder")

    def pool(self, *, large: bool) -> ThreadPoolExecutor:
        return self._large if large else self._small

    def stop(self) -> None:
        for pool in (self._small, self._large):
            pool.shutdown(wait=False, cancel_futures=True)
