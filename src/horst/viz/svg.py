"""A sheet to draw on, as SVG text. Colours are classes of assets/figure.css, which knows light and dark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from horst.viz.figure import Figure, escape

SIZE = 11.0
"""Of letters, in pixels."""
SERIES = 6
"""Colours for classes and runs: s0, s1, ... of lines, f0, f1, ... of areas; sr and fr are right, sw and fw wrong."""
ELLIPSIS, MINUS = "…", "\N{MINUS SIGN}"


@dataclass(slots=True)
class Canvas:
    """Shapes, in the order in which they were drawn. Places are in pixels from the upper left corner."""

    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        kind: str = "",
        *,
        anchor: str = "start",
        size: float = SIZE,
        limit: float | None = None,
    ) -> None:
        """One line, whose letters stand on y; cut off at `limit` pixels, the whole of it is then a tooltip."""
        shown = text if limit is None else fit(text, limit, size)
        tip = f"<title>{escape(text)}</title>" if shown != text else ""
        attributes = _class(kind) + (f' text-anchor="{anchor}"' if anchor != "start" else "")
        attributes += f' font-size="{size:g}"' if size != SIZE else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(shown)}{tip}</text>')

    def words(self, x: float, y: float, words: Iterable[tuple[str, str]], size: float = SIZE) -> None:
        """One line of (text, kind) after each other."""
        inner = " ".join(f"<tspan{_class(kind)}>{escape(text)}</tspan>" for text, kind in words)
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}">{inner}</text>')

    def line(self, x0: float, y0: float, x1: float, y1: float, kind: str = "grid") -> None:
        self.parts.append(f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"{_class(kind)}/>')

    def curve(self, points: Iterable[tuple[float, float]], kind: str, *, width: float = 2, dash: str = "") -> None:
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        ends = f'stroke-width="{width:g}" stroke-linejoin="round" stroke-linecap="round"{dashes}'
        self.parts.append(f'<polyline points="{joined}"{_class(kind)} {ends}/>')

    def dot(self, x: float, y: float, kind: str, radius: float = 2.6) -> None:
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"{_class(kind)}/>')

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        kind: str,
        *,
        opacity: float = 1,
        radius: float = 0,
        tip: str = "",
    ) -> None:
        attributes = _class(kind) + (f' fill-opacity="{opacity:.2f}"' if opacity < 1 else "")
        attributes += f' rx="{radius:g}"' if radius else ""
        shape = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"{attributes}'
        self.parts.append(f"{shape}><title>{escape(tip)}</title></rect>" if tip else f"{shape}/>")

    def path(self, steps: str, kind: str, *, opacity: float = 1) -> None:
        self.parts.append(f'<path d="{steps}"{_class(kind)} fill-opacity="{opacity:.2f}"/>')

    def image(self, x: float, y: float, width: float, height: float, address: str) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.parts.append(f'<image {place} preserveAspectRatio="none" href="{address}"/>')

    def figure(self, title: str) -> Figure:
        return Figure(self.width, self.height, "".join(self.parts), title)


def text_width(text: str, size: float = SIZE) -> float:
    """At most, or nearly: which letters a reader's machine has is not known here; these are wide ones (DejaVu Sans)."""
    narrow, wide = set("iljtfrI.,:;'|!()[] "), set("mwMW%@—→")
    ems = (0.38 if c in narrow else 0.96 if c in wide else 0.7 if c.isupper() else 0.615 for c in text)
    return size * sum(ems)


def fit(text: str, limit: float, size: float = SIZE) -> str:
    """As much of a text as a width holds; an ellipsis stands for the rest."""
    if text_width(text, size) <= limit:
        return text
    for end in range(len(text) - 1, 0, -1):
        shown = text[:end].rstrip() + ELLIPSIS
        if text_width(shown, size) <= limit:
            return shown
    return ELLIPSIS


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
