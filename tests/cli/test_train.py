"""`horst train`, `evaluate` and `table` as a user runs them, one after the other."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import small_runs
import torch
import yaml
from huggingface_hub import ModelCard

from horst.cli import main
from horst.data.batches import ClipDataset, Pick
from horst.training.config import RunConfig
from horst.training.module import TrainingModule
from horst.training.progress import ProgressCallback
from horst.training.speed import resolve


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The YAML file of a run; nobody changes it."""
    root = tmp_path_factory.mktemp("cli")
    run = small_runs.plain("made", paper={"table": "early-recognition", "row": "HORST"})
    (root / "run.yaml").write_text(yaml.safe_dump(run))
    return root / "run.yaml"


@pytest.fixture(scope="module")
def trained(file: Path) -> Path:
    folder = file.parent / "trained"
    args = ["train", str(file), "--folder", str(folder), "--trainer.epochs", "1", "--seed=4", "--loss.steps", "every"]
    assert main(args) == 0
    return folder


def test_train_takes_any_entry(trained: Path) -> None:
    config = RunConfig.from_file(trained / "config.yaml")
    assert (config.trainer.epochs, config.seed, config.loss.steps) == (1, 4, "every")
    assert len(small_runs.metrics(trained)) == 1
    assert (trained / "best/model.safetensors").exists()


