"""Draws the pictures of docs/methods.md, and prints its tables:

python docs/draw_methods.py                        # docs/images/methods/*.svg
python docs/draw_methods.py --table recognition    # or anticipation, ablations

A picture is a list of shapes in a field of 560 x 150; time goes from left to right. Blue is what is seen, green what is
remembered, orange what is foretold, grey what computes. In texts x_t and x_{t-1} have subscripts.
"""

from __future__ import annotations

import argparse
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from horst.evaluation.paper import paper_table
from horst.models import model_config
from horst.models.methods import METHODS, Method
from horst.models.summary import summarize

FOLDER = Path(__file__).parent / "images" / "methods"
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


# Parts that several pictures have.

PAST = ("x_{t-3}", "x_{t-2}", "x_{t-1}", "x_t")


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


def _cnn3d() -> Iterator[Shape]:
    frames = row(PAST, 20, 108, 46, 66, "seen")
    convs = row(("conv 3D",) * 2, 143, 60, 58, 72, "plain")
    yield from frames
    for conv, first in zip(convs, (0, 1), strict=True):
        for frame in frames[first : first + 3]:
            yield arrow((frame.x + 23, frame.y), (conv.x + 29, conv.y + 26))
        yield line((conv.x + 29, conv.y), (conv.x + 29, 31))
    yield from convs
    yield Note(20, 50, "and of frames", "start")
    yield Note(20, 63, "before these", "start")
    yield arrow((120, 31), (359, 31), (359, 54))
    yield Box(306, 54, 106, 38, "mean over all\nframes so far", "kept")
    yield arrow((412, 73), (450, 73))
    yield Box(450, 58, 90, 30, "action", "told")


def _e3d() -> Iterator[Shape]:
    frames = row(("x_{t-4}, x_{t-3}", "x_{t-3}, x_{t-2}", "x_{t-2}, x_{t-1}", "x_{t-1}, x_t"), 16, 114, 82, 94, "seen")
    cells = row(("C_{t-3}", "C_{t-2}", "C_{t-1}", "C_t"), 35, 58, 44, 94, "kept", h=38, cells=3)
    yield from (*frames, *cells, *up(frames, cells), *joined(cells))
    for cell in cells[:3]:
        yield Line(((cell.x + 22, 58), (331, 58)), "kept", bend=(331 - cell.x) * 0.2 + 8)
    yield Note(346, 32, "recall of past cells, by attention", "start", colour=STROKES["kept"])
    yield Box(400, 60, 36, 34, "M", "kept")
    yield arrow((361, 77), (400, 77))
    yield arrow((418, 94), (418, 127), (442, 127), kind="kept", dashed=True)
    yield Note(448, 131, "to the next frame", "start")
    yield arrow((436, 77), (466, 77))
    yield Box(466, 62, 78, 30, "action", "told")


def _conv_tt() -> Iterator[Shape]:
    queue = row(("h_{t-3}", "h_{t-2}", "h_{t-1}"), 24, 14, 44, 84, "kept", h=40, cells=4)
    cores = row(("A_0", "A_1", "A_2"), 24, 84, 44, 84, "plain", h=28)
    gates = Box(272, 84, 60, 28, "gates")
    state = Box(372, 78, 46, 40, "h_t, c_t", "kept", 4)
    said = Box(458, 83, 84, 30, "action", "told")
    yield from (*queue, *cores, gates, state, said, *joined([*cores, gates, state, said]))
    for held, core in zip(queue, cores, strict=True):
        yield arrow((held.x + 22, held.y + held.h), (core.x + 22, core.y))
    yield Note(88, 92, "B_0")
    yield Note(172, 92, "B_1")
    yield Note(254, 92, "z")
    yield Note(24, 133, "a train of cores, 8 channels between", "start")
    seen = Box(279, 122, 46, 22, "x_t", "seen")
    yield seen
    yield arrow((302, 122), (302, 112))
    yield arrow((395, 78), (395, 34), (238, 34), kind="kept", dashed=True)
    yield Note(246, 27, "joins the queue, the oldest leaves", "start")


