"""Small runs for tests: a model that trains an epoch of made clips in a second or two."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from horst.config import from_dict
from horst.console import Console
from horst.training.config import RunConfig

TINY = {
    "variant": "released",
    "backbone": {"name": "stem", "widths": [8, 8, 16]},
    "hidden": [16, 16],
    "stride": [1, 2],
    "order": 3,
}


def plain(folder: str | Path, /, **changes: Any) -> dict[str, Any]:
    """A run as YAML holds it, on made clips in `folder`; `trainer={"epochs": 3}` changes single entries."""
    base: dict[str, Any] = {
        "name": "small",
        "model": {"name": "horst_tiny", "options": TINY},
        "data": {
            "source": "somethings",
            "folder": str(folder),
            "clips": 24,
            "size": 32,
            "clip": {"size": [32, 32], "fps": 4},
        },
        "batches": {"size": 4},
        "trainer": {"epochs": 2, "accelerator": "cpu", "devices": 1},
    }
    return merged(base, changes)


def kitchen(folder: str | Path, /, **changes: Any) -> dict[str, Any]:
    """The same for anticipation, with an unrolling head."""
    data = {
        "source": "kitchen",
        "folder": str(folder),
        "videos": 4,
        "size": [32, 48],
        "clip": {"size": [32, 48]},
    }
    model = {"name": "horst_ek55_unroll", "options": {**TINY, "stride": [2, 1]}}
    base = plain(folder, data=data, model=model, loss={"steps": "anticipation"}, batches={"size": 35})
    return merged(base, changes)


def by_itself(script: str, root: Path) -> None:
    """A test file as a program of its own, on the folder `root`."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, script, str(root)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def silent() -> Console:
    """For what nobody reads."""
    return Console(file=io.StringIO())


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with entries of its sections changed; another source of data, or a model's options, replace all before."""
    out = dict(base)
    for key, value in changes.items():
        inner = isinstance(value, Mapping) and isinstance(out.get(key), Mapping) and "source" not in value
        out[key] = {**out[key], **value} if inner else value
    return out


def config(folder: str | Path, /, **changes: Any) -> RunConfig:
    return from_dict(RunConfig, plain(folder, **changes))


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def assert_same(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    """To the bit."""
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def metrics(folder: Path) -> list[dict[str, str]]:
    """The rows of a run's metrics, but for how long they took."""
    with (folder / "metrics.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]
