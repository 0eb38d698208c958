"""What README and docs tell people to type works: Python blocks run, links lead somewhere, `make` targets exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_to_headings_lead_there(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https:)([^)#]*)#([^)]+)\)", page.read_text()):
        text = (page.parent / target if target else page).read_text()
        headings = [re.sub(r"[^\w\- ]", "", line.lower()) for line in re.findall(r"^#+ (.+)$", text, re.M)]
        assert anchor in [heading.replace(" ", "-") for heading in headings], f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:^ {4}|^|`)make ([a-z-]+)", page.read_text(), re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_files_of_the_architecture_import_one_way() -> None:
    """A folder imports only from those to its left; ops, layers and heads know nothing of files or models."""
    left = ["video", "data", "ops", "layers", "heads", "backbones", "models", "compat", "export"]
    order = [*left, "evaluation", "synth", "training", "streaming", "finetune", "viz", "studies", "serving", "cli"]
    allowed = {name: set(order[: i + 1]) for i, name in enumerate(order)}
    allowed |= {"ops": {"ops"}, "layers": {"ops", "layers"}, "heads": {"heads"}, "backbones": {"ops", "backbones"}}
    allowed["models"] |= {"streaming", "export"}  # Predictor.stream() and BatchedStep import them when they are used
    for folder in order:
        for file in (ROOT / "src" / "horst" / folder).rglob("*.py"):
            for imported in re.findall(r"^\s*from horst\.(\w+)", file.read_text(), re.M):
                assert imported in allowed[folder] or imported not in order, f"{file.name} imports horst.{imported}"