def _horst() -> Iterator[Shape]:
    queue = row(("K V",) * 4, 150, 24, 44, 54, "kept", h=32, cells=3)
    yield from queue
    for name, box in zip(("t \u2212 8", "…", "t \u2212 2", "t \u2212 1"), queue, strict=True):
        yield Note(box.x + 22, 18, name)
    for box, width in zip(queue, (0.8, 1.2, 4.0, 2.2), strict=True):
        yield Line(((box.x + 22, 56), (box.x + 22, 92)), "kept", width=width)
    yield Note(146, 76, "when, and where?", "end", colour=STROKES["kept"])
    chain = (
        Box(16, 95, 40, 26, "x_t", "seen"),
        Box(80, 95, 46, 26, "e_t, Q_t"),
        Box(150, 92, 206, 32, "STATT: time \u00d7 place"),
        Box(382, 90, 40, 36, "h_t", "kept", 3),
        Box(462, 93, 82, 30, "action", "told"),
    )
    yield from (*chain, *joined(chain))
    yield arrow((402, 90), (402, 40), (356, 40), kind="kept", dashed=True)
    yield Note(410, 58, "its K and V join", "start")
    yield Note(410, 71, "the queue", "start")
    yield arrow((103, 121), (103, 138), (402, 138), (402, 126))


def _dmr() -> Iterator[Shape]:
    seen = Box(20, 60, 46, 30, "x_t", "seen")
    guesses = tuple(Box(124, y, 104, 28, f"guess {i}", "told") for i, y in enumerate((12, 57, 102), 1))
    mean = Box(382, 60, 56, 30, "mean")
    yield from (seen, *guesses, mean, Box(470, 60, 74, 30, "action", "told"))
    for guess in guesses:
        yield arrow((66, 75), (124, guess.y + 14))
        yield arrow((228, guess.y + 14), (382, 75 + (guess.y - 57) / 5))
    yield arrow((438, 75), (470, 75))
    yield Box(284, 114, 92, 24, "x_{t+4} as it is", "seen", dashed=True, size=10.5)
    yield arrow((284, 126), (228, 122), kind="seen", dashed=True)
    yield Note(124, 143, "only the nearest learns", "start")
    yield Note(14, 22, "the features", "start")
    yield Note(14, 35, "1 s from now", "start")


def _two_heads() -> Iterator[Shape]:
    """From the mean at (182, 75) to a verb and a noun."""
    yield from means(16, 75)
    yield Box(226, 26, 76, 28, "verb", "told")
    yield Box(226, 96, 76, 28, "noun", "told")
    yield arrow((182, 75), (226, 40))
    yield arrow((182, 75), (226, 110))


def _atsn() -> Iterator[Shape]:
    yield from _two_heads()
    yield Box(346, 60, 34, 30, "\u00d7")
    yield arrow((302, 40), (346, 68))
    yield arrow((302, 110), (346, 82))
    yield arrow((380, 75), (424, 75))
    yield Box(424, 60, 118, 30, "action", "told")
    yield Note(483, 108, "p(a) = p(v) p(n)")


def _vn_ce() -> Iterator[Shape]:
    yield from _two_heads()
    for y in (26, 96):
        yield Box(430, y, 112, 28, "cross-entropy")
        yield arrow((302, y + 14), (430, y + 14))
    yield Box(296, 61, 88, 28, "action", "told")
    yield line((264, 54), (264, 75), kind="told", dashed=True)
    yield line((264, 96), (264, 75), kind="told", dashed=True)
    yield arrow((264, 75), (296, 75), kind="told", dashed=True)
    yield Note(392, 79, "is read, and never taught", "start")


VERBS = {"open": (0, 1), "take": (2,), "wash": (3,)}
NOUNS = {"fridge": (0,), "jar": (1, 2), "pan": (3,)}


