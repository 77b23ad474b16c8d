"""The generations of an index in Milvus: which one readers see, and those that come and go."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass

from skillsearch.errors import CacheError, ConfigError
from skillsearch.index.corpus import IndexSettings
from skillsearch.remote.claims import Claim
from skillsearch.remote.client import CollectionMissingError, MilvusServer
from skillsearch.remote.head import FieldTotals, Head
from skillsearch.remote.schema import HEAD, Generation, documents_schema, terms_schema
from skillsearch.remote.tally import FIELDS

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """A generation with its head.

    Attributes:
        generation: Names its collections.
        head: Its head; None where there is none that can be read.
    """

    generation: Generation
    head: Head | None


def find_current(server: MilvusServer, alias: str) -> Opened | None:
    """Find the generation that readers see.

    Args:
        server: The server.
        alias: The name of the index.

    Returns:
        The generation; None where there is no index of this name.

    Raises:
        ConfigError: When the name is taken by something else.
        RemoteError: When the server does not answer.
    """
    taken = (
        f"The collection {alias!r} at {server.shown} is not one of skillsearch; choose another "
        "name: --collection NAME."
    )
    if alias in server.collections():
        raise ConfigError(taken)
    target = server.target(alias)
    if target is None:
        return None
    generation = Generation.of(target, alias)
    if generation is None:
        raise ConfigError(taken)
    return Opened(generation, read_head(server, generation))


def read_head(server: MilvusServer, generation: Generation) -> Head | None:
    """Read the head of a generation; None where there is none that this version can read."""
    try:
        rows = server.get(generation.terms, [HEAD], ["version", "note"])
        return Head.from_row(rows[HEAD]) if rows else None
    except (CacheError, CollectionMissingError) as exc:
        logger.info("no usable head in %s: %s", generation.terms, exc)
        return None


def prepare_next(server: MilvusServer, alias: str, after: int, settings: IndexSettings) -> Opened:
    """Return a generation that readers do not see yet: one that was cut off, or a new one.

    Args:
        server: The server.
        alias: The name of the index.
        after: Number of the generation that readers see, 0 where there is none.
        settings: What it is to be made with; one that was begun with others is dropped.

    Returns:
        The generation, its head of version 0.

    Raises:
        LockTimeoutError: When another process is making one.
        RemoteError: When the server does not answer or refuses.
    """
    begun = [one for one in _all(server, alias) if one.number > after]
    for generation in begun:
        head = read_head(server, generation)
        if head is not None and head.version == 0 and are_alike(head.settings, settings):
            return Opened(generation, head)
        with suppress(CollectionMissingError), Claim(server, generation):
            drop(server, generation)
        drop(server, generation)
    generation = Generation(alias, after + 1)
    library, channels = server.library, settings.channels
    documents = documents_schema(library, channels, with_body=settings.with_body)
    server.create(generation.documents, *documents)
    server.create(generation.terms, *terms_schema(library))
    totals = {field: FieldTotals(0, 0.0) for field in FIELDS}
    head = Head(0, generation.number, settings, 0, 0, 0, 0.0, 0, totals)
    server.upsert(generation.terms, [head.to_row()])
    return Opened(generation, head)


def are_alike(one: IndexSettings, other: IndexSettings) -> bool:
    """Tell whether rows made with these settings can stand beside rows made with those."""
    return _row_settings(one) == _row_settings(other)


def drop_before(server: MilvusServer, alias: str, number: int) -> None:
    """Drop the generations before one.

    Args:
        server: The server.
        alias: The name of the index.
        number: Number of the oldest generation that stays.

    Raises:
        RemoteError: When the server does not answer.
    """
    for generation in _all(server, alias):
        if generation.number < number:
            drop(server, generation)


def drop(server: MilvusServer, generation: Generation) -> None:
    """Drop the collections of a generation, as far as they are there."""
    there = set(server.collections())
    for name in (generation.documents, generation.terms):
        if name in there:
            server.drop(name)


def _all(server: MilvusServer, alias: str) -> list[Generation]:
    """Return all generations of an index, those half made or half dropped too, by number."""
    found = set()
    for name in server.collections():
        generation = Generation.of(f"{name.removesuffix('_terms')}_terms", alias)
        if generation is not None:
            found.add(generation.number)
    return [Generation(alias, number) for number in sorted(found)]


def _row_settings(settings: IndexSettings) -> tuple[object, ...]:
    """Return what decides the rows of a collection."""
    channels = tuple(
        (one.fingerprint, one.dimensions, one.scripts and sorted(one.scripts))
        for one in settings.channels
    )
    return settings.with_body, settings.analysis, channels
