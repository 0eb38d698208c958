"""docs/results/index.md says what the studies found, and nothing else: its tables and numbers are theirs."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from horst.studies.compare import Estimate
from horst.studies.config import find_study
from horst.studies.report import said

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "results" / "index.md").read_text()
FOUND = {file.parent.name: file.read_text() for file in sorted((DOCS / "results").glob("*/results.md"))}
MEASURED = PAGE[PAGE.index("## The recipe") : PAGE.index("## Examples")]


def results(name: str) -> Any:
    return json.loads((DOCS / "results" / name / "results.json").read_text())


@pytest.mark.parametrize("name", FOUND)
def test_pages_have_the_numbers_of_their_runs(name: str) -> None:
    found = results(name)
    assert found["study"] == name == find_study(name).stem
    assert f"    {found['command']}\n" in FOUND[name]
    for row in found["rows"]:
        line = next(line for line in FOUND[name].splitlines() if line.startswith(f"| {row['title']} |"))
        for metric, value in row["values"].items():
            value["by_seed"] = {int(seed): one for seed, one in value["by_seed"].items()}
            assert said(Estimate(**value), metric) in line
            assert value["value"] == pytest.approx(sum(value["by_seed"].values()) / len(row["seeds"]))
    assert "/home" not in json.dumps(found["runs"])  # paths are those of the checkout
    assert all(word[:1] != "/" for run in found["runs"] for word in run["command"])


@pytest.mark.parametrize("name", FOUND)
def test_the_page_shows_what_the_study_wrote(name: str) -> None:
    assert f"    {results(name)['command']}\n" in MEASURED
    for line in FOUND[name].splitlines():
        if line.startswith("|"):
            assert line in MEASURED, line
    sys.path.insert(0, str(DOCS.parent / "tools"))
    try:
        assert import_module("make_results").filled(PAGE) == PAGE
    finally:
        sys.path.pop(0)


def test_the_page_has_no_numbers_of_its_own() -> None:
    rows = {line for text in FOUND.values() for line in text.splitlines()}
    assert [line for line in MEASURED.splitlines() if line.startswith("|") and line not in rows] == []
    pages = (DOCS / "reference" / name for name in ("models.md", "methods.md"))
    told = [*pages, *map(find_study, FOUND)]  # settings are a study's
    known = "\n".join([*FOUND.values(), *(Path(file).read_text() for file in told)])
    prose = "\n".join(line for line in MEASURED.splitlines() if not line.startswith("|"))
    for number in re.findall(r"\d+\.\d+", prose):
        assert number in known, number


def test_every_study_of_the_paper_has_an_answer_or_says_that_it_was_not_run() -> None:
    for name in ("table1", "table2", "table3", "table4", "claims", "gestures", "anticipation"):
        assert (name in FOUND) != (f"not run yet | `horst study {name}` |" in PAGE)
