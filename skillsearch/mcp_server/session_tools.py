"""The toolsets that a server can offer, each imported when it is made, for every session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from skillsearch.agents.session import SkillSession
from skillsearch.errors import ConfigError
from skillsearch.index.roots.scope import without_scope
from skillsearch.usage.recording import log_of

if TYPE_CHECKING:
    from skillsearch.agents.tool import Toolset
    from skillsearch.execution.runner import SkillRunner
    from skillsearch.library.skill_library import SkillLibrary
    from skillsearch.mcp_server.served_library import ServedLibrary

MAX_SESSIONS = 256  # sessions whose state is kept; the one silent for longest is forgotten

Prompt = Callable[[], str]  # renders what tools want in the system message


class ServedTools(NamedTuple):
    """The tools of a session, its part of the system message, its library and what it loaded."""

    toolset: Toolset
    prompt: Prompt | None = None
    library: SkillLibrary | None = None
    state: SkillSession | None = None


class ServedToolset(NamedTuple):
    """A toolset that a server can offer: how it is made for a session, and what it can do."""

    make: Callable[[ServedLibrary, SkillSession, str, SkillRunner | None], ServedTools]
    searches: bool = False  # always; others only if there are many skills
    has_prompt: bool = False
    names_skills: bool = False  # in the definitions of its tools
    runs: bool = False  # commands of skills
    is_late: bool = False  # needs no library before it is called
    task_tools: tuple[str, ...] = ()  # which search and load; there are prompts for it
    is_one_folder: bool = False  # offers all skills of one folder


def _default(
    served: ServedLibrary, _state: SkillSession, session: str, runner: SkillRunner | None
) -> ServedTools:
    from skillsearch.agents.default_tools import library_tools
    from skillsearch.agents.run_tools import run_script_tool
    from skillsearch.agents.tool import Toolset

    tools = library_tools(served.get)
    if runner is not None:
        tools += (run_script_tool(served.get, runner, session=session),)
    return ServedTools(Toolset(tools))


def _manager(served: ServedLibrary, *_: object) -> ServedTools:
    from skillsearch.agents.toolsets.skills_manager import SkillsManager

    return ServedTools(SkillsManager(library=served.get()).toolset())


def _environment(served: ServedLibrary, *_: object) -> ServedTools:
    from skillsearch.agents.toolsets.environments import Environment
    from skillsearch.agents.toolsets.server_environment import ServerEnvironment
    from skillsearch.library.skill_library import library_config

    if not served.roots:
        return ServedTools(ServerEnvironment(interface="mcp").toolset())
    settings, log = served.settings, log_of(served.settings, "mcp")
    config = library_config(settings)
    config["index_dir"] = served.index_dir
    config["strict"] = bool(without_scope(settings.selection))
    environment = Environment(
        "skills", served.roots[0], threshold=settings.threshold, usage=log, **config
    )
    return ServedTools(environment.toolset())


def _chunks(served: ServedLibrary, state: SkillSession, *_: object) -> ServedTools:
    from skillsearch.agents.toolsets.chunks import LoadSkillChunkTool, SkillManager

    manager = SkillManager(session=state, library=served.get())
    return ServedTools(LoadSkillChunkTool(manager).toolset(), manager.get_skills_prompt)


def _workspace(
    served: ServedLibrary, state: SkillSession, session: str, runner: SkillRunner | None
) -> ServedTools:
    from skillsearch.agents.toolsets.workspace import WorkspaceToolset

    workspace = WorkspaceToolset(
        served.get(), state, runner=runner, executor=None, run_session=session
    )
    return ServedTools(workspace.toolset(), workspace.system_prompt)


def _context(served: ServedLibrary, *_: object) -> ServedTools:
    from skillsearch.agents.toolsets import context

    skills = context.SkillsManager(context.SkillsLoader(library=served.get()))
    shared = context.ToolContext(workspace_root=Path.cwd(), skills_manager=skills)
    return ServedTools(context.toolset(shared), lambda: context.skills_prompt(skills))


TOOLSETS = {
    "default": ServedToolset(
        _default, searches=True, runs=True, is_late=True, task_tools=("search_skills", "load_skill")
    ),
    "manager": ServedToolset(_manager, searches=True),
    "environment": ServedToolset(_environment, names_skills=True, is_late=True, is_one_folder=True),
    "chunks": ServedToolset(_chunks, has_prompt=True),
    "workspace": ServedToolset(_workspace, has_prompt=True, names_skills=True, runs=True),
    "context": ServedToolset(_context, searches=True, has_prompt=True),
}
"""The toolsets that a server can offer, by name."""


class SessionTools:
    """One of the toolsets, for all sessions of a server; not thread-safe."""

    def __init__(self, name: str, served: ServedLibrary, runner: SkillRunner | None = None) -> None:
        """Choose one of `TOOLSETS`; `ConfigError` if it cannot run commands or have these roots."""
        self.row = TOOLSETS[name]
        if runner is not None and not self.row.runs:
            running = " and ".join(name for name, row in TOOLSETS.items() if row.runs)
            raise ConfigError(f"The toolset {name} runs nothing; --allow-run is for {running}.")
        if self.row.is_one_folder and len(served.roots) > 1:
            raise ConfigError(
                f"The toolset {name} has the skills of one folder, not of"
                f" {len(served.roots)}; name one ROOT, or none for the environment in use."
            )
        selection = without_scope(served.settings.selection)
        if self.row.is_one_folder and any(kind != "strict" for kind, *_ in selection):
            raise ConfigError(f"The toolset {name} cannot select skills; it offers all.")
        self.served = served
        self.runner = runner
        self._tools: OrderedDict[str, ServedTools] = OrderedDict()

    def of(self, session: str) -> ServedTools:
        """Return the tools of a session, made again if the library is another one now."""
        key = session if self.row.has_prompt or self.runner else ""
        library = None if self.row.is_late else self.served.get()
        tools = self._tools.pop(key, None)
        if tools is None or tools.library is not library:
            state = (tools and tools.state) or SkillSession(lifetime="session")
            made = self.row.make(self.served, state, key, self.runner)
            tools = made._replace(library=library, state=state)
        self._tools[key] = tools
        if len(self._tools) > MAX_SESSIONS:
            self._tools.popitem(last=False)
        return tools
