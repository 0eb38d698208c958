"""A run goes on with the data that it began with, one process at a time, and with bits that nobody has flipped."""

from __future__ import annotations

import os
import random
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import small_runs
import torch
import videos
import yaml

from horst.data.identity import DataIdentity
from horst.errors import CheckpointError, ConfigError, DataError
from horst.studies.plan import check_data, same_data
from horst.training.checkpoints import check_checkpoint
from horst.training.config import RunConfig
from horst.training.fit import resume, train
from horst.training.run import Run

NAMES = ("train/x/a", "train/x/b", "train/y/c", "train/y/d", "val/x/e", "val/y/f")


def clips(root: Path) -> dict[str, Any]:
    for i, name in enumerate(NAMES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        videos.clip(root / f"{name}.mp4", frames=4 + i % 3, height=16, width=16)
    return {"source": "folder", "root": str(root), "clip": {"size": [16, 16], "fps": 6}}


def config(root: Path, **changes: Any) -> RunConfig:
    batches = {"size": 2, **changes.pop("batches", {})}
    return small_runs.config(
        root, data=clips(root) if not root.exists() else _again(root), batches=batches, trainer={"epochs": 1}, **changes
    )


def _again(root: Path) -> dict[str, Any]:
    return {"source": "folder", "root": str(root), "clip": {"size": [16, 16], "fps": 6}}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("same")
    train(config(root / "clips"), root / "run", console=small_runs.silent())
    return root


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """The run and its clips, as they were: files keep their times."""
    shutil.copytree(trained / "run", tmp_path / "run")
    shutil.copytree(trained / "clips", tmp_path / "clips")
    told = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    told["data"]["root"] = str(tmp_path / "clips")
    (tmp_path / "run" / "config.yaml").write_text(yaml.safe_dump(told))
    return tmp_path


def test_a_run_moves_with_its_data(copied: Path) -> None:
    resume(copied / "run", console=small_runs.silent())
    chosen: Any = SimpleNamespace(folder=copied / "run", config=RunConfig.from_file(copied / "run" / "config.yaml"))
    check_data([chosen])
    assert same_data(copied / "run", RunConfig.from_file(copied / "run" / "config.yaml"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: [(r / s / "x").rename(r / s / "z") for s in ("train", "val")], "the action 'x' is now 'z'"),
        (lambda r: (r / "train/x/a.mp4").rename(r / "train/y/a.mp4"), "1 example missing .train/x/a.mp4"),
        (lambda r: videos.clip(r / "train/x/a.mp4", frames=9), r"1 file were replaced \(train/x/a.mp4"),
        (lambda r: os.utime(r / "val/x/e.mp4", ns=(1, 1)), r"1 file were replaced \(val/x/e.mp4"),
        (lambda r: (r / "train/w").mkdir() or videos.clip(r / "train/w/n.mp4", frames=3), "1 action new .'w'"),
    ],
)
def test_other_data_are_refused(copied: Path, change: Any, says: str) -> None:
    change(copied / "clips")
    before = {f: f.read_bytes() for f in (copied / "run").rglob("*") if f.is_file()}
    with pytest.raises(ConfigError, match=rf"run was trained on other data: .*{says}.*delete .*data\.json"):
        resume(copied / "run", console=small_runs.silent())
    assert {f: f.read_bytes() for f in (copied / "run").rglob("*") if f.is_file()} == before
    chosen = RunConfig.from_file(copied / "run" / "config.yaml")
    assert not same_data(copied / "run", chosen)  # no study takes it over, and its own study refuses it
    job: Any = SimpleNamespace(folder=copied / "run", config=chosen)
    with pytest.raises(ConfigError, match=rf"run holds a run on other data: .*{says}"):
        check_data([job])


def test_a_run_without_a_record_goes_on_and_gets_one(copied: Path) -> None:
    """Of an earlier version, or of somebody who knows that the files are the same."""
    os.utime(copied / "clips/train/x/a.mp4", ns=(1, 1))
    (copied / "run" / "data.json").unlink()
    resume(copied / "run", console=small_runs.silent())
    assert DataIdentity.read(copied / "run") is not None


