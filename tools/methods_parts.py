"""What more than one picture of docs/reference/methods.md has in it, and the legend of them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from methods_shapes import INK, Box, Note, Shape, arrow, joined, row, up

PAST = ("x_{t-3}", "x_{t-2}", "x_{t-1}", "x_t")


def recurrent(names: Sequence[str], *, maps: bool) -> tuple[Shape, ...]:
    """Frames below, the state above them, handed on from frame to frame, and the action read off the last one."""
    frames = row(PAST, 20, 108, 52, 92, "seen")
    wide = 44 if maps else 52
    states = row(names, 20 + (52 - wide) / 2, 44, wide, 92, "kept", h=44 if maps else 26, cells=4 if maps else 0)
    last = states[-1]
    said = Box(450, last.y + last.h / 2 - 15, 90, 30, "action", "told")
    return (*frames, *states, said, *up(frames, states), *joined([*states, said]))


def means(x: float, y: float, label: str = "mean of the\nlast second") -> tuple[Shape, ...]:
    """Four frames and the mean of them, 180 wide."""
    frames = row(("", "", "", ""), x, y - 9, 14, 17, "seen", h=18)
    box = Box(x + 88, y - 18, 78, 36, label, "kept", size=11)
    return (*frames, Note(x + 33, y + 24, "x_{t-3} … x_t"), arrow((x + 67, y), (x + 88, y)), box)


def bars(heights: Sequence[float], x: float, base: float, kinds: Sequence[str], *, w: float = 18) -> tuple[Box, ...]:
    pairs = enumerate(zip(heights, kinds, strict=True))
    return tuple(Box(x + i * (w + 8), base - h, w, h, kind=kind) for i, (h, kind) in pairs)


def legend() -> Iterator[Shape]:
    for x, text, kind in ((12, "seen", "seen"), (100, "remembered", "kept"), (232, "foretold", "told")):
        yield Box(x, 9, 26, 16, kind=kind)
        yield Note(x + 34, 21, text, "start", 12, INK)
    yield Box(342, 9, 26, 16)
    yield Note(376, 21, "computes", "start", 12, INK)
