"""A report page: one HTML file with its style and its images, in light and dark mode, for screens and for print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

from matplotlib.figure import Figure

from horst.viz.style import STYLE, escape, inline


def page(title: str, intro: str, sections: Sequence[str]) -> str:
    """A whole HTML page of sections that are HTML already."""
    own = (files("horst") / "assets" / "page.css").read_text(encoding="utf-8")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = f"<h1>{escape(title)}</h1><p class=soft>{escape(intro)}</p>" + "".join(sections)
    return f"<!doctype html><html lang=en><head>{head}<style>{STYLE}{own}</style></head><body>{body}</body></html>\n"


def section(title: str, intro: str, *parts: str) -> str:
    """A heading, a sentence on what follows, and parts that are HTML."""
    words = f"<p class=soft>{escape(intro)}</p>" if intro else ""
    return f"<section><h2>{escape(title)}</h2>{words}{''.join(parts)}</section>"


def tiles(entries: Mapping[str, str]) -> str:
    """Large numbers, each with its name below."""
    return f"<div class=tiles>{''.join(f'<div><b>{escape(v)}</b>{escape(k)}</div>' for k, v in entries.items())}</div>"


def row(*figures: Figure) -> str:
    """Figures beside each other, as far as the page is wide."""
    return f"<div class=row>{''.join(map(inline, figures))}</div>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells of text; the first of each row is its name."""
    top = f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>" if head else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in rows)
    return f"<div class=wide><table>{top}{body}</table></div>"


def facts(entries: Mapping[str, str]) -> str:
    """Names and values; empty values are left out."""
    rows = (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in entries.items() if value)
    return f"<dl>{''.join(rows)}</dl>"


def tabs(name: str, parts: Mapping[str, str]) -> str:
    """One part at a time, chosen by its name, without a script; in print all of them. At most four."""
    buttons = "".join(
        f'<input type=radio name="{escape(name)}" id="{escape(name)}{i}"{" checked" if i == 0 else ""}>'
        f'<label for="{escape(name)}{i}">{escape(word)}</label>'
        for i, word in enumerate(parts)
    )
    panes = "".join(f"<div><h4>{escape(word)}</h4>{part}</div>" for word, part in parts.items())
    return f"<div class=tabs>{buttons}{panes}</div>"