def _mce() -> Iterator[Shape]:
    yield Box(14, 57, 78, 36, "mean of the\nlast second", "kept", size=11)
    actions = row(("open fridge", "open jar", "take jar", "wash pan"), 122, 62, 84, 104, "told")
    yield from actions
    yield arrow((92, 75), (122, 75))
    for groups, y, side in ((VERBS, 12, 0), (NOUNS, 114, 26)):
        for name, members in groups.items():
            middle = sum(actions[i].x + 42 for i in members) / len(members)
            yield Box(middle - 32, y, 64, 24, name, "told")
            for i in members:
                yield arrow((actions[i].x + 42, 62 + side), (middle, y + 24 if side == 0 else y))
    yield Note(20, 28, "verbs, each a sum", "start")
    yield Note(20, 130, "nouns, each a sum", "start")


def _svm() -> Iterator[Shape]:
    yield from means(16, 75)
    yield arrow((182, 75), (214, 75))
    yield line((214, 128), (406, 128))
    yield from bars((84, 70, 52, 34, 26, 18), 222, 128, ("plain",) * 6)
    yield from bars((92,), 380, 128, ("told",))
    yield line((274, 76), (418, 76), dashed=True)
    yield line((274, 46), (418, 46), kind="told", dashed=True)
    yield arrow((408, 76), (408, 48), kind="told")
    yield Note(292, 142, "the other actions")
    yield Note(389, 142, "true")
    yield Note(424, 80, "the k-th best of them", "start")
    yield Note(424, 50, "and a margin: enough", "start", colour=STROKES["told"])
    yield Note(283, 70, "k")


def _vnmce() -> Iterator[Shape]:
    yield from means(16, 75)
    yield arrow((182, 75), (214, 75))
    yield line((214, 118), (396, 118))
    forgiven = bars((86, 72), 222, 118, ("plain",) * 2)
    yield from (Box(b.x, b.y, b.w, b.h, dashed=True) for b in forgiven)
    yield from bars((52, 34, 26, 18), 274, 118, ("plain",) * 4)
    yield from bars((64,), 378, 118, ("told",))
    yield Note(244, 24, "k \u2212 1 best: forgiven")
    yield Note(325, 56, "the rest count")
    yield Note(296, 134, "the other actions")
    yield Note(387, 134, "true")
    for y, text in ((36, "verb: sum of\nits actions"), (84, "noun: sum of\nits actions")):
        yield Box(446, y, 96, 36, text, "told", size=11)
        yield arrow((404, 84), (446, y + 18), kind="told")


def _encoder_decoder() -> Iterator[Shape]:
    frames = row(("x_{t-2}", "x_{t-1}", "x_t"), 16, 108, 46, 66, "seen")
    states = row(("", "", "h_t"), 16, 62, 46, 66, "kept")
    decoded = row(("", "", ""), 214, 62, 46, 84, "told")
    future = tuple(Box(b.x, 14, 46, 26, f"x\u0302_{{t+{i}}}", "told") for i, b in enumerate(decoded, 1))
    said = Box(468, 60, 76, 30, "action", "told")
    yield from (*frames, *states, *decoded, *future, said)
    yield from (*up(frames, states), *joined([*states, *decoded, said]), *up(decoded, future))
    for a, b in zip(future, decoded[1:], strict=False):
        yield arrow((a.x + 46, 34), (b.x + 6, 62), kind="told")
    real = tuple(Box(b.x, 108, 46, 26, f"x_{{t+{i}}}", "seen", dashed=True) for i, b in enumerate(decoded, 1))
    yield from real
    yield Note(440, 118, "squared distance", "start")
    yield Note(440, 131, "of x\u0302 to what comes", "start")
    yield Note(440, 24, "fed back as", "start", colour=STROKES["told"])
    yield Note(440, 37, "the next input", "start", colour=STROKES["told"])


