"""The shapes that pictures of docs/reference/methods.md are made of, and how they become an SVG file.

A picture is a list of shapes in a field of 560 x 150; time goes from left to right. Blue is what is seen, green what is
remembered, orange what is foretold, grey what computes. In texts x_t and x_{t-1} have subscripts.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 560, 150
INK, FAINT = "#22263a", "#5b6178"
FILLS = {"seen": "#dfe9fb", "kept": "#dcf0df", "told": "#fde7d0", "plain": "#f1f2f5"}
STROKES = {"seen": "#3f6fc4", "kept": "#3d8b53", "told": "#cf7a1c", "plain": "#858b9c"}

Point = tuple[float, float]


class Shape(ABC):
    __slots__ = ()

    @abstractmethod
    def svg(self) -> Iterator[str]:
        """Its elements."""


@dataclass(frozen=True, slots=True)
class Box(Shape):
    """A text in a frame, or several lines of it."""

    x: float
    y: float
    w: float
    h: float
    text: str = ""
    kind: str = "plain"
    cells: int = 0
    """Of a map: drawn as so many columns and rows."""
    dashed: bool = False
    size: float = 11.5

    def svg(self) -> Iterator[str]:
        dash = ' stroke-dasharray="4 3"' if self.dashed else ""
        fill = "#ffffff" if self.dashed else FILLS[self.kind]
        yield (
            f'<rect x="{self.x:g}" y="{self.y:g}" width="{self.w:g}" height="{self.h:g}" rx="{min(5, self.h / 4):g}" '
            f'fill="{fill}" stroke="{STROKES[self.kind]}" stroke-width="1.3"{dash}/>'
        )
        for i in range(1, self.cells):
            x, y = self.x + i * self.w / self.cells, self.y + i * self.h / self.cells
            yield (
                f'<path d="M{x:g} {self.y:g}V{self.y + self.h:g}M{self.x:g} {y:g}H{self.x + self.w:g}" '
                f'stroke="{STROKES[self.kind]}" stroke-opacity="0.3"/>'
            )
        lines = self.text.split("\n") if self.text else []
        for i, line in enumerate(lines):
            y = self.y + self.h / 2 + self.size * (0.36 + 1.2 * (i - (len(lines) - 1) / 2))
            yield from Note(self.x + self.w / 2, y, line, size=self.size, colour=INK).svg()


@dataclass(frozen=True, slots=True)
class Note(Shape):
    """A text by itself."""

    x: float
    y: float
    text: str
    anchor: str = "middle"
    size: float = 10.5
    colour: str = FAINT

    def svg(self) -> Iterator[str]:
        yield (
            f'<text x="{self.x:g}" y="{self.y:.4g}" text-anchor="{self.anchor}" font-size="{self.size:g}" '
            f'fill="{self.colour}">{_subscripts(self.text, self.size)}</text>'
        )


@dataclass(frozen=True, slots=True)
class Line(Shape):
    """From point to point, with an arrow's head at the end; `bend` lifts the middle of a single stroke."""

    points: tuple[Point, ...]
    kind: str = "plain"
    head: bool = True
    dashed: bool = False
    width: float = 1.4
    bend: float = 0.0

    def svg(self) -> Iterator[str]:
        (x, y), *rest = self.points
        if self.bend:
            (u, v) = rest[-1]
            path = f"M{x:g} {y:g}Q{(x + u) / 2:g} {min(y, v) - self.bend:g} {u:g} {v:g}"
        else:
            path = f"M{x:g} {y:g}" + "".join(f"L{u:g} {v:g}" for u, v in rest)
        dash = ' stroke-dasharray="4 3"' if self.dashed else ""
        head = f' marker-end="url(#{self.kind})"' if self.head else ""
        yield (
            f'<path d="{path}" fill="none" stroke="{STROKES[self.kind]}" stroke-width="{self.width:g}" '
            f'stroke-linejoin="round"{dash}{head}/>'
        )


def _subscripts(text: str, size: float) -> str:
    def lowered(found: re.Match[str]) -> str:
        low = (found[1] or found[2]).replace("-", "\u2212")
        down = f'<tspan dy="{size * 0.25:.3g}" font-size="{size * 0.75:.3g}">{low}</tspan>'
        # the next letter goes back up; a letter of no width does it where none follows
        return f'{down}<tspan dy="{-size * 0.25:.3g}">\u200b</tspan>'

    return re.sub(r"_(?:\{([^}]*)\}|(\w))", lowered, escape(text))


def svg(shapes: Iterable[Shape], title: str, height: int = HEIGHT) -> str:
    """The whole file."""
    heads = "".join(
        f'<marker id="{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto" '
        f'markerUnits="userSpaceOnUse"><path d="M0 0.8L7.5 4L0 7.2z" fill="{colour}"/></marker>'
        for kind, colour in STROKES.items()
    )
    body = "\n".join(part for shape in shapes for part in shape.svg())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif" role="img" '
        f'aria-label="{escape(title)}">\n<defs>{heads}</defs>\n'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10" fill="#ffffff" stroke="#d9dbe3"/>\n'
        f"{body}\n</svg>\n"
    )


def arrow(*points: Point, kind: str = "plain", dashed: bool = False, width: float = 1.4) -> Line:
    return Line(points, kind, dashed=dashed, width=width)


def line(*points: Point, kind: str = "plain", dashed: bool = False) -> Line:
    return Line(points, kind, head=False, dashed=dashed)


def row(
    texts: Sequence[str], x: float, y: float, w: float, step: float, kind: str, *, h: float = 26, cells: int = 0
) -> tuple[Box, ...]:
    """Boxes side by side, their left edges `step` apart."""
    return tuple(Box(x + i * step, y, w, h, text, kind, cells) for i, text in enumerate(texts))


def joined(boxes: Sequence[Box], kind: str = "plain") -> tuple[Line, ...]:
    """An arrow from each box to the next one."""
    pairs = pairwise(boxes)
    return tuple(arrow((a.x + a.w, a.y + a.h / 2), (b.x, b.y + b.h / 2), kind=kind) for a, b in pairs)


def up(lower: Sequence[Box], upper: Sequence[Box], kind: str = "plain", *, dashed: bool = False) -> tuple[Line, ...]:
    """An arrow from the top of each lower box to the foot of the one above it."""
    pairs = zip(lower, upper, strict=True)
    return tuple(arrow((a.x + a.w / 2, a.y), (b.x + b.w / 2, b.y + b.h), kind=kind, dashed=dashed) for a, b in pairs)
