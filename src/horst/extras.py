"""Optional packages that need a hand to import."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

_DECLARED: list[torch.library.Library] = []
"""Declarations last as long as this holds them."""


def import_torchvision() -> Any:
    """torchvision, also where it lacks its compiled operators, as PyPI's does beside a CPU build of torch.

    It then fails to import because it describes two of them. timm and Lightning call neither: declaring them is enough.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    if not _DECLARED:
        _DECLARED.append(torch.library.Library("torchvision", "DEF"))
        for operator in ("nms", "qnms"):
            _DECLARED[0].define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision")
