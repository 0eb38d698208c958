"""Tasks whose process or machine is lost are started again; others that fail are not."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from horst import tasks
from horst.cluster import run_command
from horst.errors import ConfigError, TaskError
from horst.io import lock
from horst.tasks import LOST, Task, run_parts, run_tasks


@dataclass
class Ended:
    status: int
    failed_log: Path | None = None

    def poll(self) -> int:
        return self.status

    def stop(self) -> None: ...


@dataclass
class Cluster:
    """Ends every task with the next status of its log."""

    statuses: dict[str, list[int]]
    retries: int = 3
    verb: str = "queued"
    locks: Sequence[int] = ()
    started: list[tuple[str, list[str], bool]] = field(default_factory=list)

    def slots(self, count: int) -> list[int | None]:
        return [None] * count

    def start(self, arguments: Sequence[str], log: Path, device: int | None, *, alone: bool) -> Ended:
        self.started.append((log.stem, list(arguments), alone))
        log.parent.mkdir(parents=True, exist_ok=True)
        status = self.statuses[log.stem].pop(0)
        log.write_text("torch.OutOfMemoryError\n" if status == 77 else "fine\n")
        if status == 78:  # the second process of the command
            other = log.with_stem(f"{log.stem}-rank1")
            other.write_text("the cause\n")
            return Ended(status, other)
        return Ended(status)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "POLL_SECONDS", 0.0)


def test_what_is_lost_is_tried_again_with_what_is_left_of_it(tmp_path: Path) -> None:
    said: list[str] = []
    cluster = Cluster({"a": [LOST, -signal.SIGTERM, 0], "b": [2], "c": [LOST] * 5})
    given = [Task(name, tmp_path / f"{name}.log", ["new"], lambda: ["--resume"]) for name in "abc"]
    failed = run_tasks([*given, Task("d", tmp_path / "d.log", [])], cluster, said.append)
    assert [(one.task.title, one.status) for one in failed] == [("b", 2), ("c", LOST)]
    words = {name: [arguments for log, arguments, _ in cluster.started if log == name] for name in "abcd"}
    assert words == {
        "a": [["new"], ["--resume"], ["--resume"]],
        "b": [["new"]],
        "c": [["new"]] + [["--resume"]] * 3,
        "d": [],
    }
    assert "a: lost with its process or machine, tried again (attempt 2 of 4)" in said
    assert said[-1].endswith("3 of 3")


def test_a_task_that_was_finished_when_it_was_lost_is_not_repeated(tmp_path: Path) -> None:
    said: list[str] = []
    cluster = Cluster({"a": [LOST]})
    assert run_tasks([Task("a", tmp_path / "a.log", ["new"], lambda: [])], cluster, said.append) == []
    assert [arguments for _, arguments, _ in cluster.started] == [["new"]]
    assert said[-1] == "a: done before it was lost, 1 of 1"


def test_the_log_of_the_process_that_failed(tmp_path: Path) -> None:
    (failed,) = run_tasks([Task("a", tmp_path / "a.log", ["x"])], Cluster({"a": [78]}), lambda text: None)
    assert (failed.log, failed.lines) == (tmp_path / "a-rank1.log", ["the cause"])


RANKS = """
import os, pathlib, sys, time
gone = pathlib.Path("gone")
if os.environ["RANK"] == "1":
    print("the cause", flush=True)
    gone.touch()
    sys.exit(3)
while not gone.exists():
    time.sleep(0.01)
time.sleep(0.1)  # more than the resolution of the times of files
print("connection lost", flush=True)
sys.exit(1)
"""


def test_the_process_that_failed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine of a cluster: the failure of the others is its consequence."""
    (tmp_path / "ranks.py").write_text(RANKS)
    monkeypatch.chdir(tmp_path)  # which the command changes
    logs = [tmp_path / "run.log", tmp_path / "run-rank1.log"]
    ended = run_command(["ranks"], str(tmp_path), [(str(log), {"RANK": str(i)}) for i, log in enumerate(logs)])
    assert (ended.status, ended.log) == (3, str(logs[1]))
    assert logs[1].read_text().splitlines()[1:] == ["the cause"]


def test_a_task_without_memory_gets_a_gpu_of_its_own(tmp_path: Path) -> None:
    cluster = Cluster({"a": [77, 0], "b": [0]})
    given = [Task(name, tmp_path / f"{name}.log", ["x"]) for name in "ab"]
    assert run_tasks(given, cluster, lambda text: None) == []
    assert cluster.started == [("a", ["x"], False), ("b", ["x"], False), ("a", ["x"], True)]
    cluster = Cluster({"a": [77, 77], "b": [0]})
    assert [one.status for one in run_tasks(given, cluster, lambda text: None)] == [77]


def test_a_task_waits_until_the_lost_process_has_left_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be alive for a while: the network of its machine failed, not the machine."""
    folder, sleeps = tmp_path / "run", []
    held = lock(folder)
    cluster = Cluster({"a": [LOST, 0]})

    def sleep(seconds: float) -> None:
        sleeps.append(len(cluster.started))
        if len(sleeps) == 5:
            held.close()

    monkeypatch.setattr(tasks.time, "sleep", sleep)
    assert run_tasks([Task("a", tmp_path / "a.log", ["x"], None, folder)], cluster, lambda text: None) == []
    assert sleeps[:6] == [1, 1, 1, 1, 1, 2]


def test_parts_that_fail_are_told(tmp_path: Path) -> None:
    said: list[Any] = []
    cluster = Cluster({"part-000-of-2": [0], "part-001-of-2": [1]})
    with pytest.raises(TaskError, match=r"1 of 2 parts failed: .*part-001-of-2\.log"):
        run_parts("work", ["do"], 2, tmp_path, cluster, said.append)
    assert [arguments for _, arguments, _ in cluster.started] == [
        ["do", "--part", str(part), "--parts", "2"] for part in range(2)
    ]
    assert said[-1] == "    fine"


def test_options_of_a_cluster(tmp_path: Path) -> None:
    from horst.cli.options import ray_launcher

    assert ray_launcher(None, 1.0, None) is None
    with pytest.raises(ConfigError, match="give --ray auto"):
        ray_launcher(None, 1.0, 0.5)
    for options in ((0.0, None), (1.0, -1.0), (1.0, 1.5)):
        with pytest.raises(ConfigError, match=r"(cpus|gpus) is "):
            ray_launcher("127.0.0.1:1", *options)
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:1, to which there is no connection .*`ray start --head`"):
        ray_launcher("127.0.0.1:1", 1.0, 0.25)
