"""`horst models`: every method once, with the costs that `summarize` counts and the results of the paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from horst.cli import main
from horst.configs import find_config, list_configs
from horst.configs.run_file import read_run
from horst.evaluation.paper import paper_table
from horst.models import create_model, list_methods, model_config
from horst.models.registry import METHODS, SIZES
from horst.models.summary import summarize
from horst.training.config import RunConfig
from horst.training.methods import FROZEN, config_files, describe, loss_title, methods_of

Call = Callable[..., str]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    def call(*args: str, width: int = 160) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(["models", *args]) == 0
        return capsys.readouterr().out

    return call


LISTED: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
"""By arguments: to count the costs of all methods takes a second."""


def listed(printed: Call, *args: str) -> dict[str, dict[str, Any]]:
    """By name; each once."""
    if args not in LISTED:
        rows = json.loads(printed(*args, "--json"))["methods"]
        names = [row["name"] for row in rows]
        assert len(set(names)) == len(names)
        LISTED[args] = dict(zip(names, rows, strict=True))
    return LISTED[args]


@pytest.mark.parametrize("data", ["paper", "tiny"])
def test_every_method_is_listed_once(data: str, printed: Call) -> None:
    assert list(listed(printed, "--data", data)) == [method.name for method in list_methods()]
    lines = printed("--data", data).splitlines()
    for one in METHODS.values():
        size = SIZES[one.task][0] if data == "paper" else data
        start = f"{one.title}  "
        found = [line for line in lines if line.startswith(start) and f" {one.name} " in line]
        assert len(found) == 1, one.name
        assert one.model_name(size) in found[0].split()
        assert loss_title(one) in found[0]


def test_numbers_are_those_of_the_summary(printed: Call) -> None:
    for name, row in listed(printed).items():
        one = METHODS[name]
        config = model_config(one.model_name(SIZES[one.task][0]), **one.options)
        summary = summarize(config)
        assert row["parameters"] + row["frozen_parameters"] == summary.parameters
        assert row["frozen_parameters"] == (summary.rows[0].parameters if config.backbone.name in FROZEN else 0)
        assert (row["flop"], row["state_bytes"]) == (summary.flop, summary.state_bytes)


def test_what_is_counted_as_frozen_is_what_the_configs_freeze(printed: Call) -> None:
    rows = listed(printed)
    for file in map(find_config, list_configs("ek55/*")):
        config = RunConfig.from_file(file)
        for one in methods_of(file.stem, read_run(file)):
            assert bool(rows[one.name]["frozen_parameters"]) == config.model.freeze_backbone, file


def test_streaming_is_what_the_core_says(printed: Call) -> None:
    for row in listed(printed, "--data", "tiny", "--task", "recognition").values():
        assert row["streaming"] == create_model(row["model"], **row["options"]).core.streaming


def test_figures_are_the_papers(printed: Call) -> None:
    rows = listed(printed)
    assert rows["horst"]["paper"] == paper_table("early-recognition").values("HORST")
    assert rows["conv_tt_lstm"]["paper"] == {"action/top1@25%": 29.3, "action/top1@50%": 42.3}
    assert rows["horst_s_12"]["paper"] == {"action/top1@25%": 33.8}
    assert rows["lstm"]["paper"] == {}
    assert rows["imagine_rnn"]["paper"] == {"action/top5@1s": 31.6}  # Table 6 alone
    for name, one in METHODS.items():
        if "ek55" in one.rows:
            assert rows[name]["paper"] == {
                "action/top5@1s": paper_table("ek55").values(one.rows["ek55"])["action/top5@1s"]
            }
    later = listed(printed, "--data", "ek100")
    assert list(later) == [method.name for method in list_methods("anticipation")]
    with_figure = {name: row["paper"]["action/recall5@1s"] for name, row in later.items() if row["paper"]}
    assert with_figure == {"rulstm": 13.3, "avt": 13.6, "horst_anticipation": 13.2, "horst_url": 13.2}
    assert not any(row["paper"] for row in listed(printed, "--data", "tiny").values())


def test_the_table_shows_figures_as_printed(printed: Call) -> None:
    out = printed()
    for figure in ("33.9 / 47.8", "32.7 /    -", "30.69", "31.6"):
        assert figure in out
    (line,) = (line for line in out.splitlines() if line.startswith("LSTM "))
    assert line.split()[-1] == "-"


@pytest.mark.parametrize("width", [80, 100, 120, 140])
@pytest.mark.parametrize("data", ["paper", "ek100", "tiny"])
def test_a_narrow_terminal_loses_columns_and_no_numbers(width: int, data: str, printed: Call) -> None:
    out = printed("--data", data, width=width)
    lines = out.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in out
    wide = printed("--data", data, width=200)
    assert "A wider terminal" not in wide
    for row in listed(printed, "--data", data).values():
        numbers = (f"{row['parameters'] / 1e6:.2f} M", f"{row['flop'] / 1e9:.3f}")
        assert any(all(number in line for number in numbers) for line in lines), row["name"]
    for name in ("name", "model"):
        assert (f"({name}" in out or f", {name}" in out) or any(name in line.split() for line in lines)


def test_one_task_alone(printed: Call) -> None:
    assert {row["task"] for row in listed(printed, "--task", "recognition").values()} == {"recognition"}
    assert "Early recognition" not in printed("--task", "anticipation")


@pytest.mark.parametrize("name", ["rulstm", "vn_ce", "horst", "horst_url", "horst_2_x_joint_space_time", "imagine_rnn"])
def test_one_method_in_detail(name: str, printed: Call) -> None:
    one, out = METHODS[name], printed(name, width=80)
    assert out.startswith(f"{one.title} ({name})")
    assert max(map(len, out.splitlines())) <= 80
    for size in SIZES[one.task]:
        assert f"\n{one.model_name(size)} " in out
    for table, row in one.rows.items():
        assert f"({table}), {row}." in out
    for option in one.loss:
        assert f"{option}: " in out
    found = json.loads(printed(name, "--json"))
    assert found["configs"]
    for file in found["configs"]:
        assert file in out
        assert find_config(file).is_file()
    assert {table: row["row"] for table, row in found["paper"].items()}.items() >= one.rows.items()


def test_the_detail_tells_whose_it_is(printed: Call) -> None:
    assert "Furnari, Farinella 2019" in printed("rulstm")
    assert "Ma, Sigal, Sclaroff 2016" in printed("RL")  # by its title
    assert "Lapin, Hein, Schiele 2016" in printed("vnmce_t5")
    assert "Berrada, Zisserman, Kumar 2018" in printed("svm_top5")
    assert "Table 3 (order), S = 8. 25%: 33.9" in printed("horst")  # the same model, printed again


def test_a_config_is_the_run_of_the_method_that_it_names() -> None:
    for name, one in METHODS.items():
        for size in SIZES[one.task]:
            config = {"model": {"name": one.model_name(size), "options": one.options}, "loss": one.loss}
            assert methods_of(name, config) == [one]
            for table, row in one.rows.items():
                assert one in methods_of("any", {**config, "paper": {"table": table, "row": row}})
    smaller = {"model": {"name": "horst_tiny", "options": {"hidden": [32, 48]}}, "loss": {"steps": "every"}}
    assert methods_of("cpu", smaller) == [METHODS["horst"]]
    assert methods_of("any", {"model": {"name": "mine"}}) == []


def test_every_packaged_run_is_of_a_method() -> None:
    names = {name for one in METHODS.values() for name in config_files(one)}
    folders = ("ssv2", "somethings", "ek55", "ek100", "kitchen")
    assert names == {name for folder in folders for name in list_configs(f"{folder}/*")}


def test_descriptions_are_docstrings_without_shapes_and_arguments() -> None:
    def thing() -> None: ...

    about = "What it is,\nin two lines.\n\nWhose it is. With x:\n\n    y = x\n    z = y"
    for end in ("", "\n\nShapes: none.", "\n\nArgs:\n    x: Any."):
        thing.__doc__ = about + end
        assert describe(thing) == "What it is, in two lines.\nWhose it is. With x:\n    y = x\n    z = y"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["rulstm", "--data", "tiny"], "leave --data and --task out"),
        (["rulstm", "--task", "anticipation"], "leave --data and --task out"),
        (["--data", "ek10"], 'Did you mean "ek100"?'),
        (["--data", "ek100", "--task", "recognition"], "--data ek100 has no recognition"),
    ],
)
def test_errors_are_one_line(args: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", *args]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