def _feedback() -> Iterator[Shape]:
    frames = row(("x_{t-1}", "x_t", "x_{t+1}"), 70, 120, 46, 130, "seen", h=22)
    a = row(("A", "A", "A"), 70, 84, 46, 130, "kept", h=24)
    b = row(("B", "B", "B"), 70, 46, 46, 130, "kept", h=24)
    y = row(("y_{t-1}", "y_t", "y_{t+1}"), 70, 9, 46, 130, "told", h=22)
    yield from (*frames, *a, *b, *y, *up(frames, a), *up(a, b), *up(b, y), *joined(a), *joined(b))
    for said, reader in zip(y, b[1:], strict=False):
        yield arrow((said.x + 46, said.y + 11), (reader.x + 4, reader.y), kind="told")
    for stream, said in zip(a, y, strict=True):
        yield arrow((stream.x + 8, 84), (stream.x - 14, 74), (stream.x - 14, 20), (said.x, 20))
    yield Note(12, 100, "input", "start")
    yield Note(12, 62, "course", "start")
    yield arrow((376, 20), (456, 20))
    yield Box(456, 5, 88, 30, "action", "told")
    yield Note(456, 62, "what was said", "start", colour=STROKES["told"])
    yield Note(456, 75, "is read again", "start", colour=STROKES["told"])


def _ranking() -> Iterator[Shape]:
    yield line((60, 124), (450, 124))
    yield arrow((60, 124), (60, 16))
    points: tuple[Point, ...] = ((80, 108), (135, 88), (190, 58), (245, 84), (300, 72), (355, 40), (410, 28))
    yield Line(((190, 58), (325, 58)), "kept", head=False, dashed=True)
    yield Line(points, "told", head=False, width=2.2)
    for x, y in ((245, 84), (300, 72)):
        yield Line(((x, y), (x, 60)), "plain", width=1.8)
    yield Note(18, 32, "p(true)", "start")
    yield Note(255, 142, "frames 1 … T, one LSTM")
    yield Note(236, 46, "best so far", colour=STROKES["kept"])
    yield Note(272, 108, "every fall below it is loss", colour=INK)
    yield Box(462, 18, 80, 28, "action", "told")
    yield arrow((416, 29), (462, 31), kind="told")


def _exponential() -> Iterator[Shape]:
    frames = row([f"x_{i}" for i in range(1, 9)], 20, 114, 38, 50, "seen", h=24)
    yield from (*frames, *joined(frames, "kept"))
    for i, frame in enumerate(frames):
        high = 84 * math.exp(i - 7)
        yield Box(frame.x + 8, 104 - high, 22, high, kind="told")
    yield Note(36, 40, "what a wrong answer costs:", "start")
    yield Note(36, 56, "exp(\u2212(T \u2212 t)) at frame t, 1 at the last", "start")
    yield Box(462, 111, 80, 30, "action", "told")
    yield arrow((408, 126), (462, 126))
    yield Note(462, 100, "one LSTM", "start")


def _rulstm() -> Iterator[Shape]:
    frames = row(("x_{t-2}", "x_{t-1}", "x_t"), 60, 120, 44, 62, "seen", h=22)
    rolling = row(("R",) * 3, 60, 82, 44, 62, "kept", h=24)
    yield from (*frames, *rolling, *up(frames, rolling), *joined(rolling))
    for y, start, steps in ((45, 2, 3), (9, 1, 4)):
        first = rolling[start]
        unrolling = row(("U",) * steps, first.x + 60, y, 38, 50, "told", h=22)
        x = first.x + 36
        yield arrow((x, 82), (x, y + 11), (first.x + 60, y + 11), kind="told")
        yield from (*unrolling, *joined(unrolling, "told"))
        end = unrolling[-1].x + 38
        yield arrow((end, y + 11), (462, y + 11), kind="told")
        yield Box(462, y - 2, 82, 26, "action", "told")
    for i in range(3):
        x = 263 + i * 50
        yield arrow((228, 131), (x, 131), (x, 67), kind="seen", dashed=True)
    yield Note(372, 112, "x_t, again and again,", "start", colour=STROKES["seen"])
    yield Note(372, 125, "as often as there are frames", "start", colour=STROKES["seen"])
    yield Note(372, 138, "until the action", "start", colour=STROKES["seen"])
    yield Note(14, 98, "rolling", "start")


