"""docs/guides/extend.md works: a run imports its file, trains, evaluates and predicts. Its own test passes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from code_blocks import blocks_of
from videos import clip

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "extend.md"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extend")
    blocks = blocks_of(PAGE)
    for file in ("my_parts.py", "my_run.yaml"):
        (folder / file).write_text("\n\n".join(block.text for block in blocks if block.title == file))
    (untitled,) = (block for block in blocks if block.language == "python" and not block.title)
    (folder / "use.py").write_text(untitled.text)
    clip(folder / "video.mp4", frames=6, height=32, width=64)
    lines = []
    for i in range(8):
        clip(folder / f"{i}.mp4", frames=6, height=32 + 16 * (i % 2), width=64)
        lines.append(f"{i}.mp4 {('up', 'down')[i % 2]} {'train' if i < 4 else 'val'}")
    (folder / "clips.txt").write_text("\n".join(lines))
    return folder


FORKED = """
import json, os, runpy, sys
import horst.training.fit  # what takes long is imported before the forks
from horst.cli import main

for number, (words, environment) in enumerate(json.loads(sys.argv[1])):
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{number}.{name}", os.O_CREAT | os.O_WRONLY), descriptor)
    os.environ |= environment
    if words[0] == "python":
        status = 0 if runpy.run_path(words[1], run_name="__main__") else 1
    else:
        status = main(words[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
"""


@dataclass(frozen=True, slots=True)
class Done:
    status: int
    out: str
    err: str


def run(place: Path, *commands: tuple[str, dict[str, str]]) -> list[Done]:
    """Each command in a process of its own with its environment. To import torch in each takes longer than the rest."""
    given = json.dumps([(command.split(), environment) for command, environment in commands])
    done = subprocess.run([sys.executable, "-c", FORKED, given], cwd=place, capture_output=True, text=True, check=True)
    texts = [[(place / f"{number}.{name}").read_text() for name in ("out", "err")] for number in range(len(commands))]
    return [Done(int(status), *said) for status, said in zip(done.stdout.split(), texts, strict=True)]


def typed(command: str) -> tuple[str, dict[str, str]]:
    """A command of the page, and the variables before it."""
    words = command.split()
    variables = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
    return " ".join(words[len(variables) :]), variables


@pytest.mark.slow
def test_it_trains_evaluates_and_predicts(place: Path) -> None:
    train, evaluate, predict, test = (
        typed(command) for block in blocks_of(PAGE) if block.language == "sh" for command in block.commands()
    )
    trained, refused, evaluated, listed, predicted, used, tested = run(
        place,
        train,
        (evaluate[0], {}),
        evaluate,
        ("horst models --data tiny", evaluate[1]),
        predict,
        ("python use.py", {}),
        test,
    )
    for done in (trained, evaluated, listed, predicted, used, tested):
        assert done.status == 0, done.err
    assert (place / "runs" / "mine" / "best" / "model.safetensors").is_file()
    assert refused.status == 2
    assert f"set HORST_IMPORTS={place / 'my_parts.py'}" in refused.err
    assert "top-1" in evaluated.out
    assert "Smoothing" in listed.out
    assert "up" in predicted.out
