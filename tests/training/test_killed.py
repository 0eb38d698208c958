"""What a run leaves when it is killed, and what it says when the disk is full."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import small_runs
import yaml

from horst.data.jobs import end_with_parent, worker_init
from horst.errors import CheckpointError
from horst.io import is_locked
from horst.training import checkpoints
from horst.training.fit import resume, train
from horst.training.run import Run

# Workers of torch then look for their parent once in an hour, instead of every 5 s.
KILLED = """
import os, signal, sys
from torch.utils.data import _utils
_utils.MP_STATUS_CHECK_INTERVAL = _utils.worker.MP_STATUS_CHECK_INTERVAL = 3600.0
from horst.cli import main
from horst.data.module import ClipDataModule
read = ClipDataModule.on_after_batch_transfer
def kill(self, *args):
    os.kill(os.getpid(), signal.SIGKILL)
ClipDataModule.on_after_batch_transfer = kill
main(["train", *sys.argv[1:]])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a call of Linux")
def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    """After kill -9 nothing holds the lock of the run."""
    config = small_runs.plain(tmp_path / "data", batches={"workers": 1})
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    run = tmp_path / "run"
    command = [sys.executable, "-c", KILLED, str(tmp_path / "run.yaml"), "--folder", str(run)]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL
    assert (run / "config.yaml").exists()
    end = time.monotonic() + 60
    while is_locked(run):
        assert time.monotonic() < end, "a worker still holds the lock"
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="a call of Linux")
def test_a_worker_whose_parent_ended_first() -> None:
    process = os.fork()
    if not process:
        end_with_parent(parent=-1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 1
    init, process = worker_init(), os.fork()
    if not process:
        init(0)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


@pytest.fixture
def finished(tmp_path: Path) -> Run:
    """A run that was stopped after its first epoch."""

    class Stop(checkpoints.lightning.Callback):
        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            if trainer.current_epoch == 1:
                raise KeyboardInterrupt

    config = small_runs.config(tmp_path / "data")
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", console=small_runs.silent(), callbacks=[Stop()])
    return Run(tmp_path / "run")


def test_unfinished_files_are_removed(finished: Run) -> None:
    """Of killed processes of this machine, but not those of others that may still write."""
    host = os.uname().nodename.replace(".", "-")
    evaluation = finished.folder / "evaluation"
    evaluation.mkdir(exist_ok=True)
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = [finished.folder / f".metrics.csv.{host}.{dead.pid}.partial", finished.folder / ".checkpoint.partial"]
    left += [evaluation / f".val.json.{host}.{dead.pid}.partial"]
    kept = [finished.folder / ".metrics.csv.elsewhere.1.partial", finished.folder / ".own.partial"]
    for path in left + kept:
        path.write_text("half")
    finished.lock().close()
    assert [path for path in left + kept if path.exists()] == kept


@pytest.mark.parametrize("what", ["last", "checkpoint.ckpt", "metrics.csv", "csv"])
def test_full_disk(finished: Run, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the file, and the checkpoint that a resumed run starts from is whole."""
    full = OSError(errno.ENOSPC, "No space left on device")

    def fail(*args: Any, **options: Any) -> None:
        raise full

    if what == "last":
        monkeypatch.setattr("horst.models.checkpoint.save_file", fail)
    elif what == "checkpoint.ckpt":
        monkeypatch.setattr("lightning.pytorch.Trainer.save_checkpoint", fail)
    elif what == "metrics.csv":
        write = Path.write_text

        def text(path: Path, *args: Any, **options: Any) -> int:
            return fail() if path.name.startswith(".metrics.csv") else write(path, *args, **options)  # type: ignore[func-returns-value, return-value]

        monkeypatch.setattr(Path, "write_text", text)
    else:
        monkeypatch.setattr("horst.training.loggers.LoggingCallback.on_train_batch_end", fail)
    file = "a file of" if what == "csv" else what
    before = finished.checkpoint.read_bytes()
    with pytest.raises(CheckpointError) as caught:
        resume(finished.folder, console=small_runs.silent())
    message = str(caught.value)
    assert file in message.partition(" cannot be written: ")[0]
    assert "No space left on device" in message
    assert f"the last checkpoint, {finished.checkpoint}, is whole" in message
    assert f"`horst train --resume {finished.folder}`" in message
    monkeypatch.undo()
    if what != "metrics.csv":  # which follows the checkpoint
        assert finished.checkpoint.read_bytes() == before
    assert not list(finished.folder.glob(".*.partial"))
    resume(finished.folder, console=small_runs.silent())
    assert len(finished.epochs()) == 2
