"""The command line as a user runs it: help at once, typed errors in one line, and the demo from an installed wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from horst.cli import main
from horst.models import create_model, save


def test_help_needs_no_torch_and_no_patience() -> None:
    script = "import sys; from horst.cli import main\ntry: main(['--help'])\nfinally: assert 'torch' not in sys.modules"
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert time.perf_counter() - start < 1.0
    assert "demo" in done.stdout
    assert "info" in done.stdout


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "horst_tiny", "--variant", "released", "--size", "[64,64]"]) == 0
    out = capsys.readouterr().out
    assert "released variant, one frame of 64x64" in out
    assert "(6S+1)CHW+18(S+1)HW" in out


def test_info_of_a_saved_model_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = create_model("horst_tiny", num_classes=3)
    save(model, tmp_path / "model")
    assert main(["info", str(tmp_path / "model"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"] == sum(p.numel() for p in model.parameters())
    assert [row["name"] for row in found["rows"]] == ["stem", "layer 0", "layer 1", "layer 2", "recognition"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["info", "horst_tinny"], "did you mean 'horst_tiny'"),
        (["demo", "--frames", "0"], "frames 0"),
        (["demo", "--videos", "0"], "videos 0"),
        (["info", "horst_tiny", "--size", "[1,1]"], "vanishes"),
        (["info", "horst_tiny", "--size", "[-3,5]"], "size is (-3, 5)"),
    ],
)
def test_errors_are_one_line(args: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nothing", "--seeds", "a"], "--seeds takes whole numbers from 0 on, such as --seeds 0 1, and not 'a'"),
        (["nothing", "--seeds=0,x"], "--seeds takes whole numbers from 0 on, such as --seeds 0 1, and not 'x'"),
        (["table1", "--seeds"], "--seeds needs a value"),
        (["table1", "--seeds", "-1"], "--seeds takes whole numbers from 0 on, such as --seeds 0 1, and not '-1'"),
        (["--seeds", "a"], "and not 'a'; if that is the study's name, put it first: horst study a --seeds"),
        (["--seeds", "0", "1", "try.yaml"], "not 'try.yaml'; if that is the study's name, put it first: horst study"),
        (
            ["--devices", "0", "table1"],
            "--devices takes whole numbers from 0 on, such as --devices 0 1, and not 'table1'",
        ),
        (["--only", "horst", "table1"], "put the study's name first: horst study NAME --only"),
        (["--set", "seed=1", "table1"], "put the study's name first: horst study NAME --set"),
        (["--parallel", "2"], "put the study's name first: horst study NAME --parallel"),
        (["nothing"], "there is no study 'nothing'. There are: anticipation, claims, "),
    ],
)
def test_lists_and_names_of_studies(args: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", *args]) == 2
    error = capsys.readouterr().err
    assert error.startswith("horst: ")
    assert says in error
    assert error.count("\n") == 1


def test_studies_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "configs/studies").mkdir(parents=True)
    (tmp_path / "configs/studies/odd.yaml").write_text("nme: odd\n")
    monkeypatch.chdir(tmp_path)
    assert main(["study"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["table1", "15", "Does", "HORST"] in [row[:4] for row in rows]  # 5 methods, 3 seeds
    assert ["gestures", "75"] in [row[:2] for row in rows]  # and 5 folds
    assert [row[0] for row in rows if "odd" in row] == ["odd"]  # a bad file hides no other


def test_a_failed_parity_check_stops_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("horst.cli.demo.against_release", lambda: {"y": 1.0})
    assert main(["demo", "--frames", "1"]) == 2
    printed = capsys.readouterr()
    assert "DIFFERS" in printed.out
    assert "frames/s" not in printed.out
    assert "parity check failed" in printed.err


def test_unknown_options_are_refused() -> None:
    with pytest.raises(SystemExit):
        main(["info", "horst_tiny", "--sise", "[64,64]"])


def test_the_wheel_runs_the_demo_outside_the_checkout(root: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(root)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    target = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    options = ["demo", "--frames", "5", "--clips", "5", "--streams", "2", "--videos", "1"]
    script = f"import horst, sys, horst.cli as cli; print(horst.__file__); sys.exit(cli.main({options}))"
    # Training is not needed to see it work.
    script = f"import sys; sys.modules |= dict.fromkeys(['lightning', 'pytorch_optimizer']); {script}"
    environment = {**os.environ, "PYTHONPATH": str(target), "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-c", f"if __name__ == '__main__': {script}"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(target))
    assert done.stdout.count("equal") == 8
    assert "DIFFERS" not in done.stdout
    assert "frames/s" in done.stdout
    assert "5 examples, 5 read" in done.stdout
    report = (tmp_path / "horst-demo" / "report.html").read_text()
    assert "seconds before" in done.stdout
    assert "prior" in done.stdout
    assert "protocol strict: no leak" in done.stdout
    assert "What was said 1 s before each action" in done.stdout
    assert report.count("<div class=card>") == 3  # two clips, and moments of a video
    assert report.count("<img") == 8
    assert "`" not in report  # HTML, not Markdown
    assert report.count("temporal attention") == 2
    assert 'src="http' not in report  # it needs no network
