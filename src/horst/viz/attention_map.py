"""Figures 4 and 5 of the paper: which of the past frames a prediction rests on, and where in them it looks.

Shapes: T frames, S past states, h x w the map of a layer, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horst.errors import InputError
from horst.viz.figure import Figure
from horst.viz.picture import Image, dimmed, heat_colour, heated, picture
from horst.viz.svg import MINUS, Canvas, fit, text_width

BEST = 5
GAP, PANEL, BETWEEN = 5.0, 236.0, 20.0
"""Pixels between past frames; for the present one and what is said of it, on the left; and from that to the past."""
ROOM, LARGEST, SMALLEST = 756.0, 90.0, 46.0
"""For all past frames of a row, and for each of them."""
DARK = 0.22
"""The light of a frame that has no weight: it can still be made out."""
EVEN = 0.02
"""Maps that vary by less than this part of their height look everywhere: to stretch that to all colours would lie."""


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
    """The past frames that the model attends to at one moment: bright by T(Q, K), and beneath S(Q, K) as heat.

    Args:
        frames: (H, W, 3) each, T of them.
        temporal: `out.core.temporal` of one clip, or of one layer (T, S).
        spatial: `out.core.spatial` of one clip, or of one layer (T, S, h, w).
        at: Which frame is the present one, from 0 on; the last one by default. Frame t has min(t, S) past ones.
        layer: Which of the layers.
        probabilities: (T, C), or (C,) of the present frame: the likeliest classes are listed.
        names: Of the classes.
        truth: The true class: answers are then coloured by whether they are right.
        times: (T,) seconds of the frames.
        parts: (verb, noun) of every class: where names are "verb noun", both words are coloured by themselves.
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
    past = list(range(max(0, now - order), now))
    entries = [order - now + frame for frame in past]  # entry j looks at frame t - S + j
    shown_weights, shown_maps = weights[now, entries], maps[now, entries]

    height, width = frames[now].shape[:2]
    w = max(SMALLEST, min(LARGEST, (ROOM - GAP * (order - 1)) / order))
    h = w * height / width
    wide = PANEL + (BETWEEN + len(past) * (w + GAP) - GAP if past else 0)
    answers = _answers(probabilities, names, now)
    tall = max(2 * h + 66 if past else 0, h + 24 + (16 if truth is not None else 0) + 17 * len(answers) + 8)
    canvas = Canvas(wide, tall)
    if past:
        which = _layer_name(temporal, layer)
        _draw_past(canvas, frames, past, shown_weights, shown_maps, (w, h), times, which)
    canvas.text(0, 11, f"now: {_moment(now, times)}", "ink bold")
    canvas.image(0, 18, w, h, picture(frames[now], 2 * round(w)))
    top = h + 34
    if truth is not None and names is not None:
        canvas.text(0, top, "truth:")
        canvas.text(36, top, names[truth], "ink bold", limit=0.93 * (PANEL - 36))
        top += 16
    for chance, index, name in answers:
        canvas.rect(0, top - 11, PANEL * chance, 14, "f0", opacity=0.22, radius=2)
        mark = "" if truth is None else "right" if index == truth else "wrong"
        sure = f"{100 * chance:.0f}%"
        room = PANEL - text_width(sure) - 24
        words = _coloured(name, index, truth, parts, mark, room)
        canvas.words(3, top, [({"right": "✓", "wrong": "✗"}.get(mark, ""), mark), *words])
        canvas.text(PANEL - 2, top, sure, "ink", anchor="end")
        top += 17
    said = f", true: {names[truth]}" if truth is not None and names is not None else ""
    return canvas.figure(f"attention at {_moment(now, times)}{said}")


def _draw_past(
    canvas: Canvas,
    frames: Sequence[Image],
    past: list[int],
    weights: NDArray[np.float64],
    maps: NDArray[np.float64],
    size: tuple[float, float],
    times: Sequence[float] | None,
    which: str,
) -> None:
    """Two rows: frames as bright as their weight, which is told beneath, and maps of heat."""
    w, h = size
    left, row = PANEL + BETWEEN, len(past) * (w + GAP) - GAP
    low, high = float(maps.min()), float(maps.max())
    even = high - low < EVEN * abs(high)
    brightest = float(weights.max()) or 1.0
    second = h + 62
    canvas.text(left, 11, fit(f"temporal attention{which}", row), "ink bold")
    for column, frame in enumerate(past):
        x, weight = left + column * (w + GAP), float(weights[column])
        light = DARK + (1 - DARK) * weight / brightest
        canvas.image(x, 18, w, h, picture(dimmed(frames[frame], light), 2 * round(w)))
        canvas.rect(x, h + 21, w, 4, "well", radius=2)
        canvas.rect(x, h + 21, w * weight, 4, "f0", radius=min(2.0, w * weight / 2))
        canvas.text(x, h + 37, f"{100 * weight:.0f}%", "ink")
        if w > 60:
            canvas.text(x + w, h + 37, _moment(frame, times), anchor="end")
        level = np.full_like(maps[column], 0.5) if even else (maps[column] - low) / (high - low)
        canvas.image(x, second, w, h, picture(heated(frames[frame], level, 2 * round(w))))
    canvas.text(left, second - 7, fit("spatial attention", row), "ink bold")
    if even and row > 180:
        canvas.text(left + row, second - 7, f"even: {high:.2g}", anchor="end")
    elif row > 260:
        _draw_scale(canvas, left + row, second - 7, low, high)


def _draw_scale(canvas: Canvas, right: float, y: float, low: float, high: float) -> None:
    """What the colours of heat stand for."""
    names = [f"{low:.2g}", f"{high:.2g}"]
    end = right - text_width(names[1]) - 5
    canvas.text(right, y, names[1], anchor="end")
    for i in range(12):
        red, green, blue = heat_colour(np.array(i / 11)).round().astype(int)
        fill = f"#{red:02x}{green:02x}{blue:02x}"
        canvas.parts.append(f'<rect x="{end - 72 + 6 * i:.1f}" y="{y - 8:.1f}" width="6.3" height="8" fill="{fill}"/>')
    canvas.text(end - 77, y, names[0], anchor="end")


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


def _layer_name(values: Any, layer: int) -> str:
    return f", layer {layer % len(values) + 1} of {len(values)}" if isinstance(values, list | tuple) else ""


def _answers(
    probabilities: NDArray[np.floating] | None, names: Sequence[str] | None, now: int
) -> list[tuple[float, int, str]]:
    """(probability, class, name) of the likeliest."""
    if probabilities is None:
        return []
    chances = np.asarray(probabilities, np.float64)
    chances = chances[now] if chances.ndim == 2 else chances
    best = np.argsort(-chances, kind="stable")[:BEST].tolist()
    return [(float(chances[i]), i, names[i] if names is not None else f"class {i}") for i in best]


def _coloured(
    name: str, index: int, truth: int | None, parts: Sequence[tuple[int, int]], mark: str, room: float
) -> list[tuple[str, str]]:
    """A name as one word, or as verb and noun that may be right by themselves."""
    name = fit(name, room)
    verb, _, noun = name.partition(" ")
    if not parts or truth is None or not noun:
        return [(name, mark)]
    right = [ours == theirs for ours, theirs in zip(parts[index], parts[truth], strict=True)]
    return [(word, "right" if ok else "wrong") for word, ok in zip((verb, noun), right, strict=True)]


def _moment(frame: int, times: Sequence[float] | None) -> str:
    return f"frame {frame + 1}" if times is None else f"{times[frame]:.2f} s".replace("-", MINUS)
