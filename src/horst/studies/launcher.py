"""The processes of a study: some at once, on one device or spread over several; each says all it says into its log.

A run that fails does not stop the others. Ctrl-C, or a polite kill, stops all of them; what they did is kept.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import horst
from horst.config import check_positive
from horst.errors import ConfigError
from horst.io import lock
from horst.studies.plan import Job, State, state

VISIBLE = "CUDA_VISIBLE_DEVICES"
PAUSE = 0.1
"""Seconds between two looks at the processes."""
PATIENCE = 20.0
"""Seconds that a process has to end when it is asked to."""
LAST_LINES = 12
CROWDED = ("CUDA out of memory", "OutOfMemoryError", "CUBLAS_STATUS_ALLOC_FAILED")
"""What torch says where the memory of a GPU is full."""


class Child(Protocol):
    """A process that was started."""

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""

    def stop(self) -> None:
        """End it, and all that it has started."""


Launch = Callable[[Sequence[str], Path, Mapping[str, str], Sequence[int]], Child]
"""(words after `horst`, log, environment, files to hold open) -> the process."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that ended badly."""

    job: Job
    status: int
    lines: list[str]
    """The last ones of its log."""


@dataclass(slots=True)
class _Active:
    job: Job
    child: Child
    begin: float = field(default_factory=time.monotonic)


def work(
    jobs: Sequence[tuple[Job, State]],
    *,
    parallel: int = 1,
    devices: Sequence[int] = (),
    launch: Launch | None = None,
    say: Say = print,
    held: Sequence[int] = (),
) -> list[Failure]:
    """Do all that is left to do, and return what failed.

    A run that finds no memory on a GPU that it shares is not a failed one: it is put off, and there is one fewer at
    once from then on.

    Args:
        jobs: With how far each has come.
        parallel: How many at once, on each device.
        devices: Numbers of GPUs, among those of CUDA_VISIBLE_DEVICES where that is set; all that there are, to every
            run, by default.
        launch: Starts a process.
        say: Told what begins and ends.
        held: The locks of the folders; processes that outlive this one keep them.
    """
    check_positive(parallel=parallel)
    start = launch or spawn
    visible = {device: _visible(device) for device in devices}
    waiting = deque((job, words) for job, state in jobs if (words := job.command(state)))
    total, ended = len(waiting), 0
    slots: dict[tuple[int | None, int], _Active | None] = {
        (device, number): None for number in range(parallel) for device in (devices or (None,))
    }
    failures: list[Failure] = []

    try:
        while waiting or any(slots.values()):
            for slot, active in list(slots.items()):
                if active is None and waiting:
                    job, words = waiting.popleft()
                    say(f"{job.called}: {'goes on' if '--resume' in words else 'starts'}; {job.log}")
                    environment = {} if slot[0] is None else {VISIBLE: visible[slot[0]]}
                    slots[slot] = _Active(job, start(words, job.log, environment, held))
                elif active is not None and (status := active.child.poll()) is not None:
                    slots[slot], lines = None, last_lines(active.job.log)
                    beside = sum(other is not None for (device, _), other in slots.items() if device == slot[0])
                    if status != 0 and beside and any(sign in line for sign in CROWDED for line in lines):
                        del slots[slot]
                        waiting.append((active.job, active.job.command(state(active.job))))
                        say(f"{active.job.called}: put off, as there is no memory for it beside {beside} others")
                        continue
                    ended += 1
                    spent = f"{time.monotonic() - active.begin:.0f} s, {ended} of {total}"
                    say(f"{active.job.called}: {'done' if status == 0 else f'FAILED ({status})'}, {spent}")
                    if status != 0:
                        failures.append(Failure(active.job, status, lines))
            time.sleep(PAUSE)
    except BaseException:
        _stop([active.child for active in slots.values() if active is not None])
        raise
    return failures


def _visible(device: int) -> str:
    """What a run is given to see of the GPUs: those that a scheduler left out are of others."""
    given = os.environ.get(VISIBLE)
    if given is None:
        return str(device)
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not 0 <= device < len(names):
        raise ConfigError(
            f"--devices has {device}, and {VISIBLE} is {given!r}: numbers count from 0 among the {len(names)} in it"
        )
    return names[device]


@dataclass(slots=True)
class _Process:
    """A process and its group: readers of clips, or the other processes of a distributed run."""

    process: subprocess.Popen[bytes]

    def poll(self) -> int | None:
        return self.process.poll()

    def stop(self) -> None:
        """Politely, then not: a run is kept as of its last checkpoint either way."""
        self._signal("SIGINT")
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
        self._signal("SIGKILL")  # what of its group has not noticed
        self.process.wait()

    def _signal(self, name: str) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self.process.kill()
            else:
                os.killpg(self.process.pid, getattr(signal, name))


def spawn(words: Sequence[str], log: Path, environment: Mapping[str, str], held: Sequence[int] = ()) -> Child:
    """`python -m horst` of this very code, in a group of its own, so that it is ended as a whole and by us alone."""
    log.parent.mkdir(parents=True, exist_ok=True)
    code = str(Path(horst.__file__).parents[1])
    path = os.pathsep.join([code, *filter(None, [os.environ.get("PYTHONPATH")])])
    with log.open("ab") as file:
        file.write(f"$ {shlex.join(['horst', *words])}\n".encode())
        file.flush()
        process = subprocess.Popen(
            [sys.executable, "-m", "horst", *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,
            pass_fds=() if sys.platform == "win32" else tuple(held),
        )
    return _Process(process)


def last_lines(log: Path, count: int = LAST_LINES) -> list[str]:
    """Of a log; none where there is none."""
    try:
        return log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
    except OSError:
        return []


@contextmanager
def hold(folder: Path) -> Iterator[int]:
    """Take a folder for one `horst study` at a time. The lock ends with the last process that has it, however."""
    try:
        held = lock(folder, wait=False)
    except BlockingIOError as error:
        raise ConfigError(
            f"{folder} is in use: another `horst study`, or a run that one has left, is at work there. "
            "Wait for it, or give another --folder; --report looks at what is there"
        ) from error
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error}; give another --folder") from error
    with held:
        yield held.fileno()


@contextmanager
def polite() -> Iterator[None]:
    """A kill that asks (SIGTERM) ends a study as Ctrl-C does: with its processes.

    Ctrl-C does so also where a script has started the study with `&`, which makes it ignored: processes inherit that,
    but no handler, and would not listen when they are asked to end.
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


def _stop(children: Sequence[Child]) -> None:
    """All at once: each may take its time."""
    threads = [threading.Thread(target=child.stop) for child in children]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
