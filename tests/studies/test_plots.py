"""Plots and words of a study, against the numbers that they show."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

import horst
from horst.evaluation.report import markdown_row, metric_title
from horst.studies.compare import OVER_SEEDS, Estimate, StudyRow
from horst.studies.config import Study, StudyRun
from horst.studies.plots import MINUS, curves, differences
from horst.studies.report import (
    StudyResults,
    differences_table,
    estimate_cell,
    markdown,
    notes,
    values_table,
    write_results,
)
from horst.viz import style

RUNS = tuple(StudyRun(name=f"r{i}", title=f"Run {i}") for i in range(8))
STUDY = Study(name="s", title="Study", question="Which?", runs=RUNS, metrics=("area", "action/top1@25%"), base="x.yaml")
OVER_EXAMPLES, OVER_BOTH = "bootstrap over examples", "bootstrap over seeds and examples"
LABELS = {run.name: run.label for run in RUNS}
FRACTIONS = {0.25: "25%", 0.5: "50%", 1.0: "100%"}
TAUS = {2.0: "2s", 1.0: "1s", 0.25: "0.25s"}


def seeds(task: str, *values: tuple[float, ...], kind: str = "action/top1") -> list[dict[str, float]]:
    """Metrics of each seed, from values by position."""
    places = FRACTIONS if task == "recognition" else TAUS
    return [{f"{kind}@{name}": value for name, value in zip(places.values(), seed, strict=True)} for seed in values]


def drawn(found: dict[str, list[dict[str, float]]], kind: str = "") -> Axes:
    figure = curves("Study", LABELS, found, kind)
    assert figure is not None
    (axes,) = figure.axes
    return axes


def legend(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]  # type: ignore[union-attr]


def test_a_curve_goes_through_the_means_and_its_band_through_the_ends() -> None:
    axes = drawn({"r0": seeds("recognition", (0.25, 0.5, 0.75), (0.35, 0.7, 1.0))})
    assert axes.get_title("left") == "Study: top-1"
    (line,), (band,) = axes.get_lines(), axes.collections
    assert np.asarray(line.get_xydata()) == pytest.approx(np.array([(0.25, 0.3), (0.5, 0.6), (1.0, 0.875)]))
    corners = {(round(x, 6), round(y, 6)) for x, y in band.get_paths()[0].vertices}
    assert corners == {(0.25, 0.25), (0.5, 0.5), (1.0, 0.75), (0.25, 0.35), (0.5, 0.7), (1.0, 1.0)}
    assert legend(axes) == ["Run 0 87.5%"]
    assert "band" in axes.get_ylabel()


def test_seconds_before_the_action_run_to_the_left() -> None:
    axes = drawn({"r0": seeds("anticipation", (0.1, 0.2, 0.3), kind="action/top5")})
    assert axes.get_title("left") == "Study: top-5"
    assert axes.get_xlim() == (2, 0)
    assert list(axes.get_lines()[0].get_xdata()) == [2, 1, 0.25]
    assert axes.get_ylabel() == "one seed"
    assert not axes.collections


def test_runs_keep_their_colour_and_what_is_not_known_is_left_out() -> None:
    whole = (0.6, 0.7, 0.8)
    found = {"r1": seeds("recognition", whole), "r7": seeds("recognition", whole)}
    found["r2"] = seeds("recognition", whole, kind="calibration")
    axes = drawn(found)
    assert legend(axes) == ["Run 1 80.0%", "Run 7 80.0%"]
    assert {line.get_color() for line in axes.get_lines()} == {style.SERIES[1]}  # the eighth has the second's again,
    assert [line.is_dashed() for line in axes.get_lines()] == [False, True]  # dashed
    assert legend(drawn(found, "calibration")) == ["Run 2 80.0%"]
    assert curves("Study", LABELS, {}) is None
    assert curves("Study", LABELS, {"r0": seeds("recognition", whole)}, "calibration") is None


def row(name: str, gap: Estimate | None = None, **values: Estimate) -> StudyRow:
    costs = {"parameters": 1_234_567, "gflop": 0.12345, "seconds": 61.6, "frames_per_second": None}
    return StudyRow(
        name=name,
        title=name.upper(),
        seeds=[0, 1],
        values={"area": Estimate(value=0.5), **values},
        against="r0" if gap else None,
        differences={"area": gap} if gap else {},
        **costs,  # type: ignore[arg-type]
    )


SURE, UNSURE = (
    Estimate(value=0.04, low=0.02, high=0.06, p=0.01, p_holm=0.05),
    Estimate(value=-0.01, low=-0.05, high=0.03),
)


def test_differences_are_dots_with_intervals() -> None:
    late = replace(row("r3", SURE), differences={"a/time_to_action": SURE}, against="away")
    rows = [row("r0"), row("r1", SURE), row("r2", UNSURE), late]
    figure = differences(rows, (*STUDY.metrics, "a/time_to_action"), str.upper)
    assert figure is not None
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["AREA", f"R1 {MINUS} R0", f"R2 {MINUS} R0"]  # seconds have no place on an axis of per cent
    found = [container.lines for container in axes.containers]
    assert [dot.get_xydata().tolist() for dot, *_ in found] == [[[4.0, 1]], [[-1.0, 2]]]  # type: ignore[union-attr]
    spans = [bars[0].get_segments()[0][:, 0].tolist() for *_, bars in found]
    assert spans == [pytest.approx([2, 6]), pytest.approx([-5, 3])]
    assert [dot.get_color() for dot, *_ in found] == [style.SERIES[0], style.SERIES[5]]  # sure or not


@pytest.mark.parametrize(
    ("values", "top"),
    [
        ([(0.0, 0.0, 0.02)], 0.05),
        ([(0.05, 0.0, 0.02)], 0.055),
        ([(0.1, 0.3, 0.55)], 0.605),
        ([(0.1, 0.3, 0.551)], 1.0),
        ([(0.1, 0.3, 0.2), (0.1, 0.6, 0.2)], 1.0),  # the band counts too
        ([(0.1, 0.3, 0.2), (0.1, 0.4, 0.2)], 0.44),
    ],
)
def test_the_axis_ends_above_the_highest_value(values: list[tuple[float, ...]], top: float) -> None:
    assert drawn({"r0": seeds("recognition", *values)}).get_ylim() == pytest.approx((0, top))


def test_ticks_of_half_seconds_end_before_the_earliest_place() -> None:
    for longest, last in ((1.75, 1.5), (1.5, 1.5), (1.25, 1.0)):
        axes = drawn({"r0": [{f"action/top5@{place:g}s": 0.5 for place in (longest, 0.5)}]})
        assert list(axes.get_xticks()) == [i / 2 for i in range(round(2 * last) + 1)]


def test_a_curve_needs_two_places_and_every_number() -> None:
    assert curves("Study", LABELS, {"r0": [{"action/top1@50%": 0.5}]}) is None
    for lost in (math.nan, None):
        both = seeds("recognition", (0.1, 0.2, 0.3), (0.1, 0.2, 0.3))
        both[1]["action/top1@50%"] = lost  # type: ignore[assignment]
        if lost is None:
            del both[1]["action/top1@50%"]
        assert curves("Study", LABELS, {"r0": both}) is None
        assert legend(drawn({"r0": both, "r1": seeds("recognition", (0.1, 0.2, 0.3))})) == ["Run 1 30.0%"]


def test_half_an_interval_is_not_drawn() -> None:
    for gap in (Estimate(value=0.1, low=0.0), Estimate(value=0.1, high=0.2)):
        assert differences([row("r0"), row("r1", gap)], STUDY.metrics, str) is None


def test_nothing_to_compare_is_no_figure() -> None:
    assert differences([row("r0")], STUDY.metrics, str) is None
    assert differences([row("r0"), row("r1", Estimate(value=0.1))], STUDY.metrics, str) is None  # no interval
    late = StudyRow(
        **{
            **{f: getattr(row("r1", SURE), f) for f in StudyRow.__dataclass_fields__},
            "differences": {"a/time_to_action": SURE},
        }
    )
    assert differences([late], ["a/time_to_action"], str) is None  # seconds


def results(rows: list[StudyRow], **more: Any) -> Any:
    evaluation = SimpleNamespace(data="Some data", classes={"action": 24, "verb": 3})
    given: dict[str, Any] = {"study": STUDY, "rows": rows, "missing": [], "command": "horst study s.yaml"}
    given["runs"] = [SimpleNamespace(evaluation=evaluation, commit=None)]
    given["seeds"] = {"r0": [SimpleNamespace(predictions=SizedGroups(1234))]}
    given["data"] = "Some data, 1,234 validation examples, 24 actions, 3 verbs"
    return SimpleNamespace(**{**given, **more})


def test_numbers_in_words() -> None:
    assert estimate_cell(None, "area") == ""
    assert estimate_cell(Estimate(value=0.6124), "area") == "61.2"
    assert estimate_cell(SURE, "area") == "4.0 [2.0, 6.0]"
    assert estimate_cell(SURE, "area", signed=True) == "**+4.0 [+2.0, +6.0]**"
    assert estimate_cell(UNSURE, "area", signed=True) == f"{MINUS}1.0 [{MINUS}5.0, +3.0]"
    assert estimate_cell(replace(SURE, p_holm=0.051), "area", signed=True) == "+4.0 [+2.0, +6.0]"
    assert estimate_cell(Estimate(value=1.234), "action/time_to_action") == "1.23"
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
    [(OVER_SEEDS, "Means over seeds", "single seed"), (OVER_EXAMPLES, "Single seeds have", "Means over seeds")],
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
    assert "comparisons" not in "\n".join(notes(results([row("r1", both)])))  # none is tested
    grouped = [replace(gap, over="bootstrap over seeds and groups of examples", p=0.1) for gap in (both, single)]
    told = "\n".join(notes(results([row("r1", grouped[0]), row("r2", grouped[1])])))
    assert "drawn together" in told
    assert "2 comparisons are tested" in told
    assert "Student" not in told  # of one seed
    assert "Student" in "\n".join(notes(results([row("r1", replace(grouped[0], by_seed={0: 0.1, 1: 0.1}))])))
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
    found = notes(results([row("r0")], runs=commits, missing=["r1-seed0", "r2-seed0"]))
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
    assert notes(given)[2].endswith("corrected as p_holm.")
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
    assert estimate_cell(Estimate(value=0.5, low=0.4), "area") == "50.0"
    assert estimate_cell(Estimate(value=0.5, high=0.6), "area") == "50.0"
    assert estimate_cell(SURE, "action/time_to_action", signed=True) == "**+0.04 [+0.02, +0.06]**"
    assert metric_title("area") == "area"
    assert metric_title("action/recall5@1s/tail") == "recall@5 at 1s (tail)"


def test_only_the_figures_that_there_are_stay(tmp_path: Path) -> None:
    """A figure of earlier results would show other numbers than the table."""
    for name in ("curve.svg", "calibration.svg", "differences.svg"):
        (tmp_path / name).write_text("old")
    both = seeds("recognition", (0.1, 0.2, 0.3), (0.2, 0.3, 0.4))
    whole = [SimpleNamespace(metrics=metrics, predictions=range(5)) for metrics in both]
    given = results([row("r0")], seeds={"r0": whole}, to_dict=lambda: {"title": "\N{MINUS SIGN}"})
    assert write_results(results([], seeds={}), tmp_path) == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["calibration.svg", "curve.svg", "differences.svg"]
    page, table = tmp_path / "results.md", tmp_path / "results.json"
    assert write_results(given, tmp_path) == [page, table]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["results.json", "results.md"]
    assert table.read_text(encoding="utf-8") == '{\n "title": "\N{MINUS SIGN}"\n}\n'
    curved = results([row("r0")], seeds={"r0": whole}, to_dict=dict, study=replace(STUDY, curve=True))
    assert write_results(curved, tmp_path) == [page, table, tmp_path / "curve.svg"]
    assert page.read_text(encoding="utf-8").endswith("![curve of Study](curve.svg)\n")


def test_results_as_plain_data() -> None:
    bare = results([row("r0")])
    assert grouped_data(2) == "Some data, 2 validation examples, 24 actions"
    assert grouped_data(3) == "Some data, 3 validation examples in 2 groups, 24 actions"
    given = StudyResults(STUDY, [], bare.seeds, bare.rows, ["r1-seed0"], "horst study")
    assert replace(given, runs=[Trained()]).to_dict() == {  # type: ignore[list-item]
        "study": "s", "title": "Study", "question": "Which?", "command": "horst study", "horst": horst.__version__,
        "data": "Some data, 1,234 validation examples, 24 actions", "against": None,
        "rows": [asdict(row("r0"))], "runs": [{"run": "r0"}], "missing": ["r1-seed0"],
    }  # fmt: skip


class Trained:
    evaluation = SimpleNamespace(data="Some data", classes={"action": 24})

    def to_dict(self) -> dict[str, Any]:
        return {"run": "r0"}


class SizedGroups:
    def __init__(self, count: int, groups: tuple[str, ...] = ()) -> None:
        self.count, self.groups = count, groups

    def __len__(self) -> int:
        return self.count


def grouped_data(count: int) -> str:
    """The data of examples in two groups."""
    seeds: Any = {"r0": [SimpleNamespace(predictions=SizedGroups(count, ("a", "b", "b")[:count]))]}
    return StudyResults(STUDY, [Trained()], seeds, [], [], "").data  # type: ignore[list-item]
