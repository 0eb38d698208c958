"""A picture of each method that foretells an action from one frame, or from the mean of the last second."""

from __future__ import annotations

from collections.abc import Iterator

from methods_parts import bars, means
from methods_shapes import STROKES, Box, Note, Shape, arrow, line, row

VERBS = {"open": (0, 1), "take": (2,), "wash": (3,)}
NOUNS = {"fridge": (0,), "jar": (1, 2), "pan": (3,)}


def dmr() -> Iterator[Shape]:
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


def atsn() -> Iterator[Shape]:
    yield from _two_heads()
    yield Box(346, 60, 34, 30, "\u00d7")
    yield arrow((302, 40), (346, 68))
    yield arrow((302, 110), (346, 82))
    yield arrow((380, 75), (424, 75))
    yield Box(424, 60, 118, 30, "action", "told")
    yield Note(483, 108, "p(a) = p(v) p(n)")


def vn_ce() -> Iterator[Shape]:
    yield from _two_heads()
    for y in (26, 96):
        yield Box(430, y, 112, 28, "cross-entropy")
        yield arrow((302, y + 14), (430, y + 14))
    yield Box(296, 61, 88, 28, "action", "told")
    yield line((264, 54), (264, 75), kind="told", dashed=True)
    yield line((264, 96), (264, 75), kind="told", dashed=True)
    yield arrow((264, 75), (296, 75), kind="told", dashed=True)
    yield Note(392, 79, "is read, and never taught", "start")


def mce() -> Iterator[Shape]:
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


def svm() -> Iterator[Shape]:
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


def vnmce() -> Iterator[Shape]:
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
