"""Skills for one agent's session: it sees an overview, loads a skill, and selects its documents.

The tools: ``skill_load``, ``skill_select_docs`` and ``skill_list_docs``, and with a runner
``skill_run``. Whatever they load appears in the system message from the next request on.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from pydantic import Field

from skillsearch.agents.prompt import LoadedPrompt, render_loaded
from skillsearch.agents.session import SkillSession
from skillsearch.agents.session_state import LoadedEntry, StateDelta
from skillsearch.agents.tools.library_tools import library_tools
from skillsearch.agents.tools.run_tools import Name, OfSkillArgs, run_tool
from skillsearch.agents.tools.tool import Deferred, Tool, Toolset, with_names
from skillsearch.agents.toolsets.disclosure import (
    MAX_NAMED,
    all_names,
    describe_skills,
    doc_paths,
    read_loaded,
)
from skillsearch.errors import (
    QueryError,
    SkillNotFoundError,
    SkillSearchError,
    VersionNotFoundError,
)
from skillsearch.execution.types import ArtifactRef
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.setting_values import MAX_N
from skillsearch.text.safe_text import listed, one_line
from skillsearch.types import JsonValue

if TYPE_CHECKING:
    from skillsearch.execution.runner import SkillRunner

GUIDANCE = """\
How to use skills:
- When a skill above fits the task, call skill_load with its name before you begin. From then on \
its instructions stand below after [Loaded]; follow them.
- Where they send you to a document, name it in skill_select_docs: it will stand below after \
[Doc]. skill_list_docs tells which documents there are.
- Load only what the task needs: it takes room in every request."""
RUN_GUIDANCE = """
- Where they tell you to run a command, do that with skill_run, once the skill is loaded. Let it \
write results below out/, and name them in output_files to get them back."""

MAX_DOCS = 200
"""Documents that one call may name."""
_MAX_SHOWN_CHARS = 200
_MAX_SHOWN_DOCS = 20

logger = logging.getLogger(__name__)


class LoadArgs(OfSkillArgs):
    """Arguments of ``skill_load``."""

    docs: list[Name] | None = Field(
        default=None,
        max_length=MAX_DOCS,
        description="Paths of documents, as skill_list_docs gives them.",
    )
    include_all_docs: bool = Field(default=False, description="True for all documents instead.")


class SelectDocsArgs(LoadArgs):
    """Arguments of ``skill_select_docs``."""

    # Shown but not enforced, as in trpc-agent-go: any other word is replace.
    mode: str = Field(
        default="replace",
        description="What the named documents do to the selection.",
        json_schema_extra={"enum": ["add", "replace", "clear"]},
    )


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """The result of a tool, and what the call changed in the state of the session.

    `kind` is trpc-agent-go's word for it; `skill` is as the call named it, empty if it named none.
    """

    kind: Literal["tool.response"]
    tool: str
    skill: str
    result: JsonValue
    delta: StateDelta


class WorkspaceToolset:
    """The skills of a library as one agent's session has them loaded.

    The host puts `system_prompt` into each request, and calls `begin_turn` before each turn and
    `end_request` after each request. Prompts show the disk as it is then, and so do the tools; but
    with more than 256 skills, the tools know those that the last prompt saw.
    """

    def __init__(
        self,
        library: SkillLibrary,
        session: SkillSession | None = None,
        *,
        overview: int | None = None,
        guidance: str | None = None,
        on_delta: Callable[[StateDelta], None] | None = None,
        on_event: Callable[[ToolEvent], None] | None = None,
        runner: SkillRunner | None = None,
        run_session: str | None = None,
        call_id: Callable[[], str] = str,
    ) -> None:
        """Take a library and a session.

        Args:
            library: The skills; refreshed here.
            session: The session, whose state keeps everything; None for a new one.
            overview: How many skills the system message describes at most, from 1 to 1000; by
                default 100, or 5 if it is made for a request.
            guidance: What the system message says of the tools; by default `GUIDANCE`, with
                `RUN_GUIDANCE` if there is a runner; an empty text for nothing.
            on_delta: Called with each change of the session's state that is made here.
            on_event: Called with each tool result and everything that the call changed; a call that
                fails has no event.
            runner: Runs commands of skills for ``skill_run``; None for no such tool. The caller
                closes it.
            run_session: The runner's name for the session's workspace; by default one that no other
                toolset has.
            call_id: Returns the host's id of the current call, for the record of saved artifacts.
        """
        if overview is not None and not 1 <= overview <= MAX_N:
            raise ValueError(f"overview is {overview!r}; use 1 to {MAX_N}, or None.")
        self.library = library
        self.session = SkillSession() if session is None else session
        self._overview = overview
        own = GUIDANCE + (RUN_GUIDANCE if runner else "")
        self._guidance = own if guidance is None else guidance
        self._on_delta = on_delta
        self._on_event = on_event
        self._in_call = StateDelta()
        self._runner = runner
        self._run_session = run_session or uuid4().hex
        self._call_id = call_id

    def toolset(self) -> Toolset:
        """Return the tools for a host, which sees at every request what is there then.

        Their ``skill`` has an enum of all names; if there are too many for that, there is a
        `search_skills` as well.
        """
        return Toolset(self._tools)

    def system_prompt(self, query: str | None = None) -> str:
        """Render the part of a system message about skills; forget loaded skills that are gone.

        It has the overview, the guidance, and what is loaded, in the order of loading. Given a
        request, the overview describes its best skills; `SkillSearchError` if the skills cannot be
        searched for it.
        """
        self._refresh()
        available = describe_skills(self.library, query, self._overview)
        guidance = self._guidance if available else ""
        parts = [available, guidance, render_loaded(self._loaded())]
        return "\n\n".join(part for part in parts if part)

    def begin_turn(self) -> StateDelta:
        """Forget what was loaded for the previous turn, and return what that changed."""
        return self._tell(self.session.begin_turn())

    def end_request(self) -> StateDelta:
        """Forget what was loaded for one request, and return what that changed."""
        return self._tell(self.session.end_request())

    def _tools(self) -> tuple[Tool, ...]:
        if len(self.library) <= MAX_NAMED:
            self._refresh()  # beyond that, no definition names a skill
        names = all_names(self.library)
        find = " search_skills finds its name." if names is None else ""
        tools = [
            Tool(
                "skill_load",
                "Load a skill that fits the task: from the next request on, its instructions and"
                " the documents named here stand in the system message. Named again, documents"
                " replace those selected before." + find,
                with_names(LoadArgs, names),
                self._load,
            ),
            Tool(
                "skill_select_docs",
                "Choose which documents of a loaded skill stand in the system message: add to"
                " them, replace them, or clear them.",
                with_names(SelectDocsArgs, names),
                self._select_docs,
            ),
            Tool(
                "skill_list_docs",
                "List the documents of a skill, for skill_load and skill_select_docs.",
                with_names(OfSkillArgs, names),
                self._list_docs,
            ),
        ]
        if self._runner:
            tools.append(
                run_tool(
                    self._runner,
                    self._place,
                    is_loaded=self.session.is_loaded,
                    on_saved=self._record,
                    session=self._run_session,
                    names=names,
                )
            )
        if names is None:
            tools.append(_search_tool(self.library))
        return tuple(map(self._observed, tools))

    def _load(self, args: LoadArgs) -> JsonValue:
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

    def _select_docs(self, args: SelectDocsArgs) -> JsonValue:
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

    def _list_docs(self, args: OfSkillArgs) -> JsonValue:
        return list(doc_paths(self.library, self._find(args.skill)))

    def _place(self, asked: str) -> tuple[str, Path]:
        """Return name and folder of a skill that a call names."""
        name = self._find(asked)
        return name, Path(self.library.find(name).path).parent

    def _record(self, saved: Sequence[ArtifactRef]) -> None:
        self._tell(self.session.record_artifacts(saved, self._call_id()))

    def _find(self, asked: str) -> str:
        """Return the session's name for a skill that a call names."""
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
        """Read what is loaded, in the order of loading; forget skills that are gone."""
        found = []
        for entry in sorted(self.session.loaded(), key=_moment):
            try:
                found.append(read_loaded(self.library, entry))
            except SkillNotFoundError:
                self._tell(self.session.unload(entry.name))
        return found

    def _refresh(self) -> None:
        """Look at the disk; an index that cannot be updated is used as it is."""
        try:
            self.library.refresh()
        except SkillSearchError as exc:
            logger.warning("The skills were not refreshed: %s", exc)

    def _tell(self, delta: StateDelta) -> StateDelta:
        """Tell the host about a change, if it is one, and return it."""
        if delta and self._on_event:
            evicted = (*self._in_call.evicted, *delta.evicted)
            self._in_call = StateDelta({**self._in_call, **delta}, evicted)
        if delta and self._on_delta:
            self._on_delta(delta)
        return delta

    def _observed(self, tool: Tool) -> Tool:
        """Return a tool whose results are told as events, if the host listens."""
        on_event = self._on_event
        if on_event is None:
            return tool

        def told(args: Any, make: Callable[[], JsonValue | Deferred]) -> JsonValue | Deferred:
            """Do a part of a call; if it is the last one, tell the result."""
            self._in_call = StateDelta()
            result = make()
            if isinstance(result, Deferred):
                finish = result.finish
                return replace(result, finish=lambda got: told(args, lambda: finish(got)))
            skill = getattr(args, "skill", "")
            on_event(ToolEvent("tool.response", tool.name, skill, result, self._in_call))
            return result

        return replace(tool, function=lambda args: told(args, lambda: tool.function(args)))


class _UnknownSkillError(SkillNotFoundError):
    """An unknown skill, in the words of the design document."""

    def __init__(self, name: str, nearest: tuple[str, ...]) -> None:
        super().__init__(name, nearest)
        near = f" (nearest: {', '.join(nearest)})" if nearest else ""
        self.args = (f"unknown skill: {one_line(name, _MAX_SHOWN_CHARS)}{near}",)


def _search_tool(library: SkillLibrary) -> Tool:
    """Return the default search tool, with the next step of this toolset."""
    tool = next(tool for tool in library_tools(library) if tool.name == "search_skills")
    description = (
        "Find skills for a task among all there are; the system message lists only some. No hit:"
        " no skill fits, go on without. Next: skill_load with the best name."
    )
    return replace(tool, description=description)


def _moment(entry: LoadedEntry) -> float:
    """Return a sort key for the time of loading; an unknown time comes first."""
    return entry.since.timestamp() if entry.since else -math.inf


def _joined(names: Iterable[str]) -> str:
    return listed((one_line(name, _MAX_SHOWN_CHARS) for name in names), _MAX_SHOWN_DOCS)
