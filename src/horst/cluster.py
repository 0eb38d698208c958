"""Commands of `horst` as tasks of a Ray cluster that exists already: `--ray auto`, or the address of its head.

Ray assigns CPUs and (parts of) GPUs and reports lost machines. A command runs in a process of its own on the machine
that Ray has chosen, with the code and the working directory of this one: the machines share a file system. When a
process or a machine is lost, `horst.tasks` starts the command again, and it continues what it finds.
"""

import math
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from horst.data.jobs import end_with_parent
from horst.errors import ConfigError, TaskError
from horst.extras import require
from horst.tasks import LOST, STOP_SECONDS, VISIBLE, Process, ProcessGroup, start_module
from horst.threads import THREADS

CONNECT_SECONDS = 5.0
POLL_SECONDS = 0.2
GROUP_SECONDS = 120.0  # how long the machines of a distributed run may take to be free
LOST_SECONDS = 15.0  # how long after a failure another task of its group may turn out to be lost
CAUSE_SECONDS = 3.0  # how long after a failure another process of the same machine may turn out to be its cause
RETRIES = 3


class RayLauncher:
    """Tasks of a Ray cluster, each with `cpus` CPUs (and as many threads) and `gpus` GPUs, such as 0.25.

    Without `gpus`, a task has one GPU if the cluster has any.
    """

    verb, retries = "queued", RETRIES

    def __init__(self, address: str = "auto", *, cpus: float = 1.0, gpus: float | None = None) -> None:
        if not cpus > 0:
            raise ConfigError(f"cpus is {cpus}; it takes a number above 0")
        if gpus is not None and (gpus < 0 or (gpus > 1 and gpus != int(gpus))):
            raise ConfigError(f"gpus is {gpus}; it takes a part of a GPU, such as 0.25, or a whole number")
        self.locks: Sequence[int] = ()  # a process on another machine cannot keep them
        self._ray = connect(address)
        self.cpus = cpus
        self.gpus = gpus if gpus is not None else float(self._ray.cluster_resources().get("GPU", 0) > 0)
        self._run = self._ray.remote(max_retries=0)(run_command)

    def fitting(self) -> int:
        """How many tasks run at once."""
        there = self._ray.cluster_resources()
        counts = [there.get("CPU", 0) / self.cpus, *([there.get("GPU", 0) / self.gpus] if self.gpus else [])]
        return int(min(counts))

    def slots(self, tasks: int) -> list[int | None]:
        if tasks and self.fitting() < 1:
            there = {name: self._ray.cluster_resources().get(name, 0) for name in ("CPU", "GPU")}
            raise ConfigError(
                f"a task takes {self.cpus:g} CPUs and {self.gpus:g} GPUs, and the cluster has {there['CPU']:g} and "
                f"{there['GPU']:g}: lower --cpus or --gpus"
            )
        return [None] * tasks  # Ray has the queue

    def start(self, arguments: Sequence[str], log: Path, device: int | None, *, alone: bool) -> Process:
        gpus = max(1.0, self.gpus) if alone and self.gpus else self.gpus
        run = self._run.options(num_cpus=self.cpus, num_gpus=gpus, name=log.stem)
        processes = [(str(log.absolute()), task_environment(self.cpus, gpus))]
        return RayTask(self._ray, run.remote(["horst", *arguments], os.getcwd(), processes))


