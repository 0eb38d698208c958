"""What README and docs tell people to type works: code runs or says why not, links lead somewhere, options exist."""

from __future__ import annotations

import doctest
import inspect
import re
import shlex
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from code_blocks import PAGES, ROOT, SHOWN, CodeBlock, blocks_of, indented_blocks
from videos import clip

from horst.cli import create_app, main
from horst.data.config import DataConfig
from horst.data.source import SOURCES
from horst.models import MODELS
from horst.studies.config import Study
from horst.training.config import RunConfig

BLOCKS = [block for page in PAGES for block in blocks_of(page) if block.language not in SHOWN]
RUN = [block for block in BLOCKS if not block.mark]
SHELL = [block for block in BLOCKS if block.language in ("sh", "console")]


def by_page(language: str) -> list[list[CodeBlock]]:
    """The blocks that run here, in the order of each page."""
    found: dict[Path, list[CodeBlock]] = defaultdict(list)
    for block in RUN:
        if block.language == language:
            found[block.page].append(block)
    return list(found.values())


def name_of(blocks: list[CodeBlock]) -> str:
    return blocks[0].page.stem


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_block_has_a_language(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [str(block) for block in blocks_of(page) if not block.language] == []
    assert indented_blocks(text) == [], "write them between ``` with a language"
    assert len(re.findall(r"^ *```", text, re.M)) == 2 * len(blocks_of(page)), "a fence that is indented or not closed"
    for block in blocks_of(page):
        if block.language in SHOWN:  # code, which would have to run, is not hidden as text
            assert not re.search(r"^(\$ )?(horst|pip|make|python) [a-z]", block.text, re.M), str(block)


def test_every_block_runs_or_says_why_not() -> None:
    """Comments before a block: see code_blocks.py."""
    assert len(BLOCKS) > 80
    known = {"python", "pycon", "sh", "yaml"}
    assert [str(block) for block in RUN if block.language not in known] == []
    assert [f"{block}: {block.mark}" for block in BLOCKS if block.mark and not block.reason and not block.test] == []
    for block in BLOCKS:
        if block.test:
            assert block.page.name in block.test.read_text(encoding="utf-8"), f"{block.test.name} does not read {block}"
        for named in re.findall(r"tests/[\w/]+(?:\.py)?", block.reason or ""):
            assert (ROOT / named).exists(), f"{block}: {named}"


@pytest.mark.parametrize("blocks", by_page("python"), ids=name_of)
def test_python_blocks_run(blocks: list[CodeBlock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(compile(block.text, str(block), "exec"), {})


@pytest.mark.parametrize("blocks", by_page("pycon"), ids=name_of)
def test_sessions_print_what_they_say(blocks: list[CodeBlock], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODELS, "_entries", dict(MODELS._entries))  # a page may register a model
    failed, tried = doctest.testfile(str(blocks[0].page), module_relative=False)
    assert tried >= len(blocks)
    assert not failed


@pytest.mark.parametrize("blocks", by_page("sh"), ids=name_of)
def test_commands_run(
    blocks: list[CodeBlock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one folder for each page, with a video clip.mp4. What follows as text is what the commands print."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HORST_ENGINE", raising=False)
    clip(Path("clip.mp4"), frames=24)
    printed = ""
    for block in blocks:
        for command in block.commands():
            words = shlex.split(command, comments=True)
            assert words[0] == "horst", f"{block}: {command}: only horst is run here"
            assert main(words[1:]) == 0, command
            printed += capsys.readouterr().out
    assert printed
    if blocks[0].page.name == "README.md":
        (shown,) = [b.text for b in blocks_of(blocks[0].page) if b.language == "text" and "0.83 s" in b.text]
        for claimed, found in zip(predictions(shown), predictions(printed), strict=False):
            assert found[:2] == claimed[:2]
            assert abs(int(found[2]) - int(claimed[2])) <= 3  # encoders and processors differ


def predictions(text: str) -> list[tuple[str, str, str]]:
    """Time, name and percent of the lines that `horst predict` prints."""
    found = re.findall(r"^ *(\d+\.\d\d s)  (.+)  (\d+)%$", text, re.M)
    assert len(found) > 3
    return found


@pytest.mark.parametrize("block", [block for block in RUN if block.language == "yaml"], ids=str)
def test_configs_are_valid(block: CodeBlock, tmp_path: Path) -> None:
    """As a data set, a run or a study; files that they name need not exist."""
    file, data = tmp_path / "config.yaml", yaml.safe_load(block.text)
    file.write_text(block.text)
    if "runs" in data:
        Study.from_file(file)
    elif "source" not in data:
        RunConfig.from_file(file)
    else:
        config = DataConfig.from_file(file)
        inspect.signature(SOURCES[config.source]).bind(**config.options)


def horst_commands(block: CodeBlock) -> list[list[str]]:
    """What `horst` gets in each command, without variables before it, and without what starts or joins processes."""
    found = []
    for command in block.commands():
        words = shlex.split(command, comments=True)
        if "horst" in words and words[0] not in ("docker", "pip"):
            words = words[words.index("horst") + 1 :]
            found.append(words[:-1] if words[-1:] == ["&"] else words)
    return found


def test_options_of_commands_exist() -> None:
    """Of those that are not run, too."""
    app, seen = create_app(), 0
    for block in SHELL:
        for words in horst_commands(block):
            app.parse_args(words, exit_on_error=False, print_error=False)
            seen += 1
    assert seen > 50


def test_scripts_of_commands_exist() -> None:
    for block in SHELL:
        for module in re.findall(r"python -m (benchmarks\.\w+)", block.text):
            assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), f"{block}: {module}"
        for script in re.findall(r"python ((?:tools|examples)/\S+\.py)", block.text):
            assert (ROOT / script).is_file(), f"{block}: {script}"


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
