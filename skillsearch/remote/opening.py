"""Opens the index in Milvus that the settings name."""

from __future__ import annotations

from contextlib import suppress

from skillsearch.errors import ConfigError, IndexNotFoundError
from skillsearch.index.roots.held import request_of
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.roots.root_change import RootChange
from skillsearch.remote.remote_index import RemoteIndex
from skillsearch.settings.table import Settings


def open_in_milvus(settings: Settings) -> RemoteIndex:
    """Open the index in Milvus that the settings name."""
    return RemoteIndex.open(milvus_uri(settings), collection=settings.collection)


def milvus_uri(settings: Settings) -> str:
    """Return the address of the server of Milvus; a ConfigError if the settings name none."""
    if not settings.uri:
        raise ConfigError(
            "The backend milvus needs the address of a server: --uri http://127.0.0.1:19530, or "
            "SKILLSEARCH_URI."
        )
    return settings.uri


def planned(change: RootChange) -> IndexRequest:
    """Return the request of the index, local or in Milvus, after a change; nothing is written."""
    if not change.settings.is_remote:
        return change.applied_to(request_of(change.settings))
    held = None
    with suppress(IndexNotFoundError), open_in_milvus(change.settings) as index:
        held = index.settings.request()
    return change.applied_to(held)
