"""Printing to the terminal. Names come from files: they must not style the output or control the terminal.

Every command prints through `Console`: brackets are not markup, `:name:` is not an emoji, and a control character is
printed as its escape (`\\x1b`). To style a name, use `rich.text.Text` with the `visible` name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

SHOWN = 10  # examples that could not be read
# Control characters except line feed, direction marks, separators, and surrogates, which is how Python reads bytes of a
# file name that are not UTF-8. XML allows none of them.
_INVISIBLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def visible(text: str, *, lines: bool = True) -> str:
    """`text` with invisible characters as escapes. With `lines=False`, line feeds too."""
    text = _INVISIBLE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)
    return text if lines else text.replace("\n", "\\n")


class Console(rich.console.Console):
    """Rich's console without markup and emoji. Lines of text are not wrapped, unless `soft_wrap=False`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        if all(isinstance(one, str) for one in objects):
            options.setdefault("soft_wrap", True)
        super().print(*objects, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Strings, also those in tables. Escaped here, so that their widths are right."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Everything else: no control character reaches the terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


class _Description(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(visible(task.description, lines=False), no_wrap=True, overflow="ellipsis")


def new_table(title: str, *columns: str, left: int = 1) -> Table:
    """A table without rows; the first `left` columns are text, the others are numbers."""
    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < left else "right")
    return table


def progress(**options: Any) -> Progress:
    """A progress bar on stderr: the description of a task, a bar, counts and the time left.

    Without a terminal, a line at the end; nothing if it is `transient`.
    """
    columns = _Description(), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = options.pop("console", None) or Console(stderr=True)
    disable = options.pop("disable", False) or (options.get("transient", False) and not console.is_terminal)
    return Progress(*columns, console=console, disable=disable, **options)


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """For work without steps that can be counted: in a terminal a spinner on stderr, what it does and the time.

    with working("tracing the model") as say:
        say("comparing")
    """
    console = Console(stderr=True)
    columns = SpinnerColumn(), _Description(), TimeElapsedColumn()
    with Progress(
        *columns, console=console, transient=True, refresh_per_second=4, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda now: bar.update(task, description=now)


def print_bad(console: Console, what: str, bad: Sequence[tuple[str, str]]) -> None:
    """The first few examples that could not be read, as (id, reason), and how many more there are."""
    for ident, why in bad[:SHOWN]:
        console.print(f"{what}: {ident}: {why}")
    if len(bad) > SHOWN:
        console.print(f"and {len(bad) - SHOWN} more")