class RayGroupLauncher(RayLauncher):
    """One command in `devices` processes on each of several machines, with the variables that torchrun sets.

    `cpus` and `gpus` are those of a process. The log of process N ends in -rankN, except for the first.
    """

    def __init__(self, address: str, *, nodes: int, devices: int, cpus: float = 1.0, gpus: float | None = None) -> None:
        super().__init__(address, cpus=cpus, gpus=gpus)
        self.nodes, self.devices = nodes, devices

    def slots(self, tasks: int) -> list[int | None]:
        alive = sum(bool(node["Alive"]) for node in self._ray.nodes())
        if alive < self.nodes:
            raise ConfigError(f"trainer.nodes is {self.nodes} and the cluster has {alive}: lower it, or add machines")
        return [None]

    def start(self, arguments: Sequence[str], log: Path, device: int | None, *, alone: bool) -> Process:
        bundle = {"CPU": self.cpus * self.devices, **({"GPU": self.gpus * self.devices} if self.gpus else {})}
        group = self._ray.util.placement_group([bundle] * self.nodes, strategy="STRICT_SPREAD")
        strategies = self._ray.util.scheduling_strategies

        def options(node: int) -> dict[str, Any]:
            place = strategies.PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=node)
            return {"num_cpus": bundle["CPU"], "num_gpus": bundle.get("GPU", 0), "scheduling_strategy": place}

        where = self._ray.remote(max_retries=0)(free_address).options(**options(0))
        try:
            host, port = self._ray.get(where.remote(), timeout=GROUP_SECONDS)
        except self._ray.exceptions.RayError as error:
            self._ray.util.remove_placement_group(group)
            raise ConfigError(
                f"the cluster has no {self.nodes} machines with {bundle} each free within {GROUP_SECONDS:.0f} s "
                f"({type(error).__name__}): lower trainer.nodes or trainer.devices, or wait"
            ) from error
        tasks = []
        for node in range(self.nodes):
            ranks = range(node * self.devices, (node + 1) * self.devices)
            logs = [str((log.with_stem(f"{log.stem}-rank{rank}") if rank else log).absolute()) for rank in ranks]
            shared = task_environment(self.cpus, self.gpus) | {
                **{"MASTER_ADDR": host, "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": log.stem},
                **{"WORLD_SIZE": str(self.nodes * self.devices), "LOCAL_WORLD_SIZE": str(self.devices)},
            }
            own = [{"RANK": str(rank), "LOCAL_RANK": str(rank - ranks[0]), "GROUP_RANK": str(node)} for rank in ranks]
            run = self._run.options(name=f"{log.stem}-node{node}", **options(node))
            processes = [(file, {**shared, **variables}) for file, variables in zip(logs, own, strict=True)]
            tasks.append(RayTask(self._ray, run.remote(["horst", *arguments], os.getcwd(), processes)))
        return RayGroup(tasks, lambda: self._ray.util.remove_placement_group(group))


class EndedCommand(NamedTuple):
    """How a command ended on a machine of the cluster: the first failure of its processes, if any."""

    status: int
    log: str = ""  # of the process that failed
    time: float = 0.0  # of the last entry of that log


class RayGroup:
    """Tasks that end together: if one fails, the others are stopped."""

    def __init__(self, tasks: Sequence["RayTask"], close: Callable[[], None]) -> None:
        self.tasks, self._close = tasks, close
        self._failed: float | None = None  # when the first failure was seen

    @property
    def failed_log(self) -> Path | None:
        """Others fail after the first one, because they cannot reach it."""
        failed = [task.ended for task in self.tasks if task.ended is not None and task.ended.status]
        return Path(min(failed, key=lambda ended: ended.time).log) if failed else None

    def poll(self) -> int | None:
        statuses = [task.poll() for task in self.tasks]
        bad = [status for status in statuses if status]
        if bad:  # a lost machine lets the processes of others fail, perhaps before it is known to be lost
            self._failed = self._failed or time.monotonic()
            if min(bad) >= 0 and time.monotonic() - self._failed < LOST_SECONDS and None in statuses:
                return None
        elif None in statuses:
            return None
        self.stop()
        return min(bad) if bad and min(bad) < 0 else max(bad, default=0)

    def stop(self) -> None:
        for task in self.tasks:
            if task.poll() is None:
                task.stop()
        self._close()


