"""docs/reference/methods.md has the tables of tools/methods_tables.py, every diagram, and the results of short runs."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.methods import SHORT, Result, table
from horst.configs import list_configs
from horst.models import list_methods

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "methods.md").read_text()


def script() -> Any:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return import_module("methods_tables")
    finally:
        sys.path.pop(0)


def test_the_tables_are_up_to_date() -> None:
    assert script().filled(PAGE) == PAGE, "run python tools/methods_tables.py"
    assert {name for _, name, _ in re.findall(script().REGION, PAGE, re.DOTALL)} == {
        "recognition", "anticipation", "ablations", "runs",
    }  # fmt: skip


def test_links_of_rows_lead_to_sections() -> None:
    anchors = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^## (.+)$", PAGE, re.M)
    }
    links = dict(re.findall(r"^\| \[(.+?)\]\(#([^)]+)\)", PAGE, re.M))
    assert len(links) > 15
    assert set(links) <= {method.title for method in list_methods() if not method.options}
    assert set(links.values()) <= anchors


def test_diagrams_are_shown_with_their_descriptions() -> None:
    shown = dict(re.findall(r"^!\[(.+)\]\(\.\./images/methods/(\w+)\.svg\)$", PAGE, re.M))
    files = {file.stem: file for file in (ROOT / "docs" / "images" / "methods").iterdir()}
    assert sorted(shown.values()) == sorted(files)
    for label, name in shown.items():
        assert f'aria-label="{label}"' in files[name].read_text()


def test_every_packaged_run_of_a_method_is_listed() -> None:
    listed = set(re.findall(r"`((?:ssv2|somethings|ek55|ek100|kitchen)/[\w/]+)`", PAGE))
    others = ("studies/", "own/", "cad120/", "thumos14/", "50salads/", "egtea/", "ssv2/ablations/")
    runs = {name for name in list_configs() if not name.startswith(others)}
    assert runs <= listed
    assert {name for name in listed if not name.startswith("ssv2/ablations/")} <= runs


def test_it_has_the_results_of_the_benchmark() -> None:
    results = [Result(**entry) for entry in json.loads((ROOT / "docs" / "reference" / "methods.json").read_text())]
    assert table(results) in PAGE
    assert {result.name for result in results} <= set(SHORT)
    assert all(result.best > result.guessing + 5 for result in results)  # as `make nightly` requires
