"""The runs of a study as tasks of a launcher, and the lock of a study's folder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from horst.io import lock
from horst.studies.plan import Job, State, state
from horst.tasks import Launcher, LocalLauncher, Task, run_tasks
from horst.training.run import writable


class FailedJob(NamedTuple):
    job: Job
    status: int
    lines: list[str]  # the last ones of its log


def run_jobs(
    jobs: Sequence[tuple[Job, State]],
    *,
    launcher: Launcher | None = None,  # by default one run at a time on this machine
    report: Callable[[str], None] = print,  # called with a line when a run starts or ends
) -> list[FailedJob]:
    """Do what is left of the jobs, and return those that failed."""
    by_log = {job.log: job for job, _ in jobs}
    tasks = [
        Task(job.title, job.log, job.command(reached), lambda job=job: job.command(state(job)), job.folder)  # type: ignore[misc]
        for job, reached in jobs
    ]
    failed = run_tasks(tasks, launcher or LocalLauncher(), report)
    return [FailedJob(by_log[failure.task.log], failure.status, failure.lines) for failure in failed]


def lock_study(folder: Path) -> TextIO:
    """Lock the folder of a study. The lock ends with the last process that has the file, even if that is killed."""
    in_use = (
        "is in use: another `horst study`, or a run that one has left, is active there. "
        "Wait for it, or give another --folder; --report shows the results so far"
    )
    with writable(folder, in_use):
        return lock(folder, wait=False)
