"""The package's own model, exported by the command, and the example that runs it without torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_graphs import difference

import horst
from horst.cli import main
from horst.data.make import make_somethings
from horst.export import open_graph
from horst.video.decode import VideoFile
from horst.video.sampling import resample


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("export") / "somethings-step.onnx"
    assert main(["export", "somethings", "--output", str(output)]) == 0
    return output


def test_the_shipped_model(step: Path) -> None:
    model = horst.load_pretrained("somethings")
    graph = open_graph(step, "onnx")
    assert difference(graph, model, 3, frames=100) <= 1e-4
    assert graph.about["labels"] == model.labels


def test_the_example_needs_no_torch(step: Path, root: Path, tmp_path: Path) -> None:
    make_somethings(tmp_path / "made", 1, processes=1)
    (video,) = (tmp_path / "made/videos").iterdir()
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules |= {'torch': None, 'horst': None}")
    done = subprocess.run(
        [sys.executable, str(root / "examples/onnx_step.py"), str(step), str(video)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    said = [line.split("s ", 1)[1].strip().rsplit(" ", 1)[0] for line in done.stdout.splitlines()]
    model = horst.load_pretrained("somethings")
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
