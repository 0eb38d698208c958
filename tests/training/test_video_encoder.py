"""Training above a frozen video encoder; and what its package must not do to the start of training."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import small_encoders
import small_runs
import torch

from horst.errors import HorstError
from horst.models import create_model, open_model
from horst.training.fit import train
from horst.training.network import TrainingNetwork

SIDE = small_encoders.SIDE
NARROW: dict[str, Any] = {"hidden": [6], "stride": [1], "order": 2}


def test_a_run_trains_all_but_the_encoder(somethings: Path, tmp_path: Path) -> None:
    net = small_encoders.save("vjepa2", tmp_path / "encoder")
    backbone = {"name": "vjepa2", "pretrained": str(tmp_path / "encoder"), "stride": 2}
    config = small_runs.config(
        somethings, model={"options": {**NARROW, "backbone": backbone}}, data={"clip": {"size": [SIDE, SIDE]}}
    )
    run = train(config, tmp_path / "run", console=small_runs.silent())
    model = open_model(run.folder)
    for name, before in net.encoder.state_dict().items():
        assert torch.equal(model.backbone.net.state_dict()[name], before), name
    torch.manual_seed(config.seed)
    fresh = create_model(config.model.name, num_classes=model.num_classes, **config.model.options, size=(SIDE, SIDE))
    assert any(not torch.equal(a, b) for a, b in zip(model.core.parameters(), fresh.core.parameters(), strict=True))


def test_frames_that_do_not_fit_the_encoder_are_refused_before_training(somethings: Path, tmp_path: Path) -> None:
    small_encoders.save("vjepa2", tmp_path / "encoder")
    backbone = {"name": "vjepa2", "pretrained": str(tmp_path / "encoder")}
    config = small_runs.config(
        somethings, model={"options": {**NARROW, "backbone": backbone}}, data={"clip": {"size": [SIDE, SIDE + 1]}}
    )
    with pytest.raises(HorstError, match=f"{SIDE + 1}"):
        train(config, tmp_path / "run", console=small_runs.silent())
    assert not (tmp_path / "run").exists()


def test_the_windows_of_long_videos_carry_the_encoders_memory_on() -> None:
    torch.manual_seed(0)
    options = {**NARROW, "backbone": {**small_encoders.VJEPA2, "stride": 2}, "num_classes": 3, "size": (SIDE, SIDE)}
    network = TrainingNetwork(create_model("horst_tiny", **options)).eval()
    frames = torch.randint(0, 256, (2, 7, 3, SIDE, SIDE), dtype=torch.uint8)
    valid = torch.ones(2, 7, dtype=torch.bool)
    whole = network(frames, valid)[0]
    parts = torch.cat([found[0] for _, found in network.windows(frames, valid, 3)], 1)
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-5)


def test_training_starts_without_transformers() -> None:
    """torchmetrics, which Lightning imports, would import it for texts, at every `horst train`."""
    code = "import sys, horst.training.fit; print('lightning' in sys.modules, 'transformers' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "False"]
