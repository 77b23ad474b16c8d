"""The default tools: find a skill, load it, read its files, list them all.

`search_skills`, `tool_specs` and `call` use them over the index that the settings name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypedDict

from pydantic import Field, ValidationError

from skillsearch.agents.arguments import checked
from skillsearch.agents.failures import problems_of
from skillsearch.agents.prompt import MAX_SHOWN_FILES, fold_files
from skillsearch.agents.tool import Need, Query, SearchArgs, Style, Tool, ToolArguments, Toolset
from skillsearch.agents.tool_texts import body_text, list_text, page_text, search_text
from skillsearch.config import load_settings
from skillsearch.errors import QueryError, SkillNotFoundError
from skillsearch.files.paths import printable
from skillsearch.index.documents import Document
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.setting_values import MAX_N
from skillsearch.skills.chunks import find_chunk, parse_chunks
from skillsearch.skills.metadata import MAX_DESCRIPTION_CHARS
from skillsearch.skills.versions import satisfies
from skillsearch.text.provenance import body_warning, record_of_source
from skillsearch.text.safe_text import one_line, visible
from skillsearch.text.states import note_for_model
from skillsearch.types import Hit, JsonValue, Languages, SearchResult, Skill

MAX_BODY_CHARS = 100_000
"""Some 25,000 tokens, five times what the specification advises; the rest is read as a file."""
MAX_PAGE_BYTES = 1 << 18
_PAGE_BYTES = 1 << 16
_MAX_NAME_CHARS = 256
_MAX_PATH_CHARS = 1024

RUNNER = Need(
    "running-is-off",
    "{tool} is off: executor is not configured, so no command of a skill is run here.",
    "Go on without. To turn it on, a host in Python gives the toolset a SkillRunner, or"
    " WorkspaceToolset an executor; a server is started by `skillsearch mcp --allow-run`.",
)
"""What the tools need that run a command of a skill."""

_Record = dict[str, JsonValue]


class LibraryOptions(TypedDict, total=False):
    """Options of `SkillLibrary.from_roots`, for all that make a library of folders themselves."""

    index_dir: str | Path | None
    model: str | None
    languages: Languages | None
    trust: str | Sequence[str]
    reader: str | None
    strict: bool


class SearchSkillsArgs(SearchArgs):
    """Find skills (proven instructions) for a task.

    Call it before any task that is not trivial. No hit: no skill fits, go on without. Next:
    load_skill with the best name.
    """

    query: Query = Field(description="What is to be done, as a sentence.")
    threshold: float | None = Field(None, ge=0, le=1, description="Lowest score; better left out.")


class LoadSkillArgs(ToolArguments):
    """Read a skill's instructions; lists its files and chunks.

    Follow them, and read only what they send you to.
    """

    name: str = Field(max_length=_MAX_NAME_CHARS)
    chunk: str | None = Field(
        None, max_length=_MAX_NAME_CHARS, description="Id of one chunk, to read it."
    )


class ReadSkillFileArgs(ToolArguments):
    """Read a file of a skill, in pages: text or base64. Not SKILL.md: that is load_skill."""

    name: str = Field(max_length=_MAX_NAME_CHARS)
    path: str = Field(max_length=_MAX_PATH_CHARS, description="As load_skill lists it.")
    offset: int = Field(0, ge=0, description="A next_offset.")
    limit: int = Field(_PAGE_BYTES, ge=1, le=MAX_PAGE_BYTES)


class ListSkillsArgs(ToolArguments):
    """List all skills, in pages. Only to browse; for a task use search_skills."""

    cursor: str | None = Field(None, description="A next_cursor.")
    limit: int = Field(50, ge=1, le=MAX_N)


def find_skill(library: SkillLibrary, name: str, constraint: str = "") -> Document:
    """Find a skill by its name or its folder's, in any case, perhaps in one of some versions."""
    try:
        return library.find(f"{name}@{constraint}" if constraint else name)
    except SkillNotFoundError:
        found = library.in_folder(name)
        if found is None or not satisfies(found.version, constraint):
            raise
        return found


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
        return (
            Tool.of(
                "search_skills", SearchSkillsArgs, self.search, text=search_text, searches=True
            ),
            Tool.of("load_skill", LoadSkillArgs, self.load, text=body_text),
            Tool.of(
                "read_skill_file",
                ReadSkillFileArgs,
                self.read,
                text=page_text,
                needs=(("run_skill_script", RUNNER),),
            ),
            Tool.of("list_skills", ListSkillsArgs, self.list, text=list_text),
        )

    def search(self, args: SearchSkillsArgs) -> _Record:
        """Return `record_of` an answer: name, description, score and path of each skill."""
        library = self.library()
        cut = self.threshold if args.threshold is None else args.threshold

        def row(hit: Hit) -> _Record:
            record: _Record = {**overview(library, hit), "score": hit.score, "path": hit.path}
            return record | ({"chunk": hit.chunk} if hit.chunk else {})

        return record_of(library.search(args.query, args.n, cut), row)

    def load(self, args: LoadSkillArgs) -> _Record:
        """Return the core of a body with the chunks to choose from, or one chunk alone."""
        library = self.library()
        loaded = library.load(args.name)
        skill, chunks = loaded.skill, []
        if args.chunk is None:
            parts = parse_chunks(skill.body)
            body = visible(parts.core)
            chunks = [{"id": chunk.id, "description": chunk.description} for chunk in parts.chunks]
        else:
            body = visible(find_chunk(skill, args.chunk).content)
        files = fold_files(loaded.files)
        record: _Record = {
            **overview(library, skill),
            "body": body[:MAX_BODY_CHARS],
            "directory": printable(loaded.folder),
            "files": files[:MAX_SHOWN_FILES],
            "files_truncated": loaded.files_truncated or len(files) > MAX_SHOWN_FILES,
            "stale": loaded.stale,
        }
        optional: _Record = {
            "body_truncated": len(body) > MAX_BODY_CHARS,
            "chunks": chunks,
            "requires": [one_line(name) for name in skill.metadata.requires],
        }
        return record | {key: value for key, value in optional.items() if value}

    def read(self, args: ReadSkillFileArgs) -> _Record:
        """Return a page of a file."""
        page = self.library().read(args.name, args.path, offset=args.offset, limit=args.limit)
        return page.to_dict()

    def list(self, args: ListSkillsArgs) -> _Record:
        """Return a page; the cursor is the id of the last skill before it."""
        library = self.library()
        documents = library.list()
        cursors = [None, *(document.doc_id for document in documents)]
        if args.cursor not in cursors:
            raise QueryError(
                f"cursor is {str(args.cursor)[:_MAX_NAME_CHARS]!r}; use the next_cursor of the"
                " previous page, or start again without one."
            )
        start = cursors.index(args.cursor)
        page = documents[start : start + args.limit]
        is_last = start + args.limit >= len(documents)
        return {
            "skills": [overview(library, document) for document in page],
            "next_cursor": None if is_last else page[-1].doc_id,
            "total": len(documents),
        }


