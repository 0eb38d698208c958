"""The site of `make docs`: it builds without warnings, needs no other site, and has every page."""

from __future__ import annotations

import logging
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from playwright.sync_api import sync_playwright

import horst

pytestmark = pytest.mark.integration

LOADED = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}
"""What a browser fetches by itself."""


class LinkCollector(HTMLParser):
    """What a page loads, what it links to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if LOADED.get(tag) in values:
            self.loaded.append(values[LOADED[tag]])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.anchors |= {values[name] for name in ("id", "name") if name in values}


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without the outputs of the notebooks: tests/test_notebooks.py runs those."""
    folder = tmp_path_factory.mktemp("site")
    warnings: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("mkdocs").addHandler(handler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HORST_RUN_NOTEBOOKS", "false")
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        config = load_config(str(root / "mkdocs.yml"), site_dir=str(folder), strict=True)
        try:
            build(config)
        finally:
            logging.getLogger("mkdocs").removeHandler(handler)
    assert warnings == []
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, LinkCollector]:
    return {file: LinkCollector(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, LinkCollector]) -> None:
    assert len(pages) > 30
    for file, page in pages.items():
        assert page.loaded, file
        for address in page.loaded:
            assert not re.match(r"(?!data:)\w+:|//", address), f"{file.name}: {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style


def test_links_and_anchors_lead_somewhere(site: Path, pages: dict[Path, LinkCollector]) -> None:
    """Those that the hooks make too, which mkdocs does not check."""
    for file, page in pages.items():
        for address in page.links:
            target, _, anchor = address.partition("#")
            if re.match(r"\w+:|//", address) or file.name == "404.html":
                continue
            found = (file.parent / unquote(target)).resolve() if target else file
            found = found / "index.html" if found.is_dir() else found
            assert found.is_file(), f"{file.relative_to(site)}: {address}"
            if anchor and found in pages:
                assert unquote(anchor) in pages[found].anchors, f"{file.relative_to(site)}: {address}"


def test_every_page_of_the_documentation_is_there(root: Path, site: Path) -> None:
    moved = {"index.html": "overview.html"}
    for page in (root / "docs").rglob("*.md"):
        place = page.relative_to(root / "docs").with_suffix(".html").as_posix()
        assert (site / moved.get(place, place)).is_file(), place
    assert "Predict human actions from video" in (site / "index.html").read_text()
    assert "onnxruntime" in (site / "examples" / "onnx_step.py").read_text()


def test_the_reference_has_the_docstrings_of_all_public_names(pages: dict[Path, LinkCollector], site: Path) -> None:
    api, modules = (pages[site / "reference" / name].anchors for name in ("api.html", "modules.html"))
    assert {f"horst.{name}" for name in horst.__all__ if name != "__version__"} <= api
    assert "horst.Predictor.step" in api
    assert {"horst.streaming.StreamSession", "horst.serving.Client"} <= modules
    assert "with new weights or with those of the package" in (site / "reference" / "api.html").read_text()


def test_the_search_index_has_the_text(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "guides/streaming.html" in index
    assert "horst.BatchedStep" in index


@pytest.mark.browser
def test_search_works_from_files_without_a_network(site: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs a browser: apt-get install chromium")
    requests: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.on("request", lambda request: requests.append(request.url))
        page.goto((site / "guides" / "data.html").as_uri())
        page.wait_for_function("typeof __index === 'object'", polling=100)
        page.click("input.md-search__input")
        page.keyboard.type("BatchedStep")
        page.wait_for_selector("a.md-search-result__link[href*='reference/api.html']")
        browser.close()
    assert not [url for url in requests if not url.startswith(("file:", "data:", "about:"))]
