"""The default tools: find a skill, load it, read its files, list them all.

`search_skills`, `tool_specs` and `call` use them over the index that the settings name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, ValidationError

from skillsearch.agents.tools.failures import problems_of
from skillsearch.agents.tools.tool import Style, Tool, ToolArguments, Toolset
from skillsearch.config import MAX_QUERY_CHARS, load_settings
from skillsearch.errors import QueryError
from skillsearch.files.paths import printable
from skillsearch.index.documents import Document
from skillsearch.index.storage.cache import IndexFolder
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
_OPEN_LIBRARIES = 4


class SearchSkillsArgs(ToolArguments):
    """Arguments of `search_skills`."""

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
    """Arguments of `load_skill`."""

    name: str = Field(max_length=_MAX_NAME_CHARS)
    chunk: str | None = Field(
        default=None, max_length=_MAX_NAME_CHARS, description="Id of one chunk, to read it."
    )


class ReadSkillFileArgs(ToolArguments):
    """Arguments of `read_skill_file`."""

    name: str = Field(max_length=_MAX_NAME_CHARS)
    path: str = Field(max_length=_MAX_PATH_CHARS, description="As load_skill lists it.")
    offset: int = Field(default=0, ge=0, description="A next_offset.")
    limit: int = Field(default=_PAGE_BYTES, ge=1, le=MAX_PAGE_BYTES)


class ListSkillsArgs(ToolArguments):
    """Arguments of `list_skills`."""

    cursor: str | None = Field(default=None, description="A next_cursor.")
    limit: int = Field(default=50, ge=1, le=MAX_N)


def library_tools(
    library: SkillLibrary | Callable[[], SkillLibrary], *, threshold: float | None = None
) -> tuple[Tool, ...]:
    """Return `search_skills`, `load_skill`, `read_skill_file` and `list_skills` over a library.

    A function that returns the library is called whenever a tool is. The threshold is for calls
    that give none; None means the library's default.
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


class _Over(NamedTuple):
    """The tools' functions, over a library that may be opened late."""

    library: Callable[[], SkillLibrary]
    threshold: float | None

    def search(self, args: SearchSkillsArgs) -> list[dict[str, JsonValue]]:
        library = self.library()
        cut = self.threshold if args.threshold is None else args.threshold
        return [_hit_row(library, hit) for hit in library.search(args.query, args.n, cut)]

    def load(self, args: LoadSkillArgs) -> dict[str, JsonValue]:
        library = self.library()
        loaded = library.load(args.name)
        skill = loaded.skill
        body, chunks = _parts(skill, args.chunk)
        record: dict[str, JsonValue] = {
            **_overview(library, skill),
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
        page = self.library().read(args.name, args.path, offset=args.offset, limit=args.limit)
        return page.to_dict()

    def list(self, args: ListSkillsArgs) -> dict[str, JsonValue]:
        """Return a page; the cursor is the id of the last skill before it."""
        library = self.library()
        documents = library.list()
        start = 0
        if args.cursor is not None:
            ids = [document.doc_id for document in documents]
            if args.cursor not in ids:
                raise QueryError(
                    f"cursor is {args.cursor[:_MAX_NAME_CHARS]!r}; use the next_cursor of the"
                    " previous page, or start again without one."
                )
            start = ids.index(args.cursor) + 1
        page = documents[start : start + args.limit]
        is_last = start + args.limit >= len(documents)
        return {
            "skills": [_overview(library, document) for document in page],
            "next_cursor": None if is_last else page[-1].doc_id,
            "total": len(documents),
        }


def _overview(library: SkillLibrary, found: Document | Hit | Skill) -> dict[str, JsonValue]:
    description = one_line(found.description, MAX_DESCRIPTION_CHARS)
    return {"name": library.handle(found), "description": description}


def _hit_row(library: SkillLibrary, hit: Hit) -> dict[str, JsonValue]:
    """Return a hit as a model sees it, with the id of its best chunk if there is one."""
    row = {**_overview(library, hit), "score": hit.score, "path": hit.path}
    return {**row, "chunk": hit.chunk} if hit.chunk else row


def _parts(skill: Skill, chunk_id: str | None) -> tuple[str, list[dict[str, JsonValue]]]:
    """Return the core of a body with the chunks to choose from, or one chunk alone."""
    if chunk_id is not None:
        return visible(find_chunk(skill, chunk_id).content), []
    body = parse_chunks(skill.body)
    chunks = [{"id": chunk.id, "description": chunk.description} for chunk in body.chunks]
    return visible(body.core), chunks


def search_skills(
    query: str, n: int = 5, threshold: float | None = None
) -> list[dict[str, JsonValue]]:
    """Find the skills that fit a task, in the index that the settings name.

    Skills that ask not to be offered to models are left out. The index is searched as it was last
    built; a newer generation on disk is picked up by the next call.

    The threshold defaults to the setting. The result has name, description (one line), score and
    path of each skill, best first.

    Raises `QueryError` if an argument cannot be used, `IndexNotFoundError` if there is no index.
    """
    try:
        args = SearchSkillsArgs(query=query, n=n, threshold=threshold)
    except ValidationError as exc:
        problems = "; ".join(problems_of(exc))
        raise QueryError(f"search_skills cannot use its arguments: {problems}") from exc
    settings = load_settings()
    return _Over(lambda: _library(settings.index_dir), settings.threshold).search(args)


def tool_specs(style: Style = "openai") -> list[dict[str, JsonValue]]:
    """Return the definitions of the default tools, as they go into a request to a model.

    This needs no index, but raises `ConfigError` if a setting cannot be used.
    """
    return _TOOLSET.specs(style)


def call(name: str, arguments: Mapping[str, JsonValue] | str | None = None) -> dict[str, JsonValue]:
    """Call a default tool as a model asks for it, like `Toolset.call`."""
    return _TOOLSET.call(name, arguments)


def _tools() -> tuple[Tool, ...]:
    settings = load_settings()
    return library_tools(lambda: _library(settings.index_dir), threshold=settings.threshold)


def _library(index_dir: Path) -> SkillLibrary:
    """Return the skills of an index, opened once for each generation."""
    folder = index_dir.absolute()
    return _opened(folder, IndexFolder(folder).stamp())


@lru_cache(maxsize=_OPEN_LIBRARIES)
def _opened(folder: Path, stamp: tuple[int, ...]) -> SkillLibrary:
    return SkillLibrary.open(folder)


_TOOLSET = Toolset(_tools)
