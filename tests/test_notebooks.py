"""The notebooks in examples/notebooks run, one after the other, as a newcomer runs them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tools.site_hooks import run_notebook

pytestmark = pytest.mark.integration

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    notebook = read(path)
    run_notebook(notebook, tmp_path)
    assert capfd.readouterr().err == ""  # nor does the kernel warn of anything
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    streams = [output for cell in codes for output in cell.outputs if output.output_type == "stream"]
    assert not [output.text for output in streams if output.name == "stderr"]
    assert any(output.name == "stdout" for output in streams)
    if "viz." in codes[-1].source or "matplotlib" in codes[0].source:
        shown = [output.data for cell in codes for output in cell.outputs if output.output_type != "stream"]
        assert any("image/png" in data for data in shown)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stored_without_outputs(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_links_lead_somewhere(path: Path) -> None:
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (path.parent / target).is_file(), target


def test_all_are_listed(root: Path) -> None:
    """In the navigation of the site, and in docs/index.md for readers of a forge."""
    navigation, index = (root / "mkdocs.yml").read_text(), (root / "docs" / "index.md").read_text()
    for path in NOTEBOOKS:
        assert f"notebooks/{path.stem}.md" in navigation
        assert f"(../examples/notebooks/{path.name})" in index
