"""How predictions grow while a video unfolds: the likeliest classes over time, and below which of them leads.

Shapes: T moments, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from horst.errors import InputError
from horst.viz.chart import Box, Line, draw_axes, draw_lines, number_axis, percent_axis
from horst.viz.figure import Figure
from horst.viz.picture import Image, picture
from horst.viz.svg import SERIES, Canvas

TALL = 152.0
STRIP = 20.0
THUMB = 76.0


def timeline(
    probabilities: NDArray[np.floating],
    times: Sequence[float],
    names: Sequence[str],
    truth: int | None = None,
    *,
    shown: int = 4,
    frames: Sequence[Image] = (),
    marks: Sequence[float] = (),
    x_name: str = "seconds",
    width: float = 980,
) -> Figure:
    """Curves of the classes that were held likeliest at some time, and a strip of the class that leads.

    Args:
        probabilities: (T, C).
        times: (T,), rising.
        names: (C,).
        truth: The true class: it is always drawn, thick and green, and the strip tells where it leads.
        shown: How many classes have a curve.
        frames: (H, W, 3) each, T of them: some stand above the curves, where they were seen.
        marks: Times to point at.
        x_name: What the times are.
        width: In pixels.
    """
    chances = np.asarray(probabilities, np.float64)
    if chances.ndim != 2 or chances.shape != (len(times), len(names)) or not len(times):
        raise InputError(f"probabilities have shape {chances.shape}; {len(times)} times take (T, {len(names)})")
    leaders = chances.argmax(1)
    chosen = _chosen(chances, truth, shown)
    others = [index for index in chosen if index != truth]
    colours = {index: str(i % SERIES) for i, index in enumerate(others)} | ({} if truth is None else {truth: "r"})
    lines = [
        Line(
            ("✓ " if index == truth else "") + names[index],
            list(zip(times, chances[:, index].tolist(), strict=True)),
            colours[index],
            width=3 if index == truth else 1.8,
        )
        for index in sorted(chosen, key=lambda index: index == truth)  # the true one on top
    ]
    if frames and len(frames) != len(times):
        raise InputError(f"there are {len(frames)} frames and {len(times)} times: one each is needed")
    thumb = (THUMB * frames[0].shape[0] / frames[0].shape[1]) if frames else 0.0
    top = 10.0 + (thumb + 8 if frames else 0)
    canvas = Canvas(width, top + TALL + STRIP + 50)
    x = number_axis(times, x_name, ticks=8, tight=True)
    box = draw_axes(canvas, x, percent_axis(), top=top, bottom=top + TALL, names=[line.name for line in lines])
    if frames:
        _draw_frames(canvas, box, times, frames, thumb)
    draw_lines(canvas, box, lines, marks)
    return _with_strip(canvas, box, times, leaders, names, colours, truth)


def _chosen(chances: NDArray[np.float64], truth: int | None, shown: int) -> list[int]:
    """The classes that reach highest, the true one among them."""
    best = np.argsort(-chances.max(0), kind="stable").tolist()
    first = [] if truth is None else [truth]
    return [*first, *(index for index in best if index != truth)][: max(1, shown)]


def _draw_frames(canvas: Canvas, box: Box, times: Sequence[float], frames: Sequence[Image], tall: float) -> None:
    """As many as fit beside each other: each was seen at its middle."""
    room = box.right - box.left
    count = max(1, min(len(frames), int(room / THUMB)))
    step = room / count
    places = np.asarray(times, np.float64)
    for i in range(count):
        share = (i + 0.5) / count
        wanted = box.x.low + share * (box.x.high - box.x.low)
        frame = frames[int(np.abs(places - wanted).argmin())]
        canvas.image(box.left + (i + 0.5) * step - THUMB / 2 + 1, 4, THUMB - 2, tall, picture(frame, 2 * round(THUMB)))


def _with_strip(
    canvas: Canvas,
    box: Box,
    times: Sequence[float],
    leaders: NDArray[np.int64],
    names: Sequence[str],
    colours: dict[int, str],
    truth: int | None,
) -> Figure:
    """One segment for as long as a class leads; a name where it fits."""
    y = box.bottom + 36
    for first, last in _runs(leaders):
        leader = int(leaders[first])
        begin = box.at(times[first], 0)[0]
        end = box.at(times[min(last + 1, len(times) - 1)], 0)[0]
        if last + 1 == len(times) and first == last:  # the last moment alone
            begin, end = end - 3, end
        kind = f"f{colours[leader]}" if leader in colours else "well"
        room = max(1.0, end - begin - 1)
        canvas.rect(begin, y, room, STRIP, kind, opacity=0.3 if leader in colours else 1, radius=2, tip=names[leader])
        if truth is not None:
            canvas.rect(begin, y + STRIP + 2, room, 3, "fr" if leader == truth else "fw", radius=1)
        if room > 34:
            canvas.text(begin + 5, y + 14, names[leader], "ink", limit=room - 8)
    canvas.text(box.right + 9, y + 14, "the likeliest")
    said = "" if truth is None else f"; true: {names[truth]}"
    return canvas.figure(f"probabilities over time{said}")


def _runs(values: NDArray[np.int64]) -> list[tuple[int, int]]:
    """(first, last) of stretches of equal values."""
    ends = [*np.flatnonzero(np.diff(values)).tolist(), len(values) - 1]
    return list(zip([0, *(end + 1 for end in ends[:-1])], ends, strict=True))