class RayTask:
    """A task that was submitted."""

    def __init__(self, ray: Any, reference: Any) -> None:
        self._ray, self._reference = ray, reference
        self.ended: EndedCommand | None = None  # None also if it was lost

    @property
    def failed_log(self) -> Path | None:
        return Path(self.ended.log) if self.ended is not None and self.ended.log else None

    def poll(self) -> int | None:
        if not self._ray.wait([self._reference], timeout=0)[0]:
            return None
        try:
            self.ended = EndedCommand(*self._ray.get(self._reference))
            return self.ended.status
        except self._ray.exceptions.TaskCancelledError:  # it was stopped
            return LOST
        except self._ray.exceptions.RayTaskError as error:
            last = str(error).strip().splitlines()[-1]
            remedy = "install the same horst and share the working directory on all of them"
            raise TaskError(f"a machine of the cluster cannot start a command: {last}; {remedy}") from error
        except self._ray.exceptions.RayError:  # the process of the task, or its machine, is gone
            return LOST

    def stop(self) -> None:
        """Cancel it: the command is interrupted, as by Ctrl-C, and then killed."""
        with suppress(Exception):  # the cluster may be gone
            self._ray.cancel(self._reference)
            self._ray.wait([self._reference], timeout=STOP_SECONDS + CONNECT_SECONDS)


def connect(address: str) -> Any:
    """The package ray, connected to a cluster. ConfigError if there is none at the address."""
    ray = require("ray", "cluster")
    require("ray.util.scheduling_strategies", "cluster")
    if ray.is_initialized():
        return ray
    host, _, port = address.rpartition(":")
    try:
        if address != "auto":  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        ray.init(address=address, log_to_driver=False, logging_level="warning")
    except (ConnectionError, OSError, ValueError) as error:
        raise ConfigError(
            f"--ray is {address}, to which there is no connection ({str(error).splitlines()[0]}): start a cluster with "
            "`ray start --head`, and give auto or its address, such as 10.0.0.1:6379; if it asks for a token, set "
            "RAY_AUTH_MODE=token here too"
        ) from error
    return ray


def free_address() -> tuple[str, int]:
    """The address of this machine in the cluster, and a port that is free now."""
    host = require("ray", "cluster").util.get_node_ip_address()
    with socket.socket() as probe:
        probe.bind((host, 0))
        return host, int(probe.getsockname()[1])


def task_environment(cpus: float, gpus: float) -> dict[str, str]:
    """The same number of threads on every machine, on which results depend; no GPU if none was asked for."""
    threads = {THREADS: str(max(1, int(cpus)))}
    return threads if gpus else {**threads, VISIBLE: ""}


def run_command(words: Sequence[str], folder: str, processes: Sequence[tuple[str, Mapping[str, str]]]) -> EndedCommand:
    """On a machine of the cluster: `python -m WORDS` in `folder`, once for each (log, environment).

    If one of them fails, the others are stopped. They end with this process. Otherwise they would go on when Ray's
    processes of this machine are killed, while another machine tries the command again.
    """
    os.chdir(folder)
    shown = f"{shlex.join(words)}  # on {socket.gethostname()}"
    started: list[ProcessGroup] = []
    try:
        for log, environment in processes:
            watched = {**environment, "HORST_PARENT": str(os.getpid())}
            started.append(start_module(["horst.cluster", *words], shown, Path(log), watched))
        last = math.inf
        while None in (statuses := [process.poll() for process in started]) and time.monotonic() < last:
            if any(statuses):  # perhaps because of another process, which still has to end
                last = min(last, time.monotonic() + CAUSE_SECONDS)
            time.sleep(POLL_SECONDS)  # a cancellation is noticed between two sleeps
        ended = zip(statuses, (log for log, _ in processes), strict=True)
        failed = [EndedCommand(status, log, Path(log).stat().st_mtime) for status, log in ended if status]
        return min(failed, key=lambda one: one.time, default=EndedCommand(0))
    finally:
        for process in started:
            if process.poll() is None:
                process.stop()


if __name__ == "__main__":  # python -m horst.cluster MODULE ARGUMENTS
    import runpy

    end_with_parent(parent=int(os.environ.pop("HORST_PARENT")))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Ray's workers ignore it, and so would this process
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
