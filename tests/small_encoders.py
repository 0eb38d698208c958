"""Video encoders of transformers' real classes, small enough for a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from horst.extras import import_torchvision

SIDE, WINDOW = 32, 4
CONFIGS: dict[str, dict[str, Any]] = {
    "vjepa2": {
        **{"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "crop_size": SIDE, "patch_size": 16},
        **{"frames_per_clip": WINDOW, "pred_hidden_size": 24, "pred_num_attention_heads": 2},
        **{"pred_num_hidden_layers": 1},
    },
    "videomae": {
        **{"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48},
        **{"image_size": SIDE, "patch_size": 16, "num_frames": WINDOW},
    },
}
VJEPA2: dict[str, Any] = {"name": "vjepa2", "config": CONFIGS["vjepa2"]}


def options(name: str) -> dict[str, Any]:
    """The options of a small backbone with random weights."""
    return {"config": CONFIGS[name]}


def network(name: str) -> Any:
    """A model of transformers with random weights."""
    import_torchvision()  # which transformers imports
    import transformers

    config, model = {"vjepa2": ("VJEPA2Config", "VJEPA2Model"), "videomae": ("VideoMAEConfig", "VideoMAEModel")}[name]
    return getattr(transformers, model)(getattr(transformers, config)(**CONFIGS[name])).eval()


def save(name: str, folder: Path) -> Any:
    """A model of transformers with random weights, saved to a folder by transformers."""
    model = network(name)
    model.save_pretrained(folder)
    return model
