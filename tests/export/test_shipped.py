"""The model in the package as users export it, and the example that runs the file without torch."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest
import torch
import videos
from small_graphs import difference

import horst
from horst.cli import main
from horst.cli.export import default_output
from horst.export import Format, What, open_graph
from horst.export.check import random_frames
from horst.models import Predictor
from horst.synth.make import make_somethings
from horst.video.decode import VideoFile
from horst.video.sampling import resample

pytestmark = pytest.mark.slow


class Exported(NamedTuple):
    model: Predictor
    step: Path
    told: str


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """`horst export somethings`, once: tracing three layers of S = 8 takes half a minute."""
    folder, told = tmp_path_factory.mktemp("export"), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(told):
        assert main(["export", "somethings"]) == 0
    (step,) = folder.iterdir()
    return Exported(horst.open_model("somethings"), step, told.getvalue())


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make_somethings(folder, 1, processes=1)
    (made,) = (folder / "videos").iterdir()
    return made


def test_the_shipped_model(exported: Exported) -> None:
    graph = open_graph(exported.step, "onnx")
    assert exported.model.core.config.order == 8
    assert exported.step.name == "somethings-step.onnx"
    assert exported.told.startswith(f"somethings-step.onnx: {exported.step.stat().st_size / 1e6:.1f} MB\n")
    assert "largest difference of logits" in exported.told
    assert graph.about["labels"] == exported.model.labels
    assert difference(graph, exported.model, 2, frames=20) <= 1e-4


def test_its_clip(exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the existing graph of the step. Other formats are tested with a small network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("horst.export.export.trace", lambda *_: None)
    monkeypatch.setattr("horst.export.export.to_onnx", lambda *_: onnx.load(exported.step))
    assert main(["export", "somethings", "--what", "clip"]) == 0
    seen = random_frames(exported.model, 1, 20, 1)
    with torch.inference_mode():
        wanted = exported.model(seen)[0].logits.action.numpy()
    found = open_graph(tmp_path / "somethings-clip.onnx", "onnx").clip(seen.numpy())["action"]
    assert np.abs(found - wanted).max() <= 1e-4


@pytest.mark.parametrize(
    ("model", "what", "format", "name"),
    [
        ("somethings", "step", "torch", "somethings-step.pt2"),
        ("somethings", "step", "aoti", "somethings-step.aoti.pt2"),
        ("runs/mine", "clip", "onnx", "mine-clip.onnx"),
        ("hf://user/name@v1", "step", "torch", "name-step.pt2"),
    ],
)
def test_files_go_by_the_name_of_their_model(model: str, what: What, format: Format, name: str) -> None:
    assert default_output(model, what, format) == Path(name)


@pytest.mark.parametrize("start", [0.0, 5.0])
def test_the_example_needs_no_torch(exported: Exported, video: Path, root: Path, tmp_path: Path, start: float) -> None:
    """Wherever the clock of a video starts."""
    model = exported.model
    if start:
        video = videos.later(video, tmp_path / "later.webm", start)
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules |= {'torch': None, 'horst': None}")
    done = subprocess.run(
        [sys.executable, str(root / "examples/onnx_step.py"), str(exported.step), str(video)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout.split()[0]) > start
    said = [line.split("s ", 1)[1].strip().rsplit(" ", 1)[0] for line in done.stdout.splitlines()]
    assert model.labels is not None
    with VideoFile(video, size=model.size) as opened:
        frames = list(opened.frames())
    chosen = resample([frame.time for frame in frames], model.fps)
    clip = torch.from_numpy(np.stack([frames[i].image for i in chosen])).permute(0, 3, 1, 2)[None]
    with torch.inference_mode():
        best = model(clip)[0].logits.action[0].argmax(-1)[3::4]
    assert len(said) == len(best) > 1
    for line, index in zip(said, best.tolist(), strict=True):
        assert line.startswith(model.labels["action"][index])
