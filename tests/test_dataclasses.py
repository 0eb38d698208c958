"""State and settings are frozen: what was handed to somebody does not change under them."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

CHANGING = {
    "data.features.Told",
    "evaluation.evaluate.Clips",
    "serving.engine.Ticket",
    "streaming.restarts.Every",
    "streaming.restarts.Never",
    "streaming.restarts.OnMotion",
    "studies.children._Active",
    "studies.children._Process",
}
"""Those that count or collect while something runs."""


@pytest.mark.parametrize("area", ["data", "evaluation", "export", "serving", "streaming", "studies", "video"])
def test_dataclasses_are_frozen(area: str) -> None:
    package = importlib.import_module(f"horst.{area}")
    changing = set()
    for module in pkgutil.iter_modules(package.__path__, f"horst.{area}."):
        for value in vars(importlib.import_module(module.name)).values():
            own = isinstance(value, type) and value.__module__ == module.name
            if own and "__dataclass_params__" in vars(value) and not value.__dataclass_params__.frozen:
                changing.add(f"{module.name.removeprefix('horst.')}.{value.__name__}")
    assert changing == {name for name in CHANGING if name.startswith(f"{area}.")}
