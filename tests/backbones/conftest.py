"""A timm that imports."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from horst.extras import import_torchvision


@pytest.fixture(scope="session")
def timm() -> ModuleType:
    import_torchvision()
    return importlib.import_module("timm")
