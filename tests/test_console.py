"""What is printed is what was given: no name styles the output, controls the terminal or ends the command."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from horst.console import Console, progress, visible
from horst.viz import style

pieces = st.sampled_from(
    [
        "[/x]",
        "[red]",
        "[/red]",
        "[link=file:///x]",
        "[bold",
        "\\[",
        ":smile:",
        "{task}",
        "\x1b[31m",
        "\x1b]0;x\x07",
        "\x9b",
    ]
)
texts = st.lists(pieces | st.text(max_size=4), max_size=6).map("".join)
line = texts.map(lambda text: text.replace("\n", ""))
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def console(*, terminal: bool = False) -> tuple[Console, io.TextIOWrapper]:
    """Its output is encoded as UTF-8, which has no lone surrogates."""
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    return Console(file=file, force_terminal=terminal, width=4000), file


def printed(file: io.TextIOWrapper) -> str:
    file.flush()
    return file.buffer.getvalue().decode()  # type: ignore[attr-defined]


@settings(max_examples=150, deadline=None)
@given(text=texts)
def test_strings_are_printed_as_they_are(text: str) -> None:
    made, file = console()
    made.print(text)
    assert printed(file).rstrip("\n") == visible(text).rstrip("\n")


@settings(max_examples=100, deadline=None)
@given(text=line)
def test_tables_titles_and_texts_too(text: str) -> None:
    assume(cell_len(visible(text)) > 0 or not visible(text))  # a column of no width shows nothing
    made, file = console()
    table = Table(title=text, title_justify="left")
    table.add_column(text)
    table.add_row(text)
    table.add_row(Text(visible(text), "red"))
    table.add_row(Text(text, "red"))
    made.print(table)
    assert not CONTROL.search(printed(file))
    shown = re.sub(r"\s", "", printed(file))
    assert shown.count(re.sub(r"\s", "", visible(text))) >= 4


@settings(max_examples=50, deadline=None)
@given(text=line)
def test_bars_too(text: str) -> None:
    assume(not text or cell_len(visible(text)))  # rich leaves out a column without width, as of a single U+200B
    made, file = console()
    with progress(console=made) as bar:
        bar.add_task(text, total=1)
    assert not CONTROL.search(printed(file))
    assert re.sub(r"\s", "", visible(text)) in re.sub(r"\s", "", printed(file))


@settings(max_examples=50, deadline=None)
@given(text=texts)
def test_a_terminal_gets_no_escape_but_ours(text: str) -> None:
    """Colours are on: the escapes of rich alone are written, which style and do nothing else."""
    made, file = console(terminal=True)
    made.print(text)
    assert not CONTROL.search(re.sub(r"\x1b\[[\d;]*m", "", printed(file)))


@given(text=st.text() | texts)
def test_what_is_visible_is_left_alone(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    assert "\n" not in visible(text, lines=False)
    if text.isprintable():
        assert visible(text) == text


@settings(max_examples=40, deadline=None)
@given(text=texts)
def test_figures_are_xml_whatever_their_names(text: str) -> None:
    @style.styled
    def draw() -> Figure:
        figure, axes = style.new_canvas(100, 50, text)
        style.put(axes, 0, 0, text, limit=30)
        return figure

    root = ElementTree.fromstring(style.svg(draw()))
    assert visible(text, lines=False).split() == root.attrib["aria-label"].split()
