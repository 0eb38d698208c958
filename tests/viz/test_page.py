"""Report pages are one self-contained HTML file, and their sections show what they are given."""

from __future__ import annotations

import base64
import io
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from horst.evaluation.evaluate import Evaluation
from horst.viz import style
from horst.viz.clips import Moment, StreamedClip, clip_section, moments_section, player
from horst.viz.report import accuracy_section, few_clips, page, tabs
from horst.viz.terms import TERMS, WORDS, explain


def moving_clip(count: int, side: int = 16) -> StreamedClip:
    """Frame i is one shade of grey, i / count of white."""
    frames = [np.full((side, side, 3), 255 * i // count, np.uint8) for i in range(count)]
    return StreamedClip(
        id="1", label=0, names=("a", "b"), frames=frames, times=np.arange(count) / 6,
        probabilities=np.full((count, 2), 0.5), temporal=(), spatial=(),
    )  # fmt: skip


def recognition(**changes: Any) -> Evaluation:
    given: dict[str, Any] = {
        "data": "kitchen & co", "split": "val", "task": "recognition",
        "counts": {"examples": 12, "read": 12, "missing": 0},
        "protocol": {"mode": "strict", "leaks": {}, "fractions": [0.5, 1.0]},
        "metrics": {f"action/top{k}@{part}%": 0.001 * part * k**0.5 for part in (50, 100) for k in (1, 5)},
        "classes": {"action": 75},
    }  # fmt: skip
    return Evaluation(**given | changes)


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
    evaluation = recognition()
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


@pytest.mark.parametrize(
    ("counts", "shares", "text"),
    [
        ({"examples": 24}, (0.5, 1.0), "Only 24 clips were evaluated. Differences of less than 19 points are noise."),
        ({"examples": 49}, (1.0, 1.0), "Only 49 clips were evaluated. Differences of less than 6 points are noise."),
        ({"examples": 60, "left_out": 10, "unlabelled": 1}, (0.5, 0.5), "Only 49 clips were"),
        ({"examples": 1}, (0.0, 0.0), "Only 1 clip was evaluated."),
        ({"examples": 50}, (0.5, 1.0), ""),
        ({"examples": 12}, (), ""),  # nothing has a label
    ],
)
def test_few_clips_are_a_warning(counts: dict[str, int], shares: tuple[float, ...], text: str) -> None:
    metrics = dict(zip(("action/top1@50%", "action/top1@100%"), shares, strict=False))
    shown = few_clips(recognition(counts=counts, metrics=metrics))
    assert text in shown
    assert bool(text) == bool(shown)


@pytest.mark.parametrize(("count", "shown"), [(2, 2), (40, 40), (300, 40)])
def test_a_clip_that_plays_is_a_bounded_strip_of_its_frames(count: int, shown: int) -> None:
    html = player(moving_clip(count, 300), 'say "a"')
    (data,) = re.findall(r'src="data:image/jpeg;base64,([^"]*)"', html)
    with Image.open(io.BytesIO(base64.b64decode(data))) as strip:
        assert strip.size == (192 * shown, 192)
        greys = [strip.getpixel((192 * i + 96, 96))[0] for i in range(shown)]  # type: ignore[index]
    assert greys[0] <= 2
    assert greys[-1] == pytest.approx(255 * (count - 1) / count, abs=2)
    assert greys == sorted(greys)
    assert f"aspect-ratio:192/192;animation-duration:{count / 6 / 0.8:.2f}s;" in html  # real time, and a rest
    assert f"steps({shown},jump-none)" in html
    assert 'aria-label="Pause or play: say &quot;a&quot;"' in html


def test_nothing_plays_where_nothing_moves() -> None:
    still = moving_clip(1)
    assert player(still, "a") == ""
    assert "<label" not in clip_section(still)


def test_the_first_use_of_a_term_links_to_its_explanation() -> None:
    body = "<h2>Top-1</h2><svg><text>learning rate</text></svg><p>Top-1, a &lt;loss&gt;, top-1; S = 8, S.</p>"
    html, glossary = explain(body)
    assert html.startswith("<h2>Top-1</h2><svg><text>learning rate</text></svg><p><a class=term")
    links = re.findall(r'<a class=term href="#([^"]*)" title="([^"]+)">([^<]*)</a>', html)
    assert [(target, word) for target, _, word in links] == [
        ("term-top-1", "Top-1"), ("term-loss", "loss"), ("term-S", "S"),
    ]  # fmt: skip
    entries = dict(re.findall(r'<dt id="([^"]*)">[^<]*</dt><dd>([^<]+)</dd>', glossary))
    assert list(entries) == ["term-learning-rate", "term-loss", "term-S", "term-top-1"]
    assert all(entries[target] == title for target, title, _ in links)
    assert re.sub(r"</?a\b[^>]*>", "", html) == body
    assert explain("<p>nothing</p>") == ("<p>nothing</p>", "")


def test_terms_are_recognised_by_their_names_and_explained_in_a_sentence() -> None:
    assert list(TERMS) == sorted(TERMS, key=str.casefold)
    for number, (name, (_, sentence)) in enumerate(TERMS.items(), 1):
        found = WORDS.fullmatch(name) or WORDS.match(f"{name} = 8")
        assert found is not None
        assert found.lastindex == number, name
        assert re.fullmatch(r"[A-Z][^.]*(\.96[^.]*)?\.", sentence), name


@pytest.mark.browser
@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_a_clip_plays_unless_motion_is_reduced(motion: Any, tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs a browser: apt-get install chromium")
    (tmp_path / "page.html").write_text(page("t", "intro", [few_clips(recognition()), clip_section(moving_clip(12))]))
    state = "document.querySelector('.player img').getAnimations().map(found => found.playState)"
    plays = "running" if motion == "no-preference" else "paused"
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        opened = browser.new_page(reduced_motion=motion)
        opened.goto((tmp_path / "page.html").as_uri())
        place = "getComputedStyle(document.querySelector('.player img')).objectPosition"
        assert opened.evaluate(state) == [plays]
        assert opened.locator(".player i").is_visible() == (plays == "paused")
        opened.keyboard.press("Tab")  # the link to the terms, the term of the warning, the clip
        opened.keyboard.press("Tab")
        assert opened.evaluate("document.activeElement.textContent") == "noise"
        opened.keyboard.press("Enter")
        assert opened.evaluate("document.querySelector(':target').textContent") == "noise"
        opened.locator(".player input").focus()
        opened.keyboard.press("Space")
        assert opened.evaluate(state) == ["paused" if plays == "running" else "running"]
        opened.locator(".player").click()
        assert opened.evaluate(state) == [plays]
        seek = "document.querySelector('.player img').getAnimations()[0].currentTime"
        seen = [opened.evaluate(f"{seek} = {part} * 2500, {place}") for part in (0, 0.4, 0.79, 0.99)]
        assert [float(found.split("%")[0]) for found in seen] == pytest.approx([0, 100 * 6 / 11, 100, 100], abs=0.1)
        opened.emulate_media(media="print")
        assert opened.evaluate(state) == []  # the first frame
        assert opened.evaluate(place) == "0px 0px"
        assert not opened.locator(".player i").is_visible()
        browser.close()
