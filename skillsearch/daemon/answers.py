"""Answers questions from the indexes and embedders that the daemon keeps open."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from skillsearch import errors
from skillsearch._version import __version__
from skillsearch.agents.offer import Offer
from skillsearch.agents.prompt import render_offers
from skillsearch.daemon.client import TO_STOP
from skillsearch.daemon.questions import Overview, OverviewQuestion, SearchQuestion
from skillsearch.embedders.embedding import Embedder
from skillsearch.index.corpus import open_current
from skillsearch.index.dense.query_embedder import ModelSettings, QueryEmbedder
from skillsearch.index.freshness import Freshness
from skillsearch.index.next_steps import index_option
from skillsearch.index.opening import answer_query
from skillsearch.index.roots.scope import folders_of
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.readers.loading import Readers
from skillsearch.settings.config import load_settings
from skillsearch.settings.environ import PLACES, variables
from skillsearch.settings.table import Settings
from skillsearch.types.answers import Selection
from skillsearch.types.json_values import Json, JsonObject
from skillsearch.usage.log import UsageLog

MAX_INDEXES = 4
BUSY_SECONDS = 1.0
"""How long a question waits for those before it; a client searches faster by itself then."""

logger = logging.getLogger(__name__)

_Types = Mapping[str, tuple[type, ...]]


def _json_types(hint: Any) -> tuple[type, ...]:
    """Return the types that a value of a type has once it was sent as JSON."""
    if get_origin(hint) is UnionType:
        return tuple(json_type for part in get_args(hint) for json_type in _json_types(part))
    if hint in (bool, int, str, NoneType):
        return (hint,)
    if hint is float:
        return (float, int)
    if get_origin(hint) is dict:
        return (dict,)
    return (str,) if hint is Path or get_origin(hint) is Literal else (list,)


_OPTIONS, _SEARCH, _OVERVIEW = (
    {key: _json_types(hint) for key, hint in get_type_hints(asked).items()}
    for asked in (SearchOptions, SearchQuestion, OverviewQuestion)
)


@dataclass(frozen=True, slots=True)
class WarmIndex:
    """An open index, and the same skills by name, for what agents are offered."""

    index: SkillIndex
    library: SkillLibrary
    freshness: Freshness
    embedder: Embedder | None  # None if it cannot be loaded

    def look(self, selection: Selection, *, refresh: bool) -> list[str]:
        """Look at the disk before an answer, and return messages for the user."""
        return self.freshness.look(0 if refresh else None, folders_of(selection)).splitlines()


class WarmIndexes:
    """The most recently used indexes; not thread-safe.

    Nothing is built here: clients do by themselves what cannot wait, and tell their user. So an
    index that has to be rebuilt raises `DaemonError`.
    """

    def __init__(self) -> None:
        self._readers = Readers()
        self._indexing = ThreadPoolExecutor(1)
        self._warm: dict[Path, tuple[tuple[int, ...], WarmIndex]] = {}

    def __iter__(self) -> Iterator[WarmIndex]:
        """Yield the indexes, the most recently used last."""
        return (warm for _, warm in self._warm.values())

    def get(self, folder: Path, settings: Settings | None = None) -> WarmIndex:
        """Return the newest generation of an index; the settings explain why there is none."""
        stamp = IndexFolder(folder).stamp()
        before, warm = self._warm.get(folder, ((), None))
        if not warm or before != stamp:
            warm = self._open(folder, settings)
        self._warm.pop(folder, None)
        self._warm[folder] = stamp, warm
        if len(self._warm) > MAX_INDEXES:
            del self._warm[next(iter(self._warm))]
        return warm

    def _open(self, folder: Path, settings: Settings | None) -> WarmIndex:
        """Open an index; an embedder that another index has is not loaded again."""
        index_folder = IndexFolder(folder)
        opened = open_current(index_folder)
        if opened is None and not index_folder.exists():
            raise index_folder.not_found(settings)
        if opened is None:
            command = f"skillsearch index{index_option(folder, settings)}"
            raise errors.DaemonError(f"The index in {folder} has to be rebuilt: {command}")
        embedder = self._embedder_of(opened.settings.model)
        if embedder and embedder.fingerprint != opened.settings.model.fingerprint:
            raise errors.DaemonError(
                f"The index in {folder} was made with another embedder than the daemon has loaded; "
                f"{TO_STOP}"
            )
        index = SkillIndex(index_folder, opened, embedder, readers=self._readers)
        library, freshness = SkillLibrary.of_index(index), Freshness(index, self._indexing)
        return WarmIndex(index, library, freshness, embedder)

    def _embedder_of(self, model: ModelSettings) -> Embedder | None:
        """Return a loaded embedder; None if it cannot be loaded, which a search reports."""
        if not model.has_changed():
            for warm in self:
                if warm.embedder and warm.embedder.fingerprint == model.fingerprint:
                    return warm.embedder
        with suppress(errors.EmbedderError, errors.MissingDependencyError):
            return QueryEmbedder().embedder_of(model)
        return None


class Answers:
    """Answers questions about skills, one at a time, from any thread."""

    def __init__(self, *, busy_seconds: float = BUSY_SECONDS, version: str = __version__) -> None:
        """Take how long a question waits for earlier ones, and the version of those answered."""
        self.busy_seconds, self.version = busy_seconds, version
        self._answered, self._started = 0, time.monotonic()
        self._turn, self._warm = threading.Lock(), WarmIndexes()
        self._described: list[Json] = []

    def search(self, arguments: Mapping[str, Json]) -> JsonObject:
        """Answer a `SearchQuestion` with the ``result``, and ``notes`` for the user.

        If no skill fits, ``nearest`` are names that the query may misspell.
        """
        checked = cast(SearchQuestion, _check(arguments, _SEARCH))
        options = SearchOptions(**_check(cast(JsonObject, checked["options"]), _OPTIONS))
        notes: list[str] = []
        with self._my_turn():
            warm = self._warm.get(_absolute(checked["index_dir"]))
            notes += warm.look(options.selection, refresh=checked["refresh"])
            log = UsageLog.read(checked["usage"], "query")
            result, nearest = answer_query(warm.index, checked["query"], options, notes.append, log)
        return {"result": result.to_dict(), "nearest": list(nearest), "notes": notes}

    def overview(self, arguments: Mapping[str, Json]) -> Overview:
        """Answer an `OverviewQuestion` with skills that fit or may, as `render_offers` does.

        Those hidden from models, or shadowed, are left out. In the shadow the hook offers nothing.
        A DaemonError if the caller has another home folder, or its settings turn the daemon off.
        """
        options = cast(OverviewQuestion, _check(arguments, _OVERVIEW))
        theirs, ours = options["variables"], variables()
        if any(theirs.get(name) != ours.get(name) for name in PLACES):
            raise errors.DaemonError(f"The daemon runs with another home folder; {TO_STOP}")
        settings = load_settings(
            _absolute(options["folder"]),
            variables={str(name): str(value) for name, value in theirs.items()},
            index_dir=options["index_dir"],
        )
        if settings.daemon == "off":
            raise errors.DaemonError(
                "The settings turn the daemon off; it answers with daemon=auto."
            )
        notes: list[str] = []
        with self._my_turn():
            warm = self._warm.get(settings.index_dir, settings)
            notes += warm.look(settings.selection, refresh=settings.refresh)
            offer = Offer.of_request(
                warm.index,
                options["prompt"],
                replace(settings, n=options["n"]),
                notes.append,
                options["states"],
                vetted_only=not options["include_unvetted"],
            )
            offers = render_offers(warm.library, offer.skills)
        return {"offers": offers, "fits": offer.fits, "unvetted": offer.unvetted, "notes": notes}

    def status(self) -> JsonObject:
        """Describe this daemon; never waits for a search."""
        return {
            "pid": os.getpid(),
            "version": self.version,
            "seconds": round(time.monotonic() - self._started, 1),
            "answered": self._answered,
            "indexes": self._described,
        }

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        """Wait for earlier questions, but not for long; count what is answered."""
        if not self._turn.acquire(timeout=self.busy_seconds):
            raise errors.DaemonError(
                f"The daemon is busy for more than {self.busy_seconds:g} s; ask again."
            )
        try:
            yield
            self._answered += 1
            self._described = [
                {
                    "index_dir": str(warm.index.folder),
                    "generation": warm.index.generation,
                    "skills": len(warm.index),
                }
                for warm in self._warm
            ]
        finally:
            self._turn.release()


def _check(arguments: Mapping[str, Json], types: _Types) -> dict[str, Any]:
    """Return a copy of arguments; refuse those that are missing, unknown or of the wrong type."""
    for name in types.keys() ^ arguments.keys():
        raise errors.DaemonError(
            f"The argument {name[:80]!r} is missing or unknown; there are: {', '.join(types)}."
        )
    for name, allowed in types.items():
        if type(arguments[name]) not in allowed:
            names = " or ".join(json_type.__name__ for json_type in allowed)
            raise errors.DaemonError(f"The argument {name!r} has the wrong type; it takes {names}.")
    return dict(arguments)


def _absolute(path: str) -> Path:
    """Refuse paths relative to a working folder, which is not the client's."""
    if not path.startswith("/") or "\0" in path:
        raise errors.DaemonError(f"{path[:200]!r} is not an absolute path; name all of it.")
    return Path(path)
