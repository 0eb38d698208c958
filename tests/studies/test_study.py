"""`horst study` as a user runs it: from nothing to tables, again, after a kill, with a run that fails, over folds.

Runs are trained in this process where nothing is to be learnt from another one: torch takes seconds to start.
"""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import small_runs
import yaml

import horst
from horst.cli import main
from horst.errors import ConfigError
from horst.evaluation.predictions import Predictions
from horst.models.checkpoint import read_config
from horst.models.summary import summarize
from horst.studies.launcher import lock_study, run_jobs
from horst.training.config import RunConfig
from horst.training.run import Run
from horst.viz import style

BASE: dict[str, Any] = {
    "name": "try",
    "title": "A try",
    "question": "Is S = 3 better than S = 1?",
    "base": "run.yaml",
    "changes": {"trainer.epochs": 1, "trainer.validate_every": 0},
    "runs": [
        {"name": "s3", "title": "S = 3", "method": "horst"},
        {"name": "s1", "title": "S = 1", "changes": {"model.options.order": 1}},
    ],
    "seeds": [0, 1],
    "against": "s3",
    "metrics": ["action/top1@25%", "action/top5@50%", "area", "calibration@50%"],
    "curve": True,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for clips, which are made once."""
    return tmp_path_factory.mktemp("clips") / "made"


def written(folder: Path, made: Path, **changes: Any) -> str:
    (folder / "run.yaml").write_text(yaml.safe_dump(small_runs.plain(made)))
    (folder / "try.yaml").write_text(yaml.safe_dump({**BASE, **changes}))
    return str(folder / "try.yaml")


def test_from_nothing_to_tables_and_again(
    tmp_path: Path, made: Path, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    file, folder = written(tmp_path, made), tmp_path / "study"
    args = ["study", file, "--folder", str(folder)]
    assert main(args) == 0
    told = capsys.readouterr().out
    assert "A try: 4 runs, 4 to do" in told
    assert "4 of 4" in told
    assert [(words[0], words[-1]) for words in commands] == [("train", "--evaluate")] * 4
    results = json.loads((folder / "results.json").read_text())
    assert [(run["run"], run["seed"]) for run in results["runs"]] == [("s3", 0), ("s1", 0), ("s3", 1), ("s1", 1)]
    for run in results["runs"]:
        kept = json.loads((folder / run["folder"] / "evaluation/val.json").read_text())
        assert run["metrics"] == kept["metrics"]
        costs = summarize(read_config(Run(folder / run["folder"]).best))
        assert (run["parameters"], run["gflop"]) == (costs.parameters, pytest.approx(costs.flop / 1e9))
        with Run(folder / run["folder"]).metrics.open(newline="") as rows:
            assert run["seconds"] == pytest.approx(
                sum(float(row["seconds"]) for row in csv.DictReader(rows)), abs=0.051
            )
        assert run["frames_per_second"] > 0
        assert run["command"][:3] == ["horst", "train", str(tmp_path / "run.yaml")]
    three, one = results["rows"]
    values = [run["metrics"]["area"] for run in results["runs"] if run["run"] == "s1"]
    assert one["values"]["area"]["value"] == pytest.approx(sum(values) / 2)
    assert one["values"]["area"]["over"] == "t over seeds"
    gap = one["differences"]["area"]
    assert gap["value"] == pytest.approx(one["values"]["area"]["value"] - three["values"]["area"]["value"], abs=1e-6)
    assert gap["low"] <= gap["value"] <= gap["high"]
    assert three["differences"] == {}
    page = (folder / "results.md").read_text()
    assert "| S = 1 \N{MINUS SIGN} S = 3 |" in page
    assert "Student's t interval over seeds" in page
    assert "Lower is better: calibration error at 50%." in page
    assert "The paper has, on its own data" in page
    for plot in ("curve.svg", "calibration.svg", "differences.svg"):
        assert f"]({plot})" in page
        ElementTree.parse(folder / plot)

    commands.clear()  # nothing is left to do, and the same comes out
    assert main(args) == 0
    assert main([*args, "--report"]) == 0
    assert commands == []
    assert json.loads((folder / "results.json").read_text()) == results
    assert "0 to do" in capsys.readouterr().out

    (folder / "s1-seed1/evaluation/val.safetensors").unlink()  # what is missing is made again, and that alone
    assert main([*args, "--only", "s1", "--seeds", "1"]) == 0
    assert commands == [["evaluate", str(folder / "s1-seed1")]]
    assert json.loads((folder / "results.json").read_text())["rows"] == results["rows"]

    assert main([*args, "--batches.workers", "0", "--seeds", "0"]) == 0  # the same runs: both seeds are still told of
    assert len(json.loads((folder / "results.json").read_text())["runs"]) == 4
    assert main(args) == 0

    commands.clear()  # a run that another study has done is not done again, but not what was copied in part
    shutil.copytree(folder / "s1-seed1", folder / ".a-seed1.partial")
    (folder / ".a-seed1.partial/best/config.json").unlink()
    other = written(tmp_path, made, name="other", runs=[{"name": "three"}, *BASE["runs"]], seeds=[1], against="three")
    capsys.readouterr()
    assert main(["study", other, "--folder", str(tmp_path / "beside")]) == 0
    assert commands == []
    assert "three-seed1: the same run as" in capsys.readouterr().out
    rows = json.loads((tmp_path / "beside/results.json").read_text())["rows"]
    assert rows[1]["differences"]["area"]["value"] == 0
    environment = json.loads((folder / "s3-seed0/environment.json").read_text())
    (folder / "s3-seed0/environment.json").write_text(json.dumps({**environment, "commit": "another"}))
    assert main(["study", other, "--folder", str(tmp_path / "beside"), "--only", "three", "--seeds", "0"]) == 0
    assert [words[0] for words in commands] == ["train"]  # what other code has made may be something else
    written(tmp_path, made)

    assert main([*args, "--trainer.epochs", "2"]) == 2  # another study: its runs are not mixed with these
    assert "holds another run: trainer.epochs is 1 there and 2 here. Give another --folder" in capsys.readouterr().err


def test_several_at_once_share_their_runs(
    tmp_path: Path,
    made: Path,
    commands: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    first = written(tmp_path, made, seeds=[0])
    other = {
        **BASE,
        "name": "other",
        "runs": [{"name": "three"}, {"name": "two", "changes": {"model.options.order": 2}}],
    }
    (tmp_path / "other.yaml").write_text(yaml.safe_dump({**other, "seeds": [0], "against": "two"}))
    assert main(["study", first, "other.yaml", "--parallel", "2"]) == 0
    trained = [Path(words[words.index("--folder") + 1]) for words in commands]
    assert [folder.name for folder in trained] == ["s3-seed0", "s1-seed0", "two-seed0"]
    told = capsys.readouterr().out
    assert "3 of 3" in told
    assert "three-seed0: the same run as runs/studies/try/s3-seed0" in told
    for name, rows in (("try", ["s3", "s1"]), ("other", ["three", "two"])):
        results = json.loads((tmp_path / "runs/studies" / name / "results.json").read_text())
        assert [row["name"] for row in results["rows"]] == rows
        assert results["command"] == f"horst study {first if name == 'try' else 'other.yaml'}"

    commands.clear()
    assert main(["study", first, "other.yaml"]) == 0
    assert main(["study", first, "other.yaml", "--report"]) == 0
    assert commands == []
    assert capsys.readouterr().out.count("results.json") == 4

    shared = tmp_path / "runs/studies/other/three-seed0"
    shutil.rmtree(shared)
    assert main(["study", "other.yaml", "--report"]) == 0
    assert shared.is_dir()  # what another study has done is told of, too
    for folder in (shared, *trained):
        shutil.rmtree(folder)

    def stopped(states: Any, **options: Any) -> Any:
        run_jobs(states[:1], **options)
        raise KeyboardInterrupt

    monkeypatch.setattr("horst.studies.runner.run_jobs", stopped)
    assert main(["study", first, "other.yaml"]) == 130
    assert [folder.is_dir() for folder in (shared, *trained)] == [True, True, False, False]
    assert "stopped; 2 of 4 runs are done" in capsys.readouterr().out
    assert main(["study", first, "other.yaml", "--only", "s1"]) == 2
    assert "--only is for one study" in capsys.readouterr().err


def test_a_single_seed_has_an_interval_over_examples_and_a_failure_stops_nobody(
    tmp_path: Path, made: Path, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {"name": "bad", "changes": {"optimiser.lr": 1.0e30}}
    file, folder = written(tmp_path, made, runs=[bad, BASE["runs"][0]], seeds=[0]), tmp_path / "study"
    args = ["study", file, "--folder", str(folder), "--set", "trainer.epochs=2", "--optimiser.weight_decay", "0.01"]
    assert main(args) == 2
    printed = capsys.readouterr()
    assert "bad-seed0 ended with status 2" in printed.out
    assert "    horst: the loss is not a number" in printed.out
    last = printed.err.splitlines()[-1]  # the first lines are of the making of clips
    assert last.startswith("horst: 1 of 2 runs failed: study/bad-seed0; once that is fixed: horst study ")
    results = json.loads((folder / "results.json").read_text())
    assert results["missing"] == ["bad-seed0"]
    (row,) = results["rows"]
    assert row["values"]["area"]["over"] == "bootstrap over examples"
    assert row["values"]["area"]["low"] <= row["values"]["area"]["value"] <= row["values"]["area"]["high"]
    page = (folder / "results.md").read_text()
    assert "Not done yet: bad-seed0." in page
    assert "single seeds have" in page.lower()
    curve = (folder / "curve.svg").read_text()
    assert f"stroke: {style.SERIES[1]}" in curve  # the colour that it has when the other is done
    assert f"stroke: {style.SERIES[0]}" not in curve
    assert main(["study", file, "--folder", str(folder), "--report"]) == 0  # knows what was changed
    assert json.loads((folder / "results.json").read_text()) == results
    with (folder / "s3-seed0/config.yaml").open() as text:
        assert yaml.safe_load(text)["optimiser"]["weight_decay"] == 0.01


def test_stopped_by_a_kill_and_gone_on_with(
    tmp_path: Path, made: Path, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The one that is killed has processes of its own; the folder alone tells the next what is left to do."""
    file, folder = written(tmp_path, made, runs=BASE["runs"][:1], seeds=[0], against=None), tmp_path / "study"
    args = ["study", file, "--folder", str(folder), "--set", "trainer.epochs=4", "trainer.checkpoint_minutes=0"]
    args += ["--parallel", "2"]
    environment = {**os.environ, "PYTHONPATH": str(Path(horst.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    with (tmp_path / "said").open("w") as said:
        study = subprocess.Popen([sys.executable, "-m", "horst", *args], stdout=said, env=environment)
    run = folder / "s3-seed0"
    limit = time.monotonic() + 120
    while not (run / "checkpoint.ckpt").exists() and time.monotonic() < limit and study.poll() is None:
        time.sleep(0.02)
    with pytest.raises(ConfigError, match="is in use: another `horst study`"), lock_study(folder):
        pass
    study.send_signal(signal.SIGTERM)
    assert study.wait(60) == 130
    said = (tmp_path / "said").read_text()
    assert "stopped; 0 of 1 runs are done. Continue with: horst study" in said
    assert said.rstrip().endswith("--parallel 2")
    with lock_study(folder):
        pass  # no process is left
    assert not (run / "evaluation").exists()
    assert (folder / "logs/s3-seed0.log").read_text().startswith(f"$ horst train {tmp_path / 'run.yaml'} --folder")
    assert main([*args, "--batches.bad_limit", "0.02"]) == 2  # another run
    assert main([*args, "--batches.preload", "device"]) == 0
    assert RunConfig.from_file(run / "config.yaml").batches.preload
    assert "s3-seed0: continues" in capsys.readouterr().out
    assert commands == [["train", "--resume", str(run), "--evaluate"]]
    assert len(small_runs.metrics(run)) == 4
    assert len(json.loads((folder / "results.json").read_text())["rows"]) == 1


def test_folds_are_pooled(tmp_path: Path, made: Path, commands: list[list[str]]) -> None:
    """Each of 24 clips is for validation in one of 2 folds."""
    folds = [{"data.fold": {"count": 2, "index": index}} for index in range(2)]
    file = written(tmp_path, made, folds=folds, seeds=[0], runs=BASE["runs"][:1], against=None)
    folder = tmp_path / "study"
    assert main(["study", file, "--folder", str(folder)]) == 0
    results = json.loads((folder / "results.json").read_text())
    assert [run["examples"] for run in results["runs"]] == [12, 12]
    assert "24 validation examples" in results["data"]
    for row in results["rows"]:
        right = 0
        for fold in range(2):
            kept = Predictions.load(folder / f"{row['name']}-seed0-fold{fold}/evaluation/val.safetensors")
            place = kept.names().index("25%")
            right += int((kept.scores["action"][:, place].argmax(-1) == kept.labels["action"]).sum())
        assert row["values"]["action/top1@25%"]["value"] == pytest.approx(right / 24)
    assert "2 folds: each example is predicted by" in (folder / "results.md").read_text()
    assert results["rows"][0]["values"]["area"]["over"] == "bootstrap over examples"  # each clip is a recording

    for fold in range(2):  # if three clips each were of one recording
        path = folder / f"s3-seed0-fold{fold}/evaluation/val.safetensors"
        kept = Predictions.load(path)
        replace(kept, groups=tuple(f"{fold} {i // 3}" for i in range(len(kept)))).save(path)
    assert main(["study", file, "--folder", str(folder), "--report"]) == 0
    results = json.loads((folder / "results.json").read_text())
    assert "24 validation examples in 8 groups" in results["data"]
    assert results["rows"][0]["values"]["area"]["over"] == "bootstrap over groups of examples"
    assert "interval of a bootstrap over groups of examples" in (folder / "results.md").read_text()


def test_compared_to_the_last_digit(
    tmp_path: Path, made: Path, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    file, folder, earlier = written(tmp_path, made, runs=BASE["runs"][:1], against=None), tmp_path / "study", "old.json"
    args = ["study", file, "--folder", str(folder)]
    assert main(args) == 0
    (tmp_path / earlier).write_text((folder / "results.json").read_text())
    again = ["study", file, "--folder", str(tmp_path / "again"), "--compare", str(tmp_path / earlier)]
    capsys.readouterr()
    assert main(again) == 0
    cells = len(BASE["metrics"])
    assert f"2 runs and {cells} cells of the table, no different values" in " ".join(capsys.readouterr().out.split())

    stored = json.loads((tmp_path / earlier).read_text())
    area = stored["runs"][1]["metrics"]["area"]
    stored["runs"][1]["metrics"]["area"] = math.nextafter(area, 1.0)  # in the last digit
    (tmp_path / earlier).write_text(json.dumps(stored))
    assert main([*again, "--report"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"s3-seed1: area was {math.nextafter(area, 1.0)} and is {area}" in told

    machine = stored["runs"][1]["machine"]
    assert "round differently" not in told  # both were on this machine
    for run in stored["runs"]:
        run["machine"] = "another CPU, cpu"
    (tmp_path / earlier).write_text(json.dumps(stored))
    assert main([*again, "--report"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"were trained on another CPU, cpu, these on {machine}: they may round differently" in told

    overwritten = folder / "results.json"  # the file that the report writes
    overwritten.write_text(json.dumps(stored))
    assert main([*args, "--report", "--compare", str(overwritten)]) == 2
    assert "1 different value: s3-seed1: area was" in " ".join(capsys.readouterr().err.split())

    stored["runs"][1]["examples_digest"] = "0123456789abcdef"
    (tmp_path / earlier).write_text(json.dumps(stored))
    assert main([*again, "--report"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "1 different value: s3-seed1 was trained on other examples" in told

    stored["runs"] = []
    (tmp_path / earlier).write_text(json.dumps(stored))
    assert main([*again, "--report"]) == 2
    assert "has none of the finished runs" in capsys.readouterr().err
    (tmp_path / earlier).write_text(json.dumps({**stored, "study": "table9"}))
    assert main([*again, "--report"]) == 2
    assert "'table9'" in capsys.readouterr().err
    (tmp_path / earlier).write_text("{}")
    assert main([*again, "--report"]) == 2
    assert "no results of a study" in capsys.readouterr().err
    assert main([*again[:-1], str(tmp_path / "none.json")]) == 2
