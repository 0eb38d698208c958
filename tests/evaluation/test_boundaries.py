"""Curves need as many values as positions, and a part of a model is told apart by any other name."""

from __future__ import annotations

import pytest

from horst.errors import InputError
from horst.evaluation.facts import _part
from horst.evaluation.metrics import area
from horst.registry import Part


@pytest.mark.parametrize(
    ("positions", "values"), [([0.0, 1.0], [1.0]), ([0.0, 1.0], [1.0] * 3), ([0.0], [1.0]), ([], [])]
)
def test_no_curve(positions: list[float], values: list[float]) -> None:
    with pytest.raises(InputError, match=f"{len(positions)} positions and {len(values)} values"):
        area(positions, values)


@pytest.mark.parametrize(("found", "wanted"), [("stem", "maps"), ("maps", "stem")])
def test_parts_of_other_names_differ(found: str, wanted: str) -> None:
    assert list(_part("backbone", Part(name=found), Part(name=wanted))) == [f"its backbone is {found}, not {wanted}"]
    assert not list(_part("backbone", Part(name=found), Part(name=found)))
