"""Skills for one agent's session: it sees an overview, loads a skill, and selects its documents.

The tools: ``skill_load``, ``skill_select_docs`` and ``skill_list_docs``, and with a runner
``skill_run``. What they load stands in the system message of the requests that follow.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from skillsearch.agents.prompt import LoadedPrompt, render_loaded
from skillsearch.agents.session.skill_session import SkillSession
from skillsearch.agents.session.types import LoadedEntry, StateDelta
from skillsearch.agents.tools.library_tools import library_tools
from skillsearch.agents.tools.tool import Tool
from skillsearch.agents.tools.toolset import Toolset
from skillsearch.agents.toolsets.disclosure import (
    MAX_NAMED,
    all_names,
    describe_skills,
    doc_paths,
    read_loaded,
)
from skillsearch.agents.toolsets.events import Changes, ToolEvent
from skillsearch.agents.toolsets.run_tool import run_tool
from skillsearch.agents.toolsets.workspace_arguments import (
    LoadArgs,
    OfSkillArgs,
    SelectDocsArgs,
    naming,
)
from skillsearch.errors import (
    QueryError,
    SkillNotFoundError,
    SkillSearchError,
    VersionNotFoundError,
)
from skillsearch.execution.request import ArtifactRef
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
        on_event: Callable[[ToolEvent], None] | None = None,
        runner: SkillRunner | None = None,
        run_session: str | None = None,
        call_id: Callable[[], str] = str,
    ) -> None:
        """Take a library and a session.

        Args:
            library: The skills; refreshed here.
            session: The session, whose state is where everything is kept; None for a new one.
            overview: How many skills the system message describes at most; by default 100, and
                5 where it is made for a request.
            guidance: What the system message says of the tools; None for `GUIDANCE`, with
                `RUN_GUIDANCE` where there is a runner; an empty text for nothing.
            on_delta: Called with each change of the session's state that is made here.
            on_event: Called with each answer of a tool and all that it changed; a call that
                fails has no event.
            runner: What runs commands of skills, for the tool ``skill_run``; None for no such
                tool. The caller closes it.
            run_session: What the runner knows the session's workspace by; None for one that no
                other toolset has.
            call_id: Gives the host's id of the call that is being answered, for the record of
                what it saved as artifacts; by default that has none.

        Raises:
            ValueError: When `overview` is not from 1 to 1000.
        """
        if overview is not None and not 1 <= overview <= MAX_N:
            raise ValueError(f"overview is {overview!r}; use 1 to {MAX_N}, or None.")
        self.library = library
        self.session = SkillSession() if session is None else session
        self._overview = overview
        own = GUIDANCE + (RUN_GUIDANCE if runner else "")
        self._guidance = own if guidance is None else guidance
        self._changes = Changes(on_delta, on_event)
        self._runner = runner
        self._run_session = run_session or uuid4().hex
        self._call_id = call_id

    def toolset(self) -> Toolset:
        """Return the tools for a host, which sees at every request what is there then.

        Returns:
            The three tools, and with a runner ``skill_run``. Their ``skill`` has an enum of all
            names; if there are too many for that, there is `search_skills` as well.
        """
        return Toolset(self._tools)

    def _tools(self) -> tuple[Tool, ...]:
        """Return the tools as they are now."""
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
                naming(LoadArgs, names),
                self._load,
            ),
            Tool(
                "skill_select_docs",
                "Choose which documents of a loaded skill stand in the system message: add to"
                " them, replace them, or clear them.",
                naming(SelectDocsArgs, names),
                self._select_docs,
            ),
            Tool(
                "skill_list_docs",
                "List the documents of a skill, for skill_load and skill_select_docs.",
                naming(OfSkillArgs, names),
                self._list_docs,
            ),
        ]
        if self._runner:
            tools.append(self._run_tool(self._runner, names))
        if names is None:
            tools.append(_search_tool(self.library))
        return tuple(self._changes.observed(tool) for tool in tools)

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
        return self._changes.tell(self.session.begin_turn())

    def end_request(self) -> StateDelta:
        """Forget what was loaded for one request, and return what that changed."""
        return self._changes.tell(self.session.end_request())

    def _load(self, args: LoadArgs) -> JsonValue:
        """Answer ``skill_load``."""
        name = self._find(args.skill)
        self.library.get(name)  # what cannot be read is not loaded
        docs = () if args.include_all_docs or not args.docs else args.docs
        there = doc_paths(self.library, name) if docs else {}
        delta = self._changes.tell(self.session.load(name, args.docs, args.include_all_docs))
        lines = [f"loaded: {name}"]
        if delta.evicted:
            lines.append(f"unloaded to make room: {_joined(delta.evicted)}")
        if unknown := [doc for doc in docs if doc not in there]:
            available = _joined(there) if there else "none"
            lines.append(f"unknown documents: {_joined(unknown)}; there are: {available}")
        return "\n".join(lines)

    def _select_docs(self, args: SelectDocsArgs) -> JsonValue:
        """Answer ``skill_select_docs``."""
        name = self._find(args.skill)
        there = doc_paths(self.library, name)
        selection = self.session.select_docs(name, args.docs, args.include_all_docs, args.mode)
        self._changes.tell(selection.delta)
        answer: dict[str, JsonValue] = {
            "skill": name,
            "selected_docs": list(selection.names),
            "include_all_docs": selection.include_all,
            "mode": selection.mode,
        }
        unknown = [doc for doc in selection.names if doc not in there]
        return {**answer, "unknown_docs": unknown} if unknown else answer

    def _list_docs(self, args: OfSkillArgs) -> JsonValue:
        """Answer ``skill_list_docs``."""
        return list(doc_paths(self.library, self._find(args.skill)))

    def _run_tool(self, runner: SkillRunner, names: Sequence[str] | None) -> Tool:
        """Return ``skill_run``, which runs what this session has loaded."""
        return run_tool(
            runner,
            self._place,
            is_loaded=self.session.is_loaded,
            on_saved=self._record,
            session=self._run_session,
            names=names,
        )

    def _place(self, asked: str) -> tuple[str, Path]:
        """Return name and folder of a skill that was asked for."""
        name = self._find(asked)
        return name, Path(self.library.find(name).path).parent

    def _record(self, saved: Sequence[ArtifactRef]) -> None:
        """Note in the session what a run saved."""
        self._changes.tell(self.session.record_artifacts(saved, self._call_id()))

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
                self._changes.tell(self.session.unload(entry.name))
        return found

    def _refresh(self) -> None:
        """Look at the disk; an index that cannot be brought up to date is used as it is."""
        try:
            self.library.refresh()
        except SkillSearchError as exc:
            logger.warning("The skills were not refreshed: %s", exc)


class _UnknownSkillError(SkillNotFoundError):
    """A skill that a call names is not there; said in the words of the design document."""

    def __init__(self, name: str, nearest: tuple[str, ...]) -> None:
        super().__init__(name, nearest)
        near = f" (nearest: {', '.join(nearest)})" if nearest else ""
        self.args = (f"unknown skill: {one_line(name, _MAX_SHOWN_CHARS)}{near}",)


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
    return listed((one_line(name, _MAX_SHOWN_CHARS) for name in names), _MAX_SHOWN_DOCS)
