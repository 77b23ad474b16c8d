"""Skills of a project: metadata from the start, content on demand."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, Unpack

from pydantic import BaseModel, ConfigDict, Field

from skillsearch.agents.bounds import MAX_LIST_CHARS, page
from skillsearch.agents.catalog import SkillCatalog
from skillsearch.agents.failures import MAX_MESSAGE_CHARS, failure_of, problem_in
from skillsearch.agents.prompt import CONCISE_CHARS
from skillsearch.agents.tool import (
    MaxCount,
    Offset,
    QueryText,
    Tool,
    ToolArguments,
    ToolResult,
    Toolset,
)
from skillsearch.errors import IndexingError, SelectionError, SkillError, SkillSearchError
from skillsearch.index.documents.document import Document
from skillsearch.index.indexing.changes import Changes
from skillsearch.library.skill_library import LibraryConfig, SkillLibrary
from skillsearch.skills.metadata import MAX_DESCRIPTION_CHARS
from skillsearch.skills.parser import read_skill_text
from skillsearch.text.provenance import family_of
from skillsearch.text.safe_text import listed, one_line, visible
from skillsearch.text.states import note_for_model
from skillsearch.types.answers import Hit, SearchResult, State
from skillsearch.types.json_values import Json
from skillsearch.types.skills import LOADED_NAME_CHARS, Diagnostic

SKILLS_ROOT = Path(".skills")
MAX_PRELOADED = 1_000
KEPT = 100  # skills whose content a loader keeps in memory
SUMMARY_CHARS = 8_000  # the length at which hosts cut a list of skills
MIN_SUMMARY_CHARS = 128
MAX_SHOWN_NEEDS = 20
_MAX_NEED_CHARS = 1_000

_USE_A_NAME = "Call get_skill with a name that search_skills or list_skills gives."
_PROMPT = Path(__file__).with_name("context_prompt.txt").read_text("utf-8").rstrip("\n")

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class SkillMetadata(BaseModel):
    """The name, purpose and file of a skill; ``get_skill_content`` takes the name."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(..., description="Name of the skill")
    description: str = Field(..., description="What the skill does and when to use it")
    path: Path = Field(..., description="Path of the skill's file")

    @classmethod
    def of(cls, library: SkillLibrary, skill: Document | Hit) -> SkillMetadata:
        """Return the entry of a skill in a list, under a name that loads this skill alone."""
        handle = library.handle(skill)
        name = skill.name if handle == one_line(skill.name) else handle
        return _metadata_of(skill).model_copy(update={"name": name})


def _metadata_of(skill: Document | Hit) -> SkillMetadata:
    return SkillMetadata(name=skill.name, description=skill.description, path=Path(skill.path))


class SkillMatch(SkillMetadata):
    """A skill that a search found and has more to say of."""

    also: str = Field("", description="Its near-copies, by names that load them")
    state: State = Field("fits", description="Whether it fits, or may: perhaps")


class Skill(BaseModel):
    """A skill with the whole Markdown of its file."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(..., description="Name of the skill")
    description: str = Field(..., description="What the skill does and when to use it")
    content: str = Field(..., description="The whole Markdown of the skill's file")
    path: Path = Field(..., description="Path of the skill's file")
    loaded_at: datetime = Field(default_factory=datetime.now, description="When it was read")


def _warning(new: Diagnostic) -> str | None:
    return f"Skipped {new.path}: {new.message}" if new.severity == "error" else None


class SkillsLoader:
    """The skills of a project's folder, and behind it the skills of a global one.

    Every load first looks at the disk, by stat. Unreadable files are skipped, and logged once.
    """

    def __init__(
        self,
        skills_root: str | Path = SKILLS_ROOT,
        *,
        global_root: str | Path | None = None,
        library: SkillLibrary | None = None,
        kept: int = KEPT,
        **options: Unpack[LibraryConfig],
    ) -> None:
        """Read the metadata of all skills; a missing folder has none yet.

        The project's skills take precedence over those in `global_root`, such as ``~/.skills``; a
        library takes the place of both. `kept` skills stay in memory.
        """
        roots = [root for root in (skills_root, global_root) if root is not None]
        self.library = SkillLibrary.from_roots(roots, **options) if library is None else library
        self._kept: dict[str, tuple[str, Skill]] = {}
        self._room = kept
        self.catalog = SkillCatalog(self.library, describe=_warning, logger=logger)

    def reload(self) -> Changes:
        """Look at the disk, and read the metadata of what changed."""
        return self.catalog.refresh()

    def load_skill_metadata(self, skill_name: str) -> SkillMetadata | None:
        """Return the metadata of a skill, or None if there is no such skill."""
        self.reload()
        return self._load(_metadata_of, skill_name)

    def load_all_metadata(self) -> list[SkillMetadata]:
        """Return the metadata of all skills that models may be offered, by name."""
        self.reload()
        return [SkillMetadata.of(self.library, document) for document in self.library.list()]

    def load_skill_content(self, skill_name: str) -> str | None:
        """Return the whole Markdown of a skill's file, or None if it cannot be loaded."""
        return skill.content if (skill := self.load_skill(skill_name)) else None

    def load_skill(self, skill_name: str, version: str | None = None) -> Skill | None:
        """Return a skill, perhaps of versions like ``>=1,<2``; None if it cannot be loaded."""
        self.reload()
        return self._load(self.load, skill_name, version)

    def preload(self, names: Iterable[str]) -> tuple[str, ...]:
        """Read the first `MAX_PRELOADED` of some skills and keep them; return those that loaded."""
        wanted = list(dict.fromkeys(names))[:MAX_PRELOADED]
        self._room = max(self._room, len(wanted))
        self.reload()
        return tuple(name for name in wanted if self._load(self.read, name) is not None)

    def load(self, document: Document) -> Skill:
        """Read a skill as `read` does, for a model."""
        skill = self.read(document)
        self.catalog.note_load(document.doc_id)
        return skill

    def read(self, document: Document) -> Skill:
        """Read a skill that was found, unless it is kept; `ParseError` if it is unreadable."""
        seen, skill = self._kept.pop(document.doc_id, ("", None))
        if skill is None or seen != document.content_hash:
            content, seen = read_skill_text(Path(document.path), self.library.root_paths)
            skill = Skill(**dict(_metadata_of(document)), content=content)
        if seen == document.content_hash:  # else it changed just now
            self._kept[document.doc_id] = seen, skill
        while len(self._kept) > self._room:
            del self._kept[next(iter(self._kept))]
        return skill

    def _load(
        self, make: Callable[[Document], _T], skill_name: str, version: str | None = None
    ) -> _T | None:
        """Make something of a skill, or log why it cannot be loaded."""
        try:
            return make(self.catalog.find(skill_name, version or ""))
        except (SelectionError, SkillError) as exc:
            logger.warning("%s", one_line(str(exc), MAX_MESSAGE_CHARS))
            return None


