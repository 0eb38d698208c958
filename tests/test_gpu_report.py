"""The page of GPU figures says what was measured, and cost grows as it may."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import gpu_report


def test_the_page_says_what_was_measured(root: Path) -> None:
    page = (root / "docs" / "reference" / "performance.md").read_text()
    figures = json.loads((root / "docs" / "reference" / "gpu.json").read_text())
    assert gpu_report.placed(page, gpu_report.told(figures)) == page
    for name, figure in gpu_report.drawn(figures["scaling"]).items():
        assert figure.svg + "\n" == (root / "docs" / "images" / name).read_text()


def test_cost_is_at_most_linear(root: Path) -> None:
    """In frames and in states: twice as many cost at most twice, and a tenth for noise."""
    rows = json.loads((root / "docs" / "reference" / "gpu.json").read_text())["scaling"]
    by = {(row["order"], row["frames"]): row["ms"] for row in rows}
    for (s, t), ms in by.items():
        assert ms <= 1.1 * t / 6 * by[s, 6]
        assert ms <= 1.1 * s * by[1, t]
