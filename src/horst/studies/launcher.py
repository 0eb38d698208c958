"""The processes of a study: several at once, on one device or spread over several, each with its own log.

A run that fails does not stop the others. Ctrl-C or SIGTERM stops all of them; their checkpoints are kept.
"""

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TextIO

import horst
from horst.config import check_positive
from horst.errors import ConfigError
from horst.io import lock
from horst.studies.plan import Job, State, state
from horst.training.run import writable

VISIBLE = "CUDA_VISIBLE_DEVICES"
POLL_SECONDS = 0.1
STOP_SECONDS = 20.0  # how long a process may take to end when it is interrupted
LAST_LINES = 12
OUT_OF_MEMORY = ("CUDA out of memory", "OutOfMemoryError", "CUBLAS_STATUS_ALLOC_FAILED")  # torch prints one of them


class ProcessGroup(subprocess.Popen[bytes]):
    """A process with its workers, or with the other processes of a distributed run."""

    def stop(self) -> None:
        """Interrupt it, then kill what is left. The run keeps its last checkpoint either way."""
        for name, seconds in (("SIGINT", STOP_SECONDS), ("SIGKILL", None)):
            with suppress(ProcessLookupError, PermissionError):
                if sys.platform == "win32":
                    self.kill()
                else:
                    os.killpg(self.pid, getattr(signal, name))
            with suppress(subprocess.TimeoutExpired):
                self.wait(seconds)


class FailedJob(NamedTuple):
    job: Job
    status: int
    lines: list[str]  # the last ones of its log


def run_jobs(
    jobs: Sequence[tuple[Job, State]],
    *,
    parallel: int = 1,  # runs at once on each device
    devices: Sequence[int] = (),  # GPUs, among those of CUDA_VISIBLE_DEVICES if that is set; if empty, runs see all
    report: Callable[[str], None] = print,  # called with a line when a run starts or ends
    locks: Sequence[int] = (),  # files of the folders' locks; processes that outlive this one keep them
) -> list[FailedJob]:
    """Do what is left of the jobs, and return those that failed.

    A run that finds no memory on a GPU that it shares is tried again later, with one run fewer at once from then on.
    """
    check_positive(parallel=parallel)
    visible = {device: _visible(device) for device in devices}
    waiting = deque((job, arguments) for job, state in jobs if (arguments := job.command(state)))
    total, ended = len(waiting), 0
    slots: dict[tuple[int | None, int], tuple[Job, ProcessGroup, float] | None] = {
        (device, number): None for number in range(parallel) for device in (devices or (None,))
    }
    failed: list[FailedJob] = []
    try:
        while waiting or any(slots.values()):
            for slot, running in list(slots.items()):
                device = slot[0]
                if running is None and waiting:
                    job, arguments = waiting.popleft()
                    report(f"{job.title}: {'continues' if '--resume' in arguments else 'starts'}; {job.log}")
                    environment = {} if device is None else {VISIBLE: visible[device]}
                    slots[slot] = job, start_process(arguments, job.log, environment, locks), time.monotonic()
                if running is None or (status := running[1].poll()) is None:
                    continue
                job, _, begin = running
                lines, slots[slot] = last_lines(job.log), None
                others = sum(other is not None for (place, _), other in slots.items() if place == device)
                if status != 0 and others and any(sign in line for sign in OUT_OF_MEMORY for line in lines):
                    del slots[slot]
                    waiting.append((job, job.command(state(job))))
                    report(f"{job.title}: postponed, as there is no memory for it beside {others} others")
                    continue
                ended += 1
                result = "done" if status == 0 else f"FAILED ({status})"
                report(f"{job.title}: {result}, {time.monotonic() - begin:.0f} s, {ended} of {total}")
                if status != 0:
                    failed.append(FailedJob(job, status, lines))
            time.sleep(POLL_SECONDS)
    except BaseException:
        left = [running[1] for running in slots.values() if running is not None]
        with ThreadPoolExecutor(len(left) or 1) as pool:  # all at once: each may take its time
            pool.map(lambda process: process.stop(), left)
        raise
    return failed


def _visible(device: int) -> str:
    """The CUDA_VISIBLE_DEVICES of a run: GPUs that a scheduler has left out belong to others."""
    given = os.environ.get(VISIBLE)
    if given is None:
        return str(device)
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not 0 <= device < len(names):
        count = f"numbers count from 0 among the {len(names)} in it"
        raise ConfigError(f"--devices has {device}, and {VISIBLE} is {given!r}: {count}")
    return names[device]


def start_process(
    arguments: Sequence[str], log: Path, environment: Mapping[str, str], locks: Sequence[int] = ()
) -> ProcessGroup:
    """`python -m horst` of this code, in a process group of its own: only this process ends it, with its workers."""
    log.parent.mkdir(parents=True, exist_ok=True)
    code = str(Path(horst.__file__).parents[1])
    path = os.pathsep.join([code, *filter(None, [os.environ.get("PYTHONPATH")])])
    with log.open("ab") as file:
        file.write(f"$ {shlex.join(['horst', *arguments])}\n".encode())
        file.flush()
        return ProcessGroup(
            [sys.executable, "-m", "horst", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,
            pass_fds=() if sys.platform == "win32" else tuple(locks),
        )


def last_lines(log: Path, count: int = LAST_LINES) -> list[str]:
    """The last lines of a log; none if it does not exist."""
    with suppress(OSError):
        return log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
    return []


def lock_study(folder: Path) -> TextIO:
    """Lock the folder of a study. The lock ends with the last process that has the file, even if that is killed."""
    in_use = (
        "is in use: another `horst study`, or a run that one has left, is active there. "
        "Wait for it, or give another --folder; --report shows the results so far"
    )
    with writable(folder, in_use):
        return lock(folder, wait=False)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as Ctrl-C does.

    The handler of Ctrl-C is set too: a script that starts a study with `&` makes it ignored. Processes inherit that,
    but no handler, and could not be interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
