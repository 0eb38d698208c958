"""A figure: a drawing that shows itself in a notebook, stands in a page, and is saved as SVG, HTML or PNG."""

from __future__ import annotations

import html
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from horst.console import visible
from horst.errors import ConfigError, MissingExtraError
from horst.io import atomic_write, write_text

CONVERTER = "rsvg-convert"
MARGIN = 12
"""Pixels of paper around a figure that stands alone."""
SHRINKS = 0.72
"""How far a figure in a page may shrink before it scrolls: below, its letters are too small to read."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing of a fixed size that any width can show."""

    width: float
    height: float
    body: str
    """SVG elements."""
    title: str = ""
    """What it shows, for those who cannot see it."""

    @property
    def svg(self) -> str:
        """All of it, in one SVG element. It brings its own paper: it can be read on white and on black."""
        w, h = self.width + 2 * MARGIN, self.height + 2 * MARGIN
        paper = f'<rect class="paper" x="-{MARGIN}" y="-{MARGIN}" width="{w:.0f}" height="{h:.0f}" rx="8"/>'
        return self._element(f"<style>{style()}</style>{paper}", MARGIN)

    def inline(self, full: float | None = None) -> str:
        """For a page that has `style` and a background: it shrinks with the page and scrolls where that is narrow.

        Figures that stand below each other and are to have one scale are told the width of the widest, `full`.
        """
        share = 100 * self.width / (full or self.width)
        room = f"width:{share:.1f}%;max-width:{self.width:.0f}px;min-width:{SHRINKS * self.width:.0f}px;height:auto"
        return f'<div class="fig" style="flex:0 1 {self.width:.0f}px">{self._element("", 0, f" style={room!r}")}</div>'

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """As .svg, .html or .png, whole or not at all; PNG needs the program rsvg-convert."""
        path = Path(path)
        if path.suffix == ".svg":
            write_text(path, self.svg + "\n")
        elif path.suffix == ".html":
            head = f'<meta charset="utf-8"><title>{escape(self.title)}</title>'
            write_text(path, f"<!doctype html><html lang=en><head>{head}</head><body>{self.svg}</body></html>\n")
        elif path.suffix == ".png":
            self._save_png(path)
        else:
            raise ConfigError(f"{path}: figures are saved as .svg, .html or .png, not as {path.suffix!r}")
        return path

    def _save_png(self, path: Path) -> None:
        program = shutil.which(CONVERTER)
        if program is None:
            raise MissingExtraError(
                f"{path}: PNG needs the program {CONVERTER}, which is not here: install librsvg (librsvg2-bin), "
                "or save as .svg and open that in a browser"
            )
        with atomic_write(path) as partial:
            words = [program, "--zoom", "2", "--format", "png", "--unlimited", "--output", str(partial)]
            subprocess.run(words, input=self.svg.encode(), check=True, capture_output=True)

    def _element(self, before: str, margin: int, attributes: str = "") -> str:
        w, h = self.width + 2 * margin, self.height + 2 * margin
        size = f'viewBox="{-margin} {-margin} {w:.0f} {h:.0f}" width="{w:.0f}" height="{h:.0f}"'
        title = f"<title>{escape(self.title)}</title>" if self.title else ""
        names = 'xmlns="http://www.w3.org/2000/svg"'
        return f'<svg {names} class="hf" role="img" {size}{attributes}>{title}{before}{self.body}</svg>'


def escape(text: str) -> str:
    """A name as it stands in HTML and SVG: XML takes no control characters, not even escaped."""
    return html.escape(visible(text))


@cache
def style() -> str:
    """The colours and letters of figures, light and dark: for their own files, and for pages."""
    return (files("horst") / "assets" / "figure.css").read_text(encoding="utf-8")
