"""Figures of one clip: the predictions over time, and the attention (figures 4 and 5 of the paper).

Shapes: T frames, S past states, h x w the map of a layer, C classes.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import eq
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from PIL import Image as PILImage

from horst.errors import InputError
from horst.video.frame import Image
from horst.viz import style

TOP = 5  # classes that are listed
GAP, PANEL, BETWEEN = 5.0, 236.0, 20.0  # points between past frames; for the current frame; from there to the past
ROOM, LARGEST, SMALLEST = 756.0, 90.0, 46.0  # width of all past frames of a row, and limits for each
DARK = 0.22  # brightness of a frame without weight: it can still be seen
EVEN = 0.02  # maps that vary by less than this share of their maximum are uniform: their noise is not stretched
CHART, STRIP, THUMB = 152, 25, 76  # heights of the chart and the strip, and the width of a frame, in points
LEFT, NAMES = 42, 270  # points for the percentages on the left and the names on the right


@style.styled
def attention(
    frames: Sequence[Image],
    temporal: Any,
    spatial: Any,
    *,
    at: int | None = None,
    layer: int = -1,
    probabilities: NDArray[np.floating] | None = None,
    names: Sequence[str] | None = None,
    truth: int | None = None,
    times: Sequence[float] | None = None,
    parts: Sequence[tuple[int, int]] = (),
) -> Figure:
    """The past frames that the model attends to at one frame: brightness is T(Q, K), colour below is S(Q, K).

    Args:
        frames: (H, W, 3) each, T of them.
        temporal: `out.core.temporal` of one clip, or of one layer (T, S).
        spatial: `out.core.spatial` of one clip, or of one layer (T, S, h, w).
        at: The current frame, from 0; by default the last one. Frame t has min(t, S) past frames.
        layer: Which layer.
        probabilities: (T, C), or (C,) of the current frame: the most likely classes are listed.
        names: Of the classes.
        truth: The true class: predictions are coloured by whether they are right.
        times: (T,) seconds of the frames.
        parts: (verb, noun) of every class: in names "verb noun", each word is coloured by itself.
    """
    weights = _layer("temporal", temporal, layer, 2)
    maps = _layer("spatial", spatial, layer, 4)
    total = len(frames)
    if weights.shape[0] != total or maps.shape[:2] != weights.shape:
        raise InputError(
            f"there are {total} frames, temporal weights of shape {weights.shape} and spatial ones of {maps.shape}: "
            "(T, S) and (T, S, h, w) of the same clip are needed"
        )
    now = total - 1 if at is None else at
    if not 0 <= now < total:
        raise InputError(f"at is {at}; there are {total} frames, from 0 to {total - 1}")
    order = weights.shape[1]
    past = range(max(0, now - order), now)
    entries = [order - now + frame for frame in past]  # entry j looks at frame t - S + j
    top = []  # (class, name, probability)
    if probabilities is not None:
        chances = np.asarray(probabilities, np.float64)
        chances = chances[now] if chances.ndim == 2 else chances
        best = np.argsort(-chances, kind="stable")[:TOP].tolist()
        top = [(i, names[i] if names is not None else f"class {i}", float(chances[i])) for i in best]
    true = names[truth] if truth is not None and names is not None else ""
    w = max(SMALLEST, min(LARGEST, (ROOM - GAP * (order - 1)) / order))
    h = w * frames[now].shape[0] / frames[now].shape[1]
    width = PANEL + (BETWEEN + len(past) * (w + GAP) - GAP if past else 0)
    height = max(2 * h + 66 if past else 0, h + 32 + (16 if true else 0) + 17 * len(top))
    label = f"attention at {_time(now, times)}" + (f", true: {true}" if true else "")
    figure, axes = style.new_canvas(width, height, label)
    style.put(axes, 0, 11, f"now: {_time(now, times)}", style.INK, weight="bold")
    style.put_image(axes, frames[now], 0, 18, w, h)
    y = h + 34
    if true:
        style.put(axes, 0, y, "truth:")
        style.put(axes, 36, y, true, style.INK, limit=PANEL - 36, weight="bold")
        y += 16
    for index, name, probability in top:
        _draw_bar(axes, 0, y - 11, PANEL * probability, 14, alpha=0.22)
        percent = f"{100 * probability:.0f}%"
        _put_name(axes, name, index, truth, parts, y, PANEL - style.text_width(percent) - 10)
        style.put(axes, PANEL - 2, y, percent, style.INK, ha="right")
        y += 17
    if past:
        title = "temporal attention"
        title += f", layer {layer % len(temporal) + 1} of {len(temporal)}" if isinstance(temporal, list | tuple) else ""
        row = width - PANEL - BETWEEN
        style.put(axes, PANEL + BETWEEN, 11, title, style.INK, limit=row, weight="bold")
        levels = _draw_scale(axes, maps[now, entries], h + 55, row)
        brightest = float(weights[now, entries].max()) or 1.0
    for column, frame in enumerate(past):
        x, weight = PANEL + BETWEEN + column * (w + GAP), float(weights[now, entries[column]])
        light = DARK + (1 - DARK) * weight / brightest
        style.put_image(axes, (light * frames[frame]).round().astype(np.uint8), x, 18, w, h)
        _draw_bar(axes, x, h + 21, w, 4, color=style.WELL)
        _draw_bar(axes, x, h + 21, w * weight, 4)
        style.put(axes, x, h + 37, f"{100 * weight:.0f}%", style.INK)
        if w > 60:
            style.put(axes, x + w, h + 37, _time(frame, times), ha="right")
        style.put_image(axes, heat_map(frames[frame], levels[column]), x, h + 62, w, h)
    return figure


def _draw_bar(axes: Axes, x: float, y: float, width: float, height: float, **options: Any) -> None:
    axes.add_patch(Rectangle((x, y), width, height, **{"color": style.SERIES[0], "linewidth": 0, **options}))


def _draw_scale(axes: Axes, maps: NDArray[np.float64], y: float, row: float) -> NDArray[np.float64]:
    """The title of the spatial maps, with what their colours stand for; the maps in 0..1."""
    left, right = PANEL + BETWEEN, PANEL + BETWEEN + row
    low, high = float(maps.min()), float(maps.max())
    even = high - low < EVEN * abs(high)
    style.put(axes, left, y, "spatial attention", style.INK, limit=row, weight="bold")
    if even and row > 180:
        style.put(axes, right, y, f"uniform: {high:.2g}", ha="right")
    elif row > 260:
        end = right - style.text_width(f"{high:.2g}") - 5
        style.put(axes, right, y, f"{high:.2g}", ha="right")
        style.put_image(axes, _colours(np.linspace(0, 1, 72))[None].astype(np.uint8), end - 72, y - 8, 72, 8)
        style.put(axes, end - 77, y, f"{low:.2g}", ha="right")
    return np.full_like(maps, 0.5) if even else (maps - low) / (high - low)


def heat_map(image: Image, level: NDArray[np.floating]) -> Image:
    """A map (h, w) in 0..1 in colour over the grey image."""
    small = PILImage.fromarray(np.asarray(level, np.float32))
    smooth = np.asarray(small.resize((image.shape[1], image.shape[0]), PILImage.Resampling.BICUBIC))
    grey = np.asarray(PILImage.fromarray(image).convert("L"), np.float64)[..., None]
    return (0.48 * grey + 0.52 * _colours(smooth)).round().astype(np.uint8)


def _colours(level: NDArray[np.floating]) -> NDArray[np.float64]:
    """(..., 3) in 0..255 for values in 0..1."""
    return 255 * matplotlib.colormaps["plasma"](np.clip(level, 0, 1))[..., :3]


def _layer(what: str, values: Any, layer: int, rank: int) -> NDArray[np.float64]:
    """The weights of one layer and one clip as an array."""
    if values is None:
        raise InputError(f"there is no {what} attention: call the model with attention=True")
    if isinstance(values, list | tuple):
        if not -len(values) <= layer < len(values):
            raise InputError(f"layer is {layer}; there are {len(values)}")
        values = values[layer]
    array = np.asarray(values.detach().float().cpu() if hasattr(values, "detach") else values, np.float64)
    if array.ndim == rank + 1 and array.shape[0] == 1:
        array = array[0]
    if array.ndim != rank:
        axes = "(T, S)" if rank == 2 else "(T, S, h, w)"
        raise InputError(f"the {what} attention has shape {array.shape}; {axes} of one clip is needed")
    return array


def _put_name(
    axes: Axes, name: str, index: int, truth: int | None, parts: Sequence[tuple[int, int]], y: float, limit: float
) -> None:
    """A name, with a mark if the truth is known; verb and noun are coloured by whether each is right."""
    words = [(name, index == truth)]
    if truth is not None:
        if parts and " " in name:
            words = list(zip(name.split(" ", 1), map(eq, parts[index], parts[truth]), strict=True))
        words.insert(0, ("✓" if index == truth else "✗", index == truth))
    x = 3.0
    for word, right in words:
        colour = style.SOFT if truth is None else style.RIGHT if right else style.WRONG
        style.put(axes, x, y, word, colour, limit=limit - x)
        x += style.text_width(word + " ")


def _time(frame: int, times: Sequence[float] | None) -> str:
    return f"frame {frame + 1}" if times is None else f"{times[frame]:.2f} s".replace("-", "\N{MINUS SIGN}")


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
