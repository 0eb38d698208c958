"""A picture of each method that foretells an action from the course of the frames before it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from methods_parts import recurrent
from methods_shapes import INK, STROKES, Box, Line, Note, Point, Shape, arrow, joined, line, row, up


def lstm() -> Iterator[Shape]:
    yield from recurrent(("h, c",) * 4, maps=False)
    yield Note(204, 28, "h and c are vectors: a frame is the mean over its places")


def encoder_decoder() -> Iterator[Shape]:
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


def feedback() -> Iterator[Shape]:
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


def ranking() -> Iterator[Shape]:
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


def exponential() -> Iterator[Shape]:
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


def rulstm() -> Iterator[Shape]:
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


def action_banks() -> Iterator[Shape]:
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


def imagine() -> Iterator[Shape]:
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


def avt() -> Iterator[Shape]:
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


def horst_url() -> Iterator[Shape]:
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
