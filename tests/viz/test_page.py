"""Pages and their parts are well-formed and show what they are given."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from horst.evaluation.evaluate import Evaluation
from horst.viz.anticipation import Moment, moments_section
from horst.viz.evaluated import accuracy_section
from horst.viz.page import page, tabs
from horst.viz.streamed import Streamed, clip_section


@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize("label", [None, 1])
def test_a_clip_shows_what_was_said_and_attended_to(count: int, label: int | None) -> None:
    rng = np.random.default_rng(count)
    streamed = Streamed(
        id="a & b",
        label=label,
        names=("a", "do <it>", "c"),
        frames=list(rng.integers(0, 256, (count, 12, 16, 3), dtype=np.uint8)),
        times=np.arange(count) / 6,
        probabilities=rng.dirichlet(np.ones(3), size=count),
        temporal=(torch.rand(1, count, 4),) * 2,
        spatial=(torch.ones(1, count, 4, 2, 2), torch.rand(1, count, 4, 2, 2)),
    )
    html = clip_section(streamed, (0, count - 1), "wrong")
    assert html.count("<svg") == 3
    assert ("layer 2 of 2" in html) == (count > 1)  # the other one looks everywhere alike
    assert "do &lt;it&gt;" in html
    assert "do <it>" not in html
    assert "clip a &amp; b" in html


def test_tabs_name_their_parts() -> None:
    html = tabs("what", {"one < two": "<p>1</p>", "three": "<p>3</p>"})
    assert html.count("<input") == html.count("<label") == html.count("<h4>") == 2
    assert html.count(" checked") == 1
    assert "one &lt; two" in html


@pytest.mark.parametrize("prior", [{}, {"action/top1": 0.1, "action/top5": 0.25}])
def test_anticipation_is_shown_over_time(prior: dict[str, float]) -> None:
    taus = [2.0, 1.0, 0.25]
    metrics = {f"action/top{k}@{tau:g}s": 0.1 * k + 0.1 / tau for k in (1, 5) for tau in taus}
    evaluation = Evaluation(
        data="kitchen",
        split="val",
        task="anticipation",
        counts={"examples": 12, "read": 12, "missing": 0},
        protocol={"mode": "strict", "leaks": {}, "taus": taus},
        metrics=metrics,
        classes={"action": 75},
        prior=prior,
    )
    html = accuracy_section(evaluation, ", of <ours>")
    assert "12 actions of 75 kinds, of &lt;ours&gt;." in html
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
