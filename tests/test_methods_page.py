"""docs/reference/methods.md is what tools/draw_methods.py prints and draws, and says something of every method."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.methods import SHORT, Result, table
from horst.configs import list_configs
from horst.models import model_config
from horst.models.method_table import METHODS, SIZES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "methods.md").read_text()


def script() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))  # as it is where the script is run: beside its parts
    try:
        return import_module("draw_methods")
    finally:
        sys.path.pop(0)


DRAW: Any = script()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.DOTALL))
every_entry = pytest.mark.parametrize("entry", DRAW.ENTRIES, ids=lambda entry: entry.methods[0])


def test_every_method_is_in_one_section() -> None:
    told = [name for entry in DRAW.ENTRIES for name in entry.methods]
    assert sorted(told) == sorted(METHODS)
    assert [title for title in SECTIONS if title in {entry.title for entry in DRAW.ENTRIES}] == [
        entry.title for entry in DRAW.ENTRIES
    ]


@every_entry
def test_a_section_shows_its_picture_and_names_its_models_and_runs(entry: Any) -> None:
    section = SECTIONS[entry.title]
    assert f"![{entry.shows}](images/methods/{entry.methods[0]}.svg)" in section
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


@pytest.mark.parametrize("name", DRAW.TABLES)
def test_a_table_is_what_its_command_prints(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["draw_methods.py", "--table", name])
    DRAW.main()
    assert f"    python tools/draw_methods.py --table {name}\n\n{capsys.readouterr().out}\n" in PAGE


def test_every_line_of_a_table_leads_to_a_section() -> None:
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in SECTIONS}
    links = re.findall(r"\]\(#([^)]+)\)", PAGE)
    assert links
    assert set(links) <= anchors


def test_pictures_are_as_drawn_and_none_is_left_over() -> None:
    pictures = DRAW.pictures()
    assert {file.name: file.read_text() for file in DRAW.FOLDER.iterdir()} == pictures
    shown = re.findall(r"\(images/methods/(\w+\.svg)\)", PAGE)
    assert sorted(shown) == sorted(pictures)


def test_it_has_the_results_of_the_benchmark() -> None:
    results = [Result(**entry) for entry in json.loads((ROOT / "docs" / "reference" / "methods.json").read_text())]
    assert table(results) in PAGE
    assert {result.name for result in results} <= set(SHORT)
    assert all(result.best > result.guessing + 5 for result in results)  # as `make nightly` asks of each
    missing = [METHODS[name].title for name in SHORT if name not in {result.name for result in results}]
    assert (f"Missing above: {', '.join(missing)}." in PAGE) == bool(missing)


def test_pictures_differ_and_stay_within_their_frame() -> None:
    pictures = DRAW.pictures()
    bodies = {re.sub(r'aria-label="[^"]*"', "", text) for text in pictures.values()}
    assert len(bodies) == len(pictures)
    for name, text in pictures.items():
        root = ElementTree.fromstring(text)
        width, height = (float(root.attrib[side]) for side in ("width", "height"))
        for box in root.iter("{http://www.w3.org/2000/svg}rect"):
            x, y, w, h = (float(box.attrib[key]) for key in ("x", "y", "width", "height"))
            assert min(x, y) >= 0, name
            assert x + w <= width, name
            assert y + h <= height, name
