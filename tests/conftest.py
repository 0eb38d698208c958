"""Shared by all tests: one thread (maps this small cost more to share between cores than to compute), and the data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)
torch.backends.cudnn.allow_tf32 = False  # float32 is compared with float32, on a GPU too
if not torch.cuda.is_available():
    # Without a GPU kernels run in Triton's interpreter. It is chosen when Triton is first imported, by whomever.
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session")
def data() -> Path:
    return Path(__file__).parent / "goldens"


@pytest.fixture(scope="session")
def root() -> Path:
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def samples(root: Path) -> Path:
    """Real samples of EPIC-Kitchens, SSv2, CAD-120 and gestures: HORST_SAMPLES, or the project's ../shared/data."""
    folder = Path(os.environ.get("HORST_SAMPLES") or root.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"there are no real samples in {folder}: name their folder in HORST_SAMPLES")
    return folder
