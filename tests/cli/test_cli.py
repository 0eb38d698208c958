"""The command line as a user runs it: quick help, near matches, errors in one line, and the demo from a wheel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from horst.cli import main
from horst.models import create_model, save

COMMANDS = [
    (), ("demo",), ("train", "RUN"), ("evaluate", "RUN"), ("predict", "MODEL", "SOURCE"), ("serve", "MODEL"),
    ("teach", "CLIPS", "MODEL"), ("report", "RUN"), ("table", "RUNS"), ("fuse", "RUNS"), ("study", "NAMES"),
    ("models", "METHOD"), ("configs", "PATTERN"), ("info", "MODEL"), ("export", "MODEL"), ("extract", "DATA", "FOLDER"),
    ("convert", "DATA", "OUTPUT"), ("completion", "SHELL"), ("data",), ("data make",),
    ("data make somethings", "FOLDER"), ("data make kitchen", "FOLDER"), ("data check", "DATA"),
    ("data pack", "DATA", "FOLDER"),
]  # fmt: skip
"""Each command with its positional arguments."""


def test_help_is_quick_and_imports_no_torch() -> None:
    """Of all commands, in one process. Each names its positional arguments, and has no boilerplate."""
    script = (
        "import sys, json; from horst.cli import main\n"
        "for words in json.loads(sys.argv[1]): assert main([*words, '--help']) == 0; print('=====')\n"
        "print(*sys.modules)"
    )
    words = [command[0].split() if command else [] for command in COMMANDS]
    done = subprocess.run([sys.executable, "-c", script, json.dumps(words)], capture_output=True, text=True, check=True)
    *pages, modules = done.stdout.split("=====\n")
    assert not {"torch", "numpy", "av", "lightning"} & set(modules.split())
    assert {command[0].split()[0] for command in COMMANDS if command} == set(re.findall(r"^│ (\w+)", pages[0], re.M))
    for (name, *positionals), page in zip(COMMANDS[1:], pages[1:], strict=True):
        assert page.startswith(f"Usage: horst {name}")
        arguments = page.partition("Options")[0]
        for positional in positionals:
            assert re.search(rf"^│ [* ]*{positional} ", arguments, re.M), (name, positional)
        assert not re.search(r"--no-|--empty-|--version|--help", page), name
    before = os.times()
    subprocess.run([sys.executable, "-m", "horst", "--help"], capture_output=True, check=True)
    after = os.times()
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    assert spent < 0.5  # of CPU time: the machine may be busy


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["trian"], 'Did you mean "train"?'),
        (["data", "chek"], 'Did you mean "check"?'),
        (["info", "horst_tiny", "--sise", "64", "64"], "Unknown option: --sise. Did you mean --size?"),
        (["train", "run.yaml", "--foldr", "x"], "did you mean 'folder'"),
        (["train", "run.yaml", "--sead", "1"], "did you mean 'seed'"),
        (["train", "run.yaml", "--epochs", "1"], "did you mean --trainer.epochs?"),
        (["predict", "x", "y", "--reset", "evry"], 'Did you mean "every"?'),
        (["info", "horst_tinny"], "did you mean 'horst_tiny'"),
        (["predict", "kitchn", "x.mp4"], "did you mean 'kitchen'"),
        (["models", "rulsm"], "did you mean 'rulstm'"),
        (["study", "tabel1"], "did you mean 'table1'"),
        (["train", "somethings/cpuu"], "did you mean 'somethings/cpu'"),
        (["configs", "somethings/cpuu"], "did you mean 'somethings/cpu'"),
        (["extract", "data.yaml", "x", "--backbone", "stemm", "--weights", "data.yaml"], "did you mean 'stem'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_near_matches(
    args: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a wrong command, option, entry, choice, model, method, study or backbone."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.yaml").write_text("{source: folder, root: .}")
    assert main(args) == 2
    error = capsys.readouterr().err
    assert error.startswith("horst: ")
    assert says in error
    assert error.count("\n") == 1


def test_completion_in_bash(tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").touch()
    shell = """
    eval "$($0 -m horst completion bash)"
    complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _horst; echo "${COMPREPLY[*]}"; }
    complete_words horst ev
    complete_words horst evaluate --we
    complete_words horst predict --reset m
    complete_words horst predict runs/mine cl
    complete -p horst
    """
    done = subprocess.run(
        ["bash", "-c", shell, sys.executable], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n") == [
        "evaluate",
        "--weights",
        "motion",
        "clip.mp4",
        "complete -o default -F _horst horst",
        "",
    ]
    assert not done.stderr


def test_completion_in_zsh(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("#compdef horst")


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "horst_tiny", "--variant", "released", "--size", "64", "64"]) == 0
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
        (["demo", "--frames", "0"], "frames 0"),
        (["demo", "--videos", "0"], "videos 0"),
        (["info", "horst_tiny", "--size", "1", "1"], "vanishes"),
        (["info", "horst_tiny", "--size", "-3", "5"], "size is (-3, 5)"),
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
        (["nothing", "--seeds", "a"], '--seeds: unable to convert "a" into int'),
        (["table1", "--seeds", "0.5"], '--seeds: unable to convert "0.5" into int'),
        (["table1", "--seeds"], "--seeds requires at least 1 element"),
        (["table1", "--seeds", "-1"], "--seeds takes whole numbers from 0 on, such as --seeds 0 1, and not -1"),
        (["--devices", "0", "table1"], '--devices: unable to convert "table1" into int'),
        (["--only", "horst", "table1"], "put the study's name first: horst study NAME"),
        (["--set", "seed=1", "table1"], "put the study's name first: horst study NAME"),
        (["--parallel", "2"], "put the study's name first: horst study NAME"),
        (["nothing"], "nothing: there is no such file and no packaged config of that name"),
    ],
)
def test_invalid_study_options(args: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_configs_are_listed_and_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configs", "kitchen/*"]) == 0
    names = capsys.readouterr().out.split()
    assert "kitchen/gpu" in names
    assert all(name.startswith("kitchen/") for name in names)
    assert main(["configs", "kitchen/gpu", "--copy", str(tmp_path / "mine")]) == 0
    copied = capsys.readouterr().out.splitlines()
    assert str(tmp_path / "mine/kitchen/gpu.yaml") in copied
    assert all(Path(file).is_file() for file in copied)


def test_a_failed_parity_check_stops_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("horst.cli.demo_sections.against_release", lambda: {"y": 1.0})
    assert main(["demo", "--frames", "1"]) == 2
    printed = capsys.readouterr()
    assert "DIFFERS" in printed.out
    assert "frames/s" not in printed.out
    assert "parity check failed" in printed.err


@pytest.mark.slow
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
    assert "Predictions 1 s before each action" in done.stdout
    assert report.count("<div class=card>") == 3  # two clips, and moments of a video
    assert report.count("<img") == 10
    assert "`" not in report  # HTML, not Markdown
    assert report.count("temporal attention") == 2
    assert 'src="http' not in report  # it needs no network
