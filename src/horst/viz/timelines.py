"""Predictions while a video unfolds: the most likely classes over time, and a strip of the top class.

Shapes: T moments, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from horst.errors import InputError
from horst.video.frame import Image
from horst.viz import style

CHART, STRIP, THUMB = 152, 25, 76  # heights of the chart and the strip, and the width of a frame, in points
LEFT, NAMES = 42, 270  # points for the percentages on the left and the names on the right


@style.styled
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
    """Curves of the classes with the highest probability at some time, and a strip of the top class.

    Args:
        probabilities: (T, C).
        times: (T,), rising.
        names: (C,).
        truth: The true class: it always has a curve, thick and green, and the strip shows where it is the top class.
        shown: How many classes have a curve.
        frames: (H, W, 3) each, T of them: some are drawn above the curves, where they were seen.
        marks: Times with a vertical line.
        x_name: What the times are.
        width: In points.
    """
    values = np.asarray(probabilities, np.float64)
    if values.ndim != 2 or values.shape != (len(times), len(names)) or not len(times):
        raise InputError(f"probabilities have shape {values.shape}; {len(times)} times need (T, {len(names)})")
    if frames and len(frames) != len(times):
        raise InputError(f"there are {len(frames)} frames and {len(times)} times: one each is needed")
    best = [index for index in np.argsort(-values.max(0), kind="stable").tolist() if index != truth]
    shown_classes = best[: max(1, shown) - (truth is not None)]
    colours = {index: style.SERIES[i % len(style.SERIES)] for i, index in enumerate(shown_classes)}
    if truth is not None:  # last, on top
        colours[truth] = style.RIGHT
    label = "probabilities over time" + ("" if truth is None else f"; true: {names[truth]}")
    thumb = THUMB * frames[0].shape[0] / frames[0].shape[1] if frames else 0
    height, room = thumb + CHART + STRIP + 62, width - LEFT - NAMES
    figure = style.new_figure(width, height, label)
    place = {"left": LEFT / width, "right": 1 - NAMES / width, "top": 1 - 4 / height, "bottom": 6 / height}
    rows = figure.subplots(3, 1, sharex=True, height_ratios=(thumb or 1, CHART, STRIP), gridspec_kw=place)
    figure.subplots_adjust(hspace=3 * 26 / (height - 62))
    above, chart, strip = rows
    for index, colour in colours.items():
        name, thickness = (f"✓ {names[index]}", 3) if index == truth else (names[index], 1.8)
        marker = "o" if len(times) == 1 else ""
        chart.plot(times, values[:, index], marker, color=colour, linewidth=thickness, label=name, clip_on=False)
    for mark in marks:
        chart.axvline(mark, color=style.AXIS, linewidth=1, linestyle=(0, (2, 3)), label="_mark", zorder=0)
    first, last = times[0], times[-1] if len(times) > 1 else times[0] + 1
    chart.set_xlim(first, last)
    chart.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    chart.tick_params(labelbottom=True)
    chart.set_xlabel(x_name, ha="left")
    chart.xaxis.set_label_coords(1 + 12 / room, -6 / CHART)  # right of the ticks
    style.percent_axis(chart, full=True)
    style.name_curves(chart, NAMES - 30)
    for axes, top in ((above, 1), (strip, STRIP)):
        axes.set(ylim=(top, 0), autoscale_on=False)
        axes.set_axis_off()
    _draw_strip(strip, times, values.argmax(1), names, colours, truth, room / (last - first))
    style.put(strip, last + 9 * (last - first) / room, 14, "top class")
    count = max(1, min(len(frames), int(room / THUMB))) if frames else 0
    step, size = (last - first) / max(count, 1), (THUMB - 2) * (last - first) / room
    for i in range(count):  # each frame was seen at its middle
        middle = first + (i + 0.5) * step
        nearest = int(np.abs(np.asarray(times, np.float64) - middle).argmin())
        style.put_image(above, frames[nearest], middle - size / 2, 0, size, 1)
    return figure


def _draw_strip(
    axes: Axes,
    times: Sequence[float],
    leaders: NDArray[np.int64],
    names: Sequence[str],
    colours: dict[int, str],
    truth: int | None,
    scale: float,
) -> None:
    """One segment for as long as a class is the top class, with its name where it fits. `scale`: points per second."""
    for leader, run in groupby(range(len(times)), lambda i: int(leaders[i])):
        first, *rest = run
        begin, end = times[first], times[min(first + len(rest) + 1, len(times) - 1)]
        if begin == end:  # the last moment alone
            begin = end - 3 / scale
        width = max(end - begin, 1 / scale) - 1 / scale
        colour, alpha = (colours[leader], 0.3) if leader in colours else (style.WELL, 1)
        (bar,) = axes.barh(0, width, 20, begin, align="edge", color=colour, alpha=alpha)
        style.add_tooltip(bar, names[leader])
        if truth is not None:
            axes.barh(22, width, 3, begin, align="edge", color=style.RIGHT if leader == truth else style.WRONG)
        if width * scale > 34:
            style.put(axes, begin + 5 / scale, 14, names[leader], style.INK, limit=width * scale - 8)