def _action_banks() -> Iterator[Shape]:
    for parts, y in ((2, 14), (3, 31), (5, 48)):
        for i in range(parts):
            yield Box(86 + i * 224 / parts, y, 224 / parts - 2, 13, kind="kept")
    for i in range(14):
        yield Box(86 + i * 16, 67, 14, 15, kind="seen")
    for frames, y in ((6, 88), (5, 103), (3, 118), (2, 133)):
        for i in range(2):
            yield Box(310 - frames * 16 + i * frames * 8, y, frames * 8 - 2, 11, kind="kept")
    yield Note(14, 34, "all the past,", "start")
    yield Note(14, 47, "cut thrice", "start")
    yield Note(14, 79, "14 frames", "start")
    yield Note(100, 112, "recent spans,", "start")
    yield Note(100, 125, "cut in two", "start")
    yield Box(350, 54, 88, 42, "each span\nasks the past")
    yield arrow((314, 37), (332, 37), (332, 66), (350, 66))
    yield arrow((314, 116), (332, 116), (332, 84), (350, 84))
    yield arrow((438, 75), (466, 75))
    yield Box(466, 60, 78, 30, "action", "told")


def _imagine() -> Iterator[Shape]:
    seen, state = Box(16, 108, 46, 26, "x_t", "seen"), Box(16, 62, 46, 26, "h_t", "kept")
    cells = row(("", "", ""), 104, 62, 46, 84, "told")
    features = tuple(Box(b.x, 14, 46, 26, f"x\u0302_{{t+{i}}}", "told") for i, b in enumerate(cells, 1))
    yield from (seen, state, *cells, *features, *up([seen], [state]), *joined([state, *cells]))
    yield from (*up(cells, features), *joined(features))
    yield arrow((62, 121), (80, 121), (80, 27), (104, 27), kind="seen")
    for b in cells:
        yield Note(b.x + 39, 55, "+ d", colour=STROKES["told"])
    yield Note(104, 112, "each step adds a difference", "start")
    yield Note(104, 125, "to the features before it", "start")
    yield arrow((318, 75), (356, 75))
    yield Box(356, 60, 66, 30, "action", "told")
    choices = row(("", "", "", "", ""), 448, 20, 14, 19, "seen", h=18)
    yield from (Box(b.x, b.y, b.w, b.h, kind="seen", dashed=i != 2) for i, b in enumerate(choices))
    yield arrow((318, 27), (444, 27), kind="told", dashed=True)
    yield Note(493, 54, "which of these")
    yield Note(493, 67, "frames comes?")


def _avt() -> Iterator[Shape]:
    frames = row(("z_1", "z_2", "z_3", "z_4", "z_5"), 24, 112, 44, 76, "seen")
    foretold = row(("z\u0302_2", "z\u0302_3", "z\u0302_4", "z\u0302_5", "z\u0302_6"), 24, 14, 44, 76, "told")
    yield from (*frames, *foretold)
    for j, later in enumerate(foretold):
        for frame in frames[: j + 1]:
            kind = "kept" if j == 4 else "plain"
            yield arrow((frame.x + 22, 112), (later.x + 22, 40), kind=kind, width=1.6 if j == 4 else 0.8)
    yield arrow((372, 27), (446, 27), kind="told")
    yield Box(446, 12, 98, 30, "action", "told")
    yield Note(446, 76, "each frame looks", "start")
    yield Note(446, 89, "back, never ahead", "start")
    yield Note(446, 116, "z\u0302_i is taught to be z_i", "start", colour=STROKES["told"])


def _horst_url() -> Iterator[Shape]:
    queue = row(("K V",) * 3, 72, 14, 40, 50, "kept", h=32, cells=3)
    yield from queue
    core = Box(72, 70, 140, 34, "two HORST layers")
    seen = Box(119, 120, 46, 22, "x_t", "seen")
    yield from (core, seen, arrow((142, 120), (142, 104)))
    yield from (arrow((b.x + 20, 46), (b.x + 20, 70), kind="kept") for b in queue)
    steps = row(("U", "U", "U", "U"), 276, 74, 32, 46, "told")
    said = Box(468, 72, 76, 30, "action", "told")
    yield from (*steps, said, *joined([core, *steps, said], "told"))
    yield Note(244, 66, "e + STATT")
    yield line((192, 104), (192, 131), (430, 131), kind="kept", dashed=True)
    yield from (arrow((b.x + 16, 131), (b.x + 16, 100), kind="kept", dashed=True) for b in steps)
    yield Note(348, 145, "mean of y_t, at every step", colour=STROKES["kept"])
    yield Note(360, 50, "an LSTM of its own runs on until the action starts")


