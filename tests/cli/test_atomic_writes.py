"""Commands write files atomically: a file that others read is complete, or absent, even after a kill."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import small_place
import videos
import yaml

import horst
from horst.cli import main
from horst.evaluation.evaluate import Evaluation
from horst.finetune import Recordings
from horst.serving.synthetic import render_sample
from horst.training.config import RunConfig

LOGS = (".lock", ".log", "events.out.tfevents")
"""Locks, which hold nothing, and what grows line by line."""
_watched: list[Path] = []
_opened: list[Path] = []


def _hook(event: str, args: tuple[object, ...]) -> None:
    """Python cannot remove it: it looks at files while a folder is watched."""
    if event != "open" or not _watched or not isinstance(args[0], str | bytes | os.PathLike):
        return
    mode, flags = args[1], args[2]
    writes = any(c in mode for c in "wax+") if isinstance(mode, str) else bool(int(flags) & (os.O_WRONLY | os.O_RDWR))  # type: ignore[call-overload]
    path = Path(os.fsdecode(args[0])).absolute()
    if writes and any(folder in path.parents for folder in _watched):
        _opened.append(path)


sys.addaudithook(_hook)


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Every file that is opened for writing below `folder` is hidden or called partial, or lies in such a folder."""
    _watched.append(folder)
    _opened.clear()
    try:
        yield
    finally:
        _watched.clear()
    for path in _opened:
        hidden = any(part.startswith(".") or ".partial" in part for part in path.relative_to(folder).parts)
        assert hidden or any(word in path.name for word in LOGS), path
    left = [path for path in folder.rglob("*") if path.name.endswith(".partial") or ".partial." in path.name]
    assert not left


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("whole")
    small_place.build(root)
    study = {"name": "try", "title": "A try", "question": "?", "base": "run.yaml", "runs": [{"name": "one"}]}
    (root / "try.yaml").write_text(yaml.safe_dump({**study, "metrics": ["area"], "curve": True}))
    return root


def test_the_watch_sees_files(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"x\.txt"), watched(tmp_path):
        (tmp_path / "x.txt").write_text("x")
    with watched(tmp_path):
        (tmp_path / ".x.partial").write_text("x")
        (tmp_path / ".x.partial").rename(tmp_path / "x.txt")


def test_a_run_from_training_to_its_report(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    run = str(tmp_path / "study" / "one-seed0")
    with watched(tmp_path):
        train = ["train", "run.yaml", "--folder", run, "--name=try-one-seed0", "--evaluate"]
        assert main(train) == 0
        assert main(["report", run, "--clips", "1"]) == 0
        assert main(["study", "try.yaml", "--folder", str(tmp_path / "study"), "--report"]) == 0
    made = {str(path.relative_to(tmp_path / "study")) for path in (tmp_path / "study").rglob("*") if path.is_file()}
    assert made >= {
        "results.md",
        "results.json",
        "curve.svg",
        "one-seed0/metrics.csv",
        "one-seed0/evaluation/val.html",
        "one-seed0/evaluation/val.svg",
        "one-seed0/evaluation/val.safetensors",
        "one-seed0/best/model.safetensors",
    }


def test_a_kill_leaves_no_predictions_beside_the_evaluation_of_another_model(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`horst report` takes predictions for those of the model that the evaluation beside them names."""
    monkeypatch.chdir(place)
    run = tmp_path / "run"
    horst.open_model(place / "saved").save_pretrained(run / "best")
    (run / "config.yaml").write_text(RunConfig.from_file("run.yaml").to_yaml())
    assert main(["evaluate", str(run)]) == 0
    predictions = run / "evaluation/val.safetensors"
    assert predictions.is_file()
    save = Evaluation.save

    def stopped(self: Evaluation, path: Path) -> None:
        save(self, path)
        raise KeyboardInterrupt

    monkeypatch.setattr(Evaluation, "save", stopped)
    assert main(["evaluate", str(run)]) == 130
    assert not predictions.exists()


def test_data_and_maps(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    with watched(tmp_path):
        assert main(["data", "pack", "data.yaml", str(tmp_path / "packed"), "--processes", "1"]) == 0
        assert main(["extract", "data.yaml", str(tmp_path / "maps"), "--weights", "saved"]) == 0
        clip = ["predict", "saved", "clips/val/wave/val.mp4", "--json", "--render", str(tmp_path / "out.mp4")]
        assert main(clip) == 0
    assert (tmp_path / "out.mp4").is_file()


def test_recordings_and_samples(tmp_path: Path) -> None:
    with watched(tmp_path):
        frames = ((i / 10, videos.picture(i, 24, 32)) for i in range(8))
        Recordings(tmp_path / "recordings").add("wave", frames)
        assert render_sample("sample-1", tmp_path / "samples") is not None
