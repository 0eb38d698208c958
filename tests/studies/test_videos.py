"""`horst study cad120 --videos FOLDER` runs on a folder of videos as it is, however many people it has."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
import videos

from horst.cli import main
from horst.configs import list_configs
from horst.console import Console
from horst.data.clips import ClipConfig
from horst.data.config import DataConfig
from horst.data.features import open_features
from horst.data.source import open_source
from horst.errors import ConfigError
from horst.studies.config import Study, Videos
from horst.studies.runner import make_study_data

QUICK = ["--seeds", "0", "--only", "gru", "--trainer.epochs", "1"]


def folder_of(path: Path, people: int) -> Path:
    """Three short videos of each person, in the layout of CAD-120."""
    (path / "videos").mkdir(parents=True)
    labels = ["reaching", "moving", "placing"]
    with (path / "segments.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["video", "subject", "activity", "start", "end", "label"])
        for person in range(people):
            for number in range(3):
                name = f"Subject{person}_tea_{number}"
                videos.clip(path / "videos" / f"{name}.mp4", frames=45, fps=15)
                rows.writerows((name, f"Subject{person}", "tea", i, i + 1, label) for i, label in enumerate(labels))
    return path


def test_a_folder_of_four_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = folder_of(tmp_path / "people", 4)
    assert main(["study", "cad120", *QUICK]) == 2
    assert (
        "has no complete data yet: horst study cad120 --set trainer.epochs=1 --videos FOLDER makes it"
        in capsys.readouterr().err
    )
    assert main(["study", "cad120", *QUICK, "--videos", str(folder)]) == 0
    assert "4 runs, 4 to do" in capsys.readouterr().out
    results = json.loads((tmp_path / "runs/studies/cad120/results.json").read_text())
    assert [run["fold"] for run in results["runs"]] == [0, 1, 2, 3]
    (row,) = results["rows"]
    assert set(row["values"]) == set(Study.from_file("cad120").metrics)
    store = open_features("runs/cad120/maps")
    assert len(store.videos) == 12
    assert not store.bad()

    commands.clear()  # all is there already; the same folder elsewhere is the same data
    shutil.copytree(folder, tmp_path / "copy")
    assert main(["study", "cad120", *QUICK, "--videos", str(tmp_path / "copy")]) == 0
    assert commands == []
    capsys.readouterr()
    other = folder_of(tmp_path / "others", 3)
    assert main(["study", "cad120", *QUICK, "--videos", str(other)]) == 2
    assert "maps is another feature store" in capsys.readouterr().err
    assert main(["study", "cad120", *QUICK, "--videos", str(other), "--data.folder", "runs/others/maps"]) == 2
    assert "holds another run: data.fold.count is 4 there and 3 here. Give another --folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["cad120", "--videos", "nowhere"], "nowhere/segments.csv: there is no such file"),
        (["table1", "--videos", "nowhere"], "table1 does not say how its data are made from videos"),
        (["cad120", "--videos", "nowhere", "--report"], "--report needs no --videos"),
    ],
)
def test_errors(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", *words]) == 2
    assert says in capsys.readouterr().err


def test_one_person_cannot_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["study", "cad120", *QUICK, "--videos", str(folder_of(tmp_path / "people", 1))]) == 2
    assert "leave_out: group needs two groups or more" in capsys.readouterr().err


def test_packed_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_study_data("cad120_finetuned", folder_of(tmp_path / "people", 2), ["lstm"], [], Console(quiet=True))
    assert not Path("runs/cad120/maps").exists()
    packed = open_source(DataConfig(source="packed", options={"folder": "runs/cad120/packed"}))
    assert not packed.problems(ClipConfig(size=(144, 192), fps=15))
    assert len(packed.annotations.examples) == 6


def test_a_report_needs_no_data_of_runs_that_are_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_study_data("cad120_finetuned", folder_of(tmp_path / "people", 2), ["lstm"], [], Console(quiet=True))
    assert main(["study", "cad120_finetuned", "--report"]) == 0
    assert "no run is done yet" in capsys.readouterr().out


def test_videos_that_are_gone_leave_their_maps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, maps = folder_of(tmp_path / "people", 2), tmp_path / "runs/cad120/maps"
    make_study_data("cad120", folder, ["gru"], [], Console(quiet=True))
    before = {file.name: file.read_bytes() for file in maps.iterdir()}
    (folder / "videos/Subject1_tea_2.mp4").unlink()
    assert main(["study", "cad120", *QUICK, "--videos", str(folder)]) == 2
    assert "Subject1_tea_2.mp4 is missing" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in maps.iterdir()} == before
    next(maps.glob("*.maps")).unlink()  # as if it had been stopped
    assert main(["study", "cad120", *QUICK]) == 2
    assert "has no complete data yet: horst study cad120" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--compare", "nowhere.json"], "nowhere.json"),
        (["--data.folder", "s3://bucket/maps"], "leave --videos out"),
        (["--ray", "auto", "--parallel", "2"], "with --ray give --cpus"),
    ],
)
def test_mistakes_are_reported_before_anything_is_made(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = folder_of(tmp_path / "people", 2)
    assert main(["study", "cad120", *QUICK, "--videos", str(folder), *words]) == 2
    assert says in capsys.readouterr().err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{data: {}, backbone: {name: stem}, qualty: 60}", "qualty"),
        ("{data: {}, backbone: {nam: stem}}", "needs the entry 'name'"),
    ],
)
def test_errors_name_the_file_of_videos(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "videos.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"{file}.*{says}"):
        Videos.from_file(file)


def test_packaged_studies_of_videos() -> None:
    found = [Study.from_file(name) for name in list_configs("studies/*")]
    made = {study.name: Videos.from_file(study.videos) for study in found if study.videos}
    assert set(made) >= {"cad120", "cad120_detection", "cad120_fused", "cad120_finetuned"}
