"""How many threads this process may use, and how they wait.

torch and numpy read the environment when they are loaded, so this module imports neither.

Threads of OpenMP spin while they wait for the next piece of work. That saves microseconds on an idle machine. Beside
other processes they take the processor from the threads that they wait for.
"""

import math
import os
from pathlib import Path

POLICY, THREADS = "OMP_WAIT_POLICY", "OMP_NUM_THREADS"
CGROUPS = Path("/sys/fs/cgroup")  # of Linux: the limits of containers and services
OWN_CGROUPS = Path("/proc/self/cgroup")  # the names of the cgroups of this process

_limited = False  # whether `prepare_threads` has set OMP_NUM_THREADS


def prepare_threads() -> None:
    """Let this process, if it has not loaded torch, and those that it starts wait without spinning.

    Their threads are no more than the CPU limit allows. Variables that the user has set stay as they are. An entry
    point of a program calls this first; a library must not change the environment of its program.
    """
    global _limited
    # It is enough for the runtimes of LLVM and Intel too: their KMP_BLOCKTIME is 0 unless it is set.
    os.environ.setdefault(POLICY, "PASSIVE")
    if THREADS not in os.environ and (cores := available_cores()) < _affinity():  # OpenMP knows the affinity only
        os.environ[THREADS], _limited = str(cores), True


def threads_are_chosen() -> bool:
    """Whether the user has set OMP_NUM_THREADS."""
    return THREADS in os.environ and not _limited


def available_cores() -> int:
    """The cores that this process may use: its affinity, or the CPU limit of its container or service if it is less."""
    return max(1, int(min(_affinity(), _limit())))


def _affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _limit() -> float:
    """The cores that the cgroups of this process allow together; infinite without a limit.

    A limit holds for all cgroups below. In a container the mounted tree may begin at its own cgroup, under another name
    than that of the process, so names that do not exist are left out.
    """
    try:
        lines = OWN_CGROUPS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        lines = []
    trees = {CGROUPS: "/", CGROUPS / "cpu": "/"}  # of version 2, and of version 1
    for _, controllers, name in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if not controllers:
            trees[CGROUPS] = name
        elif "cpu" in controllers.split(","):
            trees[CGROUPS / "cpu"] = name
    limits = [math.inf]
    for root, name in trees.items():
        own = root / name.lstrip("/")
        for folder in (own, *own.parents):
            if folder.is_relative_to(root):
                limits.append(_quota(folder / "cpu.max"))
                limits.append(_quota(folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us"))
    return min(limits)


def _quota(*files: Path) -> float:
    """The cores of one cgroup: microseconds of CPU time, and of which period. Infinite without a limit.

    Version 2 has both in one file and "max" for no limit, version 1 has two files and -1.
    """
    try:
        quota, period = (int(number) for number in " ".join(file.read_text() for file in files).split())
        return quota / period if quota > 0 and period > 0 else math.inf
    except (OSError, ValueError):  # no such cgroup, "max", or not its format
        return math.inf
