"""docs/guides/extend.md works as written: its file is imported by a run, which trains, evaluates and predicts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from videos import clip

PAGE = (Path(__file__).parents[1] / "docs" / "guides" / "extend.md").read_text()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extend")
    for file, language in (("my_parts.py", "python"), ("my_run.yaml", "yaml")):
        blocks = re.findall(rf"^```{language} {file}\n(.*?)^```", PAGE, re.M | re.DOTALL)
        (folder / file).write_text("\n\n".join(blocks))
    lines = []
    for i in range(8):
        clip(folder / f"{i}.mp4", frames=6, height=32 + 16 * (i % 2), width=64)
        lines.append(f"{i}.mp4 {('up', 'down')[i % 2]} {'train' if i < 4 else 'val'}")
    (folder / "clips.txt").write_text("\n".join(lines))
    return folder


def run(place: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=place, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_it_trains_evaluates_and_predicts(place: Path) -> None:
    run(place, "-m", "horst", "train", "my_run.yaml")
    assert (place / "runs" / "mine" / "best" / "model.safetensors").is_file()
    refused = subprocess.run(
        [sys.executable, "-m", "horst", "evaluate", "runs/mine"], cwd=place, capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert f"set HORST_IMPORTS={place / 'my_parts.py'}" in refused.stderr
    assert "top-1" in run(place, "-m", "horst", "evaluate", "runs/mine", HORST_IMPORTS="my_parts.py")
    assert "Smoothing" in run(place, "-m", "horst", "models", "--data", "tiny", HORST_IMPORTS="my_parts.py")
    assert "up" in run(place, "-m", "horst", "predict", "runs/mine", "0.mp4", HORST_IMPORTS="my_parts.py")


def test_its_own_test_passes(place: Path) -> None:
    run(place, "my_parts.py")
