"""A picture of each method that names an action while it is being done; HORST's is that of anticipation too."""

from __future__ import annotations

from collections.abc import Iterator

from methods_parts import PAST, recurrent
from methods_shapes import STROKES, Box, Line, Note, Shape, arrow, joined, line, row, up


def cnn3d() -> Iterator[Shape]:
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


def conv_lstm() -> Iterator[Shape]:
    yield from recurrent(("h, c",) * 4, maps=True)
    yield Note(204, 30, "h and c are maps, gates are convolutions: places stay apart")


def e3d() -> Iterator[Shape]:
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


def conv_tt() -> Iterator[Shape]:
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


def horst() -> Iterator[Shape]:
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