def test_default_folder(
    file: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It tells what it is, a line an epoch, and what to type next. It starts from another where asked."""
    monkeypatch.chdir(tmp_path)
    args = ["train", str(file), "--trainer.epochs", "1", "--name", "mine", "--init", str(trained)]
    assert main([*args, "--trainer.validate_every", "0"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("runs/mine: horst_tiny, 0.04 M trained parameters\n")
    assert "somethings: 20 training and 4 validation clips, 24 actions\n" in said
    assert "epoch 1/1: loss " in said
    assert said.endswith("Next: horst evaluate runs/mine\n")
    assert RunConfig.from_file(tmp_path / "runs/mine/config.yaml").model.init == str(trained)


def test_dry_run(
    file: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", str(file), "--dry_run", "--optimiser.lr", "1e-3"]) == 0
    (tmp_path / "again.yaml").write_text(capsys.readouterr().out)
    wanted, _ = resolve(RunConfig.from_file(file, ["optimiser.lr=0.001"]))
    assert RunConfig.from_file(tmp_path / "again.yaml") == wanted
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.yaml"]


def test_evaluate_and_table(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(trained), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["counts"]["examples"] == 4
    row = small_runs.metrics(trained)[0]  # the best epoch is the only one
    for name, value in found["metrics"].items():
        assert value == pytest.approx(float(row[f"val/{name}"]), abs=1e-5), name
    assert json.loads((trained / "evaluation/val.json").read_text())["metrics"] == found["metrics"]
    card = ModelCard.load(trained / "best" / "README.md").data
    results = {one.metric_name: one.metric_value for one in card.eval_results or []}
    assert results["top-1 after 25% of the clip"] == pytest.approx(found["metrics"]["action/top1@25%"], abs=1e-4)
    assert results["area under top-1"] == pytest.approx(found["metrics"]["area"], abs=1e-4)
    assert main(["evaluate", str(trained)]) == 0
    assert f"{trained}/evaluation/val.json, {trained}/evaluation/val.svg; next: horst report {trained}\n" in (
        capsys.readouterr().out
    )
    picture = ElementTree.parse(trained / "evaluation/val.svg")
    told = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"somethings, val", "observed part of the clip"} <= set(told)
    assert f"top-1 {100 * found['metrics']['action/top1@100%']:.1f}%" in told
    assert main(["evaluate", str(trained), "--weights", "last"]) == 0  # stands beside the results of the best
    assert capsys.readouterr().out.endswith(f"{trained}/evaluation/val-last.json, {trained}/evaluation/val-last.svg\n")
    assert json.loads((trained / "evaluation/val.json").read_text())["metrics"] == found["metrics"]
    last = json.loads((trained / "evaluation/val-last.json").read_text())["metrics"]
    assert last == found["metrics"]  # of one epoch, the best is the last
    assert main(["table", str(trained)]) == 0
    assert "| small" in capsys.readouterr().out
    assert main(["table", str(trained), "--json"]) == 0
    json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("preload", ["null", "device"])
def test_evaluation_with_and_after_training(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preload: str
) -> None:
    """Files are the same to the byte, but for how long it took. What training holds is not read again for it."""
    read: list[str] = []
    get = ClipDataset.__getitem__

    def counted(self: ClipDataset, pick: Pick) -> Any:
        item = get(self, pick)
        read.append(item.id)
        return item

    monkeypatch.setattr(ClipDataset, "__getitem__", counted)
    run = tmp_path / "run"
    args = ["--trainer.epochs", "1", "--batches.drop_last", "false", "--batches.preload", preload]
    assert main(["train", str(file), "--folder", str(run), *args, "--evaluate"]) == 0
    times = Counter(read)
    assert len(times) == 24
    assert Counter(times.values()) == ({1: 24} if preload == "device" else {1: 20, 2: 4})

    (run / "evaluation").rename(tmp_path / "with")
    assert main(["evaluate", str(run)]) == 0
    for name in ("val.safetensors", "val.svg"):
        assert (tmp_path / "with" / name).read_bytes() == (run / "evaluation" / name).read_bytes()
    one, other = (json.loads((folder / "val.json").read_text()) for folder in (tmp_path / "with", run / "evaluation"))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_resume_of_a_finished_run(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = small_runs.weights(trained / "last")
    assert main(["train", "--resume", str(trained)]) == 0
    small_runs.assert_same(small_runs.weights(trained / "last"), before)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "name a run, such as somethings/cpu or a YAML file"),
        (["nowhere.yaml"], "nowhere.yaml: there is no such file"),
        (["RUN", "--trainer.epoch", "3"], "trainer has no entry 'epoch', did you mean 'epochs'?"),
        (["RUN", "--trainer.epochs"], "--trainer.epochs requires an argument"),
        (["RUN", "--data", "{source: packed, folder: /nowhere}"], "/nowhere"),
        (["RUN", "--folder", "/proc/nowhere"], "/proc/nowhere cannot be written"),
        (["RUN", "--init", "nowhere"], "there is no model"),
        (["RUN", "--folder", "TRAINED"], "holds a run already: continue it with `horst train --resume"),
        (["--resume", "nowhere"], "nowhere is no run: it has no config.yaml"),
        (["--resume", "TRAINED", "--trainer.epochs", "9"], "continues a run as it was: leave out options"),
        (["RUN", "--resume", "TRAINED"], "continues a run as it was: leave out a config"),
        (["--resume", "TRAINED", "--init", "x", "--folder", "y"], "leave out --folder, --init"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(
    file: Path,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    places = {"RUN": str(file), "TRAINED": str(trained)}
    assert main(["train", *(places.get(word, word) for word in args)]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_diverged_run(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(file), "--folder", str(tmp_path / "run"), "--optimiser.lr", "1e30"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("horst: the loss is not a number in epoch 0, batch 1 (clips ")
    assert error.count("\n") == 1


def test_ctrl_c_then_resume(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = TrainingModule.training_step

    def interrupted(self: TrainingModule, batch: Any, index: int) -> Any:
        if index == 3:
            raise KeyboardInterrupt
        return step(self, batch, index)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(TrainingModule, "training_step", interrupted)
    args = ["--trainer.epochs", "1", "--trainer.checkpoint_minutes", "0"]
    assert main(["train", str(file), "--folder", str(tmp_path / "run"), *args]) == 130
    signal.signal(signal.SIGINT, before)  # Lightning ignores it while it shuts down
    monkeypatch.setattr(TrainingModule, "training_step", step)
    assert torch.load(tmp_path / "run/checkpoint.ckpt", weights_only=True)["global_step"] == 3
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    assert small_runs.metrics(tmp_path / "run")[0]["step"] == "5"


def test_progress_bar(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal, at every batch."""
    from rich.console import Console

    from horst.training.fit import train

    monkeypatch.setattr("horst.training.progress.SHOW_EVERY", -1.0)
    told: list[tuple[str, str]] = []
    say = ProgressCallback._status
    monkeypatch.setattr(ProgressCallback, "_status", lambda self, trainer: told.append(say(self, trainer)) or told[-1])
    with (tmp_path / "screen").open("w") as screen:
        console = Console(file=screen, force_terminal=True, width=140)
        train(RunConfig.from_file(file, ["trainer.epochs=1"]), tmp_path / "run", console=console)
    assert len(told) == 6
    assert all("frames/s" in bar and "waiting for data" in rest for bar, rest in told)
    assert "epoch 1/1" in (tmp_path / "screen").read_text()
