"""Charts and pages are well-formed and show what they are given."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from horst.evaluation.evaluate import Evaluation
from horst.viz.anticipation import Moment, anticipation_section, moments_section
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


def test_ticks_of_a_chart_can_be_named() -> None:
    text = chart([Line("a", [(0, 0), (1, 1)])], x_ticks=[(0.0, "2 s"), (0.5, "<1 s")])
    assert ">2 s</text>" in text
    assert "&lt;1 s" in text
    assert text.count("100%") == 1  # on the left alone


@pytest.mark.parametrize("prior", [{}, {"action/top1": 0.1, "action/top5": 0.25}])
def test_anticipation_is_shown_over_time(prior: dict[str, float]) -> None:
    taus = [2.0, 1.0, 0.25]
    metrics = {f"action/top{k}@{tau:g}s": 0.1 * k + 0.1 / tau for k in (1, 5) for tau in taus}
    evaluation = Evaluation(
        data="kitchen",
        split="val",
        task="anticipation",
        counts={"examples": 12, "read": 12, "missing": 0},
        protocol={"mode": "strict", "taus": taus},
        metrics=metrics,
        classes={"action": 75},
        prior=prior,
    )
    html = anticipation_section(evaluation)
    assert "12 actions of 75 kinds" in html
    assert "<td>60.0</td>" in html  # top-5 at 1 s
    assert ("<th>prior</th>" in html) == ("<td>25.0</td></tr>" in html) == bool(prior)


def test_moments_tell_what_came_and_whether_it_was_foreseen() -> None:
    rng = np.random.default_rng(0)
    chances = np.arange(8, 0, -1) / 36  # class 0 is the likeliest
    moments = [Moment(3.5 + i, i, rng.integers(0, 256, (12, 16, 3), dtype=np.uint8), chances) for i in (0, 4, 5)]
    assert [moment.place for moment in moments] == [1, 5, 6]
    assert moments[0].answers() == [0, 1, 2, 3, 4]
    html = moments_section(moments, list("ab<defgh"), 1.0)
    assert re.findall(r"<b class=(\w+)>([\d.]+) s: (\w)", html) == [
        ("right", "3.5", "a"), ("right", "7.5", "e"), ("wrong", "8.5", "f"),
    ]  # fmt: skip
    assert html.count("<span class=right>") == 2
    assert html.count("<img") == 3
    assert "b&lt;" not in html
    assert "&lt; 17%" in html


def test_a_page_stands_alone() -> None:
    html = page("t & u", "intro", ["<p>part</p>"])
    assert "<title>t &amp; u</title>" in html
    assert "http" not in html
    assert "<p>part</p>" in html
