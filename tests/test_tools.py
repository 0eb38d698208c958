"""The scripts in tools/ that fill docs/results: what they write is what the models and the stored results give."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from horst.models import open_model
from horst.studies.compare import Estimate
from horst.studies.statistics import t_p
from horst.synth.fresh import fresh_somethings
from horst.viz import style
from horst.viz.clips import stream_clip


@pytest.fixture
def tool(root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A script of tools/ by its name."""
    monkeypatch.syspath_prepend(str(root / "tools"))
    return import_module


def test_examples_are_what_the_model_predicts(tool: Any, tmp_path: Path) -> None:
    """The first clips of a larger set are those of a smaller one: two are made again."""
    draw: Any = tool("draw_examples")
    stored = {entry["id"]: entry for entry in json.loads(draw.NUMBERS.read_text())["somethings"]["examples"]}
    model, fresh = open_model("somethings"), fresh_somethings(tmp_path, clips=2, seed=draw.SEED)
    clips = [clip for clip in (stream_clip(model, fresh, "val", index) for index in range(2)) if clip.id in stored]
    assert clips
    for clip in clips:
        entry = stored[clip.id]
        kind = next(kind for kind in draw.KINDS["somethings"] if kind.name == entry["kind"])
        example = draw.ChosenExample("somethings", kind, clip)
        found = draw.numbers(example)
        for key in ("truth", "rule", "picture", "frames"):
            assert found[key] == entry[key]
        for position, answers in entry["answers"].items():
            assert found["answers"][position]["best"][0][0] == answers["best"][0][0]
            assert found["answers"][position]["truth"] == pytest.approx(answers["truth"], abs=0.005)
        weights = [state["weight"] for state in entry["attention"]["states"]]
        assert [state["weight"] for state in found["attention"]["states"]] == pytest.approx(weights, abs=0.005)
        svg = style.svg(*draw.figures(example))
        assert f">{entry['truth']}: {entry['rule']} (clip {clip.id})<" in svg
        for answers in found["answers"].values():
            for name, probability in answers["best"]:
                assert name in svg
                assert f">{100 * probability:.0f}%<" in svg


@pytest.mark.parametrize("name", ["index.md", "appendix.md"])
def test_the_results_pages_have_the_tables_of_the_studies(tool: Any, root: Path, name: str) -> None:
    page = (root / "docs" / "results" / name).read_text(encoding="utf-8")
    assert tool("make_results").fill(page) == page


def test_the_results_page_is_short_and_states_the_number_of_comparisons(root: Path) -> None:
    page, appendix = ((root / "docs" / "results" / name).read_text() for name in ("index.md", "appendix.md"))
    words = page.partition("\n## Appendix\n")[0].split()
    assert sum(bool(re.search(r"\w", word)) for word in words) <= 1500  # bars of tables are none
    counted = re.search(r"\| all \| (\d+) \|", appendix)
    assert counted is not None
    assert f"{counted[1]} comparisons" in page


def test_what_is_significant_in_earlier_results_is_so_by_the_seeds(tool: Any) -> None:
    """As docs/results/appendix.md says: the approximation decides none of them."""
    make: Any = tool("make_results")
    texts = [file.read_text() for file in make._stored()]
    rows = [row for text in texts if '"p_holm"' not in text for row in make.stored_rows(json.loads(text))]
    gaps = [gap for row in rows for gap in row.differences.values() if gap.significant]
    assert gaps
    assert [gap.p for gap in gaps] == [t_p(list(gap.by_seed.values())) for gap in gaps]


def test_p_values_of_earlier_results_are_approximate(tool: Any) -> None:
    """An interval of a normal distribution that ends at 0 has p = 5%; that of the seeds counts if it is larger."""
    make: Any = tool("make_results")
    ends = Estimate(value=0.02, low=0.0, high=0.05)
    assert make.approximate_p("area", ends) == pytest.approx(0.05, abs=1e-4)
    assert make.approximate_p("area", replace(ends, value=-0.02, low=-0.03, high=0.0)) == pytest.approx(0.05, abs=1e-4)
    seeds = replace(ends, low=0.015, by_seed={0: 0.0, 1: 0.04})
    assert make.approximate_p("area", seeds) == pytest.approx(0.5)
    assert make.approximate_p("calibration@50%", ends) is None
    assert not make.earlier_rule(ends)
    assert make.earlier_rule(replace(ends, low=0.01))
    assert not make.earlier_rule(seeds)


def test_plots_are_drawn_from_the_results_of_a_study(tool: Any, tmp_path: Path) -> None:
    estimate = {"value": 0.02, "low": 0.01, "high": 0.03, "over": "", "by_seed": {"0": 0.02}}
    common = {"parameters": 1, "gflop": 0.1, "seconds": 1.0, "frames_per_second": None, "values": {}, "seeds": [0]}
    rows = [{"name": name, "title": name.upper(), "against": None, "differences": {}, **common} for name in "ab"]
    rows[1] |= {"against": "a", "differences": {"area": estimate}}
    metrics = [{"action/top1@50%": value, "action/top1@100%": 0.8} for value in (0.25, 0.75)]
    runs = [
        {"run": name, "seed": 0, "fold": fold, "examples": 3 - 2 * fold, "metrics": metrics[fold]}
        for name in "ab"
        for fold in (0, 1)
    ]
    found = {"title": "Study", "rows": rows, "runs": runs}
    (tmp_path / "results.json").write_text(json.dumps(found))
    for name in ("curve.svg", "calibration.svg", "differences.svg"):
        (tmp_path / name).write_text("old")
    make: Any = tool("make_results")
    assert make._metrics(runs)["a"] == [pytest.approx({"action/top1@50%": 0.375, "action/top1@100%": 0.8})]
    make.draw(tmp_path)
    assert ">A 80.0%<" in (tmp_path / "curve.svg").read_text()
    assert ">B \N{MINUS SIGN} A<" in (tmp_path / "differences.svg").read_text()
    assert (tmp_path / "calibration.svg").read_text() == "old"  # that of all folds together is not stored
