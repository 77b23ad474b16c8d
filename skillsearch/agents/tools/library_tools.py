"""The tools that agents get by default: find a skill, load it, read its files, list them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import Field

from skillsearch.agents.tools.tool import Tool, ToolArguments
from skillsearch.config import MAX_QUERY_CHARS
from skillsearch.errors import QueryError
from skillsearch.files.paths import printable
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.setting_values import MAX_N
from skillsearch.skills.chunks import find_chunk, parse_chunks
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types import Hit, JsonValue, Skill

MAX_DESCRIPTION_CHARS = 1024
"""The specification's limit; a longer description would only fill the caller's context."""
MAX_BODY_CHARS = 100_000
"""Some 25,000 tokens, five times what the specification advises; the rest is read as a file."""
MAX_FILES = 200
MAX_PAGE_BYTES = 1 << 18
_PAGE_BYTES = 1 << 16
_MAX_NAME_CHARS = 256
_MAX_PATH_CHARS = 1024


class SearchSkillsArgs(ToolArguments):
    """The arguments of `search_skills`, with what a model should know of each."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARS,
        description="What is to be done, as a sentence.",
    )
    n: int = Field(default=5, ge=1, le=MAX_N, description="How many skills at most.")
    threshold: float | None = Field(
        default=None, ge=0, le=1, description="Lowest score; better left out."
    )


class LoadSkillArgs(ToolArguments):
    """The arguments of `load_skill`."""

    name: str = Field(max_length=_MAX_NAME_CHARS)
    chunk: str | None = Field(
        default=None, max_length=_MAX_NAME_CHARS, description="Id of one chunk, to read it."
    )


class ReadSkillFileArgs(ToolArguments):
    """The arguments of `read_skill_file`."""

    name: str = Field(max_length=_MAX_NAME_CHARS)
    path: str = Field(max_length=_MAX_PATH_CHARS, description="As load_skill lists it.")
    offset: int = Field(default=0, ge=0, description="A next_offset.")
    limit: int = Field(default=_PAGE_BYTES, ge=1, le=MAX_PAGE_BYTES)


class ListSkillsArgs(ToolArguments):
    """The arguments of `list_skills`."""

    cursor: str | None = Field(default=None, description="A next_cursor.")
    limit: int = Field(default=50, ge=1, le=MAX_N)


def library_tools(
    library: SkillLibrary | Callable[[], SkillLibrary], *, threshold: float | None = None
) -> tuple[Tool, ...]:
    """Return the default tools over a library.

    Args:
        library: The library; or a function that returns it, called when a tool is.
        threshold: Lowest accepted score where a call names none; None for the library's own.

    Returns:
        `search_skills`, `load_skill`, `read_skill_file` and `list_skills`.
    """
    over = _Over(library if callable(library) else lambda: library, threshold)
    return (
        Tool(
            "search_skills",
            "Find skills (proven instructions) for a task. Call it before any task that is not"
            " trivial. No hit: no skill fits, go on without. Next: load_skill with the best name.",
            SearchSkillsArgs,
            over.search,
        ),
        Tool(
            "load_skill",
            "Read a skill's instructions; lists its files and chunks. Follow them, and read only"
            " what they send you to.",
            LoadSkillArgs,
            over.load,
        ),
        Tool(
            "read_skill_file",
            "Read a file of a skill, in pages: text or base64. Not SKILL.md: that is load_skill.",
            ReadSkillFileArgs,
            over.read,
        ),
        Tool(
            "list_skills",
            "List all skills, in pages. Only to browse; for a task use search_skills.",
            ListSkillsArgs,
            over.list,
        ),
    )


@dataclass(frozen=True, slots=True)
class _Over:
    """What the tools do, over a library that may be opened late."""

    library: Callable[[], SkillLibrary]
    threshold: float | None

    def search(self, args: SearchSkillsArgs) -> list[dict[str, JsonValue]]:
        """Answer `search_skills`."""
        cut = self.threshold if args.threshold is None else args.threshold
        return find_skills(self.library(), args.query, args.n, cut)

    def load(self, args: LoadSkillArgs) -> dict[str, JsonValue]:
        """Answer `load_skill`."""
        library = self.library()
        loaded = library.load(args.name)
        skill = loaded.skill
        body, chunks = _parts(skill, args.chunk)
        record: dict[str, JsonValue] = {
            "name": library.handle(skill),
            "description": one_line(skill.description, MAX_DESCRIPTION_CHARS),
            "body": body[:MAX_BODY_CHARS],
            "directory": printable(loaded.folder),
            "files": list(loaded.files[:MAX_FILES]),
            "files_truncated": loaded.files_truncated or len(loaded.files) > MAX_FILES,
            "stale": loaded.stale,
        }
        optional: dict[str, JsonValue] = {
            "body_truncated": len(body) > MAX_BODY_CHARS,
            "chunks": chunks,
            "requires": [one_line(name) for name in skill.metadata.requires],
        }
        return {**record, **{key: value for key, value in optional.items() if value}}

    def read(self, args: ReadSkillFileArgs) -> dict[str, JsonValue]:
        """Answer `read_skill_file`."""
        page = self.library().read(args.name, args.path, offset=args.offset, limit=args.limit)
        return page.to_dict()

    def list(self, args: ListSkillsArgs) -> dict[str, JsonValue]:
        """Answer `list_skills`: a page after the skill whose id is the cursor."""
        library = self.library()
        documents = library.list()
        start = 0
        if args.cursor is not None:
            ids = [document.doc_id for document in documents]
            if args.cursor not in ids:
                raise QueryError(
                    f"cursor is {args.cursor[:_MAX_NAME_CHARS]!r}; use the next_cursor of the page"
                    " before, or start again without one."
                )
            start = ids.index(args.cursor) + 1
        page = documents[start : start + args.limit]
        is_last = start + args.limit >= len(documents)
        return {
            "skills": [
                {
                    "name": library.handle(document),
                    "description": one_line(document.description, MAX_DESCRIPTION_CHARS),
                }
                for document in page
            ],
            "next_cursor": None if is_last else page[-1].doc_id,
            "total": len(documents),
        }


def _parts(skill: Skill, chunk_id: str | None) -> tuple[str, list[dict[str, JsonValue]]]:
    """Return the core of a body with the chunks to choose from, or one chunk alone."""
    if chunk_id is not None:
        return visible(find_chunk(skill, chunk_id).content), []
    body = parse_chunks(skill.body)
    chunks = [{"id": chunk.id, "description": chunk.description} for chunk in body.chunks]
    return visible(body.core), chunks


def find_skills(
    library: SkillLibrary, query: str, n: int, threshold: float | None
) -> list[dict[str, JsonValue]]:
    """Search a library for skills that models may use.

    Args:
        library: The library.
        query: What is to be done, in words.
        n: How many skills at most.
        threshold: Lowest accepted score; None for the library's own.

    Returns:
        Name, description (one line), score and path of each skill, best first; with the id of the
        chunk that fits best where there is one.

    Raises:
        QueryError: When the query is empty.
    """
    return [_row(library, hit) for hit in library.search(query, n, threshold)]


def _row(library: SkillLibrary, hit: Hit) -> dict[str, JsonValue]:
    """Return what a model is shown of a hit."""
    row: dict[str, JsonValue] = {
        "name": library.handle(hit),
        "description": one_line(hit.description, MAX_DESCRIPTION_CHARS),
        "score": hit.score,
        "path": hit.path,
    }
    return {**row, "chunk": hit.chunk} if hit.chunk else row
