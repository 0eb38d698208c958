"""The video at the end of `make train-tiny`: of a clip that the training has not seen, of an action that it has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from horst.cli import main
from horst.data.readers.ssv2 import without_brackets
from horst.synth import somethings
from horst.training.config import RunConfig
from horst.video.decode import VideoFile

MAKEFILE = (Path(__file__).parents[2] / "Makefile").read_text()
COMMANDS = [shlex.split(line) for line in re.findall(r"^\t\$\(BIN\)/horst ((?:data|predict) [^>\n]*)", MAKEFILE, re.M)]


def test_the_clip_is_new_and_of_a_trained_action() -> None:
    make, _ = COMMANDS
    given = {name: int(make[make.index(f"--{name}") + 1]) for name in ("clips", "seed", "templates")}
    trained = RunConfig.from_file("somethings/cpu").data.options
    assert given["seed"] != trained.get("seed", 0)
    assert given["templates"] <= (trained.get("templates") or len(somethings.TEMPLATES))
    chosen = somethings.TEMPLATES[: given["templates"]]
    (clip,) = somethings.plan(given["clips"], given["seed"], templates=chosen)
    assert f"({without_brackets(clip.template)}): runs/train-tiny/fresh.mp4" in MAKEFILE


def test_the_commands_write_the_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, predict = COMMANDS
    monkeypatch.chdir(tmp_path)
    assert main(make) == 0
    assert main(["predict", "somethings", *predict[2:]]) == 0
    with VideoFile("runs/train-tiny/fresh/videos/1.webm") as clip, VideoFile("runs/train-tiny/fresh.mp4") as video:
        assert (clip.info.width, video.info.width) == (224, 1280)
        assert video.info.duration == pytest.approx(clip.info.duration, abs=0.2)
