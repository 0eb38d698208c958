"""Runs whose folder is an address: killed while their files are copied, and resumed from what is there."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import fsspec
import pytest
import small_runs
import torch
import yaml

from horst.cli import main
from horst.errors import CheckpointError, ConfigError
from horst.evaluation.evaluate import Evaluation
from horst.training import remote
from horst.training.fit import resume, train
from horst.training.run import Run

FILES = {"config.yaml", "data.json", "environment.json", "metrics.csv", "checkpoint.ckpt", "best/model.safetensors"}


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    """A forked process cannot use the threads of torch."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def alone(somethings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run in a local folder."""
    torch.set_num_threads(1)
    return train(config(somethings), tmp_path_factory.mktemp("alone") / "run", console=small_runs.silent()).folder


def config(somethings: Path) -> Any:
    return small_runs.config(somethings, trainer={"checkpoint_minutes": 0.0})


def assert_equal(address: str, alone: Path) -> None:
    remote.forget(address)
    run = Run(address)
    assert {name for name in FILES if (run.folder / name).is_file()} == FILES
    for name in ("best", "last"):
        small_runs.assert_same(small_runs.weights(run.folder / name), small_runs.weights(alone / name))
    assert small_runs.metrics(run.folder) == small_runs.metrics(alone)


@pytest.mark.parametrize("copies", [4, 9, 16])
def test_a_run_in_memory_goes_on_after_an_interruption(
    somethings: Path, alone: Path, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interruption comes before the n-th file is copied; the local folder is lost."""
    address, done = f"memory://runs/{copies}", []
    put = remote.RemoteFolder._put

    def interrupted(self: remote.RemoteFolder, name: str) -> None:
        if len(done) == copies:
            raise KeyboardInterrupt
        done.append(name)
        put(self, name)

    monkeypatch.setattr(remote.RemoteFolder, "_put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(config(somethings), address, console=small_runs.silent())
    monkeypatch.undo()
    assert done[:3] == ["environment.json", "data.json", "config.yaml"]  # now it is a run
    remote.forget(address)
    with pytest.raises(ConfigError, match=f"{address} holds a run already: .* --resume {address}"):
        train(config(somethings), address, console=small_runs.silent())
    resume(address, console=small_runs.silent())
    assert_equal(address, alone)


def fork(args: list[str], folder: Path, kill_at: int | None = None) -> int:
    """The status of `horst ARGS` in another process, which is killed before its n-th change in `folder`."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    changes = 0

    def kill(event: str, details: tuple[Any, ...]) -> None:
        nonlocal changes
        writes = event == "open" and isinstance(details[1], str) and set(details[1]) & set("wax+")
        if (writes or event == "os.rename") and str(details[0]).startswith(str(folder)):
            changes += 1
            if changes == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill)
    try:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        os._exit(main(args))
    except BaseException:
        os._exit(99)


def test_a_killed_run_goes_on_at_its_address(somethings: Path, alone: Path, tmp_path: Path) -> None:
    """It is killed while files are written there, several times."""
    place, file = tmp_path / "store/run", tmp_path / "run.yaml"
    address = f"file://{place}"
    file.write_text(yaml.safe_dump(small_runs.plain(somethings, trainer={"checkpoint_minutes": 0.0})))
    assert fork(["train", str(file), "--folder", address], place, kill_at=21) == -signal.SIGKILL
    assert (place / "config.yaml").is_file()
    assert fork(["train", "--resume", address], place, kill_at=12) == -signal.SIGKILL
    assert fork(["train", "--resume", address, "--evaluate"], place) == 0
    assert_equal(address, alone)
    assert Evaluation.load(place / "evaluation/val.json").counts["read"] == 4


def test_what_is_wrong_with_an_address_is_told(somethings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CheckpointError, match=r"nothing://here cannot be used: .*check the address"):
        train(config(somethings), "nothing://here", console=small_runs.silent())
    assert main(["train", "--resume", "memory://no-run"]) == 2
    assert "memory://no-run is no run: it has no config.yaml" in capsys.readouterr().err


def test_a_checkpoint_follows_what_it_refers_to(monkeypatch: pytest.MonkeyPatch) -> None:
    folder, done = remote.remote_folder("memory://order"), []
    (folder.local / "best").mkdir()
    for name in ("config.yaml", "checkpoint.ckpt", "best/model.safetensors", "metrics.csv"):
        (folder.local / name).touch()
    monkeypatch.setattr(remote.RemoteFolder, "_put", lambda self, name: done.append(name))
    folder.push()
    assert set(done[:2]) == {"best/model.safetensors", "metrics.csv"}
    assert done[2:] == ["checkpoint.ckpt", "config.yaml"]


def test_files_that_are_gone_are_removed_and_unfinished_ones_not_copied() -> None:
    address, store = "memory://folder", fsspec.filesystem("memory")
    folder = remote.remote_folder(address)
    (folder.local / "a").write_text("1")
    (folder.local / ".b.partial").write_text("2")
    folder.push()
    assert [Path(name).name for name in store.find("/folder")] == ["a"]
    (folder.local / "a").unlink()
    (folder.local / "c").write_text("3")
    folder.push()
    assert [Path(name).name for name in store.find("/folder")] == ["c"]
    remote.forget(address)
    assert (remote.remote_folder(address).local / "c").read_text() == "3"
