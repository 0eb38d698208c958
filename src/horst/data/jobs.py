"""Long work in independent pieces: in parallel, with a progress bar; processes that end with their parent."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from horst.threads import available_cores

Piece = TypeVar("Piece")
Result = TypeVar("Result")
PR_SET_PDEATHSIG = 1  # of prctl on Linux


def end_with_parent(worker: int = 0, *, parent: int | None = None) -> None:
    """Let the kernel end this process when its parent is killed. `worker`: the number that a DataLoader passes.

    A worker of torch looks for its parent every 5 s. Until then it keeps the lock of the run's folder and its memory.
    `parent`: which process that is, in case it has ended already. On other systems than Linux nothing changes.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if parent is not None and os.getppid() != parent:
            os._exit(1)


def worker_init() -> Callable[[int], None]:
    """The `worker_init_fn` of a DataLoader in this process."""
    return partial(end_with_parent, parent=os.getpid())


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
        pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=end_with_parent)
        stack.callback(pool.shutdown, cancel_futures=True)
        futures = [pool.submit(work, piece) for piece in pieces]
        for future in as_completed(futures):
            future.result()  # raises its error
            bar.advance(task)
        return [future.result() for future in futures]
