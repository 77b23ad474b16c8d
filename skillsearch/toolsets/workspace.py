"""Skills for one agent's session: it sees an overview, loads a skill, and selects its documents.

The tools: ``skill_load``, ``skill_select_docs`` and ``skill_list_docs``. What they load stands in
the system message of the requests that follow.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field, StringConstraints, create_model

from skillsearch.config import MAX_N
from skillsearch.errors import (
    QueryError,
    SkillNotFoundError,
    SkillSearchError,
    VersionNotFoundError,
)
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.prompt import LoadedPrompt, render_loaded
from skillsearch.safe_text import one_line
from skillsearch.session.skill_session import SkillSession
from skillsearch.session.types import LoadedEntry, StateDelta
from skillsearch.tools.library_tools import library_tools
from skillsearch.tools.tool import Tool, ToolArguments
from skillsearch.toolsets.disclosure import (
    MAX_NAMED,
    all_names,
    describe_skills,
    doc_paths,
    read_loaded,
)
from skillsearch.types import JsonValue

GUIDANCE = """\
How to use skills:
- When a skill above fits the task, call skill_load with its name before you begin. From then on \
its instructions stand below after [Loaded]; follow them.
- Where they send you to a document, name it in skill_select_docs: it will stand below after \
[Doc]. skill_list_docs tells which documents there are.
- Load only what the task needs: it takes room in every request."""
MAX_DOCS = 200
"""Documents that one call may name."""

_MAX_NAME_CHARS = 1024
_MAX_SHOWN_CHARS = 200
_MAX_SHOWN_DOCS = 20

logger = logging.getLogger(__name__)


class WorkspaceToolset:
    """The skills of a library as one agent's session has them loaded.

    The host puts `system_prompt` into each request, and calls `begin_turn` before each turn and
    `end_request` after each request. Each prompt shows the disk as it is then; so do the tools,
    but with more than 256 skills they know those that the last prompt saw.
    """

    def __init__(
        self,
        library: SkillLibrary,
        session: SkillSession | None = None,
        *,
        overview: int | None = None,
        guidance: str | None = None,
        on_delta: Callable[[StateDelta], None] | None = None,
    ) -> None:
        """Take a library and a session.

        Args:
            library: The skills; refreshed here.
            session: The session, whose state is where everything is kept; None for a new one.
            overview: How many skills the system message describes at most; by default 100, and
                5 where it is made for a request.
            guidance: What the system message says of the tools; None for `GUIDANCE`, an empty
                text for nothing.
            on_delta: Called with each change of the session's state that is made here.

        Raises:
            ValueError: When `overview` is not from 1 to 1000.
        """
        if overview is not None and not 1 <= overview <= MAX_N:
            raise ValueError(f"overview is {overview!r}; use 1 to {MAX_N}, or None.")
        self.library = library
        self.session = SkillSession() if session is None else session
        self._overview = overview
        self._guidance = GUIDANCE if guidance is None else guidance
        self._on_delta = on_delta

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools as they are now: a `Toolset` takes this method, not its result.

        Returns:
            The three tools, whose ``skill`` has an enum of all names; where there are too many
            for that, `search_skills` as well.
        """
        if len(self.library) <= MAX_NAMED:
            self._refresh()  # beyond that, no definition names a skill
        names = all_names(self.library)
        find = " search_skills finds its name." if names is None else ""
        tools = (
            Tool(
                "skill_load",
                "Load a skill that fits the task: from the next request on, its instructions and"
                " the documents named here stand in the system message. Named again, documents"
                " replace those selected before." + find,
                _naming(_Load, names),
                self._load,
            ),
            Tool(
                "skill_select_docs",
                "Choose which documents of a loaded skill stand in the system message: add to"
                " them, replace them, or clear them.",
                _naming(_SelectDocs, names),
                self._select_docs,
            ),
            Tool(
                "skill_list_docs",
                "List the documents of a skill, for skill_load and skill_select_docs.",
                _naming(_OfSkill, names),
                self._list_docs,
            ),
        )
        return (*tools, _search_tool(self.library)) if names is None else tools

    def system_prompt(self, query: str | None = None) -> str:
        """Render the part of a system message that tells of skills; forget those that are gone.

        Args:
            query: A request, whose best skills the overview is to describe; None to describe the
                first by name.

        Returns:
            The overview, the guidance, and what is loaded, in the order of loading; empty where
            there is no skill.

        Raises:
            SkillSearchError: When there is a request and the skills cannot be searched.
        """
        self._refresh()
        available = describe_skills(self.library, query, self._overview)
        guidance = self._guidance if available else ""
        parts = [available, guidance, render_loaded(self._loaded())]
        return "\n\n".join(part for part in parts if part)

    def begin_turn(self) -> StateDelta:
        """Forget what was loaded for the turn before, and return what that changed."""
        return self._tell(self.session.begin_turn())

    def end_request(self) -> StateDelta:
        """Forget what was loaded for one request, and return what that changed."""
        return self._tell(self.session.end_request())

    def _load(self, args: _Load) -> JsonValue:
        """Answer ``skill_load``."""
        name = self._find(args.skill)
        self.library.get(name)  # what cannot be read is not loaded
        docs = () if args.include_all_docs or not args.docs else args.docs
        there = doc_paths(self.library, name) if docs else {}
        delta = self._tell(self.session.load(name, args.docs, args.include_all_docs))
        lines = [f"loaded: {name}"]
        if delta.evicted:
            lines.append(f"unloaded to make room: {_joined(delta.evicted)}")
        if unknown := [doc for doc in docs if doc not in there]:
            available = _joined(there) if there else "none"
            lines.append(f"unknown documents: {_joined(unknown)}; there are: {available}")
        return "\n".join(lines)

    def _select_docs(self, args: _SelectDocs) -> JsonValue:
        """Answer ``skill_select_docs``."""
        name = self._find(args.skill)
        there = doc_paths(self.library, name)
        selection = self.session.select_docs(name, args.docs, args.include_all_docs, args.mode)
        self._tell(selection.delta)
        answer: dict[str, JsonValue] = {
            "skill": name,
            "selected_docs": list(selection.names),
            "include_all_docs": selection.include_all,
            "mode": selection.mode,
        }
        unknown = [doc for doc in selection.names if doc not in there]
        return {**answer, "unknown_docs": unknown} if unknown else answer

    def _list_docs(self, args: _OfSkill) -> JsonValue:
        """Answer ``skill_list_docs``."""
        return list(doc_paths(self.library, self._find(args.skill)))

    def _find(self, asked: str) -> str:
        """Return the name under which the session knows a skill that was asked for."""
        if not asked.strip():
            raise QueryError("skill is required")
        try:
            document = self.library.find(asked)
        except VersionNotFoundError:
            raise
        except SkillNotFoundError as exc:
            raise _UnknownSkillError(asked, exc.nearest) from exc
        return self.library.handle(document)

    def _loaded(self) -> list[LoadedPrompt]:
        """Read what is loaded, in the order of loading; forget what is gone."""
        found = []
        for entry in sorted(self.session.loaded(), key=_moment):
            try:
                found.append(read_loaded(self.library, entry))
            except SkillNotFoundError:
                self._tell(self.session.unload(entry.name))
        return found

    def _refresh(self) -> None:
        """Look at the disk; an index that cannot be brought up to date is used as it is."""
        try:
            self.library.refresh()
        except SkillSearchError as exc:
            logger.warning("The skills were not refreshed: %s", exc)

    def _tell(self, delta: StateDelta) -> StateDelta:
        """Tell the host what changed in the state, if anything did."""
        if delta and self._on_delta:
            self._on_delta(delta)
        return delta


