"""The toolsets that a server can offer, and the tools of each of its sessions.

Each toolset imports what it needs when it is made, so the names alone are cheap.
"""

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
    from skillsearch.types import IndexProgress

MAX_SESSIONS = 256
"""Sessions whose state is kept; the one silent for longest is forgotten."""

Prompt = Callable[[], str]
"""Renders what tools want in the system message."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of one session, what they want in the system message, and what it has loaded.

    `library` is what they were made from; None if they open it when they are called.
    """

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
        self._served = served
        self._runner = runner
        self._offers: OrderedDict[str, Offer] = OrderedDict()

    @property
    def progress(self) -> IndexProgress | None:
        """Progress of the library's first index; None once it is there."""
        return self._served.progress

    def of(self, session: str) -> Offer:
        """Return the tools of a session, made again if the library is another one now."""
        key = session if self.kind.has_prompt or self._runner else ""
        library = None if self.kind.is_late else self._served.get()
        offer = self._offers.pop(key, None)
        if offer is None or offer.library is not library:
            state = offer.state if offer else None
            state = SkillSession(lifetime="session") if state is None else state
            toolset, prompt = self.kind.make(_Parts(self._served, state, self._runner, key))
            offer = Offer(toolset, prompt, library, state)
        self._offers[key] = offer
        if len(self._offers) > MAX_SESSIONS:
            self._offers.popitem(last=False)
        return offer


class _Parts(NamedTuple):
    """The parts that the tools of a session are made from; without a runner, nothing is run."""

    served: ServedLibrary
    state: SkillSession
    runner: SkillRunner | None
    session: str


_Made = tuple["Toolset", Prompt | None]


def _default(parts: _Parts) -> _Made:
    from skillsearch.agents.tools.library_tools import library_tools
    from skillsearch.agents.tools.run_tools import run_script_tool
    from skillsearch.agents.tools.tool import Toolset

    served = parts.served
    tools = library_tools(served.get, threshold=served.settings.threshold)
    if parts.runner is not None:
        tools = (*tools, run_script_tool(served.get, parts.runner, session=parts.session))
    return Toolset(tools), None


def _manager(parts: _Parts) -> _Made:
    from skillsearch.agents.toolsets.skills_manager import SkillsManager

    return SkillsManager(library=parts.served.get()).toolset(), None


def _environment(parts: _Parts) -> _Made:
    """Offer the skills of one folder, or else those of the environment in use."""
    from skillsearch.agents.toolsets.environments import Environment, ServerEnvironment

    served, settings = parts.served, parts.served.settings
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


def _chunks(parts: _Parts) -> _Made:
    from skillsearch.agents.toolsets.chunks import LoadSkillChunkTool, SkillManager

    manager = SkillManager(session=parts.state, library=parts.served.get())
    return LoadSkillChunkTool(manager).toolset(), manager.get_skills_prompt


def _workspace(parts: _Parts) -> _Made:
    from skillsearch.agents.toolsets.workspace import WorkspaceToolset

    workspace = WorkspaceToolset(
        parts.served.get(), parts.state, runner=parts.runner, run_session=parts.session
    )
    return workspace.toolset(), workspace.system_prompt


def _context(parts: _Parts) -> _Made:
    from skillsearch.agents.toolsets.context import (
        SkillsLoader,
        SkillsManager,
        ToolContext,
        skills_prompt,
        toolset,
    )

    loader = SkillsLoader(library=parts.served.get())
    manager = SkillsManager(loader, threshold=parts.served.settings.threshold)
    context = ToolContext(workspace_root=Path.cwd(), browser_session=None, skills_manager=manager)
    return toolset(context), lambda: skills_prompt(manager)


class _Kind(NamedTuple):
    """How a toolset is made, and what is true of it.

    A late one needs no library at first; `searches` if a model can search with it, whatever skills
    there are; `names_skills` if the definitions of its tools do.
    """

    make: Callable[[_Parts], _Made]
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
TOOLSETS = tuple(_KINDS)
"""Names of the toolsets."""
