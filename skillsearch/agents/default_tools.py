"""The default tools: find a skill, load it, read its files, list them all.

`search_skills`, `tool_specs` and `call` use them over the index that the settings name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from pydantic import Field, ValidationError

from skillsearch.agents.arguments import checked
from skillsearch.agents.bounds import MAX_CHARS, cut_at, first
from skillsearch.agents.catalog import SkillCatalog, ToolRecord, as_list, record_of
from skillsearch.agents.failures import problems_of
from skillsearch.agents.prompt import MAX_SHOWN_FILES, fold_files
from skillsearch.agents.tool import (
    MaxCount,
    Need,
    QueryText,
    SearchArgs,
    SkillName,
    Style,
    Tool,
    ToolArguments,
    Toolset,
)
from skillsearch.agents.tool_texts import body_text, list_text, page_text, search_text
from skillsearch.errors import QueryError
from skillsearch.files.paths import printable
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.settings.config import load_settings
from skillsearch.skills.chunks import find_chunk, parse_chunks
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types.answers import Hit, Selection
from skillsearch.types.json_values import Json
from skillsearch.types.skills import LOADED_NAME_CHARS
from skillsearch.usage.log import UsageLog
from skillsearch.usage.recording import log_of

MAX_PAGE_BYTES = 1 << 18
_PAGE_BYTES = 1 << 16
_IN_SKILL_MD = "read_skill_file pages through {}"
_IN_FOLDERS = "read_skill_file reads those that the instructions name, and names a folder's"
_MAX_PATH_CHARS = 1024

RUNNER = Need(
    "running-is-off",
    "{tool} is off: executor is not configured, so no command of a skill is run here.",
    "Go on without. To turn it on, a host in Python gives the toolset a SkillRunner, or"
    " WorkspaceToolset an executor; a server is started by `skillsearch mcp --allow-run`.",
)
"""What the tools need that run a command of a skill."""


class SearchSkillsArgs(SearchArgs):
    """Find skills (proven instructions) for a task.

    Call it before any task that is not trivial. No hit: no skill fits, go on without. Next:
    load_skill with the best name.
    """

    query: QueryText = Field(description="The task, as a sentence.")
    threshold: float | None = Field(None, ge=0, le=1, description="Lowest score; usually left out.")


class LoadSkillArgs(ToolArguments):
    """Read a skill's instructions; lists its files and chunks.

    Only for a skill that fits. Follow it, and read only what it sends you to.
    """

    name: SkillName
    chunk: str | None = Field(
        None, max_length=LOADED_NAME_CHARS, description="Id of a chunk, to read that alone."
    )


class ReadSkillFileArgs(ToolArguments):
    """Read a file that the loaded instructions name, in pages. SKILL.md: call load_skill."""

    name: SkillName
    path: str = Field(max_length=_MAX_PATH_CHARS, description="As load_skill lists it.")
    offset: int = Field(0, ge=0, description="next_offset of the page before.")
    limit: int = Field(_PAGE_BYTES, ge=1, le=MAX_PAGE_BYTES, description="Bytes at most.")


class ListSkillsArgs(ToolArguments):
    """List all skills, in pages. Only to browse; for a task use search_skills."""

    cursor: str | None = Field(None, description="next_cursor of the page before.")
    n: MaxCount = 50


def library_tools(
    library: SkillLibrary | Callable[[], SkillLibrary], *, threshold: float | None = None
) -> tuple[Tool, ...]:
    """Return the four default tools over a library, or over what is asked for it at each call.

    The threshold is for calls that give none; None means the library's default.
    """
    return LibraryTools(library if callable(library) else lambda: library, threshold).tools()


@dataclass(frozen=True, slots=True)
class LibraryTools:
    """The default tools and their functions, over a library that may be opened late."""

    library: Callable[[], SkillLibrary]
    threshold: float | None

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools."""
        needs = (("run_skill_script", RUNNER),)
        return (
            Tool.of(
                "search_skills", SearchSkillsArgs, self.search, text=search_text, searches=True
            ),
            Tool.of("load_skill", LoadSkillArgs, self.load, text=body_text),
            Tool.of("read_skill_file", ReadSkillFileArgs, self.read, text=page_text, needs=needs),
            Tool.of("list_skills", ListSkillsArgs, self.list, text=list_text),
        )

    def search(self, args: SearchSkillsArgs, room: int = MAX_CHARS) -> ToolRecord:
        """Return `record_of` an answer: name, description, score and path of each skill."""
        catalog = SkillCatalog(self.library(), threshold=self.threshold)
        answer = catalog.search(args.query, args.n, args.threshold)

        def row(hit: Hit) -> ToolRecord:
            record: ToolRecord = {**catalog.overview(hit), "score": hit.score, "path": hit.path}
            return record | ({"chunk": hit.chunk} if hit.chunk else {})

        return record_of(answer, row, room)

    def load(self, args: LoadSkillArgs) -> ToolRecord:
        """Return the core of a body with the chunks to choose from, or one chunk alone."""
        library = self.library()
        catalog, loaded = SkillCatalog(library), library.load(args.name)
        catalog.note_load(loaded.document.doc_id)
        skill = loaded.skill
        chunks = []
        if args.chunk is None:
            parts = parse_chunks(skill.body)
            body = visible(parts.core)
            chunks = [{"id": chunk.id, "description": chunk.description} for chunk in parts.chunks]
        else:
            body = visible(find_chunk(skill, args.chunk).content)
        in_file = _IN_SKILL_MD.format(skill.path.name)
        chunks, more_chunks = first(chunks, "chunk", in_file)
        lines = fold_files(loaded.files)
        files, more_files = first(lines, "file", _IN_FOLDERS, most=MAX_SHOWN_FILES)
        if loaded.files_truncated:
            more_files = [f"(not listed: files beyond {len(loaded.files):,}; {_IN_FOLDERS})"]
        left_out = [cut_at(body, MAX_CHARS, in_file), *more_chunks, *more_files]
        record: ToolRecord = {
            **catalog.overview(skill),
            "body": body[:MAX_CHARS],
            "directory": printable(loaded.folder),
            "files": files,
            "files_truncated": bool(more_files),
            "stale": loaded.stale,
        }
        optional: ToolRecord = {
            "body_truncated": len(body) > MAX_CHARS,
            "chunks": chunks,
            "left_out": list(filter(None, left_out)),
            "requires": [one_line(name) for name in skill.metadata.requires],
        }
        return record | {key: value for key, value in optional.items() if value}

    def read(self, args: ReadSkillFileArgs) -> ToolRecord:
        """Return a page of a file."""
        page = self.library().read(args.name, args.path, offset=args.offset, limit=args.limit)
        return page.to_dict()

    def list(self, args: ListSkillsArgs) -> ToolRecord:
        """Return a page; the cursor is the id of the last skill before it.

        A QueryError if no skill has the id.
        """
        library = self.library()
        documents = library.list()
        cursors = [None, *(document.doc_id for document in documents)]
        if args.cursor not in cursors:
            raise QueryError(
                f"cursor is {str(args.cursor)[:LOADED_NAME_CHARS]!r}; use the next_cursor of the"
                " previous page, or start again without one."
            )
        start = cursors.index(args.cursor)
        page = documents[start : start + args.n]
        skills, _ = first(list(map(SkillCatalog(library).overview, page)), "skill", room=MAX_CHARS)
        end = start + len(skills)
        last = documents[end - 1].doc_id if end < len(documents) else None
        return {"skills": skills, "next_cursor": last, "total": len(documents)}


