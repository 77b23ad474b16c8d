"""Templates of HTML pages; the only importer of jinja2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import Environment, FileSystemLoader, StrictUndefined

Templates: TypeAlias = Environment


def load_templates(
    folder: Path, *, finalize: Callable[..., Any] | None = None, **filters: Callable[..., Any]
) -> Templates:
    """Return the templates of a folder, which escape all values but `Markup`."""
    templates = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= filters
    return templates