class SkillsManager:
    """Finds skills by what they are for, as they are on disk; loads them only on request.

    One manager, like its loader, belongs to one thread; the calls of a `toolset` take turns.
    """

    def __init__(
        self,
        loader: SkillsLoader,
        *,
        summary_chars: int = SUMMARY_CHARS,
        threshold: float | None = None,
    ) -> None:
        """Take a loader, room for the summary, and the lowest accepted score of a search."""
        if summary_chars < MIN_SUMMARY_CHARS:
            raise ValueError(f"summary_chars is {summary_chars}; use {MIN_SUMMARY_CHARS} or more")
        self.loader = loader
        self.library, self.catalog = loader.library, loader.catalog
        self._summary_chars = summary_chars
        self._threshold = threshold

    @property
    def metadata_list(self) -> list[SkillMetadata]:
        """The metadata of all skills that models may be offered, by name."""
        return self.loader.load_all_metadata()

    def reload(self) -> Changes:
        """Look at the disk, as every call does."""
        return self.loader.reload()

    def search_skills(self, query: str, limit: int = 3) -> list[SkillMetadata]:
        """Find the skills for a request, best first; `QueryError` if it cannot be used.

        Those with near-copies, and those that only may fit, which come last, are a `SkillMatch`.
        """
        result = self.hits(query, limit)
        fits = [self._match(hit, "fits") for hit in result]
        return [*fits, *(self._match(hit, "perhaps") for hit in result.perhaps)]

    def _match(self, hit: Hit, state: State) -> SkillMetadata:
        metadata, also = SkillMetadata.of(self.library, hit), family_of(hit)
        is_plain = state == "fits" and not also
        return metadata if is_plain else SkillMatch(**dict(metadata), also=also, state=state)

    def hits(self, query: str, limit: int) -> SearchResult:
        """Find as `search_skills` does, and return the hits themselves."""
        self.reload()
        return self.catalog.search(query, limit, self._threshold)

    def get_skill_content(self, skill_name: str) -> str | None:
        """Return the whole Markdown of a skill's file, or None if it cannot be loaded."""
        return self.loader.load_skill_content(skill_name)

    def get_metadata_summary(self, room: int | None = None) -> str:
        """Return a line for each skill; the last one says how many do not fit, and what to do.

        Long descriptions are cut, unless room is given.
        """
        self.reload()
        limit = MAX_DESCRIPTION_CHARS if room else CONCISE_CHARS
        return self.catalog.lines(self.library.list(), room or self._summary_chars, limit)


def calculate_match_score(query: str, metadata: SkillMetadata) -> float:
    """Score by keywords alone, as the documents that the project was created from do.

    The best of: the whole query in the name 0.8, in the description 0.6; a word there 0.5, 0.3. It
    is a baseline to compare with; no search uses it.
    """
    whole = query.lower()
    scores = [0.0]
    for text, all_of_it, a_word in ((metadata.name, 0.8, 0.5), (metadata.description, 0.6, 0.3)):
        if whole in text.lower():
            scores.append(all_of_it)
        elif any(word in text.lower() for word in whole.split()):
            scores.append(a_word)
    return max(scores)


