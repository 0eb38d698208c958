"""The forms of HORST that every property is tested on: both variants, each option and each ablation of the paper."""

from __future__ import annotations

from typing import Any

import torch

from horst.layers import HORST

CASES: dict[str, dict[str, Any]] = {
    "paper": {},
    "released": {"variant": "released"},
    "keys and values from query and h": {"key_value": "query+h"},
    "keys from e, values from h": {"key_value": "split"},
    "temporal only": {"attention": "temporal"},
    "spatial only": {"attention": "spatial"},
    "spatial only, 1/S": {"attention": "spatial", "spatial_weight": "order"},
    "joint": {"attention": "joint"},
    "queue of raw STATT": {"queue": "statt"},
    "shortcut of e": {"output": "residual+e"},
    "output of the release": {"output": "concat+se"},
    "silu": {"activation": "silu"},
    "scale sqrt(C)": {"temporal_scale": "c"},
    "pooled pair of the release": {"pooled_pair": "avg,max"},
    "two heads": {"heads": 2},
    "two heads, joint": {"heads": 2, "attention": "joint"},
    "position encoding": {"position": "sinusoidal"},
    "released, split, two heads, position": {
        "variant": "released",
        "key_value": "split",
        "heads": 2,
        "position": "sinusoidal",
    },
}


def small_core(case: str, *, order: int = 3, seed: int = 0, **options: Any) -> HORST:
    """Two layers in float64 with random weights everywhere (norms too), where equal means equal to 1e-10."""
    generator = torch.Generator().manual_seed(seed)
    shape = {"in_channels": 3, "hidden": (4, 6), "stride": (1, 2), "order": order}
    core = HORST(**{**shape, **CASES[case], **options}).double()
    with torch.no_grad():
        for parameter in core.parameters():
            spread = 0.6 if parameter.ndim == 1 else (2 / parameter[0].numel()) ** 0.5
            parameter.copy_(spread * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
            if parameter.ndim == 1:
                parameter.add_(1.0)
    return core


def random_clip(
    batch: int, frames: int, height: int = 7, width: int = 5, *, channels: int = 3, seed: int = 1
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, frames, channels, height, width, generator=generator, dtype=torch.float64)
