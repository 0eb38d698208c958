"""Charts and pages are well-formed and show what they are given."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from horst.viz.page import Streamed, clip_section, page
from horst.viz.svg import Line, chart


def test_a_chart_is_svg_that_keeps_within_its_frame() -> None:
    text = chart([Line("a < b", [(0.0, 0.0), (0.5, 1.0), (1.0, 0.25)])], width=200, height=100, x_name="x & y")
    svg, legend = text.split("</svg>")
    root = ElementTree.fromstring(svg + "</svg>")
    (line,) = root.findall("{http://www.w3.org/2000/svg}polyline")
    points = [tuple(map(float, p.split(","))) for p in line.attrib["points"].split()]
    assert all(0 <= x <= 200 and 0 <= y <= 100 for x, y in points)
    heights = [y for _, y in points]
    assert heights[1] < heights[2] < heights[0]  # the largest is on top
    assert "a &lt; b" in legend


@pytest.mark.parametrize("count", [1, 3, 8, 40])
def test_a_clip_shows_some_frames_and_whether_they_are_right(count: int) -> None:
    rng = np.random.default_rng(count)
    chances = rng.dirichlet(np.ones(3), size=count)
    frames = list(rng.integers(0, 256, (count, 12, 16, 3), dtype=np.uint8))
    html = clip_section(Streamed("do <it>", 1, frames, chances), ["a", "b", "c"])
    assert html.count("<img") == min(8, count)
    marks = re.findall(r"figcaption class=(right|wrong)", html)
    shown = np.unique(np.linspace(0, count - 1, 8).round().astype(int))
    assert marks == ["right" if chances[i].argmax() == 1 else "wrong" for i in shown]
    assert "do &lt;it&gt;" in html


def test_a_page_stands_alone() -> None:
    html = page("t & u", "intro", ["<p>part</p>"])
    assert "<title>t &amp; u</title>" in html
    assert "http" not in html
    assert "<p>part</p>" in html
