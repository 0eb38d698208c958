"""Text for people. Names come from files: none of them may style the output or control the terminal.

Every command prints through `Console`: brackets are brackets, not rich's markup, `:name:` is no emoji, and a control
character is shown as its escape (`\\x1b`). Styles are given as
`rich.text.Text` of a `visible` name, never inside of a string.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

# Control characters but line feed; marks that turn the direction of text; separators; halves of UTF-16 pairs,
# which are how Python reads bytes of a file name that are no UTF-8. XML takes none of them.
_INVISIBLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def visible(text: str, *, lines: bool = True) -> str:
    """`text` with what cannot be seen as escapes; line feeds too, unless there may be several `lines`."""
    text = _INVISIBLE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)
    return text if lines else text.replace("\n", "\\n")


class Console(rich.console.Console):
    """Rich's console without markup and emoji. A line of text is not broken, unless asked for by `soft_wrap=False`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        if all(isinstance(one, str) for one in objects):
            options.setdefault("soft_wrap", True)
        super().print(*objects, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Strings, also those in tables; here, so that their widths are right."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Whatever else is drawn: no control character reaches the terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


class _Description(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(visible(task.description, lines=False))


def new_table(title: str, *columns: str, left: int = 1) -> Table:
    """A table without rows; the first `left` columns are text, the others are numbers."""
    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < left else "right")
    return table


def progress(**options: Any) -> Progress:
    """A progress bar on stderr: the description of a task, a bar, counts and the time left."""
    columns = _Description(), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    return Progress(*columns, **{"console": Console(stderr=True), **options})
