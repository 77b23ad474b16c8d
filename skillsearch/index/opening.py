"""Open the index that is to be searched, and answer queries: the same steps for every face."""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, Unpack

from skillsearch.config import Settings, index_option
from skillsearch.errors import IndexNotFoundError, LockTimeoutError, RootError, SkillSearchError

if TYPE_CHECKING:
    from skillsearch.index.search.search import SearchOptions
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.types import SearchResult, Selection

# The stat of more files than this takes longer than the search itself.
MAX_CHECKED_SKILLS = 20_000
# More new skills than this take seconds to embed.
MAX_REFRESHED_FILES = 32
# Queries that are embedded together.
_TOGETHER = 64
# Least similarity of a name that a misspelt one is taken for; two letters of ten may differ.
_NEAR_CUTOFF = 0.75
_HYPHENATED, _MAX_DOUBTFUL = re.compile(r"\w+(?:[-_]\w+)+"), 3
"""Words that may be names of skills. All words of six letters would suggest a name for 24 %
of the requests that no skill fits, mostly a wrong one; these do for none (over 400 skills)."""


_T = TypeVar("_T")


@dataclass
class OpenIndexes(Generic[_T]):
    """Values made of the `limit` last used index folders, again after each new generation."""

    make: Callable[[Path], _T]
    limit: int = 1
    is_outdated: Callable[[_T], bool] = field(default=lambda _made: False, kw_only=True)
    _kept: OrderedDict[Path, tuple[tuple[int, ...], _T]] = field(
        default_factory=OrderedDict, init=False
    )

    def __iter__(self) -> Iterator[_T]:
        """Yield what is kept, the most recently used last."""
        return (made for _, made in self._kept.values())

    def get(self, folder: Path) -> _T:
        """Return what belongs to the newest generation of an index."""
        stamp = _stamp(folder)
        kept = self._kept.get(folder)
        if kept is None or kept[0] != stamp or self.is_outdated(kept[1]):
            kept = self._kept[folder] = stamp, self.make(folder)
        self._kept.move_to_end(folder)
        while len(self._kept) > self.limit:
            self._kept.popitem(last=False)
        return kept[1]

    def mark_current(self, folder: Path) -> None:
        """Take what was made of an index as up to date, because it has written the index itself."""
        if folder in self._kept:
            self._kept[folder] = _stamp(folder), self._kept[folder][1]


def _stamp(folder: Path) -> tuple[int, ...]:
    from skillsearch.index.storage.cache import IndexFolder

    return IndexFolder(folder).stamp()


def open_index(settings: Settings) -> SkillIndex:
    """Open the index that the settings name; a damaged one is rebuilt.

    An IndexNotFoundError if there is none, or it is damaged and its roots are gone.
    """
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.index.storage.cache import IndexFolder

    folder = IndexFolder(settings.index_dir.absolute())
    try:
        return SkillIndex.open(folder.path)
    except IndexNotFoundError:
        if folder.current() is None:
            raise folder.not_found(settings) from None
        raise
    except RootError as exc:
        raise IndexNotFoundError(
            f"The index in {folder.path} is damaged and cannot be built anew: {exc} "
            f"{_way_on(folder.path, index_option(folder.path, settings))}"
        ) from exc


def answer_queries(
    index: SkillIndex,
    queries: Sequence[str],
    tell: Callable[[str], None],
    *,
    refresh: bool,
    **options: Unpack[SearchOptions],
) -> Iterator[SearchResult]:
    """Bring an index up to date if asked to, then yield the answer to each query.

    `tell` gets each message for the user. Whoever leaves out hidden skills asks for a model, and
    is not told what the index lacks for the language of a query.
    """
    from skillsearch.index.languages import take_notice

    if refresh and (message := bring_up_to_date(index)):
        tell(message)
    for begin in range(0, len(queries), _TOGETHER):
        some = queries[begin : begin + _TOGETHER]
        for query in some if options.get("include_hidden", True) else ():
            if notice := take_notice(index, query):
                tell(notice)
        yield from index.search_many(some, **options)


def near_names(index: SkillIndex, query: str, selection: Selection = ()) -> tuple[str, ...]:
    """Return names that a query of one word, or words with a hyphen in it, may misspell.

    None in a large index.
    """
    from skillsearch.index.names import nearest_names

    words = query.split()
    doubtful = words if len(words) == 1 else _HYPHENATED.findall(query)[:_MAX_DOUBTFUL]
    if not doubtful or len(index) > MAX_CHECKED_SKILLS:
        return ()
    documents = list(index.documents(selection))
    found = (nearest_names(word, documents, cutoff=_NEAR_CUTOFF) for word in doubtful)
    return tuple(dict.fromkeys(chain.from_iterable(found)))


def bring_up_to_date(index: SkillIndex) -> str:
    """Refresh an index if little has changed, or if its model has: without it the index is useless.

    Whatever goes wrong, the open index can still be searched. Returns a message for the user: what
    changed, or why the index stays as it was; empty for nothing.
    """
    from skillsearch.index.storage.cache import IndexFolder

    has_changed_model = index.has_changed_model()
    if not has_changed_model and (len(index) > MAX_CHECKED_SKILLS or index.is_current()):
        return ""
    found = index.differences()
    option = index_option(index.folder)
    if found.missing_roots:
        missing = found.missing_roots[0]
        return (
            f"warning: the folder {missing} {_state_of(missing)}; searching the index as it was. "
            f"{_way_on(index.folder, option)}"
        )
    if len(found.added) + len(found.changed) > MAX_REFRESHED_FILES and not has_changed_model:
        return (
            f"warning: much has changed ({found}); searching the index as it was. "
            f"To fix: run `skillsearch index{option}`"
        )
    changes = [str(found)] if len(found) else []
    changes += ["its model has changed"] if has_changed_model else []
    try:
        with IndexFolder(index.folder).lock(timeout=0):
            pass
        index.refresh(keep_channels=True)
    except LockTimeoutError:
        return "warning: another process is writing the index; searching it as it was"
    except SkillSearchError as exc:
        return f"warning: the index was not refreshed, searching it as it was: {exc}"
    return f"index refreshed: {', '.join(changes)}" if changes else ""


def _state_of(root: str) -> str:
    try:
        os.scandir(root).close()
    except (FileNotFoundError, NotADirectoryError):
        return "is gone"
    except OSError as exc:
        return f"cannot be read ({exc.strerror})"
    return "cannot be read"


def _way_on(folder: Path, option: str) -> str:
    """Say how to go on with an index that has roots that cannot be indexed."""
    from skillsearch.index.request import IndexRequest, replace_command, usable_roots

    request = IndexRequest.load(folder)
    named = request.named if request else ()
    usable = usable_roots(named)
    if named and len(usable) == len(named):  # It was unpacked, and can be again.
        return f"To fix: run `skillsearch index{option}`"
    return f"Bring it back, or leave its skills out: {replace_command(usable, option)}"
