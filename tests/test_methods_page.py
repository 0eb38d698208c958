"""docs/reference/methods.md has the tables of tools/methods_table.py, and a section on every method."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.methods import SHORT, Result, table
from horst.configs import list_configs
from horst.models import model_config
from horst.models.registry import METHODS, SIZES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "methods.md").read_text()


def script() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))  # as it is where the script is run: beside its parts
    try:
        return import_module("methods_table")
    finally:
        sys.path.pop(0)


TABLE: Any = script()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.DOTALL))
every_entry = pytest.mark.parametrize("entry", TABLE.ENTRIES, ids=lambda entry: entry.methods[0])


def test_every_method_is_in_one_section() -> None:
    told = [name for entry in TABLE.ENTRIES for name in entry.methods]
    assert sorted(told) == sorted(METHODS)
    assert [title for title in SECTIONS if title in {entry.title for entry in TABLE.ENTRIES}] == [
        entry.title for entry in TABLE.ENTRIES
    ]


@every_entry
def test_a_section_shows_its_picture_and_names_its_models_and_runs(entry: Any) -> None:
    section = SECTIONS[entry.title]
    assert f"![{entry.shows}](../images/methods/{entry.methods[0]}.svg)" in section
    for what in ("Remembers", "Learns from", "Reference", "Left open", "Models"):
        assert section.count(f"- **{what}") == 1, what
    methods = [METHODS[name] for name in entry.methods]
    models = {method.model_name(size) for method in methods for size in SIZES[method.task]}
    named = set(re.findall(r"`(\w+_(?:ssv2|ek55|ek100|tiny)\w*)`", section))
    assert named == models
    for model in models:
        model_config(model)
    assert "horst train " in section


def test_the_runs_that_it_names_are_there() -> None:
    runs = re.findall(r"^ +horst train (\S+)$", PAGE, re.M)
    assert len(runs) == len(set(runs))
    missing = [run for run in runs if run not in list_configs()]
    assert not missing


@pytest.mark.parametrize("name", TABLE.TABLES)
def test_a_table_is_what_its_command_prints(name: str) -> None:
    assert f"    python tools/methods_table.py {name}\n\n{TABLE.table(name)}\n" in PAGE


def test_every_line_of_a_table_leads_to_a_section() -> None:
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in SECTIONS}
    links = re.findall(r"\]\(#([^)]+)\)", PAGE)
    assert links
    assert set(links) <= anchors


def test_it_has_the_results_of_the_benchmark() -> None:
    results = [Result(**entry) for entry in json.loads((ROOT / "docs" / "reference" / "methods.json").read_text())]
    assert table(results) in PAGE
    assert {result.name for result in results} <= set(SHORT)
    assert all(result.best > result.guessing + 5 for result in results)  # as `make nightly` asks of each
    missing = [METHODS[name].title for name in SHORT if name not in {result.name for result in results}]
    assert (f"Missing above: {', '.join(missing)}." in PAGE) == bool(missing)
