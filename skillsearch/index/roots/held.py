"""What an index holds by its last request."""

from __future__ import annotations

from skillsearch.index.roots.request import IndexRequest, key_of, require_readable
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.settings.table import Settings


def last_request(folder: IndexFolder) -> IndexRequest | None:
    """Return the last request for an index, reconstructed from its settings if need be.

    A ConfigError if another version wrote it in a form that this one cannot read.
    """
    if request := IndexRequest.load(folder.path):
        return request
    require_readable(folder.path)
    from skillsearch.index.corpus import open_current

    opened = open_current(folder)
    return opened.settings.request() if opened else None


def request_of(settings: Settings) -> IndexRequest | None:
    """Return the last request for the index that settings name."""
    return last_request(IndexFolder(settings.index_dir.absolute()))


def held_roots(settings: Settings) -> frozenset[str]:
    """Return the keys of the roots that the index of some settings holds."""
    held = request_of(settings)
    return frozenset(map(key_of, held.roots)) if held else frozenset()
