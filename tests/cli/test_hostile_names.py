"""Names with brackets, markup and terminal escapes: every command works with them and prints them escaped."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
import videos
import yaml

import horst
from horst.cli import main
from horst.console import visible
from horst.export import ExportReport

RUDE = "[red]{0}[link=x]:smile:\x1b[31m\x07<b>\u202e"
"""A file name: all but "/", of which no name can be."""
LABELS = ("[/x] " + RUDE, "[bold]stop[/bold]\x9b2J")
"""Classes: a closing tag that was not opened ends rich's parser in an error."""
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
TINY = {"backbone": {"name": "stem", "widths": [4, 6]}, "hidden": [6], "stride": [2], "order": 2}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no table breaks a name in two."""
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a rude name, of clips in folders with rude names, one of them damaged."""
    root = tmp_path_factory.mktemp("names") / RUDE
    for split, name in (("train", "a"), ("val", "b")):
        for label in (RUDE, "stop"):
            (root / split / label).mkdir(parents=True)
            videos.clip(root / split / label / f"{name}{RUDE}.mp4", frames=6)
    (root / "val" / "stop" / f"{RUDE}.mp4").write_text("no video")
    return root


@pytest.fixture(scope="module")
def run(root: Path) -> Path:
    """A run on those clips."""
    data = {"source": "folder", "root": str(root), "clip": {"size": [24, 32], "fps": 4}}
    (root.parent / "data.yaml").write_text(yaml.safe_dump(data))
    about = {
        "name": "[/x] " + visible(RUDE),
        "model": {"name": "horst_tiny", "options": TINY},
        "data": data,
        "batches": {"size": 2},
        "trainer": {"epochs": 1, "accelerator": "cpu", "devices": 1},
    }
    (root.parent / "run.yaml").write_text(yaml.safe_dump(about))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "1000")
        assert main(["train", str(root.parent / "run.yaml"), "--folder", str(root / "[run[/x]")]) == 0
    return root / "[run[/x]"


@pytest.fixture(scope="module")
def model(root: Path) -> Path:
    """A saved model whose classes have rude names, in a folder with one."""
    torch.manual_seed(0)
    made = horst.create_model(
        "horst_tiny", num_classes=2, size=(24, 32), fps=4.0, labels={"action": list(LABELS)}, **TINY
    )
    return made.save_pretrained(root.parent / f"model{RUDE}")


def told(capsys: pytest.CaptureFixture[str], args: list[str | Path], *names: str | Path, status: int = 0) -> str:
    """What a command prints: it ends as it should, each name is there, and nothing controls the terminal."""
    capsys.readouterr()
    assert main([str(arg) for arg in args]) == status
    printed = capsys.readouterr()
    both = printed.out + printed.err
    assert not CONTROL.search(both), both
    assert "Traceback" not in both
    for name in names:  # a table breaks long ones
        assert re.sub(r"\s", "", visible(str(name))) in re.sub(r"\s", "", both), both
    return both


def test_train(root: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, ["train", root.parent / "run.yaml", "--folder", root / "[other[/x]"], root / "[other[/x]")
    told(capsys, ["train", root.parent / "run.yaml", "--dry_run"])
    told(capsys, ["train", "--resume", root / RUDE], root / RUDE, status=2)


def test_evaluate_report_and_table(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, ["evaluate", run], run / "evaluation/val.json")
    told(capsys, ["evaluate", run, "--json"])
    told(capsys, ["report", run], run / "evaluation/val.html")
    page = (run / "evaluation/val.html").read_text()
    assert not CONTROL.search(page)
    told(capsys, ["table", run], "[/x] " + visible(RUDE))
    told(capsys, ["table", run, "--json"])
    told(capsys, ["evaluate", run, "--split", RUDE], RUDE, status=2)


