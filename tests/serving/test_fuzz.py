"""Invalid messages and requests: documented answers only, and an empty log. `python -m benchmarks.fuzz` sends more."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers import tiny

from benchmarks.fuzz import fuzz
from horst.models import save


@pytest.mark.slow
def test_random_messages_and_requests(tmp_path: Path) -> None:
    assert fuzz(str(save(tiny(), tmp_path / "tiny")), messages=2000, requests=400, seed=1) == []
