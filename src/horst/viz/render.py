"""The video of `horst predict --render`: the frames, the most likely classes, their probabilities over time, attention.

    renderer = VideoRenderer()
    renderer.update(prediction, image)  # at every prediction
    frame = renderer.draw(image, time)  # (720, 1280, 3), for every frame of the video

`render_stream` does so for all frames of a source: `write_video("out.mp4", render_stream(stream, frames), 12.0)`.

Shapes: S past frames, h x w a map of attention.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PILImage
from PIL import ImageDraw, ImageFont, ImageOps

from horst.streaming.pool import StreamSession
from horst.streaming.prediction import AttentionMaps, Prediction
from horst.video.frame import Frame, Image
from horst.video.sampling import SLACK

WIDTH, HEIGHT = 1280, 720
EDGE = 24
Box = tuple[int, int, int, int]  # left, top, right, bottom
Pen = ImageDraw.ImageDraw
SCREEN: Box = (EDGE, EDGE, 752, 434)
PANEL: Box = (780, EDGE, WIDTH - EDGE, 434)
TIMELINE: Box = (EDGE, 484, WIDTH - EDGE, 558)
STRIP: Box = (EDGE, 602, WIDTH - EDGE, HEIGHT - 14)
GAP, BAR = 10, 8
BACKGROUND, WELL, INK, SOFT = (16, 18, 24), (34, 38, 48), (238, 240, 245), (142, 150, 166)
COLOURS = [
    (86, 180, 255), (255, 159, 67), (72, 219, 151), (255, 107, 129), (190, 140, 255),
    (255, 214, 90), (84, 222, 222), (245, 140, 210), (170, 210, 100), (160, 170, 255),
]  # fmt: skip
HEAT = (255, 176, 46)
TOP, CURVES, VISIBLE = 5, 4, 0.12  # classes that are listed; curves; the probability that a curve must have reached
DARK, EVEN = 0.42, 0.02  # brightness of a past frame without weight; maps that vary by a smaller share are uniform
LONGEST_STILL = 2.0  # seconds that a frame is shown if none follows: a camera that was off for an hour is no long video


class VideoRenderer:
    """Draws one video. It keeps `window` seconds of predictions and small copies of the past frames."""

    def __init__(self, window: float = 10.0, *, start: float = 0.0, end: float | None = None) -> None:
        """`end`: if it is known and the video is short, the time line shows all of it."""
        whole = end is not None and end - start <= 3 * window
        self.window = max(0.5, end - start) if whole and end is not None else window
        self.start = start if whole else None
        self._prediction: Prediction | None = None
        self._course: deque[tuple[float, NDArray[np.floating]]] = deque()
        self._colours: dict[int, tuple[int, int, int]] = {}
        self._past: OrderedDict[float, PILImage.Image] = OrderedDict()
        self._still: PILImage.Image | None = None  # everything but the frame, until the next prediction

    def update(self, prediction: Prediction, image: Image) -> None:
        """A new prediction, and the frame that it was made at."""
        if self._course and prediction.time < self._course[-1][0]:  # the clock went back: another video
            self._course.clear()
        self._prediction = prediction
        self._course.append((prediction.time, prediction.probabilities["action"]))
        while self._course[0][0] < prediction.time - self.window - 1:
            self._course.popleft()
        if prediction.attention is not None:
            self._past[prediction.time] = small = PILImage.fromarray(image)
            small.thumbnail((320, 240), PILImage.Resampling.BOX)
            while len(self._past) > 4 * len(prediction.attention.temporal):
                self._past.popitem(last=False)
        for i in _best(prediction):
            self._colours.setdefault(i, COLOURS[len(self._colours) % len(COLOURS)])
        self._still = None

    def draw(self, image: Image, time: float) -> Image:
        """A frame of the rendered video."""
        if self._still is None:
            self._still = self._draw_still()
        page = self._still.copy()
        left, top, right, bottom = SCREEN
        frame = ImageOps.contain(PILImage.fromarray(image), (right - left, bottom - top))
        x, y = left + (right - left - frame.width) // 2, top + (bottom - top - frame.height) // 2
        page.paste(frame, (x, y))
        draw = ImageDraw.Draw(page)
        clock, below = f"{time:.2f} s", y + frame.height
        width = _font(15).getlength(clock) + 16
        draw.rounded_rectangle((x + 8, below - 34, x + 8 + width, below - 8), 6, fill=(10, 11, 15))
        _write(draw, (x + 16, below - 21), clock, 15, INK)
        return np.asarray(page)

    def _draw_still(self) -> PILImage.Image:
        page = PILImage.new("RGB", (WIDTH, HEIGHT), BACKGROUND)
        draw = ImageDraw.Draw(page)
        draw.rounded_rectangle(SCREEN, 8, fill=(22, 25, 32))
        if self._prediction is None:
            _write(draw, (PANEL[0], PANEL[1] + 18), "...", 32)
            return page
        self._draw_classes(draw, self._prediction)
        self._draw_course(page, draw, self._prediction)
        if self._prediction.attention is not None:
            self._draw_past(page, draw, self._prediction.time, self._prediction.attention)
        return page

    def _draw_classes(self, draw: Pen, prediction: Prediction) -> None:
        left, top, right, bottom = PANEL
        answer, ahead, age = prediction.answer(), prediction.horizon, prediction.age
        first, *words = (answer or "...").split() or [""]
        lines = [first]
        for word in words:
            longer = f"{lines[-1]} {word}"
            if len(lines) == 1 and _font(28, ascii_only=longer.isascii()).getlength(longer) > right - left:
                lines.append(word)
            else:
                lines[-1] = longer
        for i, line in enumerate(lines):
            _write(draw, (left, top + 16 + 36 * i), line, 28, INK if answer else SOFT, limit=right - left)
        when = f"in {ahead:g} s, " if prediction.horizons else f"within {ahead:g} s, " if ahead else ""
        note = f"{when}{age} frame{'s' if age > 1 else ''} seen, {1e3 * prediction.latency:.0f} ms"
        _write(draw, (left, top + 20 + 36 * len(lines)), note, 16)
        for row, i in enumerate(_best(prediction)):
            y, probability = bottom - 56 * (TOP - row) + 14, float(prediction.probabilities["action"][i])
            colour = INK if row == 0 else SOFT
            _write(draw, (right, y), f"{100 * probability:.0f}%", 17, colour, anchor="rm")
            _write(draw, (left, y), prediction.names["action"][i], 17, colour, limit=right - left - 64)
            _draw_bar(draw, (left, y + 16, right, y + 16 + BAR), probability, self._colours[i])

    def _draw_course(self, page: PILImage.Image, draw: Pen, prediction: Prediction) -> None:
        """Probabilities over time of the classes with the highest values in the window."""
        left, top, right, bottom = TIMELINE
        begin = prediction.time - self.window if self.start is None else self.start
        times, values = zip(*self._course, strict=True)
        highest = np.max(values, 0)
        best = np.argsort(-highest, kind="stable")[:CURVES].tolist()
        shown = [i for i in best if highest[i] >= VISIBLE and i in self._colours]
        two = 2  # Pillow's lines are not antialiased: they are drawn at twice the size
        chart = PILImage.new("RGB", (two * (right - left), two * (bottom - top)), WELL)
        pen = ImageDraw.Draw(chart, "RGBA")
        for i in reversed(shown):
            points = [
                (chart.width * (time - begin) / self.window, chart.height - 5 - (chart.height - 10) * float(value[i]))
                for time, value in zip(times, values, strict=True)
            ]
            if len(points) == 1:
                points.append((points[0][0] + 4, points[0][1]))
            (x, y), area = points[-1], [(points[0][0], chart.height), *points, (points[-1][0], chart.height)]
            pen.polygon(area, (*self._colours[i], 40))
            pen.line(points, self._colours[i], 5, "curve")
            pen.ellipse((x - 8, y - 8, x + 8, y + 8), self._colours[i])
        page.paste(chart.resize((right - left, bottom - top), PILImage.Resampling.BOX), (left, top))
        whole = f"{begin:.0f} s", f"{begin + self.window:.0f} s"
        ends = whole if self.start is not None else (f"{self.window:.0f} s ago", "now")
        _write(draw, (left, bottom + 12), ends[0], 13)
        _write(draw, (right, bottom + 12), ends[1], 13, anchor="rm")
        for x, i in zip(range(left, right, (right - left) // CURVES), shown, strict=False):
            draw.ellipse((x, top - 22, x + 10, top - 12), self._colours[i])
            name = prediction.names["action"][i]
            _write(draw, (x + 17, top - 17), name, 15, limit=(right - left) // CURVES - 40)

    def _draw_past(self, page: PILImage.Image, draw: Pen, time: float, attention: AttentionMaps) -> None:
        """The past frames: brightness is the temporal weight, colour the spatial one."""
        left, top, right, bottom = STRIP
        title = "Past frames. Brightness: weight. Colour: where the model looked."
        _write(draw, ((left + right) // 2, top - 14), title, 13, anchor="mm")
        count = len(attention.temporal)
        width, height = (right - left - GAP * (count - 1)) // count, bottom - top - 24
        present = ~np.isnan(attention.times)
        maps = attention.spatial[present] if present.any() else np.ones(1)
        low, high = float(maps.min()), float(maps.max())
        brightest = float(attention.temporal[present].max(initial=0)) or 1.0
        for i, weight in enumerate(attention.temporal.tolist()):
            x = left + i * (width + GAP)
            draw.rectangle((x, top, x + width - 1, top + height - 1), fill=WELL)
            small = self._past.get(float(attention.times[i]))
            if small is None:
                continue
            level = None if high - low < EVEN * high else (attention.spatial[i] - low) / (high - low)
            tinted = _tinted(small, level, DARK + (1 - DARK) * weight / brightest, width, height)
            page.paste(tinted, (x + (width - tinted.width) // 2, top + (height - tinted.height) // 2))
            _draw_bar(draw, (x, top + height + 3, x + width, top + height + 7), weight, HEAT)
            _write(draw, (x, bottom - 6), f"{100 * weight:.0f}%", 13, INK)
            if width >= 90:
                _write(draw, (x + width, bottom - 6), f"{time - attention.times[i]:.2f} s ago", 13, anchor="rm")


def render_stream(
    stream: StreamSession, frames: Iterator[Frame], end: float | None = None, *, fps: float = 12.0,
    large: Iterator[Frame] | None = None, report: Callable[[Prediction], None] = lambda prediction: None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Image]:  # fmt: skip
    """Predict from the frames of a source, and yield the frames of a video of it.

    `end`: the end of the last frame, if it is known. `fps`: of the video. `large`: the same frames in the size in which
    they are drawn; by default `frames` are drawn. `report` is called with each prediction, `stop` after each frame: the
    video ends if it returns True.
    """
    renderer: VideoRenderer | None = None
    page: Image | None = None
    before: Image | None = None
    due = last = 0.0
    for frame in frames:
        image = frame.image if large is None else next(large).image
        if renderer is None:
            renderer, due = VideoRenderer(start=frame.time, end=end), frame.time
        for prediction in stream.feed(frame.image, frame.time):
            report(prediction)
            at_tick = image if before is None or prediction.time >= frame.time - SLACK else before
            renderer.update(prediction, at_tick)
        if page is not None and frame.time - last > LONGEST_STILL:
            due += frame.time - last - LONGEST_STILL
        while page is not None and due + SLACK < frame.time:  # the rate of the video is constant, that of frames is not
            yield page
            due += 1 / fps
        if due <= frame.time + SLACK:
            page = renderer.draw(image, frame.time)
            yield page
            due += 1 / fps
        before, last = image, frame.time
        if stop():
            return
    if renderer is None or before is None or end is None:
        return
    for prediction in stream.finish(end):
        report(prediction)
        renderer.update(prediction, before)
    while due + SLACK < end:
        yield renderer.draw(before, due)
        due += 1 / fps


def _best(prediction: Prediction) -> list[int]:
    """The classes that are listed, the most likely first."""
    return np.argsort(-prediction.probabilities["action"], kind="stable")[:TOP].tolist()


def _tinted(small: PILImage.Image, level: NDArray[np.floating] | None, light: float, w: int, h: int) -> PILImage.Image:
    """A past frame as bright as `light`, coloured where the map (h, w) in 0..1 is high."""
    image = ImageOps.contain(small, (w, h), PILImage.Resampling.BILINEAR)
    pixels = np.asarray(image, np.float32)
    if level is not None:
        smooth = PILImage.fromarray(np.asarray(level, np.float32)).resize(image.size, PILImage.Resampling.BICUBIC)
        strength = np.clip(np.asarray(smooth), 0, 1)[..., None]
        pixels = pixels * (0.7 + 0.3 * strength)
        pixels = pixels + 0.45 * strength * (np.array(HEAT, np.float64) - pixels)
    return PILImage.fromarray(np.clip(light * pixels, 0, 255).round().astype(np.uint8))


def _draw_bar(draw: Pen, box: Box, share: float, colour: tuple[int, int, int]) -> None:
    left, top, right, bottom = box
    radius = (bottom - top) / 2
    draw.rounded_rectangle((left, top, right - 1, bottom - 1), radius, fill=WELL)
    end = left + share * (right - left)
    if end - left >= 2 * radius:
        draw.rounded_rectangle((left, top, end - 1, bottom - 1), radius, fill=colour)
    elif share >= 0.005:
        draw.ellipse((left, top, left + 2 * radius - 1, bottom - 1), fill=colour)


def _write(
    draw: Pen, place: tuple[int, int], text: str, size: int, colour: tuple[int, int, int] = SOFT, *,
    anchor: str = "lm", limit: float = np.inf,
) -> None:  # fmt: skip
    """A line of text, cut off at `limit` pixels."""
    shown = _fit(text, size, limit)
    draw.text(place, shown, colour, _font(size, ascii_only=shown.isascii()), anchor)


@lru_cache(maxsize=512)
def _fit(text: str, size: int, limit: float) -> str:
    font = _font(size, ascii_only=text.isascii())
    if font.getlength(text) <= limit:
        return text
    while text and font.getlength(text + "...") > limit:
        text = text[:-1]
    return text.rstrip() + "..."


@lru_cache(maxsize=32)
def _font(size: int, *, ascii_only: bool = True) -> ImageFont.FreeTypeFont:
    """Pillow's own font has few scripts beside Latin; for others the system's fonts are tried."""
    if not ascii_only:
        for name in ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "Arial Unicode.ttf", "arial.ttf"):
            try:
                return ImageFont.truetype(name, size)
            except OSError:
                continue
    found = ImageFont.load_default(size)
    assert isinstance(found, ImageFont.FreeTypeFont)  # every wheel of Pillow has FreeType
    return found
