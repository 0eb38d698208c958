"""Result tables: seeds are averaged, runs are next to the paper's rows, and data sets are never mixed."""

from __future__ import annotations

import json
import statistics
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as settings_of
from hypothesis import strategies as st

from horst.errors import DataError, InputError
from horst.evaluation.evaluate import Evaluation
from horst.evaluation.paper import _part, paper_table, paper_tables
from horst.evaluation.table import group_runs, table, table_data
from horst.registry import Part

HORST = {"table": "early-recognition", "row": "HORST"}
KITCHEN = {"action": 75, "verb": 14, "noun": 20}


def recognition(data: str = "Something-Something v2", classes: int = 41, examples: int = 7503, **metrics: float) -> Any:
    """Metrics by the name of the fraction: top25=0.3."""
    found = {f"action/top1@{name.removeprefix('top')}%": value for name, value in metrics.items() if name != "area"}
    found |= {"area": metrics["area"]} if "area" in metrics else {}
    fractions = [int(name.removeprefix("top")) / 100 for name in metrics if name != "area"]
    evaluation = Evaluation(
        data=data,
        split="val",
        task="recognition",
        counts={"examples": examples, "read": examples, "missing": 0, "left_out": 0, "unlabelled": 0},
        protocol={"mode": "prefix", "leaks": {}, "unobserved": {}, "fractions": fractions},
        metrics=found,
        classes={"action": classes},
    )
    return asdict(evaluation)


def anticipation(data: str, classes: dict[str, int], examples: int, mode: str = "rulstm", **changes: Any) -> Any:
    names = [f"{task}/{kind}" for task in classes for kind in ("top1", "top5", "recall5")]
    taus = [2.0, 1.0, 0.25]
    evaluation = Evaluation(
        data=data,
        split="val",
        task="anticipation",
        counts={"examples": examples, "read": examples - 7, "missing": 7, "left_out": 7, "unlabelled": 0},
        protocol={"mode": mode, "leaks": {}, "unobserved": {}, "taus": taus},
        metrics={f"{name}@{tau:g}s": 0.1 * i for i, name in enumerate(names) for tau in taus},
        classes=classes,
    )
    return {**asdict(evaluation), **changes}


def settings(paper: dict[str, str] | None, **clip: Any) -> dict[str, Any]:
    """Model and data of a run for a row of HORST; `clip` changes entries of its clips."""
    table = paper["table"] if paper else "early-recognition"
    if table.startswith("ek"):
        url = "_unroll" if paper and paper["row"] == "HORST-url" else ""
        model: dict[str, Any] = {"name": f"horst_{table.partition('-')[0]}{url}", "tsn": "TSN-rgb.pth.tar"}
        shown: dict[str, Any] = {"size": [256, 454], "steps": 14, "stride": 0.25, "mode": "rulstm"}
    else:
        model = {"name": "horst_ssv2", "options": {"variant": "released"}}
        shown = {"size": [224, 224], "fps": 24, "observe": 0.25}
    return {"model": model, "data": {"source": "x", "clip": {**shown, **clip}}}


HALF = settings(HORST, observe=0.5)


def write(folder: Path, evaluation: Any, seed: int = 0, **config: Any) -> Path:
    (folder / "evaluation").mkdir(parents=True, exist_ok=True)
    about = {"name": folder.name, "seed": seed, "paper": None, **settings(config.get("paper")), **config}
    (folder / "config.yaml").write_text(yaml.safe_dump(about))
    (folder / "evaluation" / "val.json").write_text(json.dumps(evaluation))
    return folder


def rows(text: str) -> dict[str, list[str]]:
    """Cells by name of all Markdown rows."""
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in cells}


def test_a_run_follows_the_row_that_it_names(tmp_path: Path) -> None:
    runs = [
        write(tmp_path / "horst-25", recognition(top25=0.312), paper=HORST),
        write(tmp_path / "horst-50", recognition(top50=0.45), paper=HORST, **HALF),
    ]
    first = table(runs).split("###")[1]
    lines = [line for line in first.splitlines() if line.startswith("|")]
    assert lines[0] == "|  | 25% | 50% | seeds |"
    assert [line for line in lines if "HORST" in line] == ["| HORST | 33.9 | 47.8 |  |"]
    place = lines.index("| HORST | 33.9 | 47.8 |  |")
    assert lines[place + 1 :] == ["| **horst-25** | 31.2 |  | 1 |", "| **horst-50** |  | 45.0 | 1 |"]
    assert len(rows(first)) == 2 + len(paper_table("early-recognition").rows) + 2