def record_of(result: SearchResult, row: Callable[[Hit], _Record]) -> _Record:
    """Return an answer for a model: the skills that fit, those that may, and a note if needed."""
    record: _Record = {
        "skills": [row(hit) for hit in result],
        "perhaps": [row(hit) for hit in result.perhaps],
    }
    note = note_for_model(fits=bool(result), perhaps=bool(result.perhaps))
    return record | ({"note": note} if note else {})


def as_list(record: _Record) -> list[_Record]:
    """Return what fits of such an answer, then what may, which has the ``state`` *perhaps*."""
    return [*record["skills"], *({**one, "state": "perhaps"} for one in record["perhaps"])]


def overview(
    library: SkillLibrary, found: Document | Hit | Skill, limit: int = MAX_DESCRIPTION_CHARS
) -> dict[str, str]:
    """Return name and description of a skill as a model sees them, each on one line.

    Trust and origin are there unless its root is vetted; ``also`` if it is a hit with near-copies.
    """
    description = one_line(found.description, limit)
    source = record_of_source(found if isinstance(found, Hit) else library.root_of(found))
    return {"name": library.handle(found), "description": description, **source}


def load_note(library: SkillLibrary, found: Document | Skill) -> str:
    """Return what stands before the body of a skill that nobody vouches for, else nothing."""
    root = library.root_of(found)
    note = body_warning(root.trust, root.origin)
    return f"{note}\n\n" if note else ""


def search_skills(query: str, n: int = 5, threshold: float | None = None) -> list[_Record]:
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
    return as_list(configured(_open).search(args))


def tool_specs(style: Style = "openai") -> list[_Record]:
    """Return the definitions of the default tools; needs no index, but usable settings."""
    return _TOOLSET.specs(style)


def call(name: str, arguments: Mapping[str, JsonValue] | str | None = None) -> _Record:
    """Call a default tool as a model asks for it, like `Toolset.call`."""
    return _TOOLSET.call(name, arguments)


def configured(opened: Callable[[Path], SkillLibrary]) -> LibraryTools:
    """Return the tools over the index that the settings name, opened or open already."""
    settings = load_settings()

    def library() -> SkillLibrary:
        found = opened(settings.index_dir.absolute())
        found.selection, found.looks = settings.selection, settings.refresh
        found.threshold = settings.threshold
        return found

    return LibraryTools(library, None)


_open = lru_cache(maxsize=4)(SkillLibrary.open)
_TOOLSET = Toolset(lambda: configured(_open).tools())