class ToolContext(BaseModel):
    """The state that the tools of one session share."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    workspace_root: Path = Field(..., description="Root of the workspace")
    todos: list[str] = Field(default_factory=list, description="What is still to be done")
    mode: str = Field(default="code", description="The mode that the agent is in")
    browser_session: Any | None = Field(default=None, description="The active browser session")
    skills_manager: SkillsManager | None = Field(None, description="Finds and loads the skills")
    active_skills: list[str] = Field(
        default_factory=list, description="Names of the skills in use, the latest last"
    )


class ListSkillsArgs(ToolArguments):
    """List all skills with what each is for. Only to browse; for a task use search_skills."""


class SearchSkillsArgs(ToolArguments):
    """Find skills for a task: name and description of each, best first.

    Then get_skill; if no skill fits, go on without one.
    """

    query: QueryText
    limit: MaxCount = 5


class GetSkillArgs(ToolArguments):
    """Get the full content of a skill and follow its instructions.

    If it names skills to get first, get these before you follow it.
    """

    name: str = Field(max_length=LOADED_NAME_CHARS, description="Name of the skill, in any case.")
    offset: Offset = 0


def list_skills(ctx: ToolContext, args: ListSkillsArgs) -> ToolResult:
    """List all skills, a line each; if there are very many, the first and the number of others."""
    nothing = "There are no skills; go on without."
    return _answer(ctx, lambda manager: manager.get_metadata_summary(MAX_LIST_CHARS) or nothing)


def search_skills(ctx: ToolContext, args: SearchSkillsArgs) -> ToolResult:
    """Find the skills that fit a request, best first; `IndexingError` if a host should wait."""

    def search(manager: SkillsManager) -> str:
        result = manager.hits(args.query, args.limit)
        fits = manager.catalog.lines(result, MAX_LIST_CHARS)
        perhaps = manager.catalog.lines(result.perhaps, MAX_LIST_CHARS - len(fits))
        note = note_for_model(fits=bool(fits), perhaps=bool(perhaps))
        return "\n".join(filter(None, [fits, note, perhaps]))

    return _answer(ctx, search)


def get_skill(ctx: ToolContext, args: GetSkillArgs) -> ToolResult:
    """Get the content of one skill, and note it as active; of a huge one, a page.

    Lines before it say which other skills to get first, and what is wrong with them.
    """

    def get(manager: SkillsManager) -> str:
        manager.reload()
        document = manager.catalog.find(args.name)
        text = visible(manager.loader.load(document).content)
        content = page(manager.catalog.note(document) + text, args.offset)
        needs = _needs(manager.library, document, ctx.active_skills)
        name = manager.library.handle(document)
        ctx.active_skills[:] = [*(other for other in ctx.active_skills if other != name), name]
        return "\n".join([*needs, "", content] if needs else [content])

    return _answer(ctx, get)


def skills_prompt(manager: SkillsManager | None) -> str:
    """Return the part of a system prompt that lists the skills; empty if there are none."""
    summary = manager.get_metadata_summary() if manager else ""
    return _PROMPT.format(summary) if summary else ""


def toolset(ctx: ToolContext) -> Toolset:
    """Return the three tools over a context; each answers with a `ToolResult` as JSON."""

    def answer(function: Callable[[ToolContext, Any], ToolResult]) -> Callable[[Any], Json]:
        return lambda args: function(ctx, args).model_dump(exclude_none=True)

    return Toolset(
        [
            Tool.of("list_skills", ListSkillsArgs, answer(list_skills)),
            Tool.of("search_skills", SearchSkillsArgs, answer(search_skills), searches=True),
            Tool.of("get_skill", GetSkillArgs, answer(get_skill)),
        ]
    )


def _answer(ctx: ToolContext, make: Callable[[SkillsManager], str]) -> ToolResult:
    """Return the text from a manager, or the error and the next step, without host paths."""
    if ctx.skills_manager is None:
        why = "This context has no skills: it was made without a skills_manager."
        return ToolResult(success=False, error=f"{why} Go on without skills.")
    try:
        return ToolResult(success=True, output=make(ctx.skills_manager))
    except IndexingError:
        raise
    except SkillSearchError as exc:
        error = problem_in(failure_of(exc))
        next_step = _USE_A_NAME if isinstance(exc, LookupError) else error["next_step"]
        return ToolResult(success=False, error=f"{error['message']}\n{next_step}")


def _needs(library: SkillLibrary, document: Document, active: Sequence[str]) -> list[str]:
    """Return lines on the skills to get before one, and on their problems."""
    if not document.requires:
        return []
    order = library.load_order([library.handle(document)])
    first = [library.handle(other) for other in order.order if other.doc_id != document.doc_id]
    circles = [" -> ".join([*cycle, cycle[0]]) for cycle in order.cycles]
    parts = {
        "Get these skills first, in this order": [name for name in first if name not in active],
        "Needed, but missing": [f"{m.requirement} (for {m.needed_by})" for m in order.missing],
        "These need each other, so any order will do": circles,
    }
    return [
        f"{head}: {listed((one_line(name, _MAX_NEED_CHARS) for name in names), MAX_SHOWN_NEEDS)}"
        for head, names in parts.items()
        if names
    ]
