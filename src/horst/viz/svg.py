"""Line charts as SVG text: small, sharp, and readable in any browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

LEFT, RIGHT, TOP, BOTTOM = 46, 22, 14, 34
QUARTERS = tuple((i / 4, f"{25 * i}%") for i in range(5))


@dataclass(frozen=True, slots=True)
class Line:
    """One curve, in 0..1 both ways."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str = "#2563eb"
    dashed: bool = False


def chart(
    lines: Sequence[Line],
    *,
    width: int = 640,
    height: int = 280,
    x_name: str = "",
    x_ticks: Sequence[tuple[float, str]] = QUARTERS,
    marks: Sequence[float] = (),
) -> str:
    """Curves over a common axis; `x_ticks` are names of places on it in 0..1, `marks` upright lines."""

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + x * (width - LEFT - RIGHT), height - BOTTOM - y * (height - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" xmlns="http://www.w3.org/2000/svg">']
    for tick, name in QUARTERS:
        (x0, y), (x1, _) = at(0, tick), at(1, tick)
        parts.append(f'<line x1="{x0:.1f}" y1="{y:.1f}" x2="{x1:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{x0 - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{name}</text>')
    for tick, name in x_ticks:
        x, y = at(tick, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{escape(name)}</text>')
    for mark in marks:
        (x, y0), (_, y1) = at(mark, 0), at(mark, 1)
        parts.append(f'<line x1="{x:.1f}" y1="{y0:.1f}" x2="{x:.1f}" y2="{y1:.1f}" class="mark"/>')
    for line in lines:
        points = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in line.points)
        dash = ' stroke-dasharray="5 4"' if line.dashed else ""
        parts.append(f'<polyline points="{points}" fill="none" stroke="{line.colour}" stroke-width="2.2"{dash}/>')
    x, y = at(0.5, 0)
    parts.append(f'<text x="{x:.1f}" y="{y + 31:.1f}" text-anchor="middle">{escape(x_name)}</text>')
    parts.append("</svg>")
    legend = "".join(
        f'<span><i style="background:{line.colour}"></i>{escape(line.name)}</span>' for line in lines if line.name
    )
    return "".join(parts) + f'<div class="legend">{legend}</div>'
