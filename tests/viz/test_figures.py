"""Figures are well-formed, keep what they are given, and agree with the numbers of the evaluation."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from horst import create_model, viz
from horst.errors import ConfigError, InputError, MissingExtraError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.metrics import calibration_bins
from horst.viz.chart import Axis, Line, chart, number_axis, percent_axis, spread
from horst.viz.matrix import LEGEND, count, similarity_order, worst_pairs
from horst.viz.svg import Canvas, fit, text_width

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ["do <it>", 'say "no" & go', "a" * 90, "open door", "take cup", "take knife"]


def parsed(figure: viz.Figure) -> ElementTree.Element:
    """Its tree, of the file and of what stands in a page."""
    page = ElementTree.fromstring(figure.inline())
    assert len(page.findall(f"{SVG}svg")) == 1
    return ElementTree.fromstring(figure.svg)


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(t for t in element.itertext()) for element in root.iter(f"{SVG}text")]


def clip(frames: int, order: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    temporal = np.zeros((frames, order))
    for t in range(1, frames):
        there = min(t, order)
        temporal[t, order - there :] = rng.dirichlet(np.ones(there))
    return {
        "frames": list(rng.integers(0, 256, (frames, 12, 16, 3), dtype=np.uint8)),
        "temporal": temporal,
        "spatial": rng.random((frames, order, 3, 4)),
    }


def evaluation(task: str, **changes: Any) -> Evaluation:
    places = [0.25, 0.5, 1.0] if task == "recognition" else [2.0, 1.0, 0.25]
    names = [f"{100 * p:g}%" if task == "recognition" else f"{p:g}s" for p in places]
    metrics = {f"action/top{k}@{name}": 0.1 * i + 0.05 * k for i, name in enumerate(names) for k in (1, 5)}
    given: dict[str, Any] = {
        "data": "somethings", "split": "val", "task": task, "counts": {"examples": 9, "read": 9, "missing": 0},
        "protocol": {"mode": "strict", "leaks": {}, "fractions" if task == "recognition" else "taus": places},
        "metrics": metrics, "classes": {"action": 20},
    }  # fmt: skip
    return Evaluation(**given | changes)


@pytest.mark.parametrize("order", [1, 3, 8])
@pytest.mark.parametrize("at", [0, 1, 2, 5, 11])
def test_attention_shows_the_past_frames_that_there_are(at: int, order: int) -> None:
    given = clip(12, order)
    figure = viz.attention(**given, at=at)
    images = list(parsed(figure).iter(f"{SVG}image"))
    assert len(images) == 1 + 2 * min(at, order)  # the present one, and frames and maps of the past
    told = [int(text[:-1]) for text in texts(parsed(figure)) if re.fullmatch(r"\d+%", text)]
    weights = given["temporal"][at, order - min(at, order) :]
    assert told == [round(100 * weight) for weight in weights]
    assert sum(weights) == pytest.approx(float(at > 0))


def test_bars_are_as_long_as_weights() -> None:
    given = clip(9, 4)
    root = parsed(viz.attention(**given))
    bars = [float(r.attrib["width"]) for r in root.iter(f"{SVG}rect") if r.attrib.get("class") == "f0"]
    wells = [float(r.attrib["width"]) for r in root.iter(f"{SVG}rect") if r.attrib.get("class") == "well"]
    assert [bar / well for bar, well in zip(bars, wells, strict=True)] == pytest.approx(given["temporal"][-1], abs=2e-3)


def test_attention_takes_what_a_model_gives() -> None:
    model = create_model("horst_tiny", num_classes=len(NAMES)).eval()
    frames = torch.randint(0, 256, (1, 5, 3, 32, 32), dtype=torch.uint8)
    with torch.inference_mode():
        out, _ = model(frames, attention=True)
    chances = out.logits.action[0].softmax(-1).numpy()
    given = list(frames[0].permute(0, 2, 3, 1).numpy()), out.core.temporal, out.core.spatial
    for layer in range(3):
        said = viz.attention(*given, layer=layer, probabilities=chances, names=NAMES, truth=0, at=3)
        assert f"layer {layer + 1} of 3" in said.svg
        assert "do &lt;it&gt;" in said.svg
        marks = [text[0] for text in texts(parsed(said)) if text[0] in "✓✗"]
        best = np.argsort(-chances[3], kind="stable")[:5]
        assert marks == ["✓" if index == 0 else "✗" for index in best]
    for wrong, says in (
        ({"layer": 3}, "there are 3"),
        ({"at": 5}, "from 0 to 4"),
        ({"temporal": None}, "attention=True"),
        ({"frames": given[0][:4]}, "there are 4 frames"),
        ({"spatial": torch.rand(2, 5, 8, 2, 2)}, "of one clip"),
    ):
        with pytest.raises(InputError, match=says):
            viz.attention(**{"frames": given[0], "temporal": given[1], "spatial": given[2], **wrong})


def test_verb_and_noun_are_right_by_themselves() -> None:
    chances = np.tile([0.0, 0.0, 0.0, 0.1, 0.3, 0.6], (4, 1))
    parts = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 0), (4, 4)]
    figure = viz.attention(**clip(4, 2), probabilities=chances, names=NAMES, truth=4, parts=parts)
    spans = re.findall(r'<tspan class="(\w+)">(take|knife|cup|open)</tspan>', figure.svg)
    assert spans == [("right", "take"), ("wrong", "knife"), ("right", "take"), ("right", "cup"), ("wrong", "open")]


@pytest.mark.parametrize("truth", [None, 0, 3])
@pytest.mark.parametrize("count", [1, 2, 30])
def test_a_timeline_names_who_leads(count: int, truth: int | None) -> None:
    rng = np.random.default_rng(count)
    chances = rng.dirichlet(np.ones(6) / 4, size=count)
    frames = list(rng.integers(0, 256, (count, 12, 16, 3), dtype=np.uint8))
    figure = viz.timeline(chances, [0.5 * i for i in range(count)], NAMES, truth, frames=frames, marks=[0.0])
    root = parsed(figure)
    strip = [r.findtext(f"{SVG}title") for r in root.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    leaders = chances.argmax(1)
    changes = [leaders[0], *(b for a, b in pairwise(leaders) if a != b)]
    assert strip == [NAMES[i] for i in changes]
    curves = [line for line in root.iter(f"{SVG}polyline") if float(line.attrib["stroke-width"]) > 1]
    assert len(curves) == 4
    assert sum(line.attrib["class"] == "sr" for line in curves) == (truth is not None)
    with pytest.raises(InputError, match="one each"):
        viz.timeline(chances, range(count), NAMES, frames=[*frames, frames[0]])
    with pytest.raises(InputError, match="probabilities have shape"):
        viz.timeline(chances, range(count + 1), NAMES)


@pytest.mark.parametrize("task", ["recognition", "anticipation"])
def test_accuracy_of_one_and_of_several(task: str) -> None:
    one = viz.accuracy_curve(evaluation(task))
    assert "top-1 25.0%" in one.svg  # the last value
    assert "guess 5.0%" in one.svg
    prior = evaluation(task, prior={"action/top1": 0.1})
    both = viz.accuracy_curve({"a < b": evaluation(task), "c": prior})
    assert {line.attrib["class"] for line in parsed(both).iter(f"{SVG}polyline")} >= {"s0", "s1"}
    assert "a &lt; b top-5 45.0%" in both.svg
    parsed(one)
    with pytest.raises(InputError, match="nothing to draw"):
        viz.accuracy_curve(evaluation(task, metrics={}))
    with pytest.raises(InputError, match="draw them apart"):
        viz.accuracy_curve({"a": evaluation("recognition"), "b": evaluation("anticipation")})
    with pytest.raises(InputError, match="no evaluation"):
        viz.accuracy_curve({})


@pytest.mark.parametrize("classes", [1, 2, 24, 200])
def test_confusions(classes: int) -> None:
    rng = np.random.default_rng(classes)
    labels = rng.integers(-1, classes, 40 * classes)
    answers = np.where(rng.random(len(labels)) < 0.7, labels, rng.integers(-1, classes, len(labels)))
    names = [f"class <{i}>" for i in range(classes)]
    counts, silent = count(labels, answers, classes)
    assert counts.sum() + silent.sum() == (labels >= 0).sum()
    order = similarity_order(counts)
    assert sorted(order) == list(range(classes))
    figure = viz.confusion(labels, torch.from_numpy(answers), names)
    root = parsed(figure)
    cells = sum(path.attrib["d"].count("M") for path in root.iter(f"{SVG}path"))
    assert cells == np.count_nonzero(counts)  # each cell is there once
    assert f"{np.trace(counts)} of {(labels >= 0).sum()} right" in texts(root)
    for true, said, often in worst_pairs(counts, 12):
        assert counts[true, said] == often
        assert f"{often} of {(labels == true).sum()}" in texts(root)
    assert len(figure.svg) < 1e6
    # The legend below the matrix ends before the list beside it begins, also where the matrix is small.
    places = {"".join(text.itertext()): float(text.attrib["x"]) for text in root.iter(f"{SVG}text")}
    assert places[LEGEND] >= 0
    assert places[LEGEND] + text_width(LEGEND) < places[f"{np.trace(counts)} of {(labels >= 0).sum()} right"]


def test_classes_that_are_mistaken_are_neighbours() -> None:
    counts = np.diag([9] * 8)
    for a, b in ((0, 5), (5, 2), (7, 1)):
        counts[a, b] = 4
    order = similarity_order(counts)
    assert all(abs(order.index(a) - order.index(b)) == 1 for a, b in ((0, 5), (5, 2), (7, 1)))


@pytest.mark.parametrize(
    ("labels", "answers", "says"),
    [([0, 1], [0], "one each"), ([0], [9], "some do not"), ([-2], [0], "some do not"), ([-1], [0], "no example")],
)
def test_confusions_of_nothing(labels: list[int], answers: list[int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        viz.confusion(labels, answers, ["a", "b"])


@pytest.mark.parametrize("seed", range(5))
def test_the_calibration_error_is_that_of_the_evaluation(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(300, 5, generator=rng)
    labels = torch.randint(-1, 5, (300,), generator=rng)
    scores[7] = -torch.inf
    figure = viz.reliability(scores.double().softmax(-1).nan_to_num(0.0), labels)
    assert f"calibration error {100 * calibration_bins(scores, labels).error:.1f}%" in texts(parsed(figure))
    answers = int(((labels >= 0) & (torch.arange(300) != 7)).sum())
    assert f"confidence of {answers} answers" in texts(parsed(figure))


def test_figures_are_saved_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = chart([Line("a & b", [(0, 0), (1, 1)])], percent_axis("x"), percent_axis("y"))
    assert ElementTree.fromstring(figure.save(tmp_path / "a.svg").read_text()).tag == f"{SVG}svg"
    assert "a &amp; b" in figure.save(str(tmp_path / "deep" / "a.html")).read_text()
    assert figure._repr_html_() == figure._repr_svg_() == figure.svg
    with pytest.raises(ConfigError, match=r"\.svg, \.html or \.png, not as '\.gif'"):
        figure.save(tmp_path / "a.gif")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingExtraError, match="install librsvg"):
        figure.save(tmp_path / "a.png")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.svg", "deep"]


def test_a_converter_makes_png(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that stands in for the real one, which need not be here."""
    program = tmp_path / "bin" / "rsvg-convert"
    program.parent.mkdir()
    Image.new("RGB", (4, 3)).save(tmp_path / "made.png")
    program.write_text(f'#!/bin/sh\nwhile [ "$1" != --output ]; do shift; done\n/bin/cp {tmp_path}/made.png "$2"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    figure = Canvas(10, 10).figure("nothing")
    assert Image.open(figure.save(tmp_path / "a.png")).size == (4, 3)


def test_a_figure_is_readable_in_the_dark_and_alone() -> None:
    svg = viz.reliability(np.eye(3), [0, 1, 2]).svg
    assert "prefers-color-scheme:dark" in svg
    assert 'class="paper"' in svg  # its own background
    assert not re.findall(r'(?:href|src)="(?!data:)', svg)


def test_curves_keep_within_their_frame() -> None:
    lines = [Line("a", [(0, 2.1), (3, 7.7)]), Line("b", [(0, 2.2), (2, float("nan")), (3, 7.6)])]
    figure = chart(lines, Axis(0, 3, [(0, "start")]), number_axis([2.1, 7.7], "metres"), width=200, height=120)
    curves = [line for line in parsed(figure).iter(f"{SVG}polyline") if line.attrib["stroke-width"] == "2"]
    points = [tuple(map(float, p.split(","))) for line in curves for p in line.attrib["points"].split()]
    assert len(points) == 4  # what is no number is left out
    assert all(0 <= x <= 200 and 0 <= y <= 120 for x, y in points)


@pytest.mark.parametrize("values", [[0.0], [3.0, 3.0], [-2.5, 1e-4], [1e6, 2e6], [float("nan")]])
def test_axes_hold_their_values_between_round_ticks(values: list[float]) -> None:
    axis = number_axis(values)
    finite = [value for value in values if value == value]
    assert all(axis.low <= value <= axis.high for value in finite)
    assert 2 <= len(axis.ticks) <= 13
    assert all(axis.low - 1e-9 <= place <= axis.high + 1e-9 for place, _ in axis.ticks)


@pytest.mark.parametrize("heights", [[], [5.0], [5.0, 5.0, 5.0], [90.0, 95.0, 99.0, 2.0]])
def test_names_of_curves_do_not_overlap(heights: list[float]) -> None:
    places = sorted(spread(heights, 0, 100, gap=12))
    assert all(b - a >= 12 - 1e-9 for a, b in pairwise(places))
    assert all(0 <= place <= 100 for place in places)


@pytest.mark.parametrize("limit", [1, 20, 60, 1000])
def test_long_names_are_cut(limit: float) -> None:
    text = "Pretending to put something on a surface"
    shown = fit(text, limit)
    assert text_width(shown) <= max(limit, text_width("…"))
    assert shown == text or shown.endswith("…")
