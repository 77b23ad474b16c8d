"""What an index folder was asked to hold, kept apart from the index so that it outlives damage."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from skillsearch.errors import CacheError
from skillsearch.files.atomic_files import read_record, write_record
from skillsearch.types import LANGUAGES, Languages

logger = logging.getLogger(__name__)

REQUEST_FILE = "request.json"


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """The arguments of the last indexing.

    Attributes:
        roots: Folders of skills, in order of precedence.
        model: What the embedder is loaded by.
        with_body: False for an index of metadata alone.
        sources: The roots as they were named, one for each where any is an archive or a URL; to
            index them again is to look at these again.
        languages: Which languages it is for; see `skillsearch.types.LANGUAGES`.
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
        """Write the request into an index folder.

        Args:
            folder: The index folder.

        Raises:
            OSError: When it cannot be written; the one before stays.
        """
        record = {
            "roots": [str(root) for root in self.roots],
            "model": self.model,
            "with_body": self.with_body,
            "sources": list(self.sources),
            "languages": self.languages,
        }
        write_record(folder / REQUEST_FILE, record)

    @classmethod
    def load(cls, folder: Path) -> IndexRequest | None:
        """Read the request of an index folder; None where there is none that can be read."""
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
