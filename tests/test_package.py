"""Rules for the whole package: imports point one way, names are unique, state is immutable."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "horst"
MUTABLE = {"ExtractedVideo", "FrameRequest", "PeriodicReset", "NeverReset", "MotionReset"}
"""Dataclasses that count or collect while something runs."""


def test_class_names_are_unique() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for file in PACKAGE.rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(str(file.relative_to(PACKAGE)))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


@pytest.mark.parametrize("area", ["data", "evaluation", "export", "serving", "streaming", "studies", "video"])
def test_dataclasses_are_frozen(area: str) -> None:
    package = importlib.import_module(f"horst.{area}")
    mutable = set()
    for module in pkgutil.walk_packages(package.__path__, f"horst.{area}."):
        for value in vars(importlib.import_module(module.name)).values():
            own = isinstance(value, type) and value.__module__ == module.name
            if own and "__dataclass_params__" in vars(value) and not value.__dataclass_params__.frozen:
                mutable.add(value.__name__)
    assert mutable <= MUTABLE


def test_import_needs_no_torch() -> None:
    code = "import sys, horst, horst.errors; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
