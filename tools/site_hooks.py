"""Hooks of mkdocs: the site has the Markdown of the repository as it is, with the links that a forge follows.

README, CONTRIBUTING, CHANGELOG, SECURITY and the examples become pages or files of the site. Notebooks are executed and
become pages. The reference of Python names is added to docs/reference/api.md from the docstrings.
"""

import ast
import base64
import os
import posixpath
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbclient import NotebookClient
from traitlets.config import Config

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "docs/index.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "examples/scale-out/README.md": "guides/scale-out.md",
}
"""Files of the repository whose place in the site is another than docs/ or their own path."""
MODULES = (
    "backbones", "data", "export", "finetune", "heads", "layers", "models", "serving", "streaming", "video", "viz",
)  # fmt: skip
"""Packages with further names for users. The reference has those that they export."""
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)#\s]+)((?:#[^)]*)?\))")
FENCE = re.compile(r"^(```.*?^```$)", re.M | re.S)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is outside of docs/."""
    files.remove(_found(files, "index.md"))
    for name, place in PAGES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))
    for path in sorted((ROOT / "examples").rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.is_file() and path.suffix not in (".ipynb", ".md") and "__pycache__" not in path.parts:
            files.append(File.generated(config, name, abs_src_path=str(path)))
    files.append(File.generated(config, "Containerfile", abs_src_path=str(ROOT / "Containerfile")))
    for path in sorted((ROOT / "examples" / "notebooks").glob("*.ipynb")):
        place = site_path(path.relative_to(ROOT).as_posix())
        files.append(File.generated(config, place, content=_notebook(path, bool(config.extra["run_notebooks"]))))
    files.append(File.generated(config, "reference/modules.md", content=_modules()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    place = page.file.src_uri
    if place == "reference/api.md":
        markdown += _names()
    if place == "reference/modules.md":
        return markdown  # which _modules has written
    source = repository_path(place)
    return "".join(
        part if part.startswith("```") else LINK.sub(lambda link: _moved(link, source, place), part)
        for part in FENCE.split(markdown)
    )


def site_path(name: str) -> str:
    """The place in the site of a file of the repository."""
    if name in PAGES:
        return PAGES[name]
    if name.endswith(".ipynb"):
        return f"notebooks/{Path(name).stem}.md"
    return name.removeprefix("docs/")


def repository_path(place: str) -> str:
    """The file of the repository at a place in the site."""
    named = {place: name for name, place in PAGES.items()}
    if place.startswith("notebooks/"):
        return f"examples/notebooks/{Path(place).stem}.ipynb"
    return named.get(place) or f"docs/{place}"


def _moved(link: re.Match[str], source: str, place: str) -> str:
    """A relative link of a file of the repository, from its place in the site."""
    before, target, after = link.groups()
    if re.match(r"\w+:", target):
        return link[0]
    name = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    return before + posixpath.relpath(site_path(name), posixpath.dirname(place) or ".") + after


def _found(files: Files, place: str) -> File:
    file = files.get_file_from_path(place)
    assert file is not None, place
    return file


def run_notebook(notebook: Any, folder: str | Path) -> None:
    """Run all cells, in `folder`. The kernel listens at files, not at TCP ports, which are open to other users."""
    with tempfile.TemporaryDirectory() as sockets:
        kernel = Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}})
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}, config=kernel).execute()


def _notebook(path: Path, execute: bool) -> str:
    """A notebook as Markdown; code that it runs, with its outputs."""
    notebook: Any = nbformat.read(path, as_version=4)
    if execute:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # models this small lose time when they share cores
        with tempfile.TemporaryDirectory() as folder:
            run_notebook(notebook, folder)
    name = path.relative_to(ROOT).as_posix()
    title, _, rest = notebook.cells[0].source.partition("\n")
    parts = [title, f"*This page is the notebook `{name}` of the repository.*", rest.strip()]
    for cell in notebook.cells[1:]:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts += [_output(output) for output in cell.outputs]
    return "\n\n".join(parts) + "\n"


def _output(output: Any) -> str:
    data = output.get("data", {})
    if "image/svg+xml" in data:
        encoded = base64.b64encode(data["image/svg+xml"].encode()).decode()
        return f"![The figure that the code above draws](data:image/svg+xml;base64,{encoded})"
    if "image/png" in data:
        return f"![The figure that the code above draws](data:image/png;base64,{data['image/png'].strip()})"
    text = output.get("text") or data.get("text/plain", "")
    return f"```text\n{text.rstrip()}\n```" if text else ""


def _names() -> str:
    """The public names of `horst`, from their docstrings."""
    return "\n\n".join(["\n## All names", *(f"::: horst.{name}" for name in exported("horst"))])


def _modules() -> str:
    """What further packages export."""
    about = "Names of the packages of `horst`, from their docstrings. [Python API](api.md) has those of `horst` itself."
    lines = ["# Modules", about]
    for module in MODULES:
        lines += [f"## horst.{module}", *(f"::: horst.{module}.{name}" for name in exported(f"horst.{module}"))]
    return "\n\n".join(lines)


def exported(package: str) -> list[str]:
    """The names that a package imports for its users. It is not imported: some need optional packages."""
    source = (ROOT / "src" / package.replace(".", "/") / "__init__.py").read_text(encoding="utf-8")
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports if (node.module or "").startswith(f"{package}.") for alias in node.names}
    return sorted(names - {"lazy_names"}, key=str.lower)