def search_skills(query: str, n: int = 5, threshold: float | None = None) -> list[ToolRecord]:
    """Find the skills for a task, best first, in the newest index that the settings name.

    What changed on disk is indexed first, as ``skillsearch query`` does; much, in the background.
    Those that only may fit come last, with the state ``perhaps``; skills that ask not to be offered
    to models are left out. The threshold defaults to the setting.
    `QueryError` if an argument cannot be used, `IndexNotFoundError` if there is no index.
    """
    try:
        args = checked(SearchSkillsArgs, {"query": query, "n": n, "threshold": threshold})
    except ValidationError as exc:
        problems = "; ".join(problems_of(exc))
        raise QueryError(f"search_skills cannot use its arguments: {problems}") from exc
    return as_list(configured().search(args, sys.maxsize))


def tool_specs(style: Style = "openai") -> list[ToolRecord]:
    """Return the definitions of the default tools; needs no index, but usable settings."""
    return _TOOLSET.specs(style)


def call(name: str, arguments: Mapping[str, Json] | str | None = None) -> ToolRecord:
    """Call a default tool as a model asks for it, like `Toolset.call`."""
    return _TOOLSET.call(name, arguments)


def configured() -> LibraryTools:
    """Return the tools over the index that the settings name, opened or open already."""
    settings = load_settings()
    folder, log = settings.index_dir.absolute(), log_of(settings, "agent")
    opened = partial(
        _open,
        folder,
        settings.selection,
        checks_disk=settings.refresh,
        threshold=settings.threshold,
        usage=str(log or ""),
    )
    return LibraryTools(opened, None)


@lru_cache(maxsize=4)
def _open(
    index_dir: Path, selection: Selection, *, checks_disk: bool, threshold: float | None, usage: str
) -> SkillLibrary:
    """Open an index once for all that ask for the same skills of it; `usage` describes a log."""
    log = UsageLog.read(usage, "agent")
    return SkillLibrary.open(
        index_dir, selection=selection, checks_disk=checks_disk, threshold=threshold, usage=log
    )


_TOOLSET = Toolset(lambda: configured().tools())
