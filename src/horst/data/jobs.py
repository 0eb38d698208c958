"""Long work in independent pieces: in parallel, with a progress bar."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from multiprocessing import get_context
from typing import TypeVar

from horst.threads import available_cores

Piece = TypeVar("Piece")
Result = TypeVar("Result")


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
