"""Draws the pictures of docs/reference/methods.md, and prints its tables:

python tools/draw_methods.py                        # docs/images/methods/*.svg
python tools/draw_methods.py --table recognition    # or anticipation, ablations

methods_entries.py says what is drawn and told of each method; methods_pictures_*.py draw it with methods_shapes.py.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from methods_entries import ENTRIES
from methods_parts import legend
from methods_shapes import svg
from methods_table import TABLES, table

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images" / "methods"


def pictures() -> dict[str, str]:
    """Every file of the folder, by name."""
    drawn = {f"{entry.methods[0]}.svg": svg(entry.picture, entry.shows) for entry in ENTRIES}
    return {"legend.svg": svg(legend(), "Blue: seen; green: remembered; orange: foretold; grey: computes", 34)} | drawn


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the pictures of the methods page, or print a table.")
    parser.add_argument("--table", choices=TABLES)
    arguments = parser.parse_args()
    if arguments.table:
        print(table(arguments.table), end="")
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = pictures()
    for file in FOLDER.glob("*.svg"):
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
