"""A timm that imports.

PyPI's torchvision lacks its compiled operators beside a CPU build of torch and then fails to import. timm never calls
them, so declaring the schemas is enough.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch


@pytest.fixture(scope="session")
def timm() -> Iterator[ModuleType]:
    library = None
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    yield importlib.import_module("timm")
    del library  # the schemas live as long as this object
