"""Every method learns from drawn videos what guessing does not know: minutes each, so not among the other tests.

make nightly
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.methods import SHORT, train
from horst.models.registry import METHODS

MARGIN = 5.0
"""Per cent by which a short run must beat guessing: twice the error of a share among some 200 validation clips."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Videos are drawn once for all methods."""
    return tmp_path_factory.mktemp("methods")


@pytest.mark.parametrize("name", SHORT)
def test_it_learns_more_than_guessing_knows(name: str, folder: Path) -> None:
    result = train(METHODS[name], folder)
    assert result.best > result.guessing + MARGIN
