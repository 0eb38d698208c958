"""Long work in independent pieces: in parallel, with a progress bar."""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")
CGROUPS = Path("/sys/fs/cgroup")  # of Linux: the limits of containers and jobs


def available_cores() -> int:
    """The cores that this process may use: not those that its affinity or the CPU quota of its container excludes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [_quota(CGROUPS / "cpu.max"), _quota(CGROUPS / "cpu/cpu.cfs_quota_us", CGROUPS / "cpu/cpu.cfs_period_us")]
    return max(1, int(min(cores, *quotas)))


def _quota(*files: Path) -> float:
    """The cores that a container may use: microseconds of CPU time, and of which period. Infinite without a limit.

    Version 2 of cgroups has both in one file and "max" for no limit, version 1 has two files and -1.
    """
    try:
        quota, period = " ".join(file.read_text() for file in files).split()
        return math.inf if quota in ("max", "-1") else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # there are no cgroups
        return math.inf


def run_jobs(
    title: str, work: Callable[[Piece], Result], pieces: Sequence[Piece], *, processes: int | None = None, done: int = 0
) -> list[Result]:
    """The results of `work` on every piece, in order. `done` pieces were finished by an earlier run.

    The first error cancels the pieces that have not started, and is raised.
    """
    from horst.console import progress

    processes = min(processes or available_cores(), max(1, len(pieces)))
    with progress() as bar, ExitStack() as stack:
        task = bar.add_task(title, total=done + len(pieces), completed=done)
        if processes == 1:
            results = []
            for piece in pieces:
                results.append(work(piece))
                bar.advance(task)
            return results
        # Spawned, not forked: a fork of a process with threads (torch, FFmpeg) may hang.
        pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
        stack.callback(pool.shutdown, cancel_futures=True)
        futures = [pool.submit(work, piece) for piece in pieces]
        for future in as_completed(futures):
            future.result()  # raises its error
            bar.advance(task)
        return [future.result() for future in futures]
