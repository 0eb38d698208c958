"""The rendered video: positions, lengths of bars, brightness of past frames; and two pages compared with goldens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as PILImage
from PIL import PngImagePlugin, features

from horst.streaming.prediction import AttentionMaps, Prediction
from horst.video.frame import Image
from horst.viz.render import (
    BACKGROUND,
    COLOURS,
    HEIGHT,
    PANEL,
    SCREEN,
    STRIP,
    TIMELINE,
    WELL,
    WIDTH,
    Box,
    VideoRenderer,
    _fit,
    _font,
)

NAMES = ["pushing", "pulling", "lifting something up completely and then letting it drop down", "opening", "no action"]
BLUE = (10, 20, 250)


def solid(height: int, width: int, colour: tuple[int, int, int] = BLUE) -> Image:
    return np.full((height, width, 3), colour, np.uint8)


def prediction(
    time: float = 1.0,
    probabilities: tuple[float, ...] = (0.5, 0.25, 0.15, 0.1, 0.0),
    attention: AttentionMaps | None = None,
    names: list[str] = NAMES,
    **more: float,
) -> Prediction:
    values = {"action": np.array(probabilities, np.float32)}
    return Prediction(time, 1, values, {"action": names}, attention=attention, **more)  # type: ignore[arg-type]


def attention(weights: NDArray[np.floating], times: NDArray[np.float64], maps: NDArray[np.floating]) -> AttentionMaps:
    return AttentionMaps(weights.astype(np.float32), times, maps.astype(np.float32))


def where(page: Image, colour: tuple[int, int, int], box: Box = (0, 0, WIDTH, HEIGHT)) -> NDArray[np.int64]:
    """(N, 2) x, y of the pixels of one colour in a box."""
    left, top, right, bottom = box
    y, x = np.nonzero((page[top:bottom, left:right] == colour).all(-1))
    return np.stack([x + left, y + top], 1)


def bounds(found: NDArray[np.int64]) -> Box:
    return (*found.min(0).tolist(), *(found.max(0) + 1).tolist())  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("size", "fills"), [((80, 160), "width"), ((400, 100), "height"), ((1000, 2000), "width"), ((410, 728), "both")]
)
def test_a_frame_fills_the_screen_in_its_own_shape_and_in_the_middle(size: tuple[int, int], fills: str) -> None:
    left, top, right, bottom = bounds(where(VideoRenderer().draw(solid(*size), 0.0), BLUE))
    wide, tall = SCREEN[2] - SCREEN[0], SCREEN[3] - SCREEN[1]
    assert (right - left == wide) == (fills in ("width", "both"))
    assert (bottom - top == tall) == (fills in ("height", "both"))
    assert abs((right - left) / (bottom - top) - size[1] / size[0]) < 0.01 * size[1] / size[0]
    assert abs((left - SCREEN[0]) - (SCREEN[2] - right)) <= 1
    assert abs((top - SCREEN[1]) - (SCREEN[3] - bottom)) <= 1


def test_boxes_lie_on_the_page_and_apart() -> None:
    boxes = [SCREEN, PANEL, TIMELINE, STRIP]
    for one in boxes:
        assert 0 < one[0] < one[2] < WIDTH
        assert 0 < one[1] < one[3] < HEIGHT
        for other in boxes:
            apart = one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
            assert apart or one is other


def test_a_bar_is_as_long_as_its_probability() -> None:
    renderer = VideoRenderer()
    renderer.update(prediction(), solid(9, 16))
    page = renderer.draw(solid(9, 16), 1.0)
    tops = []
    for rank, probability in enumerate((0.5, 0.25, 0.15, 0.1)):
        left, top, right, bottom = bounds(where(page, COLOURS[rank], PANEL))
        assert left == PANEL[0]
        assert right - left == pytest.approx(probability * (PANEL[2] - PANEL[0]), abs=1)
        assert bottom - top == 8
        tops.append(top)
    assert len(set(np.diff(tops))) == 1  # evenly, the likeliest on top
    assert tops == sorted(tops)
    assert not len(where(page, COLOURS[4], PANEL))  # nothing for a probability of 0


@pytest.mark.parametrize(("probability", "shown"), [(0.004, False), (0.006, True)])
def test_a_small_probability_is_a_dot(probability: float, shown: bool) -> None:
    renderer = VideoRenderer()
    renderer.update(prediction(probabilities=(1 - probability, probability, 0.0, 0.0, 0.0)), solid(9, 16))
    found = where(renderer.draw(solid(9, 16), 1.0), COLOURS[1], PANEL)
    assert bool(len(found)) == shown
    if shown:
        assert bounds(found)[2] - bounds(found)[0] <= 8


@pytest.mark.parametrize("probability", [0.9, 0.5, 0.3])
def test_a_course_goes_through_its_probabilities(probability: float) -> None:
    """Seven seconds of a ten-second window: the line of a steady probability is level, at that part of the height."""
    renderer = VideoRenderer(10.0)
    for i in range(8):
        renderer.update(prediction(float(i), (probability, 0.1, 0.05, 0.0, 0.0)), solid(9, 16))
    page = renderer.draw(solid(9, 16), 7.0)
    line = where(page, COLOURS[0], TIMELINE)
    left, _, right, _ = bounds(line)
    # The newest is at the right end, the oldest seven tenths of the width before it.
    assert right == pytest.approx(TIMELINE[2], abs=2)
    assert left == pytest.approx(TIMELINE[2] - 0.7 * (TIMELINE[2] - TIMELINE[0]), abs=4)
    level = np.median(line[line[:, 0] < TIMELINE[2] - 20, 1]) - TIMELINE[1]
    assert level == pytest.approx((TIMELINE[3] - TIMELINE[1]) * (1 - probability), abs=3)
    assert not len(where(page, COLOURS[1], TIMELINE))  # never likely enough


def test_a_short_video_is_shown_whole() -> None:
    """Half of it has passed, so the course fills the left half."""
    renderer = VideoRenderer(10.0, start=2.0, end=12.0)
    for time in (2.0, 4.0, 7.0):
        renderer.update(prediction(time), solid(9, 16))
    left, _, right, _ = bounds(where(renderer.draw(solid(9, 16), 7.0), COLOURS[0], TIMELINE))
    assert left == pytest.approx(TIMELINE[0], abs=2)
    assert right == pytest.approx((TIMELINE[0] + TIMELINE[2]) / 2, abs=5)


@pytest.mark.parametrize(("end", "window"), [(30.0, 30.0), (30.1, 10.0), (0.2, 0.5), (None, 10.0)])
def test_a_long_video_is_shown_by_its_last_seconds(end: float | None, window: float) -> None:
    assert VideoRenderer(10.0, end=end).window == window
    assert (VideoRenderer(10.0, end=end).start is None) == (window == 10.0)


def test_another_video_starts_another_course() -> None:
    one, other = VideoRenderer(), VideoRenderer()
    for time in (50.0, 51.0, 0.0, 1.0):
        one.update(prediction(time), solid(9, 16))
    for time in (0.0, 1.0):
        other.update(prediction(time), solid(9, 16))
    assert (one.draw(solid(9, 16), 1.0) == other.draw(solid(9, 16), 1.0)).all()


def past(weights: tuple[float, ...], spatial: NDArray[np.floating], missing: int = 0) -> Image:
    """A page with so many past frames, a second apart, of which the first `missing` were never there."""
    renderer, count = VideoRenderer(), len(weights)
    times = np.arange(count, dtype=np.float64)
    for time in times:
        about = times.copy()
        about[:missing] = np.nan
        now = prediction(float(time), attention=attention(np.array(weights), about, spatial))
        renderer.update(now, solid(60, 60, (200, 200, 200)))
    return renderer.draw(solid(9, 16), float(times[-1]))


def strip(page: Image, count: int) -> list[Image]:
    """The inner part of each picture of the past."""
    wide = (STRIP[2] - STRIP[0] - 10 * (count - 1)) // count
    lefts = [STRIP[0] + i * (wide + 10) for i in range(count)]
    middle = (STRIP[1] + STRIP[3] - 24) // 2
    return [page[middle - 20 : middle + 20, x + wide // 2 - 20 : x + wide // 2 + 20] for x in lefts]


def test_past_frames_are_bright_by_their_weight() -> None:
    """Even maps: the picture itself, from 0.42 of its light without weight to all of it at the largest."""
    shown = strip(past((0.0, 0.25, 0.5), np.ones((3, 4, 4))), 3)
    for picture, share in zip(shown, (0.0, 0.5, 1.0), strict=True):
        assert (picture == round(200 * (0.42 + 0.58 * share))).all()


def test_past_frames_glow_where_the_model_looked() -> None:
    looked = np.zeros((2, 4, 4))
    looked[:, :, 2:] = 1.0
    for picture in strip(past((0.5, 0.5), looked), 2):
        dark, bright = picture[:, :5].astype(float).mean((0, 1)), picture[:, -5:].astype(float).mean((0, 1))
        assert dark == pytest.approx([140, 140, 140], abs=4)  # 0.7 of the light
        assert bright == pytest.approx(0.55 * 200 + 0.45 * np.array([255, 176, 46]), abs=4)


def test_a_past_frame_that_is_not_there_is_empty() -> None:
    first, second = strip(past((0.5, 0.5), np.ones((2, 4, 4)), missing=1), 2)
    assert (first == WELL).all()
    assert (second == 200).all()


def test_without_any_past_frame_the_strip_is_empty() -> None:
    for picture in strip(past((0.5, 0.5), np.ones((2, 4, 4)), missing=2), 2):
        assert (picture == WELL).all()


@pytest.mark.parametrize(("probability", "drawn"), [(0.119, False), (0.12, True)])
def test_a_course_is_drawn_from_a_probability_on(probability: float, drawn: bool) -> None:
    renderer = VideoRenderer(10.0)
    for time in (0.0, 1.0):
        renderer.update(prediction(time, (0.8, probability, 0.0, 0.0, 0.0)), solid(9, 16))
    left, top, right, _ = TIMELINE
    key = where(renderer.draw(solid(9, 16), 1.0), COLOURS[1], (left, top - 24, right, top - 10))
    assert bool(len(key)) == drawn
    if drawn:  # the second of four
        assert bounds(key) == (left + (right - left) // 4, top - 22, left + (right - left) // 4 + 11, top - 11)


@pytest.mark.parametrize(("low", "even"), [(0.495, True), (0.48, False)])
def test_maps_that_hardly_vary_are_even(low: float, even: bool) -> None:
    """By less than 0.02 of their height: noise does not glow."""
    maps = np.full((2, 4, 4), 0.5)
    maps[:, :, :2] = low
    for picture in strip(past((0.5, 0.5), maps), 2):
        assert (picture == 200).all() == even


def test_little_is_kept_of_a_long_video() -> None:
    renderer = VideoRenderer(2.0)
    look = attention(np.ones(3) / 3, np.full(3, np.nan), np.ones((3, 2, 2)))
    for i in range(60):
        renderer.update(prediction(i / 2, attention=look), solid(480, 640))
    assert len(renderer._past) == 12
    assert list(renderer._past) == [i / 2 for i in range(48, 60)]
    assert {(picture.width, picture.height) for picture in renderer._past.values()} == {(320, 240)}
    assert min(time for time, _ in renderer._course) == pytest.approx(29.5 - 3.0)
    renderer.update(prediction(99.0, attention=look), solid(960, 640))
    assert renderer._past.pop(99.0).size == (160, 240)
    assert len(renderer._course) == 1  # a jump of more than the window


@pytest.mark.parametrize("text", ["", "short", "a name of some words", "x" * 200, "many words " * 30])
def test_text_fits_its_box(text: str) -> None:
    fitted = _fit(text, 17, 300)
    assert _font(17).getlength(fitted) <= 300
    if _font(17).getlength(text) <= 300:
        assert fitted == text
    else:
        whole = fitted.removesuffix("...")
        assert fitted.endswith("...")
        assert text.startswith(whole)
        longer = text[: len(whole) + 2].rstrip() + "..."  # a space at the end is not drawn
        assert _font(17).getlength(longer) > 300


@pytest.mark.parametrize("name", [*NAMES, "x" * 200, "many words " * 30])
def test_a_long_answer_has_two_lines_at_most(name: str) -> None:
    """The note below is where it is for one line or two; nothing is drawn right of the panel."""
    renderer = VideoRenderer()
    renderer.update(prediction(names=[name, *NAMES[1:]]), solid(9, 16))
    page = renderer.draw(solid(9, 16), 1.0)
    assert (page[: PANEL[3], PANEL[2] + 2 :] == BACKGROUND).all()
    assert (page[PANEL[1] + 104 : PANEL[3] - 290, PANEL[0] :] == BACKGROUND).all()


def pages() -> dict[str, Image]:
    """Two pages that show everything."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (6, 8, 3), np.uint8).repeat(20, 0).repeat(20, 1)
    live, still = VideoRenderer(4.0), VideoRenderer(10.0, start=1.0, end=9.0)
    spatial = np.linspace(0.1, 0.9, 3 * 4 * 5).reshape(3, 4, 5)
    names = [NAMES[0], NAMES[2], NAMES[1], *NAMES[3:], *(f"action {i}" for i in range(8))]  # more than colours
    for i in range(14):
        probabilities = np.full(13, 0.01)
        probabilities[[i % 13, (i + 1) % 13, 2]] = 0.4 - 0.02 * i, 0.2 + 0.02 * i, 0.15
        times = np.array([np.nan, i / 2 - 0.5, i / 2])
        look = attention(np.array([0.2, 0.3, 0.5]), times, spatial)
        live.update(prediction(i / 2, tuple(probabilities), look, names, horizon=1.0, latency=0.01), image)
    still.update(prediction(2.0, (0.4, 0.3, 0.2, 0.1, 0.0), threshold=0.5), image)
    colours = np.array([live._colours[i] for i in range(13)], np.uint8)  # of every action, whatever is shown now
    page = live.draw(image, 6.5).copy()
    page[:4, : 4 * 13] = colours.repeat(4, 0)
    return {"live": page, "still": still.draw(image.transpose(1, 0, 2), 2.25)}


