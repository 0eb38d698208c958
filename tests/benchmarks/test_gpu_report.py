"""The tables and charts of GPU timings, from figures as `benchmarks.gpu` writes them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import gpu_report


def test_the_page_is_filled_from_the_json_file(root: Path) -> None:
    page = (root / "docs" / "reference" / "performance.md").read_text()
    figures = json.loads((root / "docs" / "reference" / "gpu.json").read_text())
    assert gpu_report.replace_section(page, gpu_report.markdown(figures)) == page


def test_charts_have_a_line_for_each_order_and_each_length() -> None:
    rows = [{"order": s, "frames": t, "ms": s + 0.1 * t} for s in (1, 8) for t in (6, 12, 24)]
    figures = gpu_report.charts(rows)
    lines = [line for figure in figures.values() for line in figure.axes[0].get_lines()]
    assert [str(line.get_label()) for line in lines] == ["S = 8", "S = 1", "T = 24", "T = 12", "T = 6"]
    assert np.asarray(lines[0].get_xydata()) == pytest.approx(np.array([(6, 8.6), (12, 9.2), (24, 10.4)]))
    assert np.asarray(lines[-1].get_xydata()) == pytest.approx(np.array([(1, 1.6), (8, 8.6)]))
