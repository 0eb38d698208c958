"""A small data set with a model and a run, for tests of the command line."""

from __future__ import annotations

from pathlib import Path

import torch
import videos
import yaml

import horst
from horst.training.config import RunConfig

TINY = {"backbone": {"name": "stem", "widths": [4, 6]}, "hidden": [6], "stride": [2], "order": 2}
LABELS = {"action": ["stop", "wave"]}


def build(root: Path) -> None:
    """data.yaml with clips/, run.yaml, the saved model saved/, and run/, which holds the same model as its best."""
    for split in ("train", "val"):
        for label in LABELS["action"]:
            (root / "clips" / split / label).mkdir(parents=True)
            videos.clip(root / "clips" / split / label / f"{split}.mp4", frames=6)
    data = {"source": "folder", "root": str(root / "clips"), "clip": {"size": [24, 32], "fps": 4}}
    (root / "data.yaml").write_text(yaml.safe_dump(data))
    run = {
        "name": "run",
        "model": {"name": "horst_tiny", "options": TINY},
        "data": data,
        "batches": {"size": 2},
        "trainer": {"epochs": 1, "accelerator": "cpu", "devices": 1},
    }
    (root / "run.yaml").write_text(yaml.safe_dump(run))
    torch.manual_seed(0)
    model = horst.create_model("horst_tiny", num_classes=2, size=(24, 32), fps=4.0, labels=LABELS, **TINY)
    model.save_pretrained(root / "saved")
    model.save_pretrained(root / "run" / "best")
    (root / "run" / "config.yaml").write_text(RunConfig.from_file(root / "run.yaml").to_yaml())
