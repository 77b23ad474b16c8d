"""The toolsets that a server can offer, each imported when it is made, for every session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skillsearch.agents.session import SkillSession
from skillsearch.errors import ConfigError
from skillsearch.index.scope import without_scope

if TYPE_CHECKING:
    from skillsearch.agents.tool import Toolset
    from skillsearch.execution.runner import SkillRunner
    from skillsearch.library.skill_library import SkillLibrary
    from skillsearch.mcp_server.served_library import ServedLibrary

TOOLSETS = ("default", "manager", "environment", "chunks", "workspace", "context")
RUNNING = ("default", "workspace")  # those that can run commands of skills
MAX_SESSIONS = 256  # sessions whose state is kept; the one silent for longest is forgotten

Prompt = Callable[[], str]  # renders what tools want in the system message


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
        if runner is not None and name not in RUNNING:
            running = " and ".join(RUNNING)
            raise ConfigError(f"The toolset {name} runs nothing; --allow-run is for {running}.")
        if name == "environment" and len(served.roots) > 1:
            raise ConfigError(
                f"The toolset environment has the skills of one folder, not of"
                f" {len(served.roots)}; name one ROOT, or none for the environment in use."
            )
        selection = without_scope(served.settings.selection)
        if name == "environment" and any(kind != "strict" for kind, *_ in selection):
            raise ConfigError("The toolset environment cannot select skills; it offers all.")
        self.name = name
        self.served = served
        self.runner = runner
        self.searches = name in ("default", "manager", "context")
        self.has_prompt = name in ("chunks", "workspace", "context")
        self.names_skills = name in ("environment", "workspace")  # in its definitions
        self._offers: OrderedDict[str, Offer] = OrderedDict()

    def of(self, session: str) -> Offer:
        """Return the tools of a session, made again if the library is another one now."""
        key = session if self.has_prompt or self.runner else ""
        is_late = self.name in ("default", "environment")  # needs no library before it is called
        library = None if is_late else self.served.get()
        offer = self._offers.pop(key, None)
        if offer is None or offer.library is not library:
            state = (offer and offer.state) or SkillSession(lifetime="session")
            offer = Offer(*self._make(state, key), library, state)
        self._offers[key] = offer
        if len(self._offers) > MAX_SESSIONS:
            self._offers.popitem(last=False)
        return offer

    def _make(self, state: SkillSession, session: str) -> tuple[Toolset, Prompt | None]:
        served, settings = self.served, self.served.settings
        match self.name:
            case "manager":
                from skillsearch.agents.toolsets.skills_manager import SkillsManager

                return SkillsManager(library=served.get()).toolset(), None
            case "environment":
                from skillsearch.agents.toolsets.environments import Environment, ServerEnvironment

                if not served.roots:
                    return ServerEnvironment().toolset(), None
                environment = Environment(
                    "skills",
                    served.roots[0],
                    index_dir=served.index_dir,
                    model=settings.model,
                    languages=settings.languages,
                    trust=settings.trust,
                    reader=settings.reader,
                    threshold=settings.threshold,
                    strict=bool(without_scope(settings.selection)),
                )
                return environment.toolset(), None
            case "chunks":
                from skillsearch.agents.toolsets.chunks import LoadSkillChunkTool, SkillManager

                chunks = SkillManager(session=state, library=served.get())
                return LoadSkillChunkTool(chunks).toolset(), chunks.get_skills_prompt
            case "workspace":
                from skillsearch.agents.toolsets.workspace import WorkspaceToolset

                workspace = WorkspaceToolset(
                    served.get(), state, runner=self.runner, executor=None, run_session=session
                )
                return workspace.toolset(), workspace.system_prompt
            case "context":
                from skillsearch.agents.toolsets import context

                loader = context.SkillsLoader(library=served.get())
                skills = context.SkillsManager(loader)
                place = context.ToolContext(workspace_root=Path.cwd(), skills_manager=skills)
                return context.toolset(place), lambda: context.skills_prompt(skills)
        from skillsearch.agents.default_tools import library_tools
        from skillsearch.agents.run_tools import run_script_tool
        from skillsearch.agents.tool import Toolset

        tools = library_tools(served.get)
        if self.runner is not None:
            tools += (run_script_tool(served.get, self.runner, session=session),)
        return Toolset(tools), None
