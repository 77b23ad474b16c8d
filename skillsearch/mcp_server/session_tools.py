"""The toolsets that a server can offer, each imported when it is made, for every session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from skillsearch.agents.session import SkillSession
from skillsearch.errors import ConfigError

if TYPE_CHECKING:
    from skillsearch.agents.tools.tool import Toolset
    from skillsearch.execution.runner import SkillRunner
    from skillsearch.library.skill_library import SkillLibrary
    from skillsearch.mcp_server.served_library import ServedLibrary

MAX_SESSIONS = 256  # sessions whose state is kept; the one silent for longest is forgotten

Prompt = Callable[[], str]
"""Renders what tools want in the system message."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of a session, its part of the system message, its library and what it loaded."""

    toolset: Toolset
    prompt: Prompt | None = None
    library: SkillLibrary | None = None
    state: SkillSession | None = None


class SessionTools:
    """One of the toolsets, for all sessions of a server; not thread-safe."""

    def __init__(self, name: str, served: ServedLibrary, runner: SkillRunner | None = None) -> None:
        """Choose one of `TOOLSETS`; `ConfigError` if it cannot run commands or have these roots."""
        self.name = name
        self.kind = _KINDS[name]
        if runner is not None and not self.kind.runs:
            running = " and ".join(name for name, kind in _KINDS.items() if kind.runs)
            raise ConfigError(f"The toolset {name} runs nothing; --allow-run is for {running}.")
        if name == "environment" and len(served.roots) > 1:
            raise ConfigError(
                f"The toolset environment has the skills of one folder, not of"
                f" {len(served.roots)}; name one ROOT, or none for the environment in use."
            )
        self.served = served
        self.runner = runner
        self._offers: OrderedDict[str, Offer] = OrderedDict()

    def of(self, session: str) -> Offer:
        """Return the tools of a session, made again if the library is another one now."""
        key = session if self.kind.has_prompt or self.runner else ""
        library = None if self.kind.is_late else self.served.get()
        offer = self._offers.pop(key, None)
        if offer is None or offer.library is not library:
            state = (offer and offer.state) or SkillSession(lifetime="session")
            toolset, prompt = self.kind.make(self, state, key)
            offer = Offer(toolset, prompt, library, state)
        self._offers[key] = offer
        if len(self._offers) > MAX_SESSIONS:
            self._offers.popitem(last=False)
        return offer


_Made = tuple["Toolset", Prompt | None]


def _default(tools: SessionTools, state: SkillSession, session: str) -> _Made:
    from skillsearch.agents.tools.library_tools import library_tools
    from skillsearch.agents.tools.run_tools import run_script_tool
    from skillsearch.agents.tools.tool import Toolset

    served = tools.served
    made = library_tools(served.get, threshold=served.settings.threshold)
    if tools.runner is not None:
        made = (*made, run_script_tool(served.get, tools.runner, session=session))
    return Toolset(made), None


def _manager(tools: SessionTools, state: SkillSession, session: str) -> _Made:
    from skillsearch.agents.toolsets.skills_manager import SkillsManager

    return SkillsManager(library=tools.served.get()).toolset(), None


def _environment(tools: SessionTools, state: SkillSession, session: str) -> _Made:
    """Offer the skills of one folder, or else of the environment in use."""
    from skillsearch.agents.toolsets.environments import Environment, ServerEnvironment

    served, settings = tools.served, tools.served.settings
    if not served.roots:
        return ServerEnvironment().toolset(), None
    environment = Environment(
        "skills",
        served.roots[0],
        index_dir=served.index_dir,
        model=settings.model,
        languages=settings.languages,
        threshold=settings.threshold,
    )
    return environment.toolset(), None


def _chunks(tools: SessionTools, state: SkillSession, session: str) -> _Made:
    from skillsearch.agents.toolsets.chunks import LoadSkillChunkTool, SkillManager

    manager = SkillManager(session=state, library=tools.served.get())
    return LoadSkillChunkTool(manager).toolset(), manager.get_skills_prompt


def _workspace(tools: SessionTools, state: SkillSession, session: str) -> _Made:
    from skillsearch.agents.toolsets.workspace import WorkspaceToolset

    workspace = WorkspaceToolset(
        tools.served.get(), state, runner=tools.runner, run_session=session
    )
    return workspace.toolset(), workspace.system_prompt


def _context(tools: SessionTools, state: SkillSession, session: str) -> _Made:
    from skillsearch.agents.toolsets import context

    loader = context.SkillsLoader(library=tools.served.get())
    manager = context.SkillsManager(loader, threshold=tools.served.settings.threshold)
    place = context.ToolContext(
        workspace_root=Path.cwd(), browser_session=None, skills_manager=manager
    )
    return context.toolset(place), lambda: context.skills_prompt(manager)


class _Kind(NamedTuple):
    """How a toolset is made, and what is true of it.

    A late one needs no library at first; `searches` if a model can search with it; `names_skills`
    if its definitions do.
    """

    make: Callable[[SessionTools, SkillSession, str], _Made]
    is_late: bool = False
    searches: bool = False
    runs: bool = False
    has_prompt: bool = False
    names_skills: bool = False


_KINDS = {
    "default": _Kind(_default, is_late=True, searches=True, runs=True),
    "manager": _Kind(_manager, searches=True),
    "environment": _Kind(_environment, is_late=True, names_skills=True),
    "chunks": _Kind(_chunks, has_prompt=True),
    "workspace": _Kind(_workspace, runs=True, has_prompt=True, names_skills=True),
    "context": _Kind(_context, searches=True, has_prompt=True),
}
TOOLSETS = tuple(_KINDS)  # names of the toolsets
