"""Blocks as HTML, and templates of pages around them; the only importer of jinja2.

Templates escape all values but `Markup`. In ``blocks.html`` are the pieces that all pages share,
and ``page.css`` is their style.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from skillsearch.rendering.blocks import shown
from skillsearch.text.safe_text import counted, one_line, visible

Templates: TypeAlias = Environment

STYLE = Path(__file__).with_name("page.css")
MAX_CHARS = 5_000  # no text on a page is longer


def load_templates(folder: Path, filters: Mapping[str, Callable[..., Any]] = {}) -> Templates:
    """Return the templates of a folder, and the pieces that all pages share.

    What others wrote is shown without what a reader cannot see.
    """
    templates = Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own = {"text": text, "line": _line, "shown_value": shown, "dashed": _dashed, "counted": counted}
    templates.filters |= {**own, **filters}
    return templates


def text(value: str, limit: int = MAX_CHARS) -> Markup:
    """Return a text as HTML that shows it and does nothing else; a longer one ends in an ellipsis.

    It is isolated, so that text from right to left reorders nothing else.
    """
    return Markup(f"<bdi>{escape(one_line(value, limit))}</bdi>")


def _visible(value: object) -> object:
    return value if isinstance(value, Markup) or not isinstance(value, str) else visible(value)


def _line(value: object, limit: int | None = None) -> str:
    return one_line(str(value), limit)


def _dashed(value: str) -> Markup:
    """Return the text of a number, with dashes for hyphens."""
    return Markup(escape(value).replace("-", "&ndash;"))