def test_a_run_is_in_all_tables_with_its_row(tmp_path: Path) -> None:
    """But a run of 50% has no number for a table of 25%."""
    run = write(tmp_path / "a", recognition(top25=0.3), paper=HORST)
    other = write(tmp_path / "b", recognition(top50=0.4), paper=HORST, **HALF)
    assert [t["paper"] for t in table_data([run, other])] == ["early-recognition", "attention", "order", "key-value"]
    assert [t["paper"] for t in table_data([other])] == ["early-recognition"]
    order = next(t for t in table_data([run, other]) if t["paper"] == "order")
    assert [line["name"] for line in order["lines"]] == ["S = 1", "S = 3", "S = 8", "a", "S = 12", "S = 16"]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
@settings_of(max_examples=30, deadline=None)
def test_mean_and_deviation_over_seeds(values: list[float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        name = "wide" if len(values) == 1 else "wide-seed{}"
        runs = [
            write(Path(folder) / str(i), recognition(top25=value), seed=i, name=name.format(i), paper=HORST)
            for i, value in enumerate(values)
        ]
        line = table_data(runs)[0]["lines"][-1]
        cell = rows(table(runs))["**wide**"][0]
    metric = "action/top1@25%"
    assert line["name"] == "wide"
    assert line["seeds"] == list(range(len(values)))
    assert line["values"][metric] == pytest.approx(100 * sum(values) / len(values))
    if len(values) > 1:
        spread = 100 * statistics.stdev(values)
        assert line["deviations"][metric] == pytest.approx(spread, abs=1e-9)
        assert cell == f"{line['values'][metric]:.1f} ± {line['deviations'][metric]:.1f}"
    else:
        assert line["deviations"] == {}
        assert "±" not in cell


def test_runs_that_differ_in_more_than_the_seed(tmp_path: Path) -> None:
    """Also where they have one name: then the folder tells them apart."""
    runs = [
        write(tmp_path / "a", recognition(top25=0.3), name="same", paper=HORST),
        write(tmp_path / "b", recognition(top25=0.4), name="same", paper=HORST, seed=1),
        write(tmp_path / "c", recognition(top25=0.5), name="same", paper=HORST, seed=1, schedule={"decay": 1.0}),
    ]
    assert [[run.config["seed"] for run in group.runs] for group in group_runs(runs)] == [[0, 1], [1]]
    assert len({group.name for group in group_runs(runs)}) == 2
    assert f"same ({tmp_path / 'c'})" in table(runs)


def test_a_folder_counts_once_and_a_seed_must_occur_once(tmp_path: Path) -> None:
    run = write(tmp_path / "a", recognition(top25=0.3), name="x")
    assert len(group_runs([run, tmp_path / "." / "a"])[0].runs) == 1
    twin = write(tmp_path / "b", recognition(top25=0.3), name="y")
    with pytest.raises(DataError, match="same run with the same seed") as error:
        table([run, twin])
    assert str(run) in str(error.value)
    assert str(twin) in str(error.value)


CLAIMS = "claims (not the paper's)"
ELSEWHERE = [
    ("made data", recognition("somethings", 24, 397, top25=0.6)),
    ("made data of as many classes", recognition("somethings", 41, 7503, top25=0.6)),
    ("all classes", recognition(classes=174, examples=24777, top25=0.6)),
    ("another task", anticipation("kitchen", KITCHEN, 367)),
]


@pytest.mark.parametrize(("what", "evaluation"), ELSEWHERE, ids=[what for what, _ in ELSEWHERE])
@pytest.mark.parametrize("paper", [{"table": t.name, "row": t.rows[0].name} for t in paper_tables().values()], ids=str)
def test_other_data_are_never_next_to_the_paper(
    tmp_path: Path, what: str, evaluation: Any, paper: dict[str, str]
) -> None:
    """Whatever row they claim; a sentence says so."""
    run = write(tmp_path / "claims", evaluation, paper=paper)
    (only,) = table_data([run])
    assert only["paper"] is None
    assert [line["name"] for line in only["lines"]] == [CLAIMS]
    (note,) = only["notes"]
    assert "cannot be compared with the paper's" in note
    assert evaluation["data"] in note
    assert paper_table(paper["table"]).data in note
    genuine = write(tmp_path / "genuine", recognition(top25=0.3), paper=HORST)
    for found in table_data([run, genuine]):
        names = {line["name"] for line in found["lines"]}
        assert (CLAIMS in names) == (found["paper"] is None)
        assert not {CLAIMS, "genuine"} <= names


def test_data_sets_are_recognised_by_name_and_classes(tmp_path: Path) -> None:
    for name, shown in (("ek55", ["ek55", "ek55-backbones"]), ("ek100", ["ek100"])):
        paper = paper_table(name)
        evaluation = anticipation(paper.data, paper.classes, paper.examples)
        run = write(tmp_path / name, evaluation, paper={"table": name, "row": "HORST-url"})
        found = table_data([run])
        assert [t["paper"] for t in found] == shown
        assert all(t["notes"] == [] for t in found)
        assert found[0]["lines"][-1]["values"]


def test_decimals(tmp_path: Path) -> None:
    paper = paper_table("ek55")
    evaluation = anticipation(paper.data, paper.classes, paper.examples)
    text = table([write(tmp_path / "run", evaluation, paper={"table": "ek55", "row": "HORST"})])
    five, six = text.split("###")[1:]
    assert rows(five)["HORST"][4] == "30.69"
    assert rows(five)["**run**"][4] == "10.00"
    assert rows(five)["DMR"][0] == ""
    assert rows(six)["**run**"][:2] == ["0.0", "10.0"]


def test_departures_from_the_paper_are_noted(tmp_path: Path) -> None:
    paper = paper_table("ek55")
    few = anticipation(paper.data, paper.classes, paper.examples, "strict")
    few["counts"]["missing"] = 10
    row = {"table": "ek55", "row": "HORST"}
    about = settings(row)
    about["data"]["many_shot"] = "official"
    run = write(tmp_path / "few", few, paper=row, **about)
    notes = " ".join(table_data([run])[0]["notes"])
    for message in ("mode strict", "official", "3 of 4,979 clips could not be read"):
        assert message in notes, message
        assert message in table([run])
    odd = write(tmp_path / "odd", recognition(top30=0.3), paper=HORST)
    assert "not evaluated at any position" in table([odd])


def changed(**options: Any) -> dict[str, Any]:
    about = settings(HORST)
    about["model"]["options"] |= options
    return about


UNLIKE = [
    ("narrow", changed(hidden=[8, 8, 8, 8]), "hidden is [8, 8, 8, 8], not [128, 256, 512, 512]"),
    ("first order", changed(order=1), "order is 1, not 8"),
    ("layers", changed(hidden=[128], stride=[1]), "hidden is [128], not"),
    ("mixed", changed(variant="paper", activation="silu"), "activation is silu, not relu"),
    ("attention", changed(attention="temporal"), "attention is temporal, not spatial-temporal"),
    ("backbone", changed(backbone={"name": "stem", "widths": [8, 128]}), "backbone widths is [8, 128], not"),
    ("head", changed(norm="batch"), "head norm is batch, not None"),
    ("model", {**HALF, "model": {"name": "conv_lstm_ssv2"}}, "its core is ConvLSTM, not HORST"),
    ("rate", settings(HORST, fps=6), "clip.fps is 6, not 24 or 12"),
    ("size", settings(HORST, size=[112, 112]), "clip.size is [112, 112], not [224, 224]"),
    ("whole", settings(HORST, observe=1.0), "100% of each clip is observed, not 25% or 50%"),
    ("unknown", {**HALF, "model": {"name": "mine"}}, "its config does not describe a known model"),
]


@pytest.mark.parametrize(("about", "says"), [pair[1:] for pair in UNLIKE], ids=[name for name, *_ in UNLIKE])
def test_a_run_that_differs_from_its_row_is_in_another_table(tmp_path: Path, about: dict[str, Any], says: str) -> None:
    run = write(tmp_path / "claims", recognition(top25=0.3), paper=HORST, **about)
    genuine = write(tmp_path / "genuine", recognition(top25=0.3), paper=HORST)
    *beside, own = table_data([run, genuine])
    assert [t["paper"] for t in beside] == ["early-recognition", "attention", "order", "key-value"]
    assert not any("claims" in line["name"] for t in beside for line in t["lines"])
    assert [line["name"] for line in own["lines"]] == [CLAIMS]
    (note,) = own["notes"]
    assert "the paper's row 'HORST' (early-recognition)" in note
    assert says in note
    assert says in table([run, genuine])


@pytest.mark.parametrize(("found", "wanted"), [("stem", "maps"), ("maps", "stem")])
def test_parts_with_other_names_differ(found: str, wanted: str) -> None:
    assert list(_part("backbone", Part(name=found), Part(name=wanted))) == [f"its backbone is {found}, not {wanted}"]
    assert not list(_part("backbone", Part(name=found), Part(name=found)))


def test_a_run_with_other_clips_is_in_another_table(tmp_path: Path) -> None:
    fewer = write(tmp_path / "fewer", recognition(examples=7502, top25=0.3), paper=HORST)
    evaluation = recognition(top25=0.3)
    evaluation["counts"]["train"] = 56_768
    other_train = write(tmp_path / "other", evaluation, paper=HORST, seed=1)
    for run, says in ((fewer, "evaluated on 7,502 clips, the paper on 7,503"), (other_train, "56,768 training clips")):
        (only,) = table_data([run])
        assert only["paper"] is None
        assert says in only["notes"][0]
    evaluation["counts"]["train"] = 56_769
    assert table_data([write(tmp_path / "same", evaluation, paper=HORST)])[0]["paper"] == "early-recognition"
    row = {"table": "ek55", "row": "HORST"}
    paper = paper_table("ek55")
    about = settings(row)
    del about["model"]["tsn"]
    random = write(tmp_path / "x", anticipation(paper.data, paper.classes, paper.examples), paper=row, **about)
    assert "no TSN weights" in table_data([random])[0]["notes"][0]


def test_runs_without_a_row(tmp_path: Path) -> None:
    """Sets of one name and different size are different sets."""
    runs = [
        write(tmp_path / "small", recognition("somethings", 24, 397, top25=0.2, top50=0.4, top100=0.61, area=0.5)),
        write(tmp_path / "large", recognition("somethings", 24, 3999, top25=0.3, top50=0.4, top100=0.6, area=0.5)),
        write(tmp_path / "larger", recognition("somethings", 24, 3999, top25=0.4), data="x"),
        write(tmp_path / "cook", anticipation("kitchen", KITCHEN, 954)),
    ]
    found = table_data(runs)
    assert [[line["name"] for line in t["lines"]] for t in found] == [["small"], ["large", "larger"], ["cook"]]
    assert list(found[0]["columns"]) == ["top-1 at 25%", "top-1 at 50%", "top-1 at 100%", "area"]
    assert rows(table(runs))["small"] == ["20.0", "40.0", "61.0", "50.0", "1"]
    assert rows(table(runs))["larger"] == ["40.0", "", "", "", "1"]
    assert len(found[2]["columns"]) == 9
    assert set(found[2]["columns"].values()) <= set(anticipation("kitchen", KITCHEN, 954)["metrics"])


def test_table_data_is_json(tmp_path: Path) -> None:
    run = write(tmp_path / "a", recognition(top25=0.3), paper=HORST)
    assert json.loads(json.dumps(table_data([run]))) == table_data([run])


def test_names_do_not_break_the_markdown(tmp_path: Path) -> None:
    run = write(tmp_path / "a", recognition(top25=0.3), name="a|b", paper=HORST)
    assert "| **a\\|b** | 30.0 |" in table([run])


def test_invalid_runs_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name one run folder"):
        table([])
    with pytest.raises(DataError, match=r"no run folder: there is no config.yaml"):
        table([tmp_path])
    run = write(tmp_path / "run", recognition(top25=0.3))
    results, config = run / "evaluation" / "val.json", run / "config.yaml"
    good = results.read_text()
    results.unlink()
    with pytest.raises(DataError, match=f"horst evaluate {run}"):
        table([run])
    changed = [json.dumps({**json.loads(good), **change}) for change in (
        {"metrics": None}, {"metrics": {"area": "0.5"}}, {"counts": {}}, {"split": "train"}, {"surprise": 1},
    )]  # fmt: skip
    for damaged in (good[: len(good) // 2], "[]", "{}", *changed):
        results.write_text(damaged)
        with pytest.raises(DataError, match=r"val\.json"):
            table([run])
    results.write_text(good)
    for damaged in ("a: [", "[]", "name: x", "{name: x, seed: 0, paper: HORST}"):
        config.write_text(damaged)
        with pytest.raises(DataError, match=r"config\.yaml"):
            table([run])
    config.write_text("{name: x, seed: 0, paper: {table: early-recognition, row: HORTS}}")
    with pytest.raises(DataError, match="did you mean 'HORST'"):
        table([run])


@pytest.mark.parametrize(("taus", "at"), [([1.25, 0.5], "1.25s"), ([2.0, 0.25], "0.25s"), ([], "1s")])
def test_columns_are_those_nearest_to_1_s(tmp_path: Path, taus: list[float], at: str) -> None:
    about = anticipation("kitchen", KITCHEN, 954)
    about["protocol"]["taus"] = taus
    about["metrics"] |= {f"action/top5@{tau:g}s": 0.5 for tau in taus}
    (found,) = table_data([write(tmp_path / "cook", about)])
    assert {name.rpartition("@")[2] for name in found["columns"].values()} == {at}
