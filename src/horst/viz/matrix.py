"""What is taken for what: a confusion matrix in which similar classes are neighbours, and its worst pairs in words.

Shapes: N examples, C classes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from horst.errors import InputError
from horst.viz.figure import Figure
from horst.viz.svg import Canvas, text_width

NAMED = 80
"""Classes that have room for their names; more are a picture without names."""
SIDE = 470.0
NAMES, PAIRS = 240.0, 330.0
"""Pixels for names of rows, and for the list beside the matrix."""
LEGEND = "rows: what is done; blue is right, red is not, strong is often"
LEVELS = 8
"""Of shading."""


def confusion(
    labels: Any,
    answers: Any,
    names: Sequence[str],
    *,
    order: Sequence[int] | None = None,
    pairs: int = 12,
    title: str = "",
) -> Figure:
    """Rows are what is done, columns what is said; the shade is the share of a row.

    Classes that neither occur nor are said are left out.

    Args:
        labels: (N,) true classes; -1 is unknown and left out.
        answers: (N,) predicted classes; -1 says nothing, which is a miss.
        names: (C,).
        order: Of the classes; by default such that those that are mistaken for each other are neighbours.
        pairs: How many of the worst mistakes are listed.
        title: Above it.
    """
    counts, silent = count(labels, answers, len(names))
    order = similarity_order(counts) if order is None else order
    known = {int(i) for i in np.flatnonzero(counts.sum(0) + counts.sum(1) + silent)}
    rows = [index for index in order if index in known]
    if not rows:
        raise InputError("no example has a label, so there is nothing to be mistaken")
    named = len(rows) <= NAMED
    cell = max(8.5, min(26.0, SIDE / len(rows))) if named else SIDE / len(rows)
    size = min(11.0, 0.86 * cell + 1)
    left = min(NAMES, max(text_width(names[index], size) for index in rows)) + 8 if named else 18.0
    top, side = 44.0 if title else 24.0, cell * len(rows)
    worst = worst_pairs(counts, pairs)
    below = text_width(LEGEND)
    beside = max(left + side, below) + 24  # of few classes the legend is wider than the matrix
    canvas = Canvas(beside + PAIRS, max(top + side + 30, top + 34 * len(worst) + 60))
    if title:
        canvas.text(0, 13, title, "ink bold", size=12)
    total = counts.sum(1) + silent
    _draw_cells(canvas, counts, total, rows, (left, top, cell))
    if named:
        for place, index in enumerate(rows):
            y = top + (place + 0.5) * cell + size / 3
            canvas.text(left - 6, y, names[index], "ink", anchor="end", size=size, limit=NAMES)
    canvas.text(left, top - 7, "what is said →" if named else f"what is said, of {len(rows)} classes →")
    canvas.text(max(0.0, min(left, left + side - below)), top + side + 15, LEGEND)
    right, said = int(np.trace(counts)), int(counts.sum() + silent.sum())
    _draw_pairs(canvas, worst, total, names, beside, top, f"{right} of {said} right")
    return canvas.figure(title or "confusion matrix")


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


def _draw_cells(
    canvas: Canvas,
    counts: NDArray[np.int64],
    total: NDArray[np.int64],
    rows: list[int],
    place: tuple[float, float, float],
) -> None:
    """One path for all cells of a shade: two hundred classes have many cells."""
    left, top, cell = place
    side = cell * len(rows)
    canvas.rect(left, top, side, side, "well", opacity=0.55)
    if cell >= 8:
        for i in range(1, len(rows)):
            canvas.line(left + i * cell, top, left + i * cell, top + side, "grid")
            canvas.line(left, top + i * cell, left + side, top + i * cell, "grid")
    chosen = counts[np.ix_(rows, rows)]
    shares = chosen / np.maximum(total[rows][:, None], 1)
    levels = np.ceil(LEVELS * np.sqrt(shares)).astype(int)
    gap = 0.5 if cell >= 8 else 0.0
    inner = max(cell - 2 * gap, 0.8)
    for level in range(1, LEVELS + 1):
        steps = {"f0": "", "fw": ""}
        for i, j in np.argwhere(levels == level).tolist():
            x, y = left + j * cell + gap, top + i * cell + gap
            steps["f0" if i == j else "fw"] += f"M{x:.1f} {y:.1f}h{inner:.1f}v{inner:.1f}h-{inner:.1f}z"
        for kind, path in steps.items():
            if path:
                canvas.path(path, kind, opacity=0.12 + 0.88 * level / LEVELS)


def _draw_pairs(
    canvas: Canvas,
    worst: list[tuple[int, int, int]],
    total: NDArray[np.int64],
    names: Sequence[str],
    x: float,
    top: float,
    told: str,
) -> None:
    canvas.text(x, top + 8, told, "ink bold", size=12)
    y = top + 32
    canvas.text(x, y, "mistaken most often" if worst else "nothing is mistaken")
    for true, said, times in worst:
        y += 34
        canvas.text(x, y - 12, names[true], "ink", limit=PAIRS - 70)
        canvas.text(x + 10, y + 1, f"→ {names[said]}", "wrong", limit=PAIRS - 20)
        canvas.text(x + PAIRS - 4, y - 12, f"{times} of {total[true]}", anchor="end")