class _UnknownSkillError(SkillNotFoundError):
    """A skill that a call names is not there; said in the words of the design document."""

    def __init__(self, name: str, nearest: tuple[str, ...]) -> None:
        super().__init__(name, nearest)
        near = f" (nearest: {', '.join(nearest)})" if nearest else ""
        self.args = (f"unknown skill: {one_line(name, _MAX_SHOWN_CHARS)}{near}",)


_Text = Annotated[str, StringConstraints(max_length=_MAX_NAME_CHARS)]
_SKILL = "Name of the skill, in any case."


class _OfSkill(ToolArguments):
    """Arguments of ``skill_list_docs``; the others begin with them."""

    skill: _Text = Field(description=_SKILL)


class _Load(_OfSkill):
    """Arguments of ``skill_load``."""

    docs: list[_Text] | None = Field(
        default=None,
        max_length=MAX_DOCS,
        description="Paths of documents, as skill_list_docs gives them.",
    )
    include_all_docs: bool = Field(default=False, description="True for all documents instead.")


class _SelectDocs(_Load):
    """Arguments of ``skill_select_docs``."""

    # Shown but not enforced, as in trpc-agent-go: any other word is replace.
    mode: str = Field(
        default="replace",
        description="What the named documents do to the selection.",
        json_schema_extra={"enum": ["add", "replace", "clear"]},
    )


def _naming(arguments: type[ToolArguments], names: Sequence[str] | None) -> type[ToolArguments]:
    """Return arguments whose ``skill`` has an enum, where there are names for it."""
    if not names:
        return arguments
    # Shown but not enforced: the tool knows names in any case, and says which come near.
    skill = Field(description=_SKILL, json_schema_extra={"enum": list(names)})
    return create_model(arguments.__name__, __base__=arguments, skill=(_Text, skill))


def _search_tool(library: SkillLibrary) -> Tool:
    """Return the default tool that searches, with the next step of this toolset."""
    tool = next(tool for tool in library_tools(library) if tool.name == "search_skills")
    description = (
        "Find skills for a task among all there are; the system message lists only some. No hit:"
        " no skill fits, go on without. Next: skill_load with the best name."
    )
    return replace(tool, description=description)


def _moment(entry: LoadedEntry) -> float:
    """Return when a skill was loaded, as a number; one of unknown time counts as the earliest."""
    return entry.since.timestamp() if entry.since else -math.inf


def _joined(names: Iterable[str]) -> str:
    """Join names on one line; of very many the first, with the number of the others."""
    shown = [one_line(name, _MAX_SHOWN_CHARS) for name in names]
    more = len(shown) - _MAX_SHOWN_DOCS
    return ", ".join(shown[:_MAX_SHOWN_DOCS]) + (f" and {more:,} more" if more > 0 else "")
