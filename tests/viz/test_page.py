"""Report pages are one self-contained HTML file, and their sections show what they are given."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from horst.evaluation.evaluate import Evaluation
from horst.viz import style
from horst.viz.clips import Moment, StreamedClip, clip_section, moments_section
from horst.viz.report import accuracy_section, page, tabs


@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize("label", [None, 1])
def test_a_clip_shows_predictions_and_attention(count: int, label: int | None) -> None:
    rng = np.random.default_rng(count)
    streamed = StreamedClip(
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
    assert ("layer 2 of 2" in html) == (count > 1)  # the maps of the other one are uniform
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
    assert "12 actions of 75 classes, of &lt;ours&gt;." in html
    assert "<td>60.0</td>" in html  # top-5 at 1 s
    assert ("<th>prior</th>" in html) == ("<td>25.0</td></tr>" in html) == bool(prior)


def test_moments_show_the_action_and_whether_it_was_predicted() -> None:
    rng = np.random.default_rng(0)
    chances = np.arange(8, 0, -1) / 36  # class 0 is the most likely
    moments = [Moment(3.5 + i, i, rng.integers(0, 256, (12, 16, 3), dtype=np.uint8), chances) for i in (0, 4, 5)]
    assert [moment.rank for moment in moments] == [1, 5, 6]
    assert moments[0].top() == [0, 1, 2, 3, 4]
    html = moments_section(moments, list("ab<defgh"), 1.0)
    assert re.findall(r"<b class=(\w+)>([\d.]+) s: (\w)", html) == [
        ("right", "3.5", "a"), ("right", "7.5", "e"), ("wrong", "8.5", "f"),
    ]  # fmt: skip
    assert html.count("<span class=right>") == 2
    assert html.count("<img") == 3
    assert "b&lt;" not in html
    assert "&lt; 17%" in html


def test_a_page_is_one_file_in_light_and_dark_mode() -> None:
    evaluation = Evaluation(
        data="kitchen & co",
        split="val",
        task="recognition",
        counts={"examples": 12, "read": 12, "missing": 0},
        protocol={"mode": "strict", "leaks": {}, "fractions": [0.5, 1.0]},
        metrics={f"action/top{k}@{part}%": 0.001 * part * k**0.5 for part in (50, 100) for k in (1, 5)},
        classes={"action": 75},
    )
    html = page("t & u", "intro", ["<p>part</p>", accuracy_section(evaluation), accuracy_section(evaluation, " <x>")])
    assert "<title>t &amp; u</title>" in html
    assert "<p>part</p>" in html
    assert "http" not in html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.findall(r'(?:href|src)="(?!data:|#)', html)
    dark = html[html.index("@media screen and (prefers-color-scheme:dark)") :]
    used = set(re.findall(r"var\(--(\w+)\)", html)) - {"accent"}
    assert {"bg", "fg", "soft", "c0"} <= used <= set(style.COLOURS)
    assert all(f"--{name}:#" in dark for name in used)
    assert "*{stroke-linejoin" not in html  # matplotlib's own style would be the whole page's