def test_one_process_at_a_time(copied: Path) -> None:
    with (
        Run(copied / "run").lock(),
        pytest.raises(
            ConfigError, match=rf"run is being trained by process {os.getpid()} on .*: wait for it or stop it"
        ),
    ):
        resume(copied / "run", console=small_runs.silent())
    resume(copied / "run", console=small_runs.silent())


def test_a_cache_stays_where_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(small_runs.plain(tmp_path / "made")))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    given = RunConfig.from_file(tmp_path / "run.yaml", ["batches.cache=kept"])
    by_hand = small_runs.config(tmp_path / "made", batches={"cache": "kept"})
    (tmp_path / "runs").mkdir()
    for one in (given, by_hand):
        (tmp_path / "runs" / "config.yaml").write_text(one.to_yaml())
        monkeypatch.chdir(tmp_path)
        assert RunConfig.from_file(tmp_path / "runs" / "config.yaml").batches.cache == str(tmp_path / "here" / "kept")
        monkeypatch.chdir(tmp_path / "here")


@pytest.mark.parametrize("preload", [None, "device"])
def test_batches_of_bad_clips_alone(tmp_path: Path, preload: str | None) -> None:
    """They are left out and counted, in training and validation; `bad_limit` says when that is too much."""
    chosen = config(tmp_path / "clips", batches={"size": 1, "bad_limit": 0.5, "preload": preload})
    for name in ("train/x/a", "val/x/e"):
        (tmp_path / "clips" / f"{name}.mp4").write_bytes(b"")
    run = train(chosen, tmp_path / "run", console=small_runs.silent())
    assert "train/x/a.mp4" in (run.folder / "bad_clips.csv").read_text()
    (row,) = small_runs.metrics(run.folder)
    assert float(row["train/loss"]) > 0
    assert float(row["val/area"]) <= 0.5  # what cannot be read is wrong
    resume(run.folder, console=small_runs.silent())
    strict = config(tmp_path / "clips", batches={"size": 1, "bad_limit": 0.1, "preload": preload})
    with pytest.raises(DataError, match=r"1 of \d training clips .* are bad, more than the limit of 0.1"):
        train(strict, tmp_path / "other", console=small_runs.silent())


def test_flipped_bits_of_a_checkpoint_are_named(trained: Path, tmp_path: Path) -> None:
    content = (trained / "run" / "checkpoint.ckpt").read_bytes()
    check_checkpoint(trained / "run" / "checkpoint.ckpt")
    path = tmp_path / "checkpoint.ckpt"
    with zipfile.ZipFile(trained / "run" / "checkpoint.ckpt") as archive:
        places = [(info.header_offset + 200, info.file_size) for info in archive.infolist() if info.file_size > 600]
    draw = random.Random(0)
    for _ in range(60):
        start, size = draw.choice(places)
        flipped = bytearray(content)
        flipped[start + draw.randrange(size - 400)] ^= 1 << draw.randrange(8)
        path.write_bytes(bytes(flipped))
        with pytest.raises(CheckpointError, match=r"checkpoint\.ckpt cannot be resumed from: it is damaged"):
            check_checkpoint(path)
    for length in (0, 100, len(content) // 2, len(content) - 3):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="damaged"):
            check_checkpoint(path)
    wanted = torch.load(trained / "run" / "checkpoint.ckpt", weights_only=True)["state_dict"]
    for place in range(7, len(content), len(content) // 40):  # anywhere: it is named, or changes nothing
        flipped = bytearray(content)
        flipped[place] ^= 4
        path.write_bytes(bytes(flipped))
        try:
            check_checkpoint(path)
        except CheckpointError:
            continue
        small_runs.assert_same(torch.load(path, weights_only=True)["state_dict"], wanted)
