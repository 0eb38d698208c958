"""Commands of `horst` as tasks: several at once, on this machine or on a cluster, each with its own log.

A task that fails does not stop the others. Ctrl-C or SIGTERM stops all of them; what they have finished is kept.
"""

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import horst
from horst.config import check_positive
from horst.errors import ConfigError, TaskError
from horst.io import is_locked
from horst.threads import THREADS, available_cores, threads_are_chosen

VISIBLE = "CUDA_VISIBLE_DEVICES"
POLL_SECONDS = 0.1
STOP_SECONDS = 20.0  # how long a process may take to end when it is interrupted
FREE_SECONDS = 60.0  # how long a task is kept back because a lost process still has the lock of its folder
LAST_LINES = 12
OUT_OF_MEMORY = ("CUDA out of memory", "OutOfMemoryError", "CUBLAS_STATUS_ALLOC_FAILED")  # torch prints one of them
LOST = -signal.SIGKILL if sys.platform != "win32" else -9  # the status of a task whose machine is gone


class Task(NamedTuple):
    """A command that can be repeated: it continues what it finds."""

    title: str
    log: Path  # another one for each task
    arguments: list[str]  # of `horst`; none if nothing is left
    again: Callable[[], list[str]] | None = None  # the arguments when it is tried again, if they are others
    folder: Path | None = None  # which the command locks

    def repeated(self) -> Self:
        return self if self.again is None else self._replace(arguments=self.again())


class FailedTask(NamedTuple):
    task: Task
    status: int
    log: Path  # that of the task, or of the first of its processes that failed
    lines: list[str]  # the last ones of the log


class Process(Protocol):
    """A command that was started."""

    @property
    def failed_log(self) -> Path | None:
        """The log of the first process that failed, for a command of several; None: it is that of the task."""

    def poll(self) -> int | None:
        """Its exit status; negative if a signal ended it or its machine was lost, None while it runs."""

    def stop(self) -> None:
        """End it."""


class Launcher(Protocol):
    """Where commands run."""

    verb: str  # what a task does when it is started
    retries: int  # how often a task is started again after its process was killed or its machine was lost
    locks: Sequence[int]  # files of the folders' locks; processes that outlive this one keep them

    def slots(self, tasks: int) -> list[int | None]:
        """A device, or None, for each of the tasks that may be started at once."""

    def start(self, arguments: Sequence[str], log: Path, device: int | None, *, alone: bool) -> Process:
        """Start `horst` with these arguments. `alone`: it has found no memory beside others."""


