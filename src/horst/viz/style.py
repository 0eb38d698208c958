"""The style of all figures, and their way into web pages: SVG that follows the reader's light or dark mode.

Sizes are in points (1/72 inch), which are pixels of the SVG. Colours come from assets/figure.css, where each has a
name, a light value and a dark one.
"""

import base64
import hashlib
import html
import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from importlib.resources import files
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, StrMethodFormatter
from PIL import Image

from horst.console import visible
from horst.io import write_text
from horst.video.images import encode_picture

STYLE = (files("horst") / "assets" / "figure.css").read_text(encoding="utf-8")
COLOURS = dict(re.findall(r"--(\w+):(#\w{6})", STYLE.partition("@media")[0]))  # light, by names of CSS variables
NAMES = {colour: name for name, colour in COLOURS.items()}
OURS = re.compile(f"(fill|stroke): ({'|'.join(NAMES)})")  # in an SVG
SERIES = [COLOURS[f"c{i}"] for i in range(6)]  # colours of curves, in order
INK, SOFT, LINE, AXIS, WELL, RIGHT, WRONG = (
    COLOURS[name] for name in ("fg", "soft", "line", "axis", "well", "right", "wrong")
)
QUARTERS = (0, 0.25, 0.5, 0.75, 1)
PERCENT = FuncFormatter(lambda value, _: f"{100 * value:.6g}%")
RC: Any = {
    "figure.dpi": 144, "font.size": 11, "text.color": SOFT, "text.parse_math": False,
    "axes.prop_cycle": cycler(color=SERIES), "axes.titlelocation": "left", "axes.titlesize": 12,
    "axes.titleweight": "bold", "axes.titlecolor": INK, "axes.edgecolor": AXIS, "axes.labelcolor": SOFT,
    "xtick.color": SOFT, "ytick.color": SOFT, "xtick.major.size": 0, "xtick.major.pad": 6, "ytick.major.size": 0,
    "axes.grid": True, "axes.grid.axis": "y", "grid.color": LINE, "axes.axisbelow": True, "axes.spines.left": False,
    "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 2, "lines.markersize": 4,
    "legend.frameon": False, "legend.labelcolor": "linecolor", "svg.fonttype": "none", "svg.hashsalt": "horst",
    "image.composite_image": False,
}  # fmt: skip
"""Settings of matplotlib for all figures."""
MARGIN = 12  # around a figure in a file of its own
SHRINK = 0.72  # how far a figure in a page may shrink before it scrolls: below, its text is too small to read
TOOLTIP = "tooltip: "
P = ParamSpec("P")
Drawn = TypeVar("Drawn", bound=Figure | None)


class NotebookFigure(Figure):
    """A matplotlib figure that displays itself in a notebook, whichever backend is active."""

    def _repr_svg_(self) -> str:
        return svg(self)


@contextmanager
def _settings() -> Iterator[None]:
    """Ours, and no warnings of scripts that matplotlib's own font lacks: those who read an SVG have other fonts."""
    with matplotlib.rc_context(RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


def styled(draw: Callable[P, Drawn]) -> Callable[P, Drawn]:
    """A function that draws with our settings. matplotlib reads them when it makes ticks, so ticks are made here."""

    @wraps(draw)
    def drawn(*given: P.args, **named: P.kwargs) -> Drawn:
        with _settings():
            figure = draw(*given, **named)
            for axes in figure.axes if figure is not None else ():
                axes.xaxis.get_major_ticks()
                axes.yaxis.get_major_ticks()
            return figure

    return drawn


def new_figure(width: float, height: float, label: str, **options: Any) -> Figure:
    """`label` describes the figure for screen readers."""
    figure = NotebookFigure(figsize=(width / 72, height / 72), **options)
    figure.set_label(visible(label, lines=False))
    return figure


def new_canvas(width: float, height: float, label: str) -> tuple[Figure, Axes]:
    """A figure with one empty set of axes, whose coordinates are points from the upper left corner."""
    figure = new_figure(width, height, label)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), autoscale_on=False)
    axes.set_axis_off()
    return figure, axes


