"""Two real processes, started as torchrun starts them: they learn what one learns from batches twice as large.

Clips differ in length, so the processes pad to different lengths; one clip cannot be read, so one of them has a clip
less, or none at all.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
import small_runs
import small_sets
import torch
import videos

from horst.cli import main
from horst.evaluation.evaluate import Evaluation
from horst.training import checkpoints
from horst.training.config import RunConfig
from horst.training.fit import train

pytestmark = pytest.mark.slow

SCENARIOS: dict[str, dict[str, Any]] = {
    "every": {"batches": {"size": 2, "prefix": [0.3, 1.0]}, "loss": {"steps": "every"}, "lr": 0.02},
    # so few frames that many batches are of one frame, and a process may hold the unreadable clip alone
    "alone": {"batches": {"size": 1, "prefix": [0.1, 1.0]}, "clip": {"fps": 2}, "lr": 1e-4},
}


def config(root: Path, scenario: str, replicas: int) -> RunConfig:
    """The same global batch with any number of replicas."""
    changes = SCENARIOS[scenario]
    size = changes["batches"]["size"] * 2 // replicas
    data = {"source": "folder", "root": str(root / "clips"), "clip": {"size": [24, 32], **changes.get("clip", {})}}
    return small_runs.config(
        root,
        data=data,
        batches={**changes["batches"], "size": size, "bad_limit": 1.0},
        loss=changes.get("loss", {}),
        optimiser={"name": "sgd", "lr": changes["lr"], "lookahead": False},
        trainer={"epochs": 3, "devices": replicas, "checkpoint_minutes": 0.0, "loggers": ["csv"], "log_every": 1},
    )


def replica(rank: int, root: Path, port: int) -> None:
    """What each process does: all scenarios, and once more from a checkpoint in the middle of an epoch."""
    os.environ |= {
        **{"RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "test"},
        **{"GLOO_SOCKET_IFNAME": "lo"},
    }
    torch.set_num_threads(1)
    write = checkpoints.CheckpointCallback._checkpoint

    def remember(self: checkpoints.CheckpointCallback, trainer: Any) -> None:
        write(self, trainer)
        if rank == 0:
            shutil.copy(self.run.checkpoint, self.run.folder / f"step{trainer.global_step}.ckpt")

    checkpoints.CheckpointCallback._checkpoint = remember  # type: ignore[method-assign]
    checkpoints.SYNC_EVERY = 1
    for scenario in SCENARIOS:
        train(config(root, scenario, 2), root / scenario, console=small_runs.silent())
    if rank == 0:
        again = root / "again"
        again.mkdir()
        shutil.copy(root / "every/config.yaml", again)
        shutil.copy(root / "every/step3.ckpt", again / "checkpoint.ckpt")
    torch.distributed.barrier()
    assert main(["train", "--resume", str(root / "again"), "--evaluate"]) == 0


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the runs of both processes."""
    root = tmp_path_factory.mktemp("replicas")
    small_sets.write(root / "clips")
    (root / "clips/train/wave/bad.mp4").write_text("no video")
    videos.clip(root / "clips/train/wave/one_more.mp4", frames=16)
    shutil.rmtree(root / "clips/val")
    for name in ("wave/g.mp4", "stop/h.mp4", "stop/i.mp4"):
        (root / "clips/val" / name).parent.mkdir(parents=True, exist_ok=True)
        videos.clip(root / "clips/val" / name, frames=4 + len(name))
    small_runs.by_itself(__file__, root)
    return root


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_two_learn_what_one_learns(replicas: Path, scenario: str, tmp_path: Path) -> None:
    alone = train(config(replicas, scenario, 1), tmp_path / "alone", console=small_runs.silent())
    one, two = small_runs.weights(alone.last), small_runs.weights(replicas / scenario / "last")
    assert any(name.endswith("running_mean") for name in one)  # batch norm is part of it
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-5, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    for a, b in zip(small_runs.metrics(alone.folder), small_runs.metrics(replicas / scenario), strict=True):
        assert {k: float(v) for k, v in a.items()} == pytest.approx({k: float(v) for k, v in b.items()}, abs=1e-4)
    one_log, two_logs = logged(alone.folder), logged(replicas / scenario)
    assert [row["step"] for row in one_log] == [row["step"] for row in two_logs]  # one of the processes logs
    for a, b in zip(one_log, two_logs, strict=True):  # the loss of all clips of a batch, not of one process
        assert a == pytest.approx(b, abs=1e-4)
    said = (alone.folder / "bad_clips.csv").read_text().splitlines()
    assert len(said) == 2
    assert (replicas / scenario / "bad_clips.csv").read_text().splitlines() == said  # whichever process read it
    assert not (replicas / scenario / "bad_clips.1.csv").exists()


def logged(run: Path) -> list[dict[str, float]]:
    with (run / "csv" / "metrics.csv").open() as file:
        return [{k: float(v) for k, v in row.items() if v and k != "seconds"} for row in csv.DictReader(file)]


def test_two_go_on_in_the_middle_of_an_epoch(replicas: Path) -> None:
    """Also what an epoch's mean is made of: one process writes the checkpoint for both."""
    small_runs.assert_same(small_runs.weights(replicas / "again/last"), small_runs.weights(replicas / "every/last"))
    for a, b in zip(small_runs.metrics(replicas / "again"), small_runs.metrics(replicas / "every"), strict=True):
        assert {k: float(v) for k, v in a.items()} == pytest.approx({k: float(v) for k, v in b.items()}, rel=1e-5)
    listed = [(replicas / name / "bad_clips.csv").read_text() for name in ("again", "every")]
    assert listed[0] == listed[1]
    assert not (replicas / "again/bad_clips.1.csv").exists()
    environment = json.loads((replicas / "every/environment.json").read_text())
    assert environment["packages"]["lightning"]
    assert not (replicas / "again/environment.json").exists()  # a run that is resumed is as it was
    assert Evaluation.load(replicas / "again/evaluation/val.json").counts["read"] == 3  # by one of them, of all clips


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


if __name__ == "__main__":  # forked: to import everything twice takes longer than all the rest
    torch.multiprocessing.start_processes(replica, (Path(sys.argv[1]), free_port()), nprocs=2, start_method="fork")