def _legend() -> Iterator[Shape]:
    for x, text, kind in ((12, "seen", "seen"), (100, "remembered", "kept"), (232, "foretold", "told")):
        yield Box(x, 9, 26, 16, kind=kind)
        yield Note(x + 34, 21, text, "start", 12, INK)
    yield Box(342, 9, 26, 16)
    yield Note(376, 21, "computes", "start", 12, INK)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A section of the page: its picture, and what of its row in the table is not counted."""

    methods: tuple[str, ...]
    """Of METHODS; the first one's name is that of the picture."""
    title: str
    """Of the section."""
    picture: tuple[Shape, ...]
    shows: str
    """What the picture shows, for those who cannot see it."""
    idea: str
    memory: str
    learns: str
    published: str = "not published"


LAST_SECOND = "4 frames"
CE = "cross-entropy"
ABLATIONS = tuple(name for name, method in METHODS.items() if method.options)
"""The ablations of HORST."""
ENTRIES = (
    Entry(
        methods=("cnn3d",),
        title="3D-CNN",
        picture=tuple(_cnn3d()),
        shows="3-D convolutions over three frames each, and the mean of what they make of all frames so far",
        idea="convolve over time, then average",
        memory="running mean; 2 inputs a layer",
        learns=CE,
    ),
    Entry(
        methods=("conv_lstm",),
        title="ConvLSTM",
        picture=(
            *recurrent(("h, c",) * 4, maps=True),
            Note(204, 30, "h and c are maps, gates are convolutions: places stay apart"),
        ),
        shows="A map of state, handed on from frame to frame through convolutions",
        idea="an LSTM made of convolutions",
        memory="h and c, maps, a layer",
        learns=CE,
        published="3.97 M for 12 layers of video prediction (Su et al. 2020)",
    ),
    Entry(
        methods=("e3d_lstm",),
        title="E3D-LSTM",
        picture=tuple(_e3d()),
        shows="Cells over two frames each; the newest recalls all past cells, and a second memory goes on",
        idea="recall past cells by attention",
        memory="H and 8 cells a layer; M",
        learns=CE,
        published="12,898,832 for video prediction, counted from the authors' code",
    ),
    Entry(
        methods=("conv_tt_lstm",),
        title="Conv-TT-LSTM",
        picture=tuple(_conv_tt()),
        shows="A queue of three states goes through a chain of cores into the gates; the new state joins the queue",
        idea="several states through a train",
        memory="3 h and c, maps, a layer",
        learns=CE,
        published="2.69 M for 12 layers of video prediction (Su et al. 2020)",
    ),
    Entry(
        methods=("horst", "horst_anticipation", *ABLATIONS),
        title="HORST",
        picture=tuple(_horst()),
        shows="A query of the frame weighs kept keys and values of past frames by time and place; its own join them",
        idea="attend to kept past states",
        memory="K and V of 8 frames a layer",
        learns=CE,
    ),
    Entry(
        methods=("dmr",),
        title="DMR",
        picture=tuple(_dmr()),
        shows="One frame, three guesses of the features a second later; the nearest learns, their mean is named",
        idea="several guesses of the future",
        memory="nothing",
        learns=f"{CE}; squared distance of the nearest guess",
    ),
    Entry(
        methods=("atsn",),
        title="ATSN",
        picture=tuple(_atsn()),
        shows="The mean of four frames gives a verb and a noun, whose product is the action",
        idea="verb and noun learnt apart",
        memory=LAST_SECOND,
        learns=f"{CE} of verb and noun",
    ),
    Entry(
        methods=("mce",),
        title="MCE, also called VNMCE",
        picture=tuple(_mce()),
        shows="Actions such as open fridge and open jar sum to the verb open, and likewise to nouns",
        idea="verbs are sums of actions",
        memory=LAST_SECOND,
        learns=f"{CE} of action, and of verb and noun as sums",
    ),
    Entry(
        methods=("vn_ce",),
        title="VN-CE",
        picture=tuple(_vn_ce()),
        shows="Verb and noun each have a cross-entropy; the action is read off both and never taught",
        idea="two labels, two cross-entropies",
        memory=LAST_SECOND,
        learns=f"{CE} of verb and noun",
    ),
    Entry(
        methods=("svm_top3", "svm_top5"),
        title="SVM-TOP3 and SVM-TOP5",
        picture=tuple(_svm()),
        shows="Scores in order: the true one must exceed the k-th best of the others by a margin",
        idea="right among k is enough",
        memory=LAST_SECOND,
        learns="smooth top-k SVM",
    ),
    Entry(
        methods=("vnmce_t3", "vnmce_t5"),
        title="VNMCE+T3 and VNMCE+T5",
        picture=tuple(_vnmce()),
        shows="The k - 1 best of the other actions are left out of the loss; verbs and nouns are sums of actions",
        idea="the strongest rivals are forgiven",
        memory=LAST_SECOND,
        learns=f"truncated top-k entropy; {CE} of verb and noun as sums",
    ),
    Entry(
        methods=("lstm",),
        title="LSTM",
        picture=(
            *recurrent(("h, c",) * 4, maps=False),
            Note(204, 28, "h and c are vectors: a frame is the mean over its places"),
        ),
        shows="A vector of state, handed on from frame to frame",
        idea="one state carried through time",
        memory="h and c, vectors",
        learns=CE,
    ),
    Entry(
        methods=("encoder_decoder",),
        title="ED",
        picture=tuple(_encoder_decoder()),
        shows="An encoder reads frames; a decoder goes on with features that it has foretold itself",
        idea="decode the features to come",
        memory="h and c, vectors",
        learns=f"{CE}; squared distance of features",
    ),
    Entry(
        methods=("feedback",),
        title="FN",
        picture=tuple(_feedback()),
        shows="Two LSTMs, one on top of the other; what was said of a frame is read at the next one",
        idea="read what was said before",
        memory="h and c twice, last output",
        learns=CE,
    ),
    Entry(
        methods=("ranking",),
        title="RL",
        picture=tuple(_ranking()),
        shows="The probability of the true action over time: wherever it falls below its best so far, there is loss",
        idea="certainty must never fall back",
        memory="h and c, vectors",
        learns=f"{CE}; ranking",
    ),
    Entry(
        methods=("exponential",),
        title="EL",
        picture=tuple(_exponential()),
        shows="Bars over the frames that rise exponentially towards the last one",
        idea="late mistakes cost exponentially more",
        memory="h and c, vectors",
        learns=f"{CE}, weighed exponentially",
    ),
    Entry(
        methods=("rulstm",),
        title="RU",
        picture=tuple(_rulstm()),
        shows="A rolling row reads frames; from each of them an unrolling row goes ahead to the action",
        idea="one rolls, another unrolls ahead",
        memory="h and c, vectors",
        learns=CE,
        published="19,369,425 counted from the authors' code",
    ),
    Entry(
        methods=("action_banks",),
        title="ActionBanks",
        picture=tuple(_action_banks()),
        shows="Fourteen frames; the whole past cut in 2, 3 and 5 parts, and recent spans of 6, 5, 3 and 2 frames",
        idea="recent spans ask the past",
        memory="14 frames",
        learns=CE,
        published="118,376,184 counted from the authors' code, with verbs and nouns",
    ),
    Entry(
        methods=("imagine_rnn",),
        title="ImagineRNN",
        picture=tuple(_imagine()),
        shows="Features to come, each a difference added to the last; the right frame is to be told from others",
        idea="imagine differences, frame by frame",
        memory="h and c, vectors",
        learns=f"{CE}; contrast of features",
    ),
    Entry(
        methods=("avt",),
        title="AVT-h",
        picture=tuple(_avt()),
        shows="A triangle of attention: each frame looks at itself and all before it, and foretells the next",
        idea="a causal transformer foretells features",
        memory="10 frames",
        learns=f"{CE}; squared distance of features",
        published="613,170,641 counted from the authors' code",
    ),
    Entry(
        methods=("horst_url",),
        title="HORST-url",
        picture=tuple(_horst_url()),
        shows="Two HORST layers with their queue, and an LSTM that runs on from them until the action",
        idea="HORST, then unrolled to action",
        memory="K and V of 8 frames a layer",
        learns=f"{CE} of action, verb and noun",
    ),
)
TABLES = ("recognition", "anticipation", "ablations")