def new_chart(title: str, *, width: float, height: float = 260, label: str = "") -> tuple[Figure, Axes]:
    """A figure with axes for curves."""
    figure = new_figure(width, height, label or title, layout="constrained")
    axes = figure.subplots()
    axes.set_title(visible(title, lines=False))
    return figure, axes


def percent_axis(axes: Axes, *, full: bool = False) -> None:
    """The y axis in per cent, from 0 to above the highest value, or `full`: to 100%."""
    highest = axes.dataLim.ymax
    top = 1.0 if full or highest > 0.55 else max(0.05, 1.1 * highest)
    axes.set_ylim(0, top)
    axes.yaxis.set_major_locator(FixedLocator(QUARTERS) if top == 1 else MaxNLocator(4))
    axes.yaxis.set_major_formatter(PERCENT)


def position_axis(axes: Axes, *, recognition: bool) -> None:
    """The x axis: the observed part of the clip, or the seconds before the action, which run down to 0."""
    if recognition:
        axes.set(xlim=(0, 1), xticks=QUARTERS, xlabel="observed part of the clip")
        axes.xaxis.set_major_formatter(PERCENT)
    else:
        longest = axes.dataLim.xmax
        axes.set(xlim=(longest, 0), xticks=np.arange(0, longest + 0.01, 0.5), xlabel="seconds before the action")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def name_curves(axes: Axes, limit: float = 250) -> None:
    """A legend on the right, in the order of the last values. `limit`: the widest name."""
    lines = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    lines.sort(key=lambda line: -float(np.asarray(line.get_ydata())[-1]))
    names = [fit(str(line.get_label()), limit) for line in lines]
    if lines:
        axes.legend(lines, names, loc="center left", bbox_to_anchor=(1, 0.5), handlelength=1.2, borderaxespad=0.6)


def put(
    axes: Axes, x: float, y: float, text: str, colour: str = SOFT, *, limit: float = np.inf, **options: Any
) -> None:
    """A line of text, cut off at `limit` points."""
    shown = fit(text, limit, options.get("size", RC["font.size"]), options.get("weight", "normal"))
    artist = axes.text(x, y, shown, color=colour, **options)
    if shown.endswith("…"):
        add_tooltip(artist, text)


def put_image(axes: Axes, image: Any, x: float, y: float, width: float, height: float) -> None:
    """An image (H, W, 3) with its upper left corner at (x, y)."""
    axes.imshow(image, extent=(x, x + width, y + height, y), aspect="auto", interpolation="hanning")


def add_tooltip(artist: Artist, text: str) -> None:
    """Shown in web pages while the pointer is on the artist."""
    artist.set_gid(TOOLTIP + visible(text, lines=False).replace('"', "\N{RIGHT DOUBLE QUOTATION MARK}"))


def text_width(text: str, size: float = RC["font.size"], weight: str = "normal") -> float:
    font = FontProperties(size=size, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0])


@lru_cache(4096)
def fit(text: str, limit: float, size: float = RC["font.size"], weight: str = "normal") -> str:
    """As much of a text as fits a width, on one line; an ellipsis stands for the rest."""
    text = visible(text, lines=False)
    if text_width(text, size, weight) <= limit:
        return text
    cut = (text[:end].rstrip() + "…" for end in range(len(text) - 1, 0, -1))
    return next((shown for shown in cut if text_width(shown, size, weight) <= limit), "…")


def save_svg(figure: Figure, path: str | Path) -> Path:
    """Write an SVG file with a background of its own that follows light and dark mode.

    For papers use `figure.savefig("x.pdf")`, which has nothing of a web page.
    """
    write_text(Path(path), svg(figure) + "\n")
    return Path(path)


