"""Runs that are killed again and again, at moments chosen to hurt, and resumed: they end as if nothing had happened.

A process is killed (SIGKILL) just before its n-th change to the run's folder: a file opened, a rename, a folder made or
removed. So nothing that it had begun to write is finished, for n as large or small as the test likes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch
import yaml

import horst
from horst.cli import main
from horst.data.config import DataConfig
from horst.data.source import open_source
from horst.training.config import RunConfig

pytestmark = pytest.mark.slow

CHANGES = ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "shutil.rmtree", "os.truncate")
RECIPES: dict[str, dict[str, Any]] = {
    "lookahead": {"batches": {"size": 3, "prefix": [0.3, 1.0]}, "trainer": {"epochs": 2}},
    "average": {
        "optimiser": {"name": "adamw", "lookahead": False},
        "loss": {"steps": "every"},
        # batches that do not divide, and epochs without a look at the validation clips
        "trainer": {"epochs": 3, "accumulate": 2, "ema": 0.9, "validate_every": 2, "clip_gradient": 1.0},
    },
}


def fork(args: list[str], log: Path, folder: Path, kill_at: int | None = None) -> int:
    """The status of `horst ARGS` in a process of its own, minus the signal where it was killed."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    said = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    changes = 0

    def kill(event: str, details: tuple[Any, ...]) -> None:
        nonlocal changes
        if event not in CHANGES or not str(details[0]).startswith(str(folder)):
            return
        if event == "open" and not (isinstance(details[1], str) and set(details[1]) & set("wax+")):
            return
        changes += 1
        if changes == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    if kill_at is not None:
        sys.addaudithook(kill)
    try:
        os._exit(main(args))
    except BaseException as error:
        os.write(2, repr(error).encode())
        os._exit(99)


def check(folder: Path) -> None:
    """Every file that is there is whole."""
    for file in (f for f in folder.rglob("*") if f.is_file() and not f.name.startswith(".")):
        if any(part.startswith(".") for part in file.relative_to(folder).parts):
            continue  # aside, of a save that was killed
        if file.suffix == ".json":
            json.loads(file.read_text())
        elif file.suffix == ".yaml":
            RunConfig.from_file(file)
        elif file.suffix == ".csv":
            assert file.read_text().endswith("\n"), file
        elif file.suffix == ".ckpt":
            torch.load(file, weights_only=True)
    for which in ("best", "last"):
        if (folder / which).exists() or (folder / f".{which}.old").exists():
            model = horst.open_model(folder / which)
            assert all(p.isfinite().all() for p in model.parameters())


def scenario(root: Path, name: str, seed: int) -> None:
    """A whole run, and one that is killed until it comes to its end; what happened is written to kills.json."""
    config, log = root / f"{name}.yaml", root / f"{name}.log"
    assert fork(["train", str(config), "--folder", str(root / name / "whole")], log, root) == 0
    folder = root / name / "killed"
    kills: list[tuple[int, int]] = []
    draw = random.Random(seed)
    start = ["train", str(config), "--folder", str(folder), "--trainer.checkpoint_minutes", "0"]
    # The first ones hit the making of the run itself; then every time a little more gets done.
    for kill_at in [1, 3, 5, *(n + draw.randrange(8) for n in range(10, 70, 12)), 10_000]:
        is_run = (folder / "config.yaml").exists()
        status = fork(["train", "--resume", str(folder)] if is_run else start, log, folder, kill_at)
        check(folder)
        if status == 0:
            break
        assert status == -signal.SIGKILL, log.read_text()[-4000:]
        step = -1
        if (folder / "checkpoint.ckpt").exists():
            step = torch.load(folder / "checkpoint.ckpt", weights_only=True)["global_step"]
        kills.append((kill_at, step))
    (root / name / "kills.json").write_text(json.dumps(kills))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all runs. They are forked from one process: to import everything takes longer than they do."""
    root = tmp_path_factory.mktemp("resume")
    for name, recipe in RECIPES.items():
        (root / name).mkdir()
        (root / f"{name}.yaml").write_text(yaml.safe_dump(small_runs.plain(root / "data", **recipe)))
    open_source(DataConfig.from_dict(small_runs.plain(root / "data")["data"]))
    small_runs.by_itself(__file__, root)
    return root


@pytest.mark.parametrize("name", RECIPES)
def test_a_killed_run_ends_as_if_nothing_had_happened(runs: Path, name: str) -> None:
    whole, killed = runs / name / "whole", runs / name / "killed"
    kills = json.loads((runs / name / "kills.json").read_text())
    assert len(kills) >= 5
    assert len({step for _, step in kills}) >= 3  # in the middle of epochs and between them
    for which in ("last", "best"):
        small_runs.assert_same(small_runs.weights(killed / which), small_runs.weights(whole / which))
    assert small_runs.metrics(killed) == small_runs.metrics(whole)
    assert (killed / "bad_clips.csv").read_text() == (whole / "bad_clips.csv").read_text()
    assert not [f for f in killed.rglob("*") if f.name.endswith(".new") or f.name.endswith(".old")]


def test_columns_of_epochs_without_validation_are_empty(runs: Path) -> None:
    rows = small_runs.metrics(runs / "average/whole")
    assert [row["val/area"] != "" for row in rows] == [False, True, True]
    assert [int(row["step"]) for row in rows] == [3, 6, 9]  # 5 batches, two of which make a step


def test_what_is_saved_is_what_is_evaluated(runs: Path) -> None:
    """Checkpoints hold the weights that are trained, `last` those that are evaluated."""
    for name, recipe in RECIPES.items():
        state = torch.load(runs / name / "whole/checkpoint.ckpt", weights_only=True)
        saved = small_runs.weights(runs / name / "whole/last")
        trained = {n.removeprefix("network.model."): value for n, value in state["state_dict"].items()}
        if "ema" in recipe["trainer"]:
            average = next(s["average"] for s in state["callbacks"].values() if "average" in s)
            expected = {n.removeprefix("model."): value for n, value in average.items()}
        else:
            slow = [s["slow_params"] for s in state["optimizer_states"][0]["lookahead_state"].values()]
            names = [n for n, p in horst.open_model(runs / name / "whole/last").named_parameters()]
            expected = dict(zip(names, slow, strict=True))
        assert expected
        small_runs.assert_same({n: saved[n] for n in expected}, expected)
        assert any(not torch.equal(saved[n], trained[n]) for n in expected), name


if __name__ == "__main__":
    import horst.training.fit  # what takes long is imported before the forks

    torch.set_num_threads(1)
    for number, one in enumerate(RECIPES):
        scenario(Path(sys.argv[1]), one, number)
