"""What an agent calls: plain arguments in, plain JSON values out."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from skillsearch.config import MAX_N, MAX_QUERY_CHARS, load_settings
from skillsearch.errors import QueryError
from skillsearch.index.cache import IndexFolder
from skillsearch.index.skill_index import SkillIndex
from skillsearch.safe_text import one_line
from skillsearch.types import Hit, JsonValue

MAX_DESCRIPTION_CHARS = 1024
"""The specification's limit; a longer description would only fill the caller's context."""
_OPEN_INDEXES = 4


class SearchSkillsArgs(BaseModel):
    """The arguments of `search_skills`, with what a model should know of each."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARS,
        description="What is to be done, in words; a whole sentence finds more than a keyword.",
    )
    n: int = Field(default=5, ge=1, le=MAX_N, description="How many skills to return at most.")
    threshold: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Lowest accepted probability that a skill fits. Leave it out for the default.",
    )


def search_skills(
    query: str, n: int = 5, threshold: float | None = None
) -> list[dict[str, JsonValue]]:
    """Find the skills that fit a task, in the index that the settings name.

    Skills that ask not to be offered to models are left out. The index is searched as it was last
    built; a newer generation on disk is picked up by the next call.

    Args:
        query: What is to be done, in words.
        n: How many skills at most.
        threshold: Lowest accepted score; None for the setting, or else the default.

    Returns:
        Name, description (one line), score and path of each skill, best first; none where no
        skill fits.

    Raises:
        QueryError: When an argument cannot be used.
        IndexNotFoundError: When there is no index yet.
    """
    try:
        args = SearchSkillsArgs(query=query, n=n, threshold=threshold)
    except ValidationError as exc:
        raise QueryError(_explain(exc)) from exc
    settings = load_settings()
    cut = settings.threshold if args.threshold is None else args.threshold
    folder = settings.index_dir.absolute()
    index = _opened(folder, IndexFolder(folder).current())
    return [_record(hit) for hit in index.search(args.query, args.n, cut, include_hidden=False)]


@lru_cache(maxsize=_OPEN_INDEXES)
def _opened(folder: Path, generation: str | None) -> SkillIndex:
    """Open an index once for each generation of it."""
    return SkillIndex.open(folder)


def _record(hit: Hit) -> dict[str, JsonValue]:
    """Return what a model is shown of a hit."""
    return {
        "name": one_line(hit.name),
        "description": one_line(hit.description, MAX_DESCRIPTION_CHARS),
        "score": hit.score,
        "path": hit.path,
    }


def _explain(error: ValidationError) -> str:
    """Say in one line what is wrong with the arguments."""
    problems = [
        f"{problem['loc'][0]} = {str(problem['input'])[:80]!r}: {problem['msg']}"
        for problem in error.errors(include_url=False)
    ]
    return f"search_skills cannot use its arguments: {'; '.join(problems)}"
