"""Figures show the numbers they are given, as matplotlib objects and as SVG for web pages."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from horst import create_model, viz
from horst.errors import InputError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.metrics import calibration_bins
from horst.viz import style
from horst.viz.charts import count, similarity_order, worst_pairs
from horst.viz.report import training_figure

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ["do <it>", 'say "no" & go', "a" * 90, "open door", "take cup", "take $5 or $6"]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def legend(figure: Figure) -> list[str]:
    (found,) = (axes.get_legend() for axes in figure.axes if axes.get_legend())
    return [text.get_text() for text in found.get_texts()]


def patches(figure: Figure, colour: str) -> list[Rectangle]:
    rgba = matplotlib.colors.to_rgb(colour)
    every = [patch for axes in figure.axes for patch in axes.patches if isinstance(patch, Rectangle)]
    return [patch for patch in every if patch.get_facecolor()[:3] == pytest.approx(rgba)]


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
    (axes,) = figure.axes
    past, row = min(at, order), 90 * min(at, order)
    scale = order > 1 and past > 2 and row > 260
    assert len(axes.images) == 1 + 2 * past + scale  # the current frame, frames and maps of the past, a colour scale
    told = [int(text[:-1]) for text in texts(figure) if re.fullmatch(r"\d+%", text)]
    weights = given["temporal"][at, order - past :]
    assert told == [round(100 * weight) for weight in weights]


def test_bars_are_as_long_as_weights() -> None:
    given = clip(9, 4)
    figure = viz.attention(**given)
    bars = [bar.get_width() for bar in patches(figure, style.SERIES[0])]
    wells = [bar.get_width() for bar in patches(figure, style.WELL)]
    assert [bar / well for bar, well in zip(bars, wells, strict=True)] == pytest.approx(given["temporal"][-1])


def test_frames_are_bright_by_their_weight() -> None:
    given = clip(9, 4)
    images = [np.asarray(image.get_array(), float) for image in viz.attention(**given).axes[0].images]
    assert len(images) == 2 + 2 * 4  # the current frame, the colour scale, and frames and maps of the past
    weights = given["temporal"][-1]
    for weight, shown, frame in zip(weights, images[2::2], given["frames"][4:8], strict=True):
        light = 0.22 + 0.78 * weight / weights.max()
        assert shown == pytest.approx(light * frame, abs=0.51)


def test_attention_takes_what_a_model_gives() -> None:
    model = create_model("horst_tiny", num_classes=len(NAMES)).eval()
    frames = torch.randint(0, 256, (1, 5, 3, 32, 32), dtype=torch.uint8)
    with torch.inference_mode():
        out, _ = model(frames, attention=True)
    chances = out.logits.action[0].softmax(-1).numpy()
    given = list(frames[0].permute(0, 2, 3, 1).numpy()), out.core.temporal, out.core.spatial
    for layer in range(3):
        figure = viz.attention(*given, layer=layer, probabilities=chances, names=NAMES, truth=0, at=3)
        assert f"temporal attention, layer {layer + 1} of 3" in texts(figure)
        assert "do <it>" in texts(figure)
        marks = [text for text in texts(figure) if text in "✓✗"]
        best = np.argsort(-chances[3], kind="stable")[:5]
        assert marks == ["✓" if index == 0 else "✗" for index in best]
    for wrong, message in (
        ({"layer": 3}, "there are 3"),
        ({"at": 5}, "from 0 to 4"),
        ({"temporal": None}, "attention=True"),
        ({"frames": given[0][:4]}, "there are 4 frames"),
        ({"spatial": torch.rand(2, 5, 8, 2, 2)}, "of one clip"),
    ):
        with pytest.raises(InputError, match=message):
            viz.attention(**{"frames": given[0], "temporal": given[1], "spatial": given[2], **wrong})


def test_verb_and_noun_are_coloured_by_themselves() -> None:
    chances = np.tile([0.0, 0.0, 0.0, 0.1, 0.3, 0.6], (4, 1))
    parts = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 0), (4, 4)]
    figure = viz.attention(**clip(4, 2), probabilities=chances, names=NAMES, truth=4, parts=parts)
    words = [(text.get_text(), text.get_color()) for text in figure.axes[0].texts]
    shown = [(word, colour) for word, colour in words if word in ("take", "cup", "$5 or $6", "open")]
    right, wrong = style.RIGHT, style.WRONG
    assert shown == [("take", right), ("$5 or $6", wrong), ("take", right), ("cup", right), ("open", wrong)]


@pytest.mark.parametrize("truth", [None, 0, 3])
@pytest.mark.parametrize("count", [1, 2, 30])
def test_a_timeline_names_the_top_class(count: int, truth: int | None) -> None:
    rng = np.random.default_rng(count)
    chances = rng.dirichlet(np.ones(6) / 4, size=count)
    frames = list(rng.integers(0, 256, (count, 12, 16, 3), dtype=np.uint8))
    times = [0.5 * i for i in range(count)]
    figure = viz.timeline(chances, times, NAMES, truth, frames=frames, marks=[0.0])
    above, chart, strip = figure.axes
    assert 1 <= len(above.images) <= count
    curves = [line for line in chart.get_lines() if line.get_label() != "_mark"]
    assert len(curves) == len(legend(figure)) == 4
    for line in curves:
        index = next(i for i in range(6) if chances[:, i] == pytest.approx(line.get_ydata()))
        assert line.get_label() == ("✓ " if index == truth else "") + NAMES[index]
        assert (line.get_color() == style.RIGHT) == (index == truth)
    tips = [patch.get_gid() for patch in strip.patches if patch.get_gid()]
    leaders = chances.argmax(1)
    changes = [leaders[0], *(b for a, b in pairwise(leaders) if a != b)]
    assert tips == [style.TOOLTIP + NAMES[i].replace('"', "”") for i in changes]
    with pytest.raises(InputError, match="one each"):
        viz.timeline(chances, times, NAMES, frames=[*frames, frames[0]])
    with pytest.raises(InputError, match="probabilities have shape"):
        viz.timeline(chances, [*times, 99.0], NAMES)


@pytest.mark.parametrize("task", ["recognition", "anticipation"])
def test_accuracy_of_one_and_of_several(task: str) -> None:
    one = viz.accuracy_curve(evaluation(task), title="one")
    (axes,) = one.axes
    assert axes.get_title("left") == "one"
    assert axes.get_xlim() == ((0, 1) if task == "recognition" else (2, 0))  # time runs to the action
    curve = axes.get_lines()[0]
    assert list(curve.get_xdata()) == ([0.25, 0.5, 1.0] if task == "recognition" else [2.0, 1.0, 0.25])
    assert list(curve.get_ydata()) == pytest.approx([0.05, 0.15, 0.25])
    assert legend(one) == [
        "top-5 45.0%",
        "top-1 25.0%",
        "chance 25.0%",
        "chance 5.0%",
    ]  # in the order of the last values
    prior = evaluation(task, prior={"action/top1": 0.1})
    both = viz.accuracy_curve({"a < b": prior, "c": evaluation(task)})
    colours = {str(line.get_label()): line.get_color() for line in both.axes[0].get_lines()}
    assert colours["a < b top-1 25.0%"] == colours["a < b top-5 45.0%"] == style.SERIES[0]
    assert colours["c top-1 25.0%"] == style.SERIES[1]
    assert {"prior top-1 10.0%", "chance top-5 25.0%"} <= set(colours)
    same = viz.accuracy_curve(evaluation(task, prior={"action/top1": 0.05}))
    assert "chance 5.0%" in legend(same)  # where the most frequent class is as good as a guess
    with pytest.raises(InputError, match="a label for the action"):
        viz.accuracy_curve(evaluation(task, metrics={}))
    with pytest.raises(InputError, match="separately"):
        viz.accuracy_curve({"a": evaluation("recognition"), "b": evaluation("anticipation")})
    with pytest.raises(InputError, match="no evaluation"):
        viz.accuracy_curve({})


@pytest.mark.parametrize("classes", [1, 2, 24, 200])
def test_confusions(classes: int) -> None:
    rng = np.random.default_rng(classes)
    labels = rng.integers(-1, classes, 40 * classes)
    answers = np.where(rng.random(len(labels)) < 0.7, labels, rng.integers(-1, classes, len(labels)))
    names = [f"class <{i}>" for i in range(classes)]
    counts, missed = count(labels, answers, classes)
    assert counts.sum() + missed.sum() == (labels >= 0).sum()
    order = similarity_order(counts)
    assert sorted(order) == list(range(classes))
    figure = viz.confusion(labels, torch.from_numpy(answers), names)
    (axes,) = figure.axes
    opacity = np.asarray(axes.images[0].get_array())[..., 3]
    assert (opacity > 0).tolist() == (counts[np.ix_(order, order)] > 0).tolist()
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert shown == ([names[i] for i in order] if classes <= 80 else [])
    (beside,) = texts(figure)
    assert f"{np.trace(counts)} of {(labels >= 0).sum()} right" in beside
    for true, wrong, often in worst_pairs(counts, 12):
        assert counts[true, wrong] == often
        assert f"{names[true]}\n\N{NO-BREAK SPACE}→ {names[wrong]}, {often} of {(labels == true).sum()}" in beside
    assert len(style.svg(figure)) < 1e5


def test_classes_that_are_mistaken_are_neighbours() -> None:
    counts = np.diag([9] * 8)
    for a, b in ((0, 5), (5, 2), (7, 1)):
        counts[a, b] = 4
    order = similarity_order(counts)
    assert all(abs(order.index(a) - order.index(b)) == 1 for a, b in ((0, 5), (5, 2), (7, 1)))


@pytest.mark.parametrize(
    ("labels", "answers", "message"),
    [([0, 1], [0], "one each"), ([0], [9], "some do not"), ([-2], [0], "some do not"), ([-1], [0], "no example")],
)
def test_confusions_of_nothing(labels: list[int], answers: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        viz.confusion(labels, answers, ["a", "b"])


@pytest.mark.parametrize("seed", range(3))
def test_the_calibration_error_is_that_of_the_evaluation(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(300, 5, generator=rng)
    labels = torch.randint(-1, 5, (300,), generator=rng)
    scores[7] = -torch.inf
    figure = viz.reliability(scores.double().softmax(-1).nan_to_num(0.0), labels)
    axes, histogram = figure.axes
    assert axes.get_title("right") == f"calibration error {100 * calibration_bins(scores, labels).error:.1f}%"
    answers = int(((labels >= 0) & (torch.arange(300) != 7)).sum())
    assert sum(bar.get_height() for bar in histogram.patches) == answers
    assert f"confidence of {answers} predictions" in histogram.get_xlabel()


def test_training_curves_are_those_of_the_csv_file() -> None:
    rows = [
        {"epoch": "0", "train/loss": "3.5", "train/top1": "0.1", "val/action/top1@1s": "", "lr": "0.001"},
        {"epoch": "1", "train/loss": "nan", "train/top1": "0.2", "val/action/top1@1s": "0.3", "lr": "0.002"},
    ]
    figure = training_figure(rows, "anticipation")
    points = [line.get_xydata().tolist() for axes in figure.axes for line in axes.lines]  # type: ignore[union-attr]
    assert points == [[[1, 3.5]], [[1, 0.1], [2, 0.2]], [[2, 0.3]], [[1, 0.001], [2, 0.002]]]
    assert legend(figure) == ["top-1@1s", "training top-1"]


def test_figures_can_be_restyled_and_saved(tmp_path: Path) -> None:
    figure = viz.accuracy_curve(evaluation("recognition"))
    figure.axes[0].get_lines()[0].set_color("#123456")
    for name in ("a.pdf", "a.png"):
        figure.savefig(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert "#123456" in style.svg(figure)
    assert viz.save_svg(figure, tmp_path / "deep" / "a.svg").read_text() == style.svg(figure) + "\n"
    assert figure._repr_svg_() == style.svg(figure)  # type: ignore[attr-defined]


def test_an_svg_file_follows_light_and_dark_mode_and_needs_nothing_else() -> None:
    svg = style.svg(viz.reliability(np.eye(3), [0, 1, 2], title="a <b> & c"))
    root = ElementTree.fromstring(svg)
    assert "prefers-color-scheme:dark" in svg
    assert f"fill: {style.SERIES[0]}; fill: var(--c0)" in svg  # viewers without variables take the first one
    known = set(style.COLOURS.values())
    assert set(re.findall(r"(?:fill|stroke): (#\w{6})", svg)) <= known
    assert not re.findall(r'(?:href|src)="(?!data:|#)', svg)
    assert "a <b> & c" in ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    tips = [title.text for title in root.iter(f"{SVG}title")]
    assert "3 predictions, mean confidence 100.0%, accuracy 100.0%" in tips


def test_every_colour_has_a_dark_value() -> None:
    light, dark = style.STYLE.split("@media")
    names = re.findall(r"--(\w+):", light)
    assert names == re.findall(r"--(\w+):", dark)
    assert set(style.COLOURS) == set(names)


def test_figures_are_the_same_each_time_and_have_ids_of_their_own() -> None:
    figures = [viz.timeline(clip_chances, [0.0, 1.0], NAMES) for clip_chances in (np.eye(6)[:2], np.eye(6)[2:4])]
    first, second = map(style.inline, figures)
    assert first == style.inline(viz.timeline(np.eye(6)[:2], [0.0, 1.0], NAMES))
    ids = [set(re.findall(r'\bid="([^"]*)"', svg)) for svg in (first, second)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for svg, own in zip((first, second), ids, strict=True):
        assert set(re.findall(r'(?:url\(#|href="#)(\w+)', svg)) <= own


def test_frames_are_jpeg() -> None:
    svg = style.svg(viz.attention(**clip(4, 2)))
    assert svg.count("data:image/jpeg") == 5
    assert "image/png" not in svg


def test_scripts_that_matplotlibs_font_lacks_are_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    figure = viz.timeline(np.eye(2), [0.0, 1.0], ["打开", "放下"])
    assert "打开" in style.svg(figure)
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]


@pytest.mark.parametrize("limit", [1, 20, 60, 1000])
def test_long_names_are_cut(limit: float) -> None:
    text = "Pretending to put something on a surface"
    shown = style.fit(text, limit)
    assert style.text_width(shown) <= max(limit, style.text_width("…"))
    assert shown == text or shown.endswith("…")
    figure, axes = style.new_canvas(100, 100, "")
    style.put(axes, 0, 0, text, limit=limit)
    assert (f"<title>{text}</title>" in style.svg(figure)) == (shown != text)
