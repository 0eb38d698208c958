"""A confusion matrix in which similar classes are neighbours, with a list of the most frequent mistakes.

Shapes: N examples, C classes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from horst.errors import InputError
from horst.viz import style

NAMED = 80
"""The most classes that have room for their names."""
SIDE = 470.0
NAMES, PAIRS = 240.0, 330.0
"""Points for names of rows, and for the list beside the matrix."""
LEGEND = "rows: true class; blue: right, red: wrong; strong: often"


@style.styled
def confusion(
    labels: Any,
    answers: Any,
    names: Sequence[str],
    *,
    order: Sequence[int] | None = None,
    pairs: int = 12,
    title: str = "",
) -> Figure:
    """Rows are true classes, columns predicted ones; opacity is the square root of the share of the row.

    Classes that neither occur nor are predicted are left out.

    Args:
        labels: (N,) true classes; -1 is unknown and left out.
        answers: (N,) predicted classes; -1 is no prediction, which is a miss.
        names: (C,).
        order: Of the classes; by default classes that are mistaken for each other are neighbours.
        pairs: How many of the most frequent mistakes are listed.
        title: Above the matrix.
    """
    counts, missed = count(labels, answers, len(names))
    order = similarity_order(counts) if order is None else order
    known = {int(i) for i in np.flatnonzero(counts.sum(0) + counts.sum(1) + missed)}
    rows = [index for index in order if index in known]
    if not rows:
        raise InputError("no example has a label, so there is no confusion matrix")
    named = len(rows) <= NAMED
    cell = max(8.5, min(26.0, SIDE / len(rows))) if named else SIDE / len(rows)
    size = min(11.0, 0.86 * cell + 1)
    left = min(NAMES, max(style.text_width(names[index], size) for index in rows)) + 8 if named else 18.0
    top, side = 44.0 if title else 24.0, cell * len(rows)
    worst = worst_pairs(counts, pairs)
    x = max(left + side, style.text_width(LEGEND)) + 24  # with few classes the legend is wider than the matrix
    width, height = x + PAIRS, max(top + side + 30, top + 34 * len(worst) + 60)
    figure, canvas = style.new_canvas(width, height, title or "confusion matrix")
    style.put(canvas, 0, 13, title, style.INK, size=12, weight="bold")
    total = counts.sum(1) + missed
    shares = counts[np.ix_(rows, rows)] / np.maximum(total[rows][:, None], 1)
    image = np.empty((len(rows), len(rows), 4))
    image[..., :3] = np.where(np.eye(len(rows), dtype=bool)[..., None], to_rgb(style.SERIES[0]), to_rgb(style.WRONG))
    image[..., 3] = np.where(shares > 0, 0.12 + 0.88 * np.sqrt(shares), 0)
    axes = figure.add_axes((left / width, 1 - (top + side) / height, side / width, side / height))
    axes.imshow(image, aspect="auto", interpolation="none")
    shown = [style.fit(names[index], NAMES, size) for index in rows] if named else []
    axes.set_yticks(range(len(shown)), shown, color=style.INK, size=size)
    axes.set_xticks([])
    axes.grid(visible=False)
    edges = np.arange(len(rows) + 1) - 0.5
    edges = edges if cell >= 8 else edges[[0, -1]]
    axes.hlines(edges, -0.5, len(rows) - 0.5, style.LINE, linewidth=1)
    axes.vlines(edges, -0.5, len(rows) - 0.5, style.LINE, linewidth=1)
    style.put(canvas, left, top - 7, "predicted →" if named else f"predicted, of {len(rows)} classes →")
    style.put(canvas, max(0.0, min(left, left + side - style.text_width(LEGEND))), top + side + 15, LEGEND)
    style.put(canvas, x, top + 8, f"{np.trace(counts)} of {total.sum()} right", style.INK, size=12, weight="bold")
    style.put(canvas, x, top + 32, "most frequent mistakes" if worst else "no mistakes")
    for number, (true, wrong, times) in enumerate(worst):
        y = top + 66 + 34 * number
        style.put(canvas, x, y - 12, names[true], style.INK, limit=PAIRS - 70)
        style.put(canvas, x + 10, y + 1, f"→ {names[wrong]}", style.WRONG, limit=PAIRS - 20)
        style.put(canvas, x + PAIRS - 4, y - 12, f"{times} of {total[true]}", ha="right")
    return figure


def count(labels: Any, answers: Any, classes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(C, C) how often each class (row) is called each (column), and (C,) how often nothing is said."""
    true, said = (np.asarray(values, np.int64).reshape(-1) for values in (labels, answers))
    if true.shape != said.shape:
        raise InputError(f"there are {len(true)} labels and {len(said)} answers: one each is needed")
    if len(true) and not (min(true.min(), said.min()) >= -1 and max(true.max(), said.max()) < classes):
        raise InputError(f"labels and answers go from -1 (unknown) to {classes - 1}; some do not")
    known = true >= 0
    spoken = known & (said >= 0)
    counts = np.bincount(true[spoken] * classes + said[spoken], minlength=classes**2).reshape(classes, classes)
    return counts, np.bincount(true[known & (said < 0)], minlength=classes)


def similarity_order(counts: NDArray[np.int64]) -> list[int]:
    """Classes in a row such that those that are mistaken for each other are near.

    A row begins with the class that is mistaken most, and takes in the class that is likest to one of its ends; where
    none is like them, another row begins.
    """
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    likeness = shares + shares.T
    np.fill_diagonal(likeness, 0)
    mistaken = np.argsort(-likeness.sum(1), kind="stable").tolist()
    order: list[int] = []
    for begin in mistaken:
        if begin in order:
            continue
        row = deque([begin])
        likeness[:, begin] = 0  # it is taken
        while True:
            ends = likeness[[row[-1], row[0]]]
            end, likest = divmod(int(ends.argmax()), len(likeness))
            if ends[end, likest] == 0:
                break
            (row.append, row.appendleft)[end](likest)
            likeness[:, likest] = 0
        order += row
    return order


def worst_pairs(counts: NDArray[np.int64], most: int) -> list[tuple[int, int, int]]:
    """(true, said, how often) of the most frequent mistakes."""
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    best = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = [(int(i // len(counts)), int(i % len(counts))) for i in best]
    return [(true, said, int(wrong[true, said])) for true, said in pairs if wrong[true, said]]
