"""The toolsets that a server can offer, each over the library that it serves.

What each of them needs is imported with it: the names alone are there at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skillsearch.agents.session.skill_session import SkillSession
from skillsearch.errors import ConfigError

if TYPE_CHECKING:
    from skillsearch.agents.tools.toolset import Toolset
    from skillsearch.execution.runner import SkillRunner
    from skillsearch.library.skill_library import SkillLibrary
    from skillsearch.mcp_server.served_library import ServedLibrary
    from skillsearch.types import IndexProgress

MAX_SESSIONS = 256
"""Sessions whose state is kept; the one that was silent for longest is forgotten."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What one client sees.

    Attributes:
        toolset: The tools.
        prompt: Renders what these tools want the system message to say; None where that is
            nothing.
    """

    toolset: Toolset
    prompt: Callable[[], str] | None = None


@dataclass(frozen=True, slots=True)
class _Client:
    """What an offer is made of.

    Attributes:
        served: The library.
        state: What the client has loaded.
        runner: Runs commands of skills; None where that is not allowed.
        session: What tells the client from others.
    """

    served: ServedLibrary
    state: SkillSession
    runner: SkillRunner | None
    session: str


@dataclass(frozen=True, slots=True)
class _Seat:
    """What is kept of a client: the library that its offer is made of, and its session."""

    library: SkillLibrary | None
    session: SkillSession
    offer: Offer


class Offers:
    """One of the toolsets, for all clients of a server. It belongs to one thread.

    Attributes:
        name: Name of the toolset.
        has_prompt: Whether offers have a prompt.
        names_skills: Whether the definitions of the tools name the skills.
        searches: Whether a model can search with it, whatever skills there are.
    """

    def __init__(self, name: str, served: ServedLibrary, runner: SkillRunner | None = None) -> None:
        """Choose a toolset.

        Args:
            name: One of `TOOLSETS`.
            served: The library.
            runner: Runs commands of skills, for the toolsets that have a tool for that; None
                for no such tool.

        Raises:
            ConfigError: When the toolset cannot have these roots, or runs nothing.
        """
        if runner is not None and name not in _RUNNING:
            raise ConfigError(
                f"The toolset {name} runs nothing; --allow-run is for {' and '.join(_RUNNING)}."
            )
        if name == "environment" and len(served.roots) > 1:
            raise ConfigError(
                f"The toolset environment has the skills of one folder, not of"
                f" {len(served.roots)}; name one ROOT, or none for the environment in use."
            )
        self.name = name
        self.has_prompt = name in _PROMPTED
        self.names_skills = name in _NAMING
        self.searches = name in _SEARCHING
        self._served = served
        self._runner = runner
        self._seats: OrderedDict[str, _Seat] = OrderedDict()

    @property
    def progress(self) -> IndexProgress | None:
        """How far the first index of the library is; None where there is one."""
        return self._served.progress

    def of(self, session: str) -> Offer:
        """Return what a client is offered now.

        Args:
            session: What tells it from other clients.

        Returns:
            The offer; what the client has loaded stays as long as the server remembers it.

        Raises:
            SkillSearchError: When the toolset needs a library and there is none.
        """
        key = session if self.has_prompt or self._runner else ""
        library = None if self.name in _LATE else self._served.get()
        seat = self._seats.pop(key, None)
        if seat is None or seat.library is not library:
            state = seat.session if seat else SkillSession(lifetime="session")
            client = _Client(self._served, state, self._runner, key)
            seat = _Seat(library, state, _MAKERS[self.name](client))
        self._seats[key] = seat
        if len(self._seats) > MAX_SESSIONS:
            self._seats.popitem(last=False)
        return seat.offer


def _default(client: _Client) -> Offer:
    """Offer the tools of this package, which open the library when they are called."""
    from skillsearch.agents.tools.library_tools import library_tools
    from skillsearch.agents.tools.toolset import Toolset

    served, runner = client.served, client.runner
    tools = library_tools(served.get, threshold=served.settings.threshold)
    if runner is None:
        return Offer(Toolset(tools))
    from skillsearch.agents.tools.run_script import run_script_tool

    return Offer(Toolset([*tools, run_script_tool(served.get, runner, session=client.session)]))


def _manager(client: _Client) -> Offer:
    """Offer skills by name."""
    from skillsearch.agents.toolsets.manager import SkillsManager

    return Offer(SkillsManager(library=client.served.get()).toolset())


def _environment(client: _Client) -> Offer:
    """Offer the skills of one folder, or else those of the environment in use."""
    from skillsearch.agents.toolsets.environment import Environment
    from skillsearch.agents.toolsets.server_environment import ServerEnvironment

    if not client.served.roots:
        return Offer(ServerEnvironment().toolset())
    settings = client.served.settings
    environment = Environment(
        "skills",
        client.served.roots[0],
        index_dir=client.served.index_dir,
        model=settings.model,
        languages=settings.languages,
        threshold=settings.threshold,
    )
    return Offer(environment.toolset())


def _chunks(client: _Client) -> Offer:
    """Offer the chunks of skills whose cores stand in the prompt."""
    from skillsearch.agents.toolsets.chunk_tool import LoadSkillChunkTool
    from skillsearch.agents.toolsets.chunks import SkillManager

    manager = SkillManager(session=client.state, library=client.served.get())
    return Offer(LoadSkillChunkTool(manager).toolset(), manager.get_skills_prompt)


def _workspace(client: _Client) -> Offer:
    """Offer to load skills into the prompt."""
    from skillsearch.agents.toolsets.workspace import WorkspaceToolset

    workspace = WorkspaceToolset(
        client.served.get(), client.state, runner=client.runner, run_session=client.session
    )
    return Offer(workspace.toolset(), workspace.system_prompt)


def _context(client: _Client) -> Offer:
    """Offer skills whose summary stands in the prompt."""
    from skillsearch.agents.toolsets.context import SkillsManager
    from skillsearch.agents.toolsets.context_loader import SkillsLoader
    from skillsearch.agents.toolsets.context_tools import ToolContext, skills_prompt, toolset

    loader = SkillsLoader(library=client.served.get())
    manager = SkillsManager(loader, threshold=client.served.settings.threshold)
    context = ToolContext(workspace_root=Path.cwd(), browser_session=None, skills_manager=manager)
    return Offer(toolset(context), lambda: skills_prompt(manager))


_MAKERS: dict[str, Callable[[_Client], Offer]] = {
    "default": _default,
    "manager": _manager,
    "environment": _environment,
    "chunks": _chunks,
    "workspace": _workspace,
    "context": _context,
}
TOOLSETS = tuple(_MAKERS)
"""Names of the toolsets."""
_LATE = {"default", "environment"}
"""Those that are offered before there is a library."""
_PROMPTED = {"chunks", "workspace", "context"}
_NAMING = {"environment", "workspace"}
_SEARCHING = {"default", "manager", "context"}
_RUNNING = ("default", "workspace")
