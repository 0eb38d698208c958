"""Runs whose folder is an address: killed while their files are copied, and resumed from what is there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import fsspec
import pytest
import small_runs
import torch
import videos
import yaml

from horst import remote
from horst.cli import main
from horst.errors import CheckpointError, ConfigError
from horst.evaluation.evaluate import Evaluation
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


def test_runs_and_models_are_read_at_their_addresses(
    somethings: Path, alone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By all commands that read them, and without the checkpoint, which they do not need."""
    runs = [f"memory://read/{seed}" for seed in range(2)]
    for seed, address in enumerate(runs):
        folder = remote.remote_folder(address)
        shutil.copytree(alone, folder.local, dirs_exist_ok=True)
        text = yaml.safe_load((folder.local / "config.yaml").read_text())
        (folder.local / "config.yaml").write_text(yaml.safe_dump({**text, "seed": seed}))
        folder.push()
        assert main(["evaluate", address, "--device", "cpu"]) == 0
        remote.forget(address)
    capsys.readouterr()

    assert main(["table", *runs]) == 0
    assert "| 2 |" in capsys.readouterr().out  # a row of two seeds
    copies = [remote.remote_folder(one, skip=["checkpoint.ckpt", "best", "last"]).local for one in runs]
    assert [(copy / "best").exists() for copy in copies] == [False, False]
    fused = "memory://read/fused"
    assert main(["fuse", *runs, "--folder", fused]) == 0
    assert f"{fused}/evaluation/val.json, {fused}/evaluation/val.svg" in capsys.readouterr().out
    assert [(copy / "checkpoint.ckpt").exists() for copy in copies] == [False, False]
    remote.forget(fused)
    assert main(["fuse", *runs, "--folder", fused]) == 2
    assert f"{fused} exists already" in capsys.readouterr().err
    assert main(["evaluate", fused, "--json", "--device", "cpu"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    assert metrics["area"] == Evaluation.load(Run(fused).evaluation("val")).metrics["area"]

    videos.clip(tmp_path / "video.mp4", frames=12)
    for source in (*runs, f"{runs[0]}/best", fused):
        assert main(["predict", source, str(tmp_path / "video.mp4"), "--json", "--device", "cpu"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 4
    assert main(["predict", "memory://nothing", str(tmp_path / "video.mp4")]) == 2
    assert "there is no run and no saved model at memory://nothing" in capsys.readouterr().err


def test_what_is_not_needed_is_not_copied() -> None:
    address = "memory://parts"
    folder = remote.remote_folder(address)
    for name in ("checkpoint.ckpt", "config.yaml"):
        (folder.local / name).write_text(name)
    folder.push()
    remote.forget(address)
    folder = remote.remote_folder(address, skip=["checkpoint.ckpt"])
    assert [file.name for file in folder.local.iterdir()] == ["config.yaml"]
    (folder.local / "config.yaml").write_text("changed")
    folder.push()  # removes nothing
    assert remote.remote_folder(address) is folder  # now all of it, and the change stays
    assert {file.name: file.read_text() for file in folder.local.iterdir()} == {
        "checkpoint.ckpt": "checkpoint.ckpt",
        "config.yaml": "changed",
    }


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
