"""Open the index that is to be searched, and answer: alike by all interfaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from skillsearch.errors import IndexNotFoundError, RootError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.index.freshness import MAX_AGE, MAX_CHECKED_SKILLS, Freshness
from skillsearch.index.roots.root_change import RootChange
from skillsearch.index.roots.scope import folders_of
from skillsearch.settings.config import load_settings, user_index_dir
from skillsearch.settings.table import Settings
from skillsearch.usage.recording import learn, record

if TYPE_CHECKING:
    from skillsearch.index.search.options import SearchOptions
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.types.answers import SearchResult, Selection
    from skillsearch.usage.log import UsageLog

Tell = Callable[[str], object]
"""Shows a message to the user."""
# Queries that are embedded together.
_TOGETHER = 64
_HYPHENATED = lazy_pattern(r"\w+(?:[-_]\w+)+")
"""Words that may be names of skills. All words of six letters would suggest a name for 24 %
of the requests that no skill fits, mostly a wrong one; these do for none (over 400 skills)."""
_MAX_DOUBTFUL = 3
"""Words of one request that similar names are looked for."""


def open_index(settings: Settings) -> SkillIndex:
    """Open the index that the settings name; a damaged one is rebuilt.

    An IndexNotFoundError if there is none, or it is damaged and its roots are gone.
    """
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.index.storage.cache import IndexFolder

    folder = IndexFolder(settings.index_dir.absolute())
    try:
        return SkillIndex.open(folder.path)
    except IndexNotFoundError as exc:
        if folder.current() is None:
            raise folder.not_found(settings) from exc
        raise
    except RootError as exc:
        problem = f"The index in {folder.path} is damaged and cannot be built anew: {exc}"
        raise IndexNotFoundError(problem) from exc


def open_user_index() -> SkillIndex:
    """Open the user's index as the disk is now, made of what hosts look for if there is none."""
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.index.storage.cache import IndexFolder

    folder = user_index_dir().absolute()
    if IndexFolder(folder).exists():
        index = SkillIndex.open(folder)
        index.refresh(keep_missing=True)
        return index
    change = RootChange(settings=load_settings(index_dir=folder), follows="hosts")
    return SkillIndex.build(change, folder)[0]


def open_fresh(settings: Settings, tell: Tell) -> SkillIndex:
    """Open the index that the settings name, and look at the disk unless they say not to.

    `tell` gets each message that `Freshness.look` returns.
    """
    index = open_index(settings)
    freshness, folders = Freshness(index, settings=settings), folders_of(settings.selection)
    for message in freshness.look(MAX_AGE, folders).splitlines() if settings.refresh else ():
        tell(message)
    return index


def answer_queries(
    index: SkillIndex, queries: Sequence[str], tell: Tell, options: SearchOptions
) -> Iterator[SearchResult]:
    """Yield the answer to each query; `tell` gets each message for the user."""
    if not len(index) and options.include_hidden:
        tell("note: the index holds no skills; add some: skillsearch index FOLDER")
    for begin in range(0, len(queries), _TOGETHER):
        yield from index.answer(queries[begin : begin + _TOGETHER], options)


def answer_query(
    index: SkillIndex, query: str, options: SearchOptions, tell: Tell, log: UsageLog | None
) -> tuple[SearchResult, tuple[str, ...]]:
    """Answer one query, learning from the usage log and recording it there.

    Without a hit, `near_names` come with the answer.
    """
    learn(index, log)
    (result,) = answer_queries(index, [query], tell, options)
    record(log, index, result, options.selection)
    return result, () if result else near_names(index, query, options.selection)


def near_names(index: SkillIndex, query: str, selection: Selection = ()) -> tuple[str, ...]:
    """Return names that a query of one word, or words with a hyphen in it, may misspell.

    None in a large index.
    """
    from skillsearch.index.documents.names import nearest_names

    words = query.split()
    doubtful = words if len(words) == 1 else _HYPHENATED.findall(query)[:_MAX_DOUBTFUL]
    if not doubtful or len(index) > MAX_CHECKED_SKILLS:
        return ()
    names = [document.name for document in index.documents(selection)]
    near = (nearest_names(word, names, by_words=False) for word in doubtful)
    return tuple(dict.fromkeys(chain.from_iterable(near)))