def pictures() -> dict[str, str]:
    """Every file of the folder, by name."""
    drawn = {f"{entry.methods[0]}.svg": svg(entry.picture, entry.shows) for entry in ENTRIES}
    return {"legend.svg": svg(_legend(), "Blue: seen; green: remembered; orange: foretold; grey: computes", 34)} | drawn


def trained(method: Method) -> int:
    """Parameters of its model for the paper's data that training changes: a frozen backbone's are none."""
    size = "ssv2" if method.task == "recognition" else "ek55"
    config = model_config(method.model_name(size), **method.options_for(size))
    rows = summarize(config).rows
    return sum(row.parameters for row in rows[config.backbone.name == "bn_inception" :])


def printed(method: Method, metric: str, *tables: str) -> str:
    """What the paper prints of it, in the first of these tables that has it."""
    for name in tables:
        if name in method.rows:
            table = paper_table(name)
            value = table.values(table.row(method.rows[name])).get(metric)
            return "" if value is None else f"{value:.{table.decimals}f}"
    return ""


def table(name: str) -> str:
    """One of the page's tables, in Markdown."""
    first, second, text = "action/top1@25%", "action/top1@50%", ["idea", "memory", "learns from"]
    lines: list[list[str]]
    if name == "ablations":
        lines = [["ablation", "options", "trained parameters", "paper, 25 %"]]
        for method in (METHODS[name] for name in ABLATIONS):
            options = ", ".join(f"`{key}={value!r}`" for key, value in method.options.items()).replace("'", '"')
            value = printed(method, first, *method.rows)
            lines.append([method.title.removeprefix("HORST, "), options, f"{trained(method):,}", value])
    elif name == "recognition":
        lines = [["method", *text, "trained parameters", "published parameters", "paper, 25 / 50 %"]]
        for entry, method in _of_task("recognition"):
            values = " / ".join(printed(method, metric, "early-recognition") for metric in (first, second))
            lines.append([*_told(entry, method), f"{trained(method):,}", entry.published, values])
    else:
        ahead = ["paper, EK55", "paper, EK100"]
        lines = [["method", *text, "trained parameters", "published parameters", *ahead]]
        for entry, method in _of_task("anticipation"):
            top5 = printed(method, "action/top5@1s", "ek55", "ek55-backbones")
            recall = printed(method, "action/recall5@1s", "ek100")
            lines.append([*_told(entry, method), f"{trained(method):,}", entry.published, top5, recall])
    rule = ["---"] * len(lines[0])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (lines[0], rule, *lines[1:])) + "\n"


def _of_task(task: str) -> list[tuple[Entry, Method]]:
    every = [(entry, METHODS[name]) for entry in ENTRIES for name in entry.methods if name not in ABLATIONS]
    order = list(METHODS)
    return sorted(((e, m) for e, m in every if m.task == task), key=lambda pair: order.index(pair[1].name))


def _told(entry: Entry, method: Method) -> list[str]:
    anchor = re.sub(r"[^\w -]", "", entry.title.lower()).replace(" ", "-")
    learns = f"{CE} of action, verb and noun" if method.name == "horst_anticipation" else entry.learns
    return [f"[{method.title}](#{anchor})", entry.idea, entry.memory, learns]


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the pictures of docs/methods.md, or print one of its tables.")
    parser.add_argument("--table", choices=TABLES)
    arguments = parser.parse_args()
    if arguments.table:
        print(table(arguments.table), end="")
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = pictures()
    for file in FOLDER.glob("*.svg"):
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