class LocalLauncher:
    """Processes of this machine."""

    verb, retries = "starts", 0

    def __init__(
        self,
        parallel: int = 1,  # tasks at once on each device
        devices: Sequence[int] = (),  # GPUs, among those of CUDA_VISIBLE_DEVICES if that is set; if empty, all are seen
    ) -> None:
        check_positive(parallel=parallel)
        self.parallel, self.devices = parallel, devices
        self.locks: Sequence[int] = ()
        self.visible = {device: visible_device(device) for device in devices}

    def slots(self, tasks: int) -> list[int | None]:
        return [device for _ in range(self.parallel) for device in (self.devices or (None,))]

    def threads(self) -> dict[str, str]:
        """An equal share of the cores for each of several tasks.

        Torch would take all of them for each. Threads then wait for others that have no core, and two runs on two cores
        are several times slower than one after the other.
        """
        if (tasks := len(self.slots(0))) == 1 or threads_are_chosen():
            return {}
        return {THREADS: str(max(1, available_cores() // tasks))}

    def start(self, arguments: Sequence[str], log: Path, device: int | None, *, alone: bool) -> Process:
        environment = self.threads() if device is None else {VISIBLE: self.visible[device], **self.threads()}
        return start_process(arguments, log, environment, self.locks)


def run_tasks(tasks: Sequence[Task], launcher: Launcher, report: Callable[[str], None] = print) -> list[FailedTask]:
    """Do what is left of the tasks, and return those that failed. `report` gets a line when one starts or ends.

    A task that finds no memory on a GPU that it shares is tried again later, with one task fewer at once from then on,
    or on a cluster with a GPU of its own.
    """
    waiting = deque(task for task in tasks if task.arguments)
    total, ended = len(waiting), 0
    slots: dict[int, tuple[Task, Process, float] | None] = dict.fromkeys(range(len(places := launcher.slots(total))))
    lost: Counter[Path] = Counter()  # by log
    held: dict[Path, float] = {}  # until when a task is kept back at most
    alone: set[Path] = set()
    failed: list[FailedTask] = []
    try:
        while waiting or any(slots.values()):
            for slot, running in list(slots.items()):
                device = places[slot]
                if running is None and waiting:
                    task = waiting.popleft()
                    if not task.arguments:  # it had finished when its process or machine was lost
                        ended += 1
                        report(f"{task.title}: done before it was lost, {ended} of {total}")
                        continue
                    if (
                        time.monotonic() < held.get(task.log, 0.0)
                        and task.folder is not None
                        and is_locked(task.folder)
                    ):
                        waiting.append(task)
                        continue
                    verb = "continues" if "--resume" in task.arguments else launcher.verb
                    report(f"{task.title}: {verb}; {task.log}")
                    process = launcher.start(task.arguments, task.log, device, alone=task.log in alone)
                    slots[slot] = task, process, time.monotonic()
                if running is None or (status := running[1].poll()) is None:
                    continue
                task, process, begin = running
                log, slots[slot] = process.failed_log or task.log, None
                lines = last_lines(log)
                others = sum(other is not None for place, other in slots.items() if places[place] == device)
                full = status != 0 and any(sign in line for sign in OUT_OF_MEMORY for line in lines)
                if full and others and task.log not in alone:
                    if launcher.retries:
                        alone.add(task.log)
                    else:
                        del slots[slot]
                    waiting.append(task.repeated())
                    report(f"{task.title}: postponed, as there is no memory for it beside {others} others")
                    continue
                if status < 0 and lost[task.log] < launcher.retries:
                    lost[task.log] += 1
                    held[task.log] = time.monotonic() + FREE_SECONDS
                    waiting.append(task.repeated())
                    count = f"attempt {lost[task.log] + 1} of {launcher.retries + 1}"
                    report(f"{task.title}: lost with its process or machine, tried again ({count})")
                    continue
                ended += 1
                result = "done" if status == 0 else f"FAILED ({status})"
                report(f"{task.title}: {result}, {time.monotonic() - begin:.0f} s, {ended} of {total}")
                if status != 0:
                    failed.append(FailedTask(task, status, log, lines))
            time.sleep(POLL_SECONDS)
    except BaseException:
        left = [running[1] for running in slots.values() if running is not None]
        with ThreadPoolExecutor(len(left) or 1) as pool:  # all at once: each may take its time
            pool.map(lambda process: process.stop(), left)
        raise
    return failed


def run_parts(
    title: str,
    arguments: Sequence[str],
    parts: int,
    logs: Path,
    launcher: Launcher,
    report: Callable[[str], None] = print,
) -> None:
    """`horst ARGUMENTS --part I --parts PARTS` for every part. TaskError if one fails, when the others are done."""
    numbers = ((part, ["--part", str(part), "--parts", str(parts)]) for part in range(parts))
    tasks = [
        Task(f"{title}, part {part}", logs / f"part-{part:03d}-of-{parts}.log", [*arguments, *options])
        for part, options in numbers
    ]
    with sigterm_interrupts():
        failed = run_tasks(tasks, launcher, report)
    for failure in failed:
        report(f"{failure.task.title} ended with status {failure.status}; {failure.task.log}")
        for line in failure.lines:
            report(f"    {line}")
    if failed:
        raise TaskError(
            f"{len(failed)} of {parts} parts failed: {failed[0].task.log}; repeat the command once it is fixed"
        )


def visible_device(device: int) -> str:
    """The CUDA_VISIBLE_DEVICES of a task: GPUs that a scheduler has left out belong to others."""
    given = os.environ.get(VISIBLE)
    if given is None:
        return str(device)
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not 0 <= device < len(names):
        count = f"numbers count from 0 among the {len(names)} in it"
        raise ConfigError(f"--devices has {device}, and {VISIBLE} is {given!r}: {count}")
    return names[device]


class ProcessGroup(subprocess.Popen[bytes]):
    """A process with its workers, or with the other processes of a distributed run."""

    failed_log: Path | None = None

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


def start_process(
    arguments: Sequence[str], log: Path, environment: Mapping[str, str], locks: Sequence[int] = ()
) -> ProcessGroup:
    """`python -m horst` of this code, in a process group of its own: only this process ends it, with its workers."""
    return start_module(["horst", *arguments], shlex.join(["horst", *arguments]), log, environment, locks)


def start_module(
    words: Sequence[str], shown: str, log: Path, environment: Mapping[str, str], locks: Sequence[int] = ()
) -> ProcessGroup:
    """`python -m WORDS`, as `start_process`. `shown`: the command in the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    code = str(Path(horst.__file__).parents[1])
    path = os.pathsep.join([code, *filter(None, [os.environ.get("PYTHONPATH")])])
    with log.open("ab") as file:
        file.write(f"$ {shown}\n".encode())
        file.flush()
        return ProcessGroup(
            [sys.executable, "-m", *words],
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
