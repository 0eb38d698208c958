"""What a person sees while a command works: in a terminal of 80 columns, in a log, and with a wrong name."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import small_runs
import torch
import yaml
from rich.progress import Progress

from horst.cli import main
from horst.console import Console, progress, working
from horst.training.progress import ProgressCallback

CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f]")


def in_terminal(code: str, folder: Path) -> str:
    """What Python code prints in a terminal of 80 columns, without colours and movements of the cursor."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environment.pop(name, None)
        os.execve(sys.executable, [sys.executable, "-c", code], environment)
    shown = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # it was closed
            break
        if not data:
            break
        shown += data
    os.waitpid(pid, 0)
    os.close(terminal)
    return re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown).decode()


def test_a_terminal_shows_what_is_done_and_a_log_only_results(tmp_path: Path) -> None:
    code = "from horst.cli import main; main(['data', 'make', 'somethings', 'made', '--clips', '2', '--size', '32'])"
    shown = in_terminal(code, tmp_path)
    assert "loading" in shown
    assert "making somethings" in shown
    assert "made/data.yaml\r\n" in shown
    assert all(len(line) <= 80 for line in re.split(r"[\r\n]+", shown))
    (tmp_path / "again").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "again", env=environment, capture_output=True, check=True
    )
    assert done.stdout == b"made/data.yaml\n"
    assert not CONTROL.search(done.stderr)
    assert b"2/2" in done.stderr  # a line at the end


def test_wrong_names_and_paths_are_reported_before_torch_is_imported(tmp_path: Path) -> None:
    """In one process: none of the commands imports it."""
    (tmp_path / "bad.yaml").write_text("name: a\nmodel: {name: horst_tiny}\ndata: {source: folder, root: nowhere}\n")
    (tmp_path / "init.yaml").write_text("base: somethings/cpu\nname: a\nmodel: {init: nowhere}\n")
    commands = {
        "train somethings/cp": "did you mean 'somethings/cpu'",
        "train bad.yaml": "nowhere: there is no such folder",
        "train somethings/cpu --init nowhere": "there is no model",
        "train somethings/cpu --model.init_backbone nowhere": "there is no model",
        "train init.yaml": "there is no model",
        "train somethings/cpu --trainr.epochs 3": "did you mean 'trainer'",
        "train --resume nowhere": "nowhere is no run",
        "evaluate nowhere": "nowhere is no run",
        "evaluate nowhere --data bad.yaml": "bad.yaml",
        "report nowhere": "nowhere is no run",
        "fuse nowhere": "nowhere is no run",
        "predict nowhere clip.mp4": "there is no model 'nowhere'",
        "predict somethings nowhere.mp4": "there is no such file",
        "serve nowhere": "there is no model 'nowhere'",
        "teach nowhere out": "nowhere: there is no such folder",
        "study tabel1": "did you mean 'table1'",
        "extract nowhere.yaml out": "there is no such file",
        "data check nowhere.yaml": "there is no such file",
        "data pack nowhere.yaml out": "there is no such file",
    }
    code = f"""
import sys
from horst.cli import main
for command in {list(commands)!r}:
    assert main(command.split()) == 2, command
    assert "torch" not in sys.modules, command
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(commands)
    for line, (command, wanted) in zip(lines, commands.items(), strict=True):
        assert wanted in line, command


@pytest.mark.parametrize("make", [small_runs.plain, small_runs.kitchen])
def test_a_dry_run_makes_no_data(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints the config that a run with the data has, and checks the model against the planned classes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(make("made")))
    assert main(["train", "run.yaml", "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert "the run will first make its" in printed.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.yaml"]
    assert main(["train", "run.yaml", "--dry-run", "--trainer.monitor", "area2"]) == 2  # of the planned data
    capsys.readouterr()
    if make is small_runs.plain:  # quick to make: nothing differs afterwards
        assert main(["data", "make", "somethings", "made", "--clips", "24", "--size", "32", "--packed"]) == 0
        capsys.readouterr()
        assert main(["train", "run.yaml", "--dry-run"]) == 0
        again = capsys.readouterr()
        assert (again.out, again.err) == (printed.out, "")


def lines(bar: Progress) -> list[str]:
    console = Console(file=io.StringIO(), width=80)
    console.print(bar.get_renderable())
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_bars_fit_into_80_columns() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    bar = progress(console=console)
    bar.add_task("a data set with a name that is longer than a line of a terminal of 80 columns, val", total=1_234_567)
    (line,) = lines(bar)
    assert len(line) <= 80
    assert "0/1234567" in line

    shown = ProgressCallback(console)
    state = {"is_global_zero": True, "current_epoch": 99, "max_epochs": 100, "world_size": 1}
    trainer: Any = SimpleNamespace(**state, num_training_batches=12_345)
    module: Any = SimpleNamespace(device=torch.device("cpu"), monitor="area", metrics={})
    shown.on_train_start(trainer, module)
    outputs = {"frames": 1234, "mean_loss": torch.tensor(1.2345), "right": 3, "count": 8}
    shown.on_train_batch_end(trainer, module, outputs, None, 12_000)
    assert shown._bar is not None
    (line,) = lines(shown._bar)
    shown.on_train_end(trainer, module)
    assert len(line) <= 80
    for part in ("epoch 100/100", "12001/12345", "loss 1.23"):
        assert part in line


def test_working_says_nothing_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with working("loading") as say:
        say("comparing")
    assert capsys.readouterr() == ("", "")
