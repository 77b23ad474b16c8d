"""What the daemon answers: a search as ``query`` does it, an overview as the hook offers it."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from skillsearch._version import __version__
from skillsearch.agents.prompt import PromptSkill, render_overview
from skillsearch.config import load_settings
from skillsearch.daemon.warm import WarmIndexes
from skillsearch.environ import PLACES, variables
from skillsearch.errors import DaemonError, IndexNotFoundError, SkillSearchError
from skillsearch.index.opening import bring_up_to_date
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.reports.languages import query_notice
from skillsearch.types import JsonValue

BUSY_SECONDS = 1.0
"""How long a question waits for those before it; a client of its own is faster then."""
MAX_LOOKED_AT_FIRST = 1000
"""Skills whose stat is looked at before a prompt gets its overview: 7 ms. Where there are more, the
look comes after the answer, and what it finds is there for the next prompt."""
LOOK_SECONDS = 5.0
"""How long such a look holds."""

logger = logging.getLogger(__name__)

_Kinds = Mapping[str, tuple[type, ...]]
_NONE = type(None)
_SEARCH: _Kinds = {
    "index_dir": (str,),
    "query": (str,),
    "n": (int,),
    "threshold": (float, int, _NONE),
    "system": (str,),
    "explain": (bool,),
    "refresh": (bool,),
}
_OVERVIEW: _Kinds = {
    "prompt": (str,),
    "n": (int,),
    "folder": (str,),
    "index_dir": (str, _NONE),
    "variables": (dict,),
}


class Answers:
    """Answers questions about skills, one at a time, whatever the thread.

    Attributes:
        answered: How many were answered.
    """

    def __init__(self) -> None:
        self.answered = 0
        self._warm = WarmIndexes()
        self._turn = threading.Lock()
        self._started = time.monotonic()
        self._described: list[JsonValue] = []
        self._to_look_at: set[Path] = set()
        self._looked: dict[Path, float] = {}

    def search(self, arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Search an index.

        Args:
            arguments: ``index_dir``, absolute; whether to ``refresh`` it; and ``query``, ``n``,
                ``threshold``, ``system`` and ``explain`` as in `SkillIndex.search`.

        Returns:
            The search's ``result``, and ``notes`` for the user.

        Raises:
            SkillSearchError: When it cannot be searched, or an argument not used.
        """
        _check(arguments, _SEARCH)
        with self._my_turn():
            index = self._warm.get(_absolute(arguments["index_dir"])).index
            notes = [bring_up_to_date(index) if arguments["refresh"] else ""]
            notes.append(query_notice(index, arguments["query"]))
            asked = {name: arguments[name] for name in ("n", "threshold", "system", "explain")}
            result = index.search(arguments["query"], **asked)
            self.answered += 1
        return {"result": result.to_dict(), "notes": list(filter(None, notes))}

    def overview(self, arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Render the skills that fit a prompt, for its reader; hidden and shadowed ones left out.

        Args:
            arguments: ``prompt``; ``n``; the ``folder`` and ``variables`` that settings are taken
                from; and ``index_dir``, None for that of the settings.

        Returns:
            The overview as ``text``, empty where no skill fits, and ``notes`` for the user.

        Raises:
            SkillSearchError: When it cannot be made, or an argument not used.
        """
        _check(arguments, _OVERVIEW)
        theirs, ours = arguments["variables"], variables()
        if any(theirs.get(name) != ours.get(name) for name in PLACES):
            raise DaemonError("The daemon runs with another home folder.")
        settings = load_settings(
            _absolute(arguments["folder"]),
            variables={str(name): str(value) for name, value in theirs.items()},
            index_dir=arguments["index_dir"],
        )
        if settings.daemon == "off":
            raise DaemonError("The settings turn the daemon off.")
        with self._my_turn():
            try:
                warm = self._warm.get(settings.index_dir)
            except IndexNotFoundError:
                raise IndexFolder(settings.index_dir).not_found(settings) from None
            is_first = len(warm.index) <= MAX_LOOKED_AT_FIRST
            note = bring_up_to_date(warm.index) if settings.refresh and is_first else ""
            if settings.refresh and not is_first:
                self._to_look_at.add(settings.index_dir)
            found = warm.library.search(arguments["prompt"], arguments["n"], settings.threshold)
            handles = [warm.library.handle(hit) for hit in found]
            self.answered += 1
        skills = [
            PromptSkill(name, hit.description, hit.path)
            for name, hit in zip(handles, found, strict=True)
        ]
        return {"text": render_overview(skills), "notes": [note] if note else []}

    def catch_up(self) -> None:
        """Look at what was too large to be looked at before the answers that were given."""
        for folder in tuple(self._to_look_at):
            self._to_look_at.discard(folder)
            if time.monotonic() - self._looked.get(folder, -LOOK_SECONDS) < LOOK_SECONDS:
                continue
            try:
                with self._my_turn():
                    note = bring_up_to_date(self._warm.get(folder).index)
                logger.info("%s: %s", folder, note or "as it was")
            except SkillSearchError as exc:
                logger.info("%s was not looked at: %s", folder, exc)
            self._looked[folder] = time.monotonic()

    def status(self) -> dict[str, JsonValue]:
        """Describe this daemon; never waits for a search."""
        return {
            "pid": os.getpid(),
            "version": __version__,
            "seconds": round(time.monotonic() - self._started, 1),
            "answered": self.answered,
            "indexes": self._described,
        }

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        """Wait for the questions before, but not for long."""
        if not self._turn.acquire(timeout=BUSY_SECONDS):
            raise DaemonError("The daemon is busy.")
        try:
            yield
            self._described = self._warm.describe()
        finally:
            self._turn.release()


def _check(arguments: Mapping[str, JsonValue], kinds: _Kinds) -> None:
    """Refuse arguments that are missing, unknown or of another type."""
    for name in kinds.keys() ^ arguments.keys():
        raise DaemonError(f"{name[:80]!r} is missing, or no argument of this method.")
    for name, allowed in kinds.items():
        if type(arguments[name]) not in allowed:
            raise DaemonError(f"{name!r} is of another type.")


def _absolute(path: str) -> Path:
    """Read the path of a folder; what the client calls its working folder is not ours."""
    if not path.startswith("/") or "\0" in path:
        raise DaemonError(f"{path[:200]!r} is no absolute path.")
    return Path(path)
