"""The request that an index was built for, kept apart so that it survives damage, and its roots."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from skillsearch.errors import CacheError, RootError
from skillsearch.files.atomic_files import read_record, write_record
from skillsearch.roots.sources import is_bundle, place_of, shown, source_of
from skillsearch.skills.discovery import make_roots
from skillsearch.types import LANGUAGES, Diagnostic, Languages, Root

logger = logging.getLogger(__name__)

REQUEST_FILE = "request.json"


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """The arguments of the last indexing; roots in order of precedence.

    `sources` are the roots as they were named, if any is an archive or a URL, which is looked at
    again; `with_body` is False for an index of metadata alone.
    """

    roots: tuple[Path, ...]
    model: str
    with_body: bool
    sources: tuple[str, ...] = ()
    languages: Languages = "auto"

    @property
    def named(self) -> tuple[Path | str, ...]:
        """The roots as they were named."""
        return self.sources or self.roots

    def save(self, folder: Path) -> None:
        """Write the request into an index folder; if that fails, the one before stays."""
        write_record(folder / REQUEST_FILE, asdict(self) | {"roots": list(map(str, self.roots))})

    @classmethod
    def load(cls, folder: Path) -> IndexRequest | None:
        """Read the request of an index folder; None if none can be read."""
        try:
            record = read_record(folder / REQUEST_FILE)
            roots = tuple(Path(root) for root in record["roots"])
            sources = tuple(map(str, record.get("sources", ())))
            languages = record.get("languages", "auto")
            if languages not in LANGUAGES:
                raise ValueError(f"no languages are called {languages!r}")
            return cls(roots, str(record["model"]), bool(record["with_body"]), sources, languages)
        except (CacheError, ValueError, KeyError, TypeError) as exc:
            logger.info("no request in %s: %s", folder, exc)
            return None


def resolve_roots(paths: Sequence[Path]) -> tuple[tuple[Root, ...], tuple[Diagnostic, ...]]:
    """Check the folders to index, and return the roots and what is odd about them.

    A RootError for one that cannot be read: an index that silently lacks skills is worse than none.
    """
    roots, diagnostics = make_roots(paths)
    for diagnostic in diagnostics:
        if diagnostic.severity == "error":
            raise RootError(f"{diagnostic.path}: {diagnostic.message} Nothing was changed.")
    return tuple(roots), tuple(diagnostics)


def join_roots(*groups: Iterable[Path | str]) -> tuple[Path | str, ...]:
    """Join lists of roots; a root that is named twice, in any spelling, keeps its first place."""
    found: dict[str, Path | str] = {}
    for root in chain.from_iterable(groups):
        found.setdefault(os.path.realpath(place_of(root)), root)
    return tuple(found.values())


def usable_roots(roots: Iterable[Path | str]) -> list[Path | str]:
    """Return the roots that can be indexed; archives and URLs are not looked at."""
    return [root for root in roots if is_bundle(root) or make_roots([place_of(root)])[0]]


def replace_command(roots: Iterable[Path | str], option: str = "") -> str:
    """Return the command that makes an index hold exactly some roots, without secrets in URLs."""
    names = " ".join(shlex.quote(shown(source_of(root))) for root in roots)
    return f"skillsearch index --replace {names or 'FOLDER'}{option}"
