"""Puts what studies wrote into docs/results, and their tables into docs/results/index.md.

    python tools/make_results.py table1 gestures     of runs/studies, where `horst study` keeps them
    python tools/make_results.py                     only the tables

A table on the page stands below the command that made it, and is replaced by the one that this command made last.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from horst.io import write_text

DOCS = Path(__file__).resolve().parents[1] / "docs"
STUDIES = DOCS.parent / "runs" / "studies"
FILES = ("results.md", "results.json", "curve.svg", "calibration.svg", "differences.svg")
BLOCK = re.compile(r"^    (horst study (\w+).*)\n\n(?:\|.*\n|\n(?=\|))+", re.M)
"""A command and the tables below it."""


def take(name: str) -> None:
    """What a study has left, as it is."""
    for file in FILES:
        (DOCS / "results" / name).mkdir(parents=True, exist_ok=True)
        (DOCS / "results" / name / file).unlink(missing_ok=True)
        if (STUDIES / name / file).is_file():
            shutil.copyfile(STUDIES / name / file, DOCS / "results" / name / file)


def filled(page: str) -> str:
    """The page with the tables of each study that it names."""

    def block(found: re.Match[str]) -> str:
        written = (DOCS / "results" / found[2] / "results.md").read_text(encoding="utf-8")
        command = re.search(r"^    (horst study .*)$", written, re.M)
        tables = re.findall(r"(?:^\|.*\n)+", written, re.M)
        return f"    {command[1] if command else found[1]}\n\n" + "\n".join(tables)

    return BLOCK.sub(block, page)


if __name__ == "__main__":
    for study in sys.argv[1:]:
        take(study)
    write_text(DOCS / "results" / "index.md", filled((DOCS / "results" / "index.md").read_text(encoding="utf-8")))
