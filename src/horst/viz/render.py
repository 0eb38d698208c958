"""A video of what a model said: the frames, the likeliest names with bars, how they went, and where the model looked.

    scene = Scene()
    scene.say(Said(...), image)         # whenever there is a new prediction
    picture = scene.draw(image, time)   # (720, 1280, 3), for every frame of the video

It knows numbers, names and pictures alone, so that anything that predicts can be drawn.

Shapes: C classes, S past frames, h x w a map of attention.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures
from PIL import ImageDraw, ImageFont

from horst.video.frame import Image

WIDTH, HEIGHT = 1280, 720
EDGE = 24
Box = tuple[int, int, int, int]
"""Left, top, right, bottom."""
SCREEN: Box = (EDGE, EDGE, 752, 434)
PANEL: Box = (780, EDGE, WIDTH - EDGE, 434)
TIMELINE: Box = (EDGE, 484, WIDTH - EDGE, 558)
STRIP: Box = (EDGE, 602, WIDTH - EDGE, HEIGHT - 14)
GAP, BAR = 10, 8
GROUND, WELL, INK, SOFT = (16, 18, 24), (34, 38, 48), (238, 240, 245), (142, 150, 166)
COLOURS = [
    (86, 180, 255), (255, 159, 67), (72, 219, 151), (255, 107, 129), (190, 140, 255),
    (255, 214, 90), (84, 222, 222), (245, 140, 210), (170, 210, 100), (160, 170, 255),
]  # fmt: skip
GLOW = np.array([255.0, 176.0, 46.0])
TOP, LINES, SURE = 5, 4, 0.12
"""Names that are listed; those whose course is drawn; and the probability that one of these must have reached."""
DARK, EVEN = 0.42, 0.02
"""The light of a past frame without weight; and maps that vary by less than this part of their height are even."""


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """What is to be drawn of one prediction."""

    time: float
    names: Sequence[str]
    """(C,)"""
    chances: NDArray[np.floating]
    """(C,) probabilities."""
    answer: str | None
    """None: nothing is sure enough."""
    note: str = ""
    """A line below the answer."""
    temporal: NDArray[np.floating] | None = None
    """(S,) weights of the past frames, oldest first."""
    times: NDArray[np.float64] | None = None
    """(S,) when they were said something of; NaN where there is none."""
    spatial: NDArray[np.floating] | None = None
    """(S, h, w) in 0..1."""


class Scene:
    """One video that is being drawn. It remembers `window` seconds of predictions and some small pictures."""

    def __init__(self, window: float = 10.0, *, start: float = 0.0, end: float | None = None) -> None:
        """`end`: where it is known, and the video is short, the time line shows all of it from the start on."""
        whole = end is not None and end - start <= 3 * window
        self.window = max(0.5, end - start) if whole and end is not None else window
        self.start = start if whole else None
        self._said: Said | None = None
        self._course: deque[tuple[float, NDArray[np.floating]]] = deque()
        self._colours: dict[int, tuple[int, int, int]] = {}
        self._past: OrderedDict[float, Pictures.Image] = OrderedDict()
        self._still: Pictures.Image | None = None  # all but the frame, until there is another prediction

    def say(self, said: Said, image: Image) -> None:
        """A prediction, and the frame that it was made at."""
        if self._course and said.time < self._course[-1][0]:  # the clock went back: another video
            self._course.clear()
        self._said = said
        self._course.append((said.time, said.chances))
        while self._course[0][0] < said.time - self.window - 1:
            self._course.popleft()
        if said.temporal is not None:
            self._past[said.time] = _contained(image, 320, 240)
            while len(self._past) > 4 * len(said.temporal):
                self._past.popitem(last=False)
        for i in np.argsort(-said.chances, kind="stable")[:TOP].tolist():
            if i not in self._colours:
                self._colours[i] = COLOURS[len(self._colours) % len(COLOURS)]
        self._still = None

    def draw(self, image: Image, time: float) -> Image:
        """A frame of the rendered video."""
        if self._still is None:
            self._still = self._background()
        page = self._still.copy()
        left, top, right, bottom = SCREEN
        frame = _contained(image, right - left, bottom - top, enlarge=True)
        x, y = left + (right - left - frame.width) // 2, top + (bottom - top - frame.height) // 2
        page.paste(frame, (x, y))
        pen = ImageDraw.Draw(page)
        clock = f"{time:.2f} s"
        wide = _font(15, clock).getlength(clock) + 16
        below = y + frame.height
        pen.rounded_rectangle((x + 8, below - 34, x + 8 + wide, below - 8), 6, fill=(10, 11, 15))
        pen.text((x + 16, below - 21), clock, INK, _font(15, clock), "lm")
        return np.asarray(page)

    def _background(self) -> Pictures.Image:
        page = Pictures.new("RGB", (WIDTH, HEIGHT), GROUND)
        pen = ImageDraw.Draw(page)
        pen.rounded_rectangle(SCREEN, 8, fill=(22, 25, 32))
        if self._said is None:
            pen.text((PANEL[0], PANEL[1] + 18), "...", SOFT, _font(32), "lm")
            return page
        self._draw_names(pen, self._said)
        self._draw_course(page, pen, self._said)
        if self._said.temporal is not None:
            self._draw_past(page, pen, self._said)
        return page

    def _draw_names(self, pen: ImageDraw.ImageDraw, said: Said) -> None:
        left, top, right, bottom = PANEL
        title = said.answer or "..."
        lines = _wrapped(title, 28, right - left, 2)
        for i, line in enumerate(lines):
            pen.text((left, top + 16 + 36 * i), line, INK if said.answer else SOFT, _font(28, line), "lm")
        pen.text((left, top + 20 + 36 * len(lines)), said.note, SOFT, _font(16, said.note), "lm")
        best = np.argsort(-said.chances, kind="stable")[:TOP].tolist()
        step = 56
        first = bottom - step * TOP + 14
        for row, i in enumerate(best):
            y, chance = first + step * row, float(said.chances[i])
            percent = f"{100 * chance:.0f}%"
            pen.text((right, y), percent, INK if row == 0 else SOFT, _font(17), "rm")
            name = _fitted(said.names[i], 17, right - left - 64)
            pen.text((left, y), name, INK if row == 0 else SOFT, _font(17, name), "lm")
            _bar(pen, (left, y + 16, right, y + 16 + BAR), chance, self._colours[i])

    def _draw_course(self, page: Pictures.Image, pen: ImageDraw.ImageDraw, said: Said) -> None:
        """The probabilities over time of what was likeliest in the window."""
        left, top, right, bottom = TIMELINE
        begin = said.time - self.window if self.start is None else self.start
        course = list(self._course)
        highest = np.max([chances for _, chances in course], 0)
        shown = [i for i in np.argsort(-highest, kind="stable")[:LINES].tolist() if highest[i] >= SURE]
        shown = [i for i in shown if i in self._colours]
        two = 2  # lines of Pillow have steps: they are drawn twice as large
        picture = Pictures.new("RGB", (two * (right - left), two * (bottom - top)), WELL)
        line = ImageDraw.Draw(picture, "RGBA")
        for i in reversed(shown):
            across = [two * (right - left) * (time - begin) / self.window for time, _ in course]
            up = [picture.height - 5 - (picture.height - 10) * float(chances[i]) for _, chances in course]
            points = list(zip(across, up, strict=True))
            if len(points) == 1:
                points.append((points[0][0] + 4, points[0][1]))
            line.polygon(
                [(points[0][0], picture.height), *points, (points[-1][0], picture.height)], (*self._colours[i], 40)
            )
            line.line(points, self._colours[i], 5, "curve")
            x, y = points[-1]
            line.ellipse((x - 8, y - 8, x + 8, y + 8), self._colours[i])
        page.paste(picture.resize((right - left, bottom - top), Pictures.Resampling.BOX), (left, top))
        ends = (f"{begin:.0f} s", f"{begin + self.window:.0f} s") if self.start is not None else None
        ends = ends or (f"{self.window:.0f} s ago", "now")
        pen.text((left, bottom + 12), ends[0], SOFT, _font(13), "lm")
        pen.text((right, bottom + 12), ends[1], SOFT, _font(13), "rm")
        x = left
        for i in shown:
            name = _fitted(said.names[i], 15, (right - left) // LINES - 40)
            pen.ellipse((x, top - 22, x + 10, top - 12), self._colours[i])
            pen.text((x + 17, top - 17), name, SOFT, _font(15, name), "lm")
            x += (right - left) // LINES

    def _draw_past(self, page: Pictures.Image, pen: ImageDraw.ImageDraw, said: Said) -> None:
        """The past frames, bright by their weight, aglow where the model looked."""
        assert said.temporal is not None
        assert said.times is not None
        assert said.spatial is not None
        left, top, right, bottom = STRIP
        pen.text(
            ((left + right) // 2, top - 14),
            "the past frames that it rests on, and where it looked",
            SOFT,
            _font(13),
            "mm",
        )
        count = len(said.temporal)
        wide, tall = (right - left - GAP * (count - 1)) // count, bottom - top - 24
        lefts = [left + i * (wide + GAP) for i in range(count)]
        for x in lefts:
            pen.rectangle((x, top, x + wide - 1, top + tall - 1), fill=WELL)
        there = ~np.isnan(said.times)
        if not there.any():
            return
        low, high = float(said.spatial[there].min()), float(said.spatial[there].max())
        even = high - low < EVEN * high
        brightest = float(said.temporal[there].max())
        for i, x in enumerate(lefts):
            weight, small = float(said.temporal[i]), self._past.get(float(said.times[i]))
            if small is None:
                continue
            heat = None if even else (said.spatial[i] - low) / (high - low)
            glowing = _glowing(small, heat, DARK + (1 - DARK) * weight / (brightest or 1.0), wide, tall)
            page.paste(glowing, (x + (wide - glowing.width) // 2, top + (tall - glowing.height) // 2))
            percent, ago = f"{100 * weight:.0f}%", f"{said.time - said.times[i]:.2f} s ago"
            _bar(pen, (x, top + tall + 3, x + wide, top + tall + 7), weight, (255, 176, 46))
            pen.text((x, bottom - 6), percent, INK, _font(13), "lm")
            if wide >= 90:
                pen.text((x + wide, bottom - 6), ago, SOFT, _font(13), "rm")


def _glowing(small: Pictures.Image, heat: NDArray[np.floating] | None, light: float, w: int, h: int) -> Pictures.Image:
    """A past frame as bright as `light`, warm where the map (h, w) in 0..1 is high."""
    scale = min(w / small.width, h / small.height)
    size = max(1, round(scale * small.width)), max(1, round(scale * small.height))
    pixels = np.asarray(small.resize(size, Pictures.Resampling.BILINEAR), np.float32)
    if heat is None:
        return Pictures.fromarray((light * pixels).round().astype(np.uint8))
    smooth = Pictures.fromarray(np.asarray(heat, np.float32)).resize(size, Pictures.Resampling.BICUBIC)
    strength = np.clip(np.asarray(smooth), 0, 1)[..., None]
    shaded = pixels * (0.7 + 0.3 * strength)
    mixed = light * (shaded + 0.45 * strength * (GLOW - shaded))
    return Pictures.fromarray(np.clip(mixed, 0, 255).round().astype(np.uint8))


def _contained(image: Image, width: int, height: int, *, enlarge: bool = False) -> Pictures.Image:
    """The largest picture of the same shape in a box; smaller ones are left as they are unless they may be enlarged."""
    scale = min(width / image.shape[1], height / image.shape[0])
    picture = Pictures.fromarray(image)
    if scale >= 1 and not enlarge:
        return picture
    size = max(1, round(scale * image.shape[1])), max(1, round(scale * image.shape[0]))
    return picture.resize(size, Pictures.Resampling.BICUBIC if scale > 1 else Pictures.Resampling.BOX)


def _bar(pen: ImageDraw.ImageDraw, box: Box, part: float, colour: tuple[int, int, int]) -> None:
    left, top, right, bottom = box
    radius = (bottom - top) / 2
    pen.rounded_rectangle((left, top, right - 1, bottom - 1), radius, fill=WELL)
    end = left + part * (right - left)
    if end - left >= 2 * radius:
        pen.rounded_rectangle((left, top, end - 1, bottom - 1), radius, fill=colour)
    elif part >= 0.005:
        pen.ellipse((left, top, left + 2 * radius - 1, bottom - 1), fill=colour)


def _wrapped(text: str, size: int, width: float, most: int) -> list[str]:
    """At most so many lines; what does not fit is cut off at the end."""
    font, lines = _font(size, text), [""]
    words = text.split()
    while words:
        longer = f"{lines[-1]} {words[0]}".strip()
        if font.getlength(longer) <= width or not lines[-1]:
            lines[-1] = longer
            words.pop(0)
        elif len(lines) < most:
            lines.append("")
        else:
            lines[-1] = f"{lines[-1]} {' '.join(words)}"
            break
    return [_fitted(line, size, width) for line in lines]


@lru_cache(maxsize=512)
def _fitted(text: str, size: int, width: float) -> str:
    font = _font(size, text)
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "...") > width:
        text = text[:-1]
    return text.rstrip() + "..."


def _font(size: int, text: str = "") -> ImageFont.FreeTypeFont:
    return _font_of(size, text.isascii())


@lru_cache(maxsize=32)
def _font_of(size: int, plain: bool) -> ImageFont.FreeTypeFont:
    """Pillow's own font knows little but English; for other scripts the machine's are tried."""
    if not plain:
        for name in ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial Unicode.ttf", "arial.ttf"):
            try:
                return ImageFont.truetype(name, size)
            except OSError:
                continue
    found = ImageFont.load_default(size)
    assert isinstance(found, ImageFont.FreeTypeFont)  # every wheel of Pillow has FreeType
    return found