def _drawn_by() -> str:
    return f"Pillow {PILImage.__version__}, FreeType {features.version('freetype2')}"


@pytest.mark.parametrize("name", ["live", "still"])
def test_a_page_is_drawn_as_before(name: str, data: Path) -> None:
    """To the pixel with the Pillow version that drew it; others render text a little differently.

    `python tests/viz/test_render.py` draws the pages again: look at them before you commit them.
    """
    with PILImage.open(data / f"render_{name}.png") as file:
        before, by = np.asarray(file.convert("RGB")), file.info["by"]
    off = np.abs(pages()[name].astype(int) - before).max(-1)
    if by == _drawn_by():
        assert not off.any()
    assert (off > 64).mean() < 0.003


def test_without_a_prediction_there_is_little() -> None:
    page = VideoRenderer().draw(solid(9, 16), 0.0)
    assert page.shape == (HEIGHT, WIDTH, 3)
    assert (page[TIMELINE[1] :] == BACKGROUND).all()
    assert not (page[PANEL[1] : PANEL[1] + 40, PANEL[0] : PANEL[2]] == BACKGROUND).all()


if __name__ == "__main__":
    for page_name, drawn in pages().items():
        about = PngImagePlugin.PngInfo()
        about.add_text("by", _drawn_by())
        path = Path(__file__).parents[1] / "goldens" / f"render_{page_name}.png"
        PILImage.fromarray(drawn).save(path, optimize=True, pnginfo=about)
