"""What the commands do with an index in Milvus."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skillsearch.errors import ConfigError, IndexNotFoundError

if TYPE_CHECKING:
    from skillsearch.config import Settings
    from skillsearch.index.request import IndexRequest
    from skillsearch.remote.remote_index import RemoteIndex
    from skillsearch.types import IndexReport, JsonValue, Progress


def index_in_milvus(
    request: IndexRequest, settings: Settings, *, device: str | None, progress: Progress | None
) -> IndexReport:
    """Bring an index in Milvus up to date.

    Args:
        request: What to index, and how.
        settings: Name the server and the index.
        device: Where a model of sentence-transformers runs; None for what the settings say.
        progress: Told how far it is.

    Returns:
        What was done.

    Raises:
        SkillSearchError: As `RemoteIndex.from_roots` does.
    """
    from skillsearch.remote.remote_index import RemoteIndex

    index, report = RemoteIndex.build(
        request,
        _uri(settings),
        collection=settings.collection,
        device=device,
        progress=progress,
    )
    index.close()
    return report


def request_in_milvus(settings: Settings) -> IndexRequest | None:
    """Return what an index in Milvus was asked to hold; None if there is none.

    Args:
        settings: Name the server and the index.

    Returns:
        The request, its archives and URLs as they were named if they were unpacked on this machine.

    Raises:
        SkillSearchError: As `RemoteIndex.open` does.
    """
    from skillsearch.roots.sources import source_behind

    try:
        with open_in_milvus(settings) as index:
            request = index.settings.request()
    except IndexNotFoundError:
        return None
    sources = tuple(source_behind(root) for root in request.roots)
    named = tuple(source or str(root) for source, root in zip(sources, request.roots, strict=True))
    return replace(request, sources=named) if any(sources) else request


def open_in_milvus(settings: Settings) -> RemoteIndex:
    """Open the index in Milvus that the settings name.

    Args:
        settings: Name the server and the index.

    Returns:
        The opened index.

    Raises:
        SkillSearchError: As `RemoteIndex.open` does.
    """
    from skillsearch.remote.remote_index import RemoteIndex

    return RemoteIndex.open(_uri(settings), collection=settings.collection)


def status_in_milvus(settings: Settings) -> dict[str, JsonValue]:
    """Say what an index in Milvus holds.

    Args:
        settings: Name the server and the index.

    Returns:
        The facts by name.

    Raises:
        SkillSearchError: As `RemoteIndex.open` does.
    """
    with open_in_milvus(settings) as index:
        made_with = index.settings
        return {
            "indexed": len(index),
            "skipped": index.skipped,
            "collection": settings.collection,
            "generation": index.generation,
            "models": [channel.model for channel in made_with.channels],
            "fields": "full" if made_with.with_body else "metadata",
            "languages": made_with.languages,
            "roots": [str(root.path) for root in made_with.roots],
        }


def _uri(settings: Settings) -> str:
    """Return the address of the server, or say that one is missing."""
    if not settings.uri:
        raise ConfigError(
            "The backend milvus needs the address of a server: --uri http://127.0.0.1:19530, or "
            "SKILLSEARCH_URI."
        )
    return settings.uri
