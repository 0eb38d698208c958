"""Commands on a real Ray cluster of two nodes, one of which is killed on the way: results are those of one machine."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
import small_cluster  # before ray: it sets variables
import small_runs
import torch
import yaml

from horst.cli import main
from horst.io import is_locked

pytest.importorskip("ray")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def nodes() -> Iterator[small_cluster.TwoNodes]:
    with small_cluster.two_nodes() as nodes:
        yield nodes


@dataclass
class Finished:
    status: int
    failed_log: Path | None = None

    def poll(self) -> int:
        return self.status

    def stop(self) -> None: ...


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The local launcher runs commands in this process, with one thread: torch takes seconds to start."""

    def run(words: Sequence[str], log: Path, environment: Mapping[str, str], locks: Sequence[int]) -> Finished:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            return Finished(main(words))

    monkeypatch.setattr("horst.tasks.start_process", run)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("here")
def test_a_study_whose_node_is_killed_has_the_table_of_one_machine(
    nodes: small_cluster.TwoNodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes.add_second()
    local, remote = tmp_path / "a/local", tmp_path / "b/remote"
    entries, gate = small_cluster.gated(tmp_path)
    file = small_cluster.study(tmp_path, changes={**small_cluster.STUDY["changes"], **entries})

    def started() -> bool:
        return len(list(remote.glob("*/checkpoint.ckpt"))) == 2

    def go_on() -> None:
        """When the process on the node that was killed is gone too: it must not finish its run."""
        while sum(is_locked(run.parent) for run in remote.glob("*/checkpoint.ckpt")) == 2:
            time.sleep(0.05)
        gate.touch()

    with nodes.killed_when(started, then=go_on):
        assert main(["study", file, "--folder", str(remote), "--ray", nodes.address]) == 0
    told = capsys.readouterr().out
    assert nodes.second is None
    assert told.count("lost with its process or machine, tried again (attempt 2 of 4)") == 1
    assert main(["study", file, "--folder", str(local)]) == 0
    assert small_cluster.results(remote) == small_cluster.results(local)
    names = sorted(run["folder"] for run in json.loads((local / "results.json").read_text())["runs"])
    for name in names:
        small_runs.assert_same(small_runs.weights(remote / name / "last"), small_runs.weights(local / name / "last"))
        command, _, host = (remote / f"logs/{name}.log").read_text().splitlines()[0].partition("  # on ")
        assert command.startswith("$ horst train")
        assert host == socket.gethostname()
    logs = [(remote / f"logs/{name}.log").read_text() for name in names]
    assert sorted(log.count("$ horst") for log in logs) == [1, 2]  # the second attempt trains on, or evaluates
    assert all(log.count("$ horst train") == 1 or "--resume" in log for log in logs)


FAILS = """
import os

if os.environ.get("RANK") == "1":
    raise ImportError("this machine has no sensor")
"""


def test_the_error_of_a_run_is_that_of_the_process_that_failed(
    nodes: small_cluster.TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes.add_second()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fails.py").write_text(FAILS)
    run = small_runs.plain(tmp_path / "made", imports=["fails.py"], batches={"size": 2}, trainer={"nodes": 2})
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    assert main(["train", "run.yaml", "--folder", "run", "--ray", nodes.address]) == 2
    told = capsys.readouterr().err
    assert "run-rank1.log: " in told
    assert "this machine has no sensor" in told
