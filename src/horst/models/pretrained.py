"""The small models that come with the package, trained on synthetic data: see docs/reference/models.md."""

from __future__ import annotations

from importlib.resources import as_file, files

import torch

from horst.errors import ConfigError, did_you_mean
from horst.models.checkpoint import load
from horst.models.predictor import Predictor


def pretrained() -> list[str]:
    """Their names."""
    folder = files("horst") / "assets" / "models"
    return sorted(entry.name for entry in folder.iterdir() if (entry / "config.json").is_file())


def load_pretrained(name: str, *, device: torch.device | str = "cpu") -> Predictor:
    """A model of the package by the name of its data: `load_pretrained("somethings")`."""
    if name not in pretrained():
        close = did_you_mean(name, pretrained(), "There are")
        raise ConfigError(f"there is no pretrained model {name!r}{close}")
    with as_file(files("horst") / "assets" / "models" / name) as folder:
        return load(folder, device=device)