def test_data(root: Path, run: Path, tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = root.parent / "data.yaml"
    bad = root / "val" / "stop" / f"{RUDE}.mp4"
    told(capsys, ["data", "check", data, "--processes", "1"], RUDE, bad, status=2)
    told(capsys, ["data", "pack", data, tmp_path / RUDE, "--processes", "1"], tmp_path / RUDE, f"stop/{RUDE}")
    told(capsys, ["extract", data, tmp_path / "[x", "--weights", model], tmp_path / "[x", f"{RUDE}")
    made = ["data", "make", "somethings", tmp_path / f"2{RUDE}", "--clips", "1", "--size", "32", "--packed"]
    told(capsys, [*made, "--processes", "1"], tmp_path / f"2{RUDE}")


def test_models(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, ["info", model], model)
    told(capsys, ["info", model, "--json"])
    clip = videos.clip(tmp_path / f"{RUDE}.mp4", frames=12)
    said = told(capsys, ["predict", model, clip])
    assert any(visible(label) in said for label in LABELS)
    told(capsys, ["predict", model, clip, "--json"])
    told(capsys, ["predict", model, clip, "--render", tmp_path / f"2{RUDE}.mp4"], tmp_path / f"2{RUDE}.mp4")
    told(capsys, ["predict", model, tmp_path / "[/x]"], tmp_path / "[/x]", status=2)
    told(capsys, ["export", tmp_path / "[/x]"], tmp_path / "[/x]", status=2)


def test_the_bars_of_a_terminal(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from horst.cli.predict import _Screen

    clip = videos.clip(tmp_path / f"{RUDE}.mp4", frames=12)
    screen = _Screen(str(clip), 2, ExitStack())
    predictor = horst.open_model(model)
    prediction = next(iter(predictor.stream().feed(videos.picture(0, 24, 32), 0.0)))
    with screen.console.capture() as shown:
        screen.console.print(screen._view(prediction))
    assert visible(str(clip)) in shown.get()
    assert all(visible(label) in shown.get() for label in predictor.labels["action"])  # type: ignore[index]


def test_export(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed of a file; to make one takes seconds."""
    file = tmp_path / f"[/x] {RUDE}.pt2"
    report = ExportReport(file, 1000, 24, 1e-7, 1.0, 2.0, 1)
    monkeypatch.setattr("horst.export.export_model", lambda *_, **options: report)
    told(capsys, ["export", model, "--format", "torch", "--output", file], file)


def test_serve(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Over:
        def run(self, sockets: object) -> None: ...

    monkeypatch.setattr("horst.serving.server.create_server", lambda *_, **options: Over())
    threads = torch.get_num_threads()
    try:
        told(capsys, ["serve", model, "--port", "0", "--folder", tmp_path], model.name)
    finally:
        torch.set_num_threads(threads)


def test_study(root: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    title = "[/x] " + visible(RUDE) + "\x1b[31m"
    study = {
        "name": "try",
        "title": title,
        "question": title,
        "base": str(root.parent / "run.yaml"),
        "runs": [{"name": "one", "title": title}],
        "metrics": ["area"],
    }
    (tmp_path / "configs/studies").mkdir(parents=True)
    (tmp_path / "configs/studies/odd.yaml").write_text(yaml.safe_dump(study))
    file, folder = tmp_path / f"{RUDE}.yaml", tmp_path / RUDE
    file.write_text(yaml.safe_dump(study))
    told(capsys, ["study", file, "--folder", folder, "--report"], folder)
    shutil.copytree(run, folder / "one-seed0")
    config = yaml.safe_load((run / "config.yaml").read_text())
    (folder / "one-seed0/config.yaml").write_text(yaml.safe_dump({**config, "name": "try-one-seed0"}))
    assert main(["evaluate", str(folder / "one-seed0")]) == 0
    told(capsys, ["study", file, "--folder", folder, "--report"], title, folder / "results.md")
    lines = (folder / "results.md").read_text().splitlines()
    assert not any(CONTROL.search(line) for line in lines)
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        told(capsys, ["study"], title)
    finally:
        os.chdir(here)


def test_teach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, ["teach", tmp_path / RUDE, tmp_path / "model"], status=2)


def test_names_that_are_not_utf8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a file, a folder and a class, as old cameras and disks have them."""
    root, name = tmp_path / "caf\udce9", "clip\udcff.mp4"
    try:
        root.mkdir()
    except OSError:
        pytest.skip("this file system has no such names")
    for split in ("train", "val"):
        for label in ("go", "stop\udcfe"):
            (root / split / label).mkdir(parents=True)
            videos.clip(tmp_path / "clip.mp4", frames=6).rename(root / split / label / name)
    (root / "train" / "go" / f"bad{name}").write_text("no video")
    (tmp_path / "run.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "odd",
                "model": {"name": "horst_tiny", "options": TINY},
                "data": {"source": "folder", "root": str(root), "clip": {"size": [24, 32], "fps": 4}},
                "batches": {"size": 2, "bad_limit": 1},
                "trainer": {"epochs": 1, "accelerator": "cpu", "devices": 1},
            }
        )
    )
    assert main(["train", str(tmp_path / "run.yaml"), "--folder", str(root / "run")]) == 2
    assert "is not UTF-8: give another --folder" in capsys.readouterr().err
    run = tmp_path / "run"
    assert main(["train", str(tmp_path / "run.yaml"), "--folder", str(run)]) == 0
    assert main(["train", "--resume", str(run)]) == 0  # its record of the data is the same
    assert main(["evaluate", str(run)]) == 0
    assert main(["info", str(run)]) == 0
    assert "clip\\udcff.mp4" in (run / "bad_clips.csv").read_text(encoding="utf-8")
    capsys.readouterr()
