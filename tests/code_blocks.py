"""The code blocks of README and docs. Each one runs in a test, or a comment before it says why it does not:

    <!-- not run: it needs a GPU -->               with a reason
    <!-- run by tests/test_extend_guide.py -->     by a test that reads the page

Blocks without a comment are run by tests/test_docs.py. `text` is for output and for lists of files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "scale-out" / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "results.md"),  # those are made by studies
]
SHOWN = {"text", "bibtex"}
"""Languages of blocks that are not code."""
FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n)?"
    r'^```(?P<language>\w*)(?: title="(?P<title>[^"\n]*)")?\n'
    r"(?P<text>.*?)^```$",
    re.M | re.S,
)


@dataclass(frozen=True)
class CodeBlock:
    page: Path
    line: int
    language: str
    text: str
    title: str  # the file that it belongs to
    mark: str  # the comment before it

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def reason(self) -> str | None:
        """Why it is not run."""
        found = re.fullmatch(r"not run: (.{10,})", self.mark)
        return found[1] if found else None

    @property
    def test(self) -> Path | None:
        """The test that runs it."""
        found = re.fullmatch(r"run by (tests/\S+\.py)", self.mark)
        return ROOT / found[1] if found else None

    def commands(self) -> list[str]:
        """The commands of a shell block, or of a console block with their output."""
        text = re.sub(r"\\\n\s*", "", self.text)
        lines = [line.strip() for line in text.splitlines()]
        if self.language == "console":
            return [line[2:] for line in lines if line.startswith("$ ")]
        return [line for line in lines if line]


def blocks_of(page: Path) -> list[CodeBlock]:
    text = page.read_text(encoding="utf-8")
    return [
        CodeBlock(
            page,
            text[: found.start("language")].count("\n") + 1,
            found["language"],
            found["text"],
            found["title"] or "",
            found["mark"] or "",
        )
        for found in FENCE.finditer(text)
    ]


def indented_blocks(text: str) -> list[str]:
    """Paragraphs that Markdown shows as code because they are indented, outside of lists."""
    found, inside_list, before = [], False, ""
    for line in re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S).splitlines():
        if re.match(r"[-*] |\d+\. ", line):
            inside_list = True
        elif line and not line.startswith(" "):
            inside_list = False
        if line.startswith("    ") and not before.strip() and not inside_list:
            found.append(line.strip())
        before = line
    return found
