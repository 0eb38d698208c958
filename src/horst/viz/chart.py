"""Line charts: axes with round ticks, curves that are named where they end, and room for the names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from horst.viz.figure import Figure
from horst.viz.svg import MINUS, SIZE, Canvas, text_width

GAP = 13.5
"""Pixels from one name of a curve to the next."""
NAMES = 250.0
"""The most that names at the ends of curves get."""


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` on the left or below to `high`, which may be the smaller one."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    name: str = ""

    def share(self, value: float) -> float:
        """Where a value lies, in 0..1."""
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True, slots=True)
class Line:
    """One curve."""

    name: str
    """Stands where it ends; empty: nowhere."""
    points: Sequence[tuple[float, float]]
    colour: str = "0"
    """0, 1, ... of the series, or r and w for right and wrong."""
    width: float = 2.0
    dash: str = ""
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A place on a canvas, and the axes that span it."""

    left: float
    top: float
    right: float
    bottom: float
    x: Axis
    y: Axis

    def at(self, x: float, y: float) -> tuple[float, float]:
        return (
            self.left + self.x.share(x) * (self.right - self.left),
            self.bottom - self.y.share(y) * (self.bottom - self.top),
        )


def percent_axis(name: str = "", high: float = 1.0) -> Axis:
    """Shares of 1, as percentages."""
    step = 0.25 if high > 0.6 else round_step(high / 4)
    count = math.floor(high / step + 1e-9)
    return Axis(0.0, high, [(i * step, f"{100 * i * step:g}%") for i in range(count + 1)], name)


def number_axis(values: Iterable[float], name: str = "", *, ticks: int = 5, tight: bool = False) -> Axis:
    """Round numbers around all values; `tight`: the axis ends where the values do."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    if high - low < 1e-12:
        low, high = low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)
    step = round_step((high - low) / ticks)
    first = math.ceil(low / step - 1e-9) if tight else math.floor(low / step + 1e-9)
    last = math.floor(high / step + 1e-9) if tight else math.ceil(high / step - 1e-9)
    places = [(i * step, _number(i * step)) for i in range(first, last + 1)]
    return Axis(low if tight else first * step, high if tight else last * step, places, name)


def round_step(about: float) -> float:
    """1, 2 or 5 times a power of ten, not below."""
    power = 10.0 ** math.floor(math.log10(about))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= about * (1 - 1e-9))


def chart(
    lines: Sequence[Line],
    x: Axis,
    y: Axis,
    *,
    title: str = "",
    width: float = 460,
    height: float = 260,
    marks: Sequence[float] = (),
) -> Figure:
    """Curves over common axes; `marks` are upright lines at places of the x axis."""
    canvas = Canvas(width, height)
    box = draw_axes(canvas, x, y, top=26 if title else 12, bottom=height - 38, names=[line.name for line in lines])
    if title:
        canvas.text(0, 13, title, "ink bold", size=12)
    draw_lines(canvas, box, lines, marks)
    return canvas.figure(title or f"{y.name} over {x.name}")


def draw_axes(canvas: Canvas, x: Axis, y: Axis, *, top: float, bottom: float, names: Sequence[str] = ()) -> Box:
    """Axes across a canvas, with room on the right for the names of curves."""
    left = max([text_width(name) for _, name in y.ticks], default=0) + 8
    longest = max([text_width(name) for name in names], default=0)
    right = canvas.width - max(16.0, min(NAMES, longest) + 14 if longest else 0)
    box = Box(left, top, right, bottom, x, y)
    for value, name in y.ticks:
        height = box.at(x.low, value)[1]
        canvas.line(left, height, right, height)
        canvas.text(left - 6, height + 4, name, anchor="end")
    canvas.line(left, bottom, right, bottom, "axis")
    for value, name in x.ticks:
        canvas.text(box.at(value, y.low)[0], bottom + 16, name, anchor="middle")
    if x.name:
        canvas.text((left + right) / 2, bottom + 32, x.name, anchor="middle")
    if y.name:
        canvas.text(left, top - 6, y.name)
    return box


def draw_lines(canvas: Canvas, box: Box, lines: Sequence[Line], marks: Sequence[float] = ()) -> None:
    for mark in marks:
        place = box.at(mark, box.y.low)[0]
        canvas.line(place, box.top, place, box.bottom, "mark")
    ends = []
    for line in lines:
        points = [box.at(*point) for point in line.points if all(map(math.isfinite, point))]
        if not points:
            continue
        canvas.curve(points, f"s{line.colour}", width=line.width, dash=line.dash)
        if line.dots or len(points) == 1:
            for point in points:
                canvas.dot(*point, f"f{line.colour}")
        if line.name:
            ends.append((points[-1], line))
    places = spread([point[1] for point, _ in ends], box.top, box.bottom)
    for ((end, height), line), place in zip(ends, places, strict=True):
        if abs(place - height) > 3 or box.right - end > 3:
            canvas.curve([(end + 3, height), (box.right + 6, place)], f"s{line.colour}", width=0.7)
        room = canvas.width - box.right - 10
        canvas.text(box.right + 9, place + SIZE / 3, line.name, f"f{line.colour}", limit=room)


def spread(heights: Sequence[float], top: float, bottom: float, gap: float = GAP) -> list[float]:
    """Places for names near these heights, none over another, within top and bottom as far as they fit."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    placed: list[float] = []
    for i in order:
        placed.append(max(heights[i], placed[-1] + gap if placed else top))
    limit = bottom
    for i in range(len(placed) - 1, -1, -1):
        placed[i] = min(placed[i], limit)
        limit = placed[i] - gap
    found = [0.0] * len(heights)
    for i, place in zip(order, placed, strict=True):
        found[i] = place
    return found


def _number(value: float) -> str:
    return f"{0.0 if abs(value) < 1e-12 else value:.6g}".replace("-", MINUS)