def svg(*figures: Figure) -> str:
    """A whole SVG file with its style and background; several figures are stacked."""
    body, y = "", 0.0
    for figure in figures:
        body += f'<g transform="translate(0 {y:.0f})">{_body(figure)}</g>'
        y += 72 * figure.get_figheight() + MARGIN
    width, height = max(72 * figure.get_figwidth() for figure in figures) + 2 * MARGIN, y + MARGIN
    box = f'x="-{MARGIN}" y="-{MARGIN}" width="{width:.0f}" height="{height:.0f}"'
    paper = f'<style>{STYLE}</style><rect {box} rx="8" fill="{COLOURS["bg"]}" style="fill: var(--bg)"/>'
    view = f'viewBox="-{MARGIN} -{MARGIN} {width:.0f} {height:.0f}" width="{width:.0f}"'
    return _element(figures[0], paper + body, view)


def inline(figure: Figure, widest: float | None = None) -> str:
    """HTML for a page that has `STYLE`: the figure shrinks with the page and scrolls where that is narrow.

    Figures below each other that should have one scale get the width of the widest.
    """
    width, height = 72 * figure.get_size_inches()
    share = 100 * width / (widest or width)
    style = f"width:{share:.1f}%;max-width:{width:.0f}px;min-width:{SHRINK * width:.0f}px;height:auto"
    shown = _element(figure, _body(figure), f'viewBox="0 0 {width:.0f} {height:.0f}" style="{style}"')
    return f'<div class="fig" style="flex:0 1 {width:.0f}px">{shown}</div>'


def escape(text: str) -> str:
    """A name in HTML. XML allows no control characters, not even escaped ones."""
    return html.escape(visible(text))


def jpeg(image: Any) -> str:
    """An image as a data address."""
    data = encode_picture(np.asarray(image)[..., :3], quality=82, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(data).decode()


def _element(figure: Figure, body: str, size: str) -> str:
    label = escape(str(figure.get_label()))
    start = f'<svg xmlns="http://www.w3.org/2000/svg" class="horst-figure" role="img" aria-label="{label}"'
    return f"{start} {size}>{body}</svg>"


def _body(figure: Figure) -> str:
    """What matplotlib draws, without its header, with colours of the page and ids that no other figure has."""
    buffer = io.StringIO()
    with _settings():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None}, dpi=108)
    text = buffer.getvalue()
    text = re.sub(r"[ \n]+", " ", text[text.index("</metadata>") + 11 : text.rindex("</svg>")])
    text = re.sub(r"<defs> <style.*?</style> </defs>", "", text).replace("> <", "><")
    text = re.sub(rf'<g id="{TOOLTIP}([^"]*)">', r"<g><title>\1</title>", text)
    text = re.sub(r'<image xlink:href="data:image/png;base64, ([^"]*)"(?![^>]*pixelated)', _as_jpeg, text)
    own = hashlib.sha256(text.encode()).hexdigest()[:8]
    return re.sub(r"<[^>]*>", lambda tag: _themed(tag[0], own), text)


def _themed(tag: str, own: str) -> str:
    """A tag with short numbers and ids of this figure. Each of our colours is followed by its CSS variable; viewers
    that know no variables take the colour."""
    tag = re.sub(r"(\.\d{3})\d+", r"\1", tag)
    tag = re.sub(r' transform="rotate\(-0 [^"]*"| font-family: [^;"]*;', "", tag)
    tag = re.sub(r'(<(?:g|image)\b.*?) id="[^"]*"', r"\1", tag).replace("xlink:href", "href")
    tag = re.sub(r'(\bid="|href="#|url\(#)', rf"\1h{own}", tag)
    return OURS.sub(lambda found: f"{found[0]}; {found[1]}: var(--{NAMES[found[2]]})", tag)


def _as_jpeg(image: re.Match[str]) -> str:
    with Image.open(io.BytesIO(base64.b64decode(image[1]))) as png:
        return f'<image xlink:href="{jpeg(png)}"'
