"""Pieces of HTML for a page of reports; all that others wrote enters through `text`.

But for cells, what the other functions take is HTML already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from xml.etree import ElementTree

from skillsearch.text.safe_text import one_line

MAX_CHARS = 5_000
"""No text on a page is longer."""

_REFERENCE = re.compile(r"(^|\()#([\w.-]+)")
"""What refers to an id: a whole attribute, or one within ``url()``; a colour does neither."""
_INHERITED = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
_SVG = "{http://www.w3.org/2000/svg}"


def text(value: str, limit: int = MAX_CHARS) -> str:
    """Return a text as HTML that shows it and does nothing else.

    It stands apart from its surroundings, so that text from right to left reorders nothing else.

    Args:
        value: Any text.
        limit: Characters at most; a longer one ends in an ellipsis.

    Returns:
        A ``bdi`` element.
    """
    return f"<bdi>{escape(one_line(value, limit))}</bdi>"


def cell(content: str, below: str = "", *, is_best: bool = False) -> str:
    """Return a cell with digits; their hyphens become dashes, which are as wide as a plus sign.

    Args:
        content: What it says, as plain text.
        below: A second, quieter line, as plain text.
        is_best: True to show it in bold.

    Returns:
        A ``td`` element.
    """
    content, below = (escape(part).replace("-", "&ndash;") for part in (content, below))
    main = f"<b>{content}</b>" if is_best else content
    return f"<td>{main}<small>{below}</small></td>" if below else f"<td>{main}</td>"


def row(head: str, cells: Iterable[str]) -> str:
    """Return a row of a table with its head."""
    return f'<tr><th scope="row">{head}</th>{"".join(cells)}</tr>'


def table(caption: str, heads: Sequence[str], groups: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return a table that scrolls in a box of its own where it is too wide.

    Args:
        caption: What it shows.
        heads: The head of each column.
        groups: A title, possibly empty, and the rows that it stands above.

    Returns:
        The table in its box.
    """
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    title = '<tr><th class="group" colspan="{}" scope="rowgroup">{}</th></tr>'
    bodies = [
        "\n".join([title.format(len(heads), name), *rows] if name else rows)
        for name, rows in groups
    ]
    # A box that scrolls has to be reached by the keyboard, and so needs a role and a name.
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}">\n<table>\n'
        f"<caption>{caption}</caption>\n<thead><tr>{columns}</tr></thead>\n"
        + "\n".join(f"<tbody>\n{body}\n</tbody>" for body in bodies)
        + "\n</table>\n</div>"
    )


def details(summary: str, content: str, *, is_open: bool = False) -> str:
    """Return what opens on a click."""
    state = " open" if is_open else ""
    return f"<details{state}>\n<summary>{summary}</summary>\n{content}\n</details>"


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """Return terms with what is said of them."""
    items = "\n".join(f"<dt>{term}</dt><dd>{meaning}</dd>" for term, meaning in pairs)
    return f"<dl>\n{items}\n</dl>"


def figures(pairs: Iterable[tuple[str | None, str]]) -> str:
    """Return plots with their captions, beside each other where there is room.

    Args:
        pairs: An ``svg`` element, or None for a plot that is left out, and its caption.

    Returns:
        A grid of them, or nothing where all are left out.
    """
    shown = [
        f"<figure>\n{svg}\n<figcaption>{caption}</figcaption>\n</figure>"
        for svg, caption in pairs
        if svg
    ]
    return '<div class="figures">\n' + "\n".join(shown) + "\n</div>" if shown else ""


def inline_svg(document: str, *, prefix: str, label: str) -> str:
    """Return an SVG document that matplotlib made as an element to stand beside others in a page.

    Left are only the ids that something refers to. The stylesheet of the document, which would
    hold for the whole page, becomes two attributes that all its elements inherit.

    Args:
        document: Text of the file.
        prefix: Start of its ids, another one for each on a page.
        label: What it shows, for who cannot see it.

    Returns:
        An ``svg`` element.
    """
    root = ElementTree.fromstring(document)
    for defs in root.findall(f"{_SVG}defs"):
        for stylesheet in defs.findall(f"{_SVG}style"):
            defs.remove(stylesheet)
    values = [value for element in root.iter() for value in element.attrib.values()]
    used = {match[2] for value in values for match in _REFERENCE.finditer(value)}
    for element in root.iter():
        attributes = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        name = attributes.pop("id", None)
        element.attrib = {
            key: _REFERENCE.sub(rf"\1#{prefix}-\2", value) for key, value in attributes.items()
        }
        if name in used:
            element.set("id", f"{prefix}-{name}")
        element.tag, element.tail = element.tag.removeprefix(_SVG), None
    root.attrib |= {"role": "img", "aria-label": label, **_INHERITED}
    return ElementTree.tostring(root, encoding="unicode")
