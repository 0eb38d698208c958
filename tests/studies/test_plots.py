"""Plots and words of a study, against the numbers that they show."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import horst
from horst.evaluation.formatting import markdown_row, metric_title
from horst.studies.compare import OVER_BOTH, OVER_EXAMPLES, OVER_SEEDS, Estimate, Row
from horst.studies.config import Study, StudyRun
from horst.studies.plots import HEIGHT, WIDTH, curves, differences
from horst.studies.report import (
    Results,
    differences_table,
    markdown,
    notes,
    said,
    values_table,
    write_results,
)
from horst.viz.figure import Figure
from horst.viz.svg import MINUS

RUNS = tuple(StudyRun(name=f"r{i}", title=f"Run {i}") for i in range(8))
STUDY = Study(name="s", title="Study", question="Which?", runs=RUNS, metrics=("area", "action/top1@25%"), base="x.yaml")
FRACTIONS = {0.25: "25%", 0.5: "50%", 1.0: "100%"}
TAUS = {2.0: "2s", 1.0: "1s", 0.25: "0.25s"}


def samples(task: str, *seeds: tuple[float, ...], kind: str = "action/top1") -> list[Any]:
    """One a seed, of values by position."""
    places = FRACTIONS if task == "recognition" else TAUS
    about = SimpleNamespace(task=task, positions=tuple(places))
    return [
        SimpleNamespace(
            predictions=about,
            metrics={f"{kind}@{name}": value for name, value in zip(places.values(), values, strict=True)},
        )
        for values in seeds
    ]


def numbers(text: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in re.split(r"[ ML]+", text.strip("MZ ")))]


def polylines(body: str) -> dict[str, list[tuple[float, float]]]:
    """By class, the first of each: lines to the names come after the curves."""
    found = re.findall(r'<polyline points="([^"]*)" class="(\w+)"', body)
    return {kind: numbers(points) for points, kind in reversed(found)}


def ticks(body: str) -> dict[str, float]:
    """Where a label of the x axis stands."""
    return {
        text: float(x) for x, text in re.findall(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle">([^<]+)<', body)
    }


def heights(body: str) -> dict[str, float]:
    """The y of the grid line that a label of the y axis belongs to."""
    found = re.findall(r'<text x="[\d.]+" y="([\d.]+)" text-anchor="end">([^<]+)<', body)
    return {text: float(y) - 4 for y, text in found}


def test_a_curve_goes_through_the_means_and_its_band_through_the_ends() -> None:
    found = {"r0": samples("recognition", (0.25, 0.5, 0.75), (0.35, 0.7, 1.0))}
    figure = curves(STUDY, found)
    assert figure is not None
    assert (figure.width, figure.height) == (WIDTH, HEIGHT)
    assert figure.title == "Study: top-1"
    x, y = ticks(figure.body), heights(figure.body)
    span = y["0%"] - y["100%"]
    wanted = [(x["25%"], 0.3), (x["50%"], 0.6), (x["100%"], 0.875)]
    for (px, py), (wx, share) in zip(polylines(figure.body)["s0"], wanted, strict=True):
        assert px == pytest.approx(wx, abs=0.1)
        assert py == pytest.approx(y["0%"] - share * span, abs=0.2)
    (path,) = re.findall(r'<path d="([^"]*)" class="f0"', figure.body)
    ends = [0.35, 0.7, 1.0, 0.75, 0.5, 0.25]  # along the top, and back along the bottom
    assert [py for _, py in numbers(path)] == pytest.approx([y["0%"] - end * span for end in ends], abs=0.2)
    assert "Run 0 87.5%" in figure.body
    assert "band: from the lowest to the highest" in figure.body


def test_seconds_before_the_action_run_to_the_left() -> None:
    found = {"r0": samples("anticipation", (0.1, 0.2, 0.3), kind="action/top5")}
    figure = curves(STUDY, found)
    assert figure is not None
    x = ticks(figure.body)
    assert {name for name in x if name != "seconds before the action"} == {"0", "0.5", "1", "1.5", "2"}
    assert x["2"] < x["1.5"] < x["1"] < x["0.5"] < x["0"]
    points = polylines(figure.body)["s0"]
    at = [x["2"], x["1"], x["0"] + 0.25 * (x["1"] - x["0"])]
    assert [px for px, _ in points] == pytest.approx(at, abs=0.2)
    assert "a single seed" in figure.body
    assert "<path" not in figure.body
    assert max(heights(figure.body), key=lambda name: float(name.rstrip("%"))) == "30%"  # low curves get a low axis
    assert figure.title == "Study: top-5"


def test_runs_keep_their_colour_and_what_is_not_known_is_left_out() -> None:
    whole = (0.6, 0.7, 0.8)
    found = {"r1": samples("recognition", whole), "r7": samples("recognition", whole)}
    found["r2"] = samples("recognition", whole, kind="calibration")
    figure = curves(STUDY, found)
    assert figure is not None
    drawn = re.findall(r'<polyline[^>]*class="(s\d)"[^>]*>', figure.body)
    assert set(drawn) == {"s1"}  # the eighth has the second's colour again, dashed
    assert figure.body.count('stroke-dasharray="6 4"') == 1
    assert "Run 1 80.0%" in figure.body
    assert "Run 7 80.0%" in figure.body
    assert "Run 2" not in figure.body
    calibration = curves(STUDY, found, "calibration")
    assert calibration is None or "Run 2" in calibration.body
    assert curves(STUDY, {}) is None
    assert curves(STUDY, {"r0": samples("recognition", whole)}, "calibration") is None


def row(name: str, gap: Estimate | None = None, **values: Estimate) -> Row:
    costs = {"parameters": 1_234_567, "gflop": 0.12345, "seconds": 61.6, "frames_per_second": None}
    return Row(
        name=name,
        title=name.upper(),
        seeds=[0, 1],
        values={"area": Estimate(value=0.5), **values},
        against="r0" if gap else None,
        differences={"area": gap} if gap else {},
        **costs,  # type: ignore[arg-type]
    )


SURE, UNSURE = Estimate(value=0.04, low=0.02, high=0.06), Estimate(value=-0.01, low=-0.05, high=0.03)


def test_differences_are_dots_with_intervals() -> None:
    rows = [row("r0"), row("r1", SURE), row("r2", UNSURE)]
    figure = differences(rows, STUDY.metrics, str.upper)
    assert figure is not None
    x = {text.replace(MINUS, "-"): place for text, place in ticks(figure.body).items()}
    step = (x["5"] - x["0"]) / 2.5  # of two per cent
    dots = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="3.4" class="(\w+)"', figure.body)
    assert [kind for *_, kind in dots] == ["f0", "f5"]  # sure or not
    assert [float(px) for px, *_ in dots] == pytest.approx([x["0"] + 2 * step, x["0"] - 0.5 * step], abs=0.2)
    spans = polylines(figure.body)
    assert [px for px, _ in spans["s0"]] == pytest.approx([x["0"] + step, x["0"] + 3 * step], abs=0.2)
    assert [px for px, _ in spans["s5"]] == pytest.approx([x["0"] - 2.5 * step, x["0"] + 1.5 * step], abs=0.2)
    lines = [float(y) for _, y, _ in dots]
    assert lines[1] - lines[0] == 17
    assert all({py for _, py in span} <= set(lines) for span in spans.values())
    assert max(lines) < figure.height - 38  # above the axis
    assert f"R1 {MINUS} R0" in figure.body
    marks = re.findall(r'<line x1="([\d.]+)" y1="26.0" x2="([\d.]+)" y2="([\d.]+)" class="(\w+)"', figure.body)
    assert [kind for *_, kind in marks].count("mark") == 1
    assert [(a, b) for a, b, _, kind in marks if kind == "mark"] == [(f"{x['0']:.1f}", f"{x['0']:.1f}")]
    assert {float(end) for *_, end, _ in marks} == {figure.height - 38}
    for text in ticks(figure.body).values():
        assert 0 < text < WIDTH


def drawn(figure: Figure | None) -> str:
    assert figure is not None
    return f"{figure.width:g} x {figure.height:g}: {figure.title}\n" + figure.body.replace("><", ">\n<") + "\n"


@pytest.mark.parametrize("name", ["curve", "before_action", "differences", "short_names"])
def test_figures_are_drawn_as_ever(name: str) -> None:
    """Every place and colour. To renew a file on purpose, write `drawn(...)` to it and look at the figure."""
    if name == "curve":
        found = {"r0": samples("recognition", (0.25, 0.5, 0.75), (0.35, 0.7, 1.0))}
        figure = curves(STUDY, {**found, "r7": samples("recognition", (0.1, 0.2, 0.3))})
    elif name == "before_action":
        figure = curves(STUDY, {"r2": samples("anticipation", (0.1, 0.2, 0.3), (0.12, 0.18, 0.4), kind="action/top5")})
    elif name == "short_names":
        figure = differences([row("r0"), row("r1", SURE)], ("area",), str)
    else:
        gaps = {"area": SURE, "decided": UNSURE, "a/time_to_action": SURE}
        long = replace(row("r3", UNSURE), title="A name that does not fit into the room for names beside the axis")
        rows = [row("r0"), replace(row("r1", SURE), differences=gaps), replace(row("r2", UNSURE), against="away"), long]
        figure = differences(rows, ("area", "a/time_to_action", "decided"), str.upper)
    assert drawn(figure) == (Path(__file__).parent / "figures" / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("values", "top"),
    [
        ([(0.0, 0.0, 0.02)], 0.05),
        ([(0.05, 0.0, 0.02)], 0.055),
        ([(0.1, 0.3, 0.2)], 0.33),
        ([(0.1, 0.3, 0.55)], 0.605),
        ([(0.1, 0.3, 0.551)], 1.0),
        ([(0.1, 0.3, 0.2), (0.1, 0.6, 0.2)], 1.0),  # the band counts too
        ([(0.1, 0.3, 0.2), (0.1, 0.4, 0.2)], 0.44),
    ],
)
def test_the_axis_ends_above_the_highest_value(values: list[tuple[float, ...]], top: float) -> None:
    figure = curves(STUDY, {"r0": samples("recognition", *values)})
    assert figure is not None
    means = [sum(seeds) / len(seeds) for seeds in zip(*values, strict=True)]
    box = heights(figure.body)["0%"], 44.0
    wanted = [box[0] - mean / top * (box[0] - box[1]) for mean in means]
    assert [py for _, py in polylines(figure.body)["s0"]] == pytest.approx(wanted, abs=0.06)


def test_ticks_of_half_seconds_end_before_the_earliest_place() -> None:
    for longest, last in ((1.75, "1.5"), (1.5, "1.5"), (1.25, "1")):
        about = SimpleNamespace(task="anticipation", positions=(longest, 0.5))
        metrics = {f"action/top5@{place:g}s": 0.5 for place in about.positions}
        figure = curves(STUDY, {"r0": [SimpleNamespace(predictions=about, metrics=metrics)]})
        assert figure is not None
        places = {float(text) for text in ticks(figure.body) if text != "seconds before the action"}
        assert places == {i / 2 for i in range(round(2 * float(last)) + 1)}


def test_colours_begin_again_dashed_after_the_sixth() -> None:
    for number, colour, dashed in ((5, "s5", False), (6, "s0", True), (7, "s1", True)):
        figure = curves(STUDY, {f"r{number}": samples("recognition", (0.6, 0.7, 0.8))})
        assert figure is not None
        assert set(re.findall(r'<polyline[^>]*class="(s\d)"', figure.body)) == {colour}
        assert ("stroke-dasharray" in figure.body) == dashed


def test_a_curve_needs_two_places_and_every_number() -> None:
    def at(*places: float) -> list[Any]:
        metrics = {f"action/top1@{100 * place:g}%": 0.5 for place in places}
        return [SimpleNamespace(predictions=SimpleNamespace(task="recognition", positions=places), metrics=metrics)]

    assert curves(STUDY, {"r0": at(0.5)}) is None
    assert curves(STUDY, {"r0": at(0.5, 1.0)}) is not None
    for lost in (math.nan, None):
        seeds = samples("recognition", (0.1, 0.2, 0.3), (0.1, 0.2, 0.3))
        seeds[1].metrics["action/top1@50%"] = lost
        if lost is None:
            del seeds[1].metrics["action/top1@50%"]
        assert curves(STUDY, {"r0": seeds}) is None
        figure = curves(STUDY, {"r0": seeds, "r1": samples("recognition", (0.1, 0.2, 0.3))})
        assert figure is not None
        assert "Run 0" not in figure.body
        assert "Run 1 30.0%" in figure.body


def test_half_an_interval_is_not_drawn() -> None:
    for gap in (Estimate(value=0.1, low=0.0), Estimate(value=0.1, high=0.2)):
        assert differences([row("r0"), row("r1", gap)], STUDY.metrics, str) is None


def test_nothing_to_compare_is_no_figure() -> None:
    assert differences([row("r0")], STUDY.metrics, str) is None
    assert differences([row("r0"), row("r1", Estimate(value=0.1))], STUDY.metrics, str) is None  # no interval
    late = Row(
        **{
            **{f: getattr(row("r1", SURE), f) for f in Row.__dataclass_fields__},
            "differences": {"a/time_to_action": SURE},
        }
    )
    assert differences([late], ["a/time_to_action"], str) is None  # seconds


def results(rows: list[Row], **more: Any) -> Any:
    evaluation = SimpleNamespace(data="Some data", classes={"action": 24, "verb": 3})
    given = {"study": STUDY, "rows": rows, "missing": [], "outcomes": [], "command": "horst study s.yaml"}
    given["outcomes"] = [SimpleNamespace(evaluation=evaluation, commit=None)]
    given["found"] = {"r0": [SimpleNamespace(predictions=range(1234))]}
    return SimpleNamespace(**{**given, **more})


def test_numbers_in_words() -> None:
    assert said(None, "area") == ""
    assert said(Estimate(value=0.6124), "area") == "61.2"
    assert said(SURE, "area") == "4.0 [2.0, 6.0]"
    assert said(SURE, "area", signed=True) == "**+4.0 [+2.0, +6.0]**"
    assert said(UNSURE, "area", signed=True) == f"{MINUS}1.0 [{MINUS}5.0, +3.0]"
    assert said(SURE, "calibration@25%", signed=True) == "+4.0 [+2.0, +6.0]"
    assert said(Estimate(value=1.234), "action/time_to_action") == "1.23"
    assert metric_title("action/top1@25%") == "top-1 at 25%"
    assert metric_title("verb/recall5@1s/unseen") == "verb recall@5 at 1s (unseen)"
    assert metric_title("noun/time_to_action") == "noun time to action"
    assert metric_title("calibration@50%") == "calibration error at 50%"


def test_tables() -> None:
    rows = [row("r0"), row("r1", SURE, **{"action/top1@25%": Estimate(value=0.25)})]
    told = values_table(results(rows))
    assert told[0] == "|  | area | top-1 at 25% | parameters | GFLOP a frame | seeds | training |"
    assert told[1] == "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    assert told[2:] == [
        "| R0 | 50.0 |  | 1.23 M | 0.123 | 2 | 62 s |",
        "| R1 | 50.0 | 25.0 | 1.23 M | 0.123 | 2 | 62 s |",
    ]
    apart = differences_table(results(rows), rows[1:])
    assert apart == ["| difference | area |", "| --- | ---: |", f"| R1 {MINUS} Run 0 | **+4.0 [+2.0, +6.0]** |"]
    page = markdown(results(rows), ["curve.svg"])
    data = "Some data, 1,234 validation examples, 24 actions, 3 verbs."
    assert page.splitlines()[:7] == ["## Study", "", "Which?", "", "    horst study s.yaml", "", data]
    assert page.endswith("\n![curve of Study](curve.svg)\n")
    assert all(line in page for line in (*told, *apart))


@pytest.mark.parametrize(
    ("over", "told", "not_told"),
    [(OVER_SEEDS, "Means over seeds", "single seed"), (OVER_EXAMPLES, "Of a single seed", "Means over seeds")],
)
def test_notes_say_what_intervals_are_of(over: str, told: str, not_told: str) -> None:
    words = "\n".join(notes(results([row("r0", area=Estimate(value=0.5, low=0.4, high=0.6, over=over))])))
    assert told in words
    assert not_told not in words
    assert "Differences" not in words
    assert "Lower is better" not in words
    assert "Trained at" not in words
    assert "Not done" not in words
    assert "folds" not in words


def test_notes_on_differences_folds_commits_and_what_is_missing() -> None:
    both, single = (Estimate(value=0.1, low=0.0, high=0.2, over=over) for over in (OVER_BOTH, OVER_EXAMPLES))
    assert "over seeds and examples (2,000 resamples" in "\n".join(notes(results([row("r1", both)])))
    assert "paired bootstrap over examples (2,000" in "\n".join(notes(results([row("r1", single)])))
    lower = Study(
        **{
            **{f: getattr(STUDY, f) for f in Study.__dataclass_fields__},
            "metrics": ("area", "calibration@25%", "decided"),
        }
    )
    folded = Study(**{**{f: getattr(STUDY, f) for f in Study.__dataclass_fields__}, "folds": ({}, {}, {})})
    assert "Lower is better: calibration error at 25%, decided." in notes(results([row("r0")], study=lower))
    assert any(note.startswith("3 folds: ") for note in notes(results([row("r0")], study=folded)))
    commits = [SimpleNamespace(commit=name) for name in ("b" * 40 + "+changes", "a" * 40, None, "a" * 40)]
    found = notes(results([row("r0")], outcomes=commits, missing=["r1-seed0", "r2-seed0"]))
    assert f"Trained at commit {'a' * 12}, {'b' * 12}+changes." in found
    assert "Not done yet: r1-seed0, r2-seed0." in found


def test_a_page_whole() -> None:
    """Title, table, differences, notes and plots, with the lines between them."""
    rows = [row("r0"), row("r1", replace(SURE, over=OVER_BOTH, by_seed={0: 0.04, 1: 0.0401}))]
    given = results(rows, study=replace(STUDY, title="A | B", metrics=("area",)))
    told, apart = values_table(given), differences_table(given, rows[1:])
    assert markdown(given, ["curve.svg", "differences.svg"]).split("\n") == [
        "## A | B", "", "Which?", "", "    horst study s.yaml", "",
        "Some data, 1,234 validation examples, 24 actions, 3 verbs.", "",
        *told, "", *apart, "", *(f"- {note}" for note in notes(given)), "",
        "![curve of A | B](curve.svg)", "", "![differences of A | B](differences.svg)", "",
    ]  # fmt: skip
    alone = results([row("r0")])
    assert "| difference |" not in markdown(alone)
    assert len(notes(alone)) == 1
    assert notes(given)[1].endswith("results.json has the difference of each.")
    assert markdown_row(["a|b", "c\nd"]).startswith("| a\\|b | c")
    assert markdown_row(["a|b", "c\nd"]).count("\n") == 0


def test_columns_that_no_run_has_are_left_out() -> None:
    rows = [row("r0"), row("r1", SURE)]
    assert values_table(results(rows))[0].count("|") == 7
    assert "top-1" not in values_table(results(rows))[0]
    some = replace(rows[1], differences={"action/top1@25%": UNSURE}, against=None)
    apart = differences_table(results(rows), [rows[1], some])
    assert apart[0] == "| difference | area | top-1 at 25% |"
    assert apart[1] == "| --- | ---: | ---: |"
    assert apart[3] == f"| R1 {MINUS}  |  | {MINUS}1.0 [{MINUS}5.0, +3.0] |"


def test_half_an_interval_is_not_said() -> None:
    assert said(Estimate(value=0.5, low=0.4), "area") == "50.0"
    assert said(Estimate(value=0.5, high=0.6), "area") == "50.0"
    assert said(SURE, "action/time_to_action", signed=True) == "**+0.04 [+0.02, +0.06]**"
    assert metric_title("area") == "area"
    assert metric_title("action/recall5@1s/tail") == "recall@5 at 1s (tail)"


def test_only_the_figures_that_there_are_stay(tmp_path: Path) -> None:
    """A figure of earlier results would show other numbers than the table."""
    for name in ("curve.svg", "calibration.svg", "differences.svg"):
        (tmp_path / name).write_text("old")
    whole = samples("recognition", (0.1, 0.2, 0.3), (0.2, 0.3, 0.4))
    for sample in whole:
        sample.predictions = About(task="recognition", positions=tuple(FRACTIONS))
    given = results([row("r0")], found={"r0": whole}, to_dict=lambda: {"title": "\N{MINUS SIGN}"})
    assert write_results(results([], found={}), tmp_path) == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["calibration.svg", "curve.svg", "differences.svg"]
    page, table = tmp_path / "results.md", tmp_path / "results.json"
    assert write_results(given, tmp_path) == [page, table]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["results.json", "results.md"]
    assert table.read_text(encoding="utf-8") == '{\n "title": "\N{MINUS SIGN}"\n}\n'
    curved = results([row("r0")], found={"r0": whole}, to_dict=dict, study=replace(STUDY, curve=True))
    assert write_results(curved, tmp_path) == [page, table, tmp_path / "curve.svg"]
    assert page.read_text(encoding="utf-8").endswith("![curve of Study](curve.svg)\n")


def test_results_as_plain_data() -> None:
    bare = results([row("r0")])
    given = Results(STUDY, [], bare.found, bare.rows, ["r1-seed0"], "horst study")
    assert replace(given, outcomes=[Told()]).to_dict() == {  # type: ignore[list-item]
        "study": "s", "title": "Study", "question": "Which?", "command": "horst study", "horst": horst.__version__,
        "data": "Some data, 1,234 validation examples, 24 actions", "against": None,
        "rows": [row("r0").to_dict()], "runs": [{"run": "r0"}], "missing": ["r1-seed0"],
    }  # fmt: skip


class About(SimpleNamespace):
    """Of predictions: how many there are."""

    def __len__(self) -> int:
        return 5


class Told:
    evaluation = SimpleNamespace(data="Some data", classes={"action": 24})

    def to_dict(self) -> dict[str, Any]:
        return {"run": "r0"}
