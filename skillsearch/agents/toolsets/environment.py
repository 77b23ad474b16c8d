"""Skills by folder, offered through one tool that says which there are, as they are now.

The tools: ``skill``, and ``search_skills`` where there are more than a description can list.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from skillsearch.agents.tools.library_tools import SearchSkillsArgs
from skillsearch.agents.tools.tool import Tool
from skillsearch.agents.tools.toolset import Toolset
from skillsearch.agents.toolsets.environment_skills import SkillInfo, SkillLoader
from skillsearch.agents.toolsets.environment_tool import DESCRIPTION_CHARS, SkillChoice
from skillsearch.text.safe_text import one_line
from skillsearch.types import JsonValue, Languages

logger = logging.getLogger(__name__)


class Environment:
    """A named place for an agent to work in, with the skills of one folder.

    It knows that folder as it was at the last look: `load_skills` looks, so does whatever is asked
    first, and `list_tools` at every request. It belongs to one thread; a `toolset` keeps the calls
    of its hosts in line.
    """

    def __init__(
        self,
        name: str,
        skills_dir: str | Path | None = None,
        *,
        index_dir: str | Path | None = None,
        model: str = "onnx",
        languages: Languages = "auto",
        threshold: float | None = None,
        description_chars: int = DESCRIPTION_CHARS,
    ) -> None:
        """Make an environment whose skills are not loaded yet.

        Args:
            name: What it is called.
            skills_dir: Folder of its skills, which may be missing still; None for no skills.
            index_dir: Folder of the index that searches use; by default in the user's cache.
            model: What to load the embedder by.
            languages: Which languages to index for; see `skillsearch.types.LANGUAGES`.
            threshold: Lowest accepted score of a search; None for the default.
            description_chars: Characters that the description of the tool may have.

        Raises:
            ValueError: When that is too few to say anything.
        """
        self.name = name
        self.skills_loaded = False
        self._loader = None
        if skills_dir is not None:
            self._loader = SkillLoader(
                skills_dir, index_dir=index_dir, model=model, languages=languages
            )
        self._threshold = threshold
        self._description_chars = description_chars
        self._registered: dict[str, Tool] = {}
        self._take(())

    def load_skills(self) -> None:
        """Look at the folder, and make the tools anew for what is there; raises nothing."""
        if self._loader is None:
            logger.info("No skills directory configured")
            return
        self._take(self._loader.load_all())
        self.skills_loaded = True
        logger.info("Loaded %d skills", len(self._choice.skills))

    def list_skills(self) -> list[SkillInfo]:
        """Return the loaded skills, by id."""
        self._load_once()
        return list(self._choice.skills)

    def get_skill(self, id: str) -> SkillInfo | None:
        """Return a loaded skill, or None where there is none.

        Args:
            id: Its id; in another case, or its name, where that means one skill alone.

        Returns:
            The skill as it was at the last look.
        """
        self._load_once()
        return self._choice.get(id)

    def get_skills_info_for_tool_description(self) -> str:
        """Return the lines by which the tool describes the loaded skills; empty for none."""
        self._load_once()
        return self._choice.lines

    def get_skills_directory(self) -> Path | None:
        """Return the folder of the skills, or None if there is none."""
        self._load_once()
        return None if self._loader is None else self._loader.skills_dir

    def search_skills(
        self, query: str, n: int = 5, threshold: float | None = None
    ) -> list[dict[str, str]]:
        """Find the skills that fit a request.

        Args:
            query: What is to be done, in words.
            n: How many skills at most.
            threshold: Lowest accepted score; None for that of the environment.

        Returns:
            Id, name and description of each, best first; none where nothing fits.

        Raises:
            QueryError: When the query is empty or too long, or n or threshold cannot be used.
        """
        self._load_once()
        if self._loader is None:
            return []
        cut = self._threshold if threshold is None else threshold
        return [
            {"id": one_line(hit.id), "name": hit.shown_name, "description": hit.shown_description}
            for hit in self._loader.search(query, n, cut)
        ]

    def register_tool(self, tool: Tool) -> None:
        """Offer a tool beside those for skills; it replaces a registered one of the same name.

        Args:
            tool: The tool; one with the name of a tool for skills gives way to that.
        """
        self._registered[tool.name] = tool

    def list_tools(self) -> tuple[Tool, ...]:
        """Look at the folder, and return the tools for what is there now."""
        if self.skills_loaded and self._loader is not None:
            skills = self._loader.load_all()
            if skills != self.list_skills():
                self._take(skills)
        self._load_once()
        tools = (*self._registered.values(), *self._skill_tools)
        return tuple({tool.name: tool for tool in tools}.values())

    def toolset(self) -> Toolset:
        """Return the tools for a host, which sees at every request what is there then."""
        return Toolset(self.list_tools)

    def _load_once(self) -> None:
        """Load the skills if that was not done yet."""
        if not self.skills_loaded and self._loader is not None:
            self.load_skills()

    def _take(self, skills: Sequence[SkillInfo]) -> None:
        """Take skills as the loaded ones, and make the tools for them."""
        self._choice = SkillChoice(skills, self._description_chars)
        search = () if self._choice.is_whole else (_search_tool(self),)
        self._skill_tools = (self._choice.tool(), *search)


def _search_tool(environment: Environment) -> Tool:
    """Return the tool that finds what a description has no room for."""

    def search_skills(args: SearchSkillsArgs) -> JsonValue:
        return environment.search_skills(args.query, args.n, args.threshold)

    return Tool(
        "search_skills",
        "Find skills for a task among all that there are: id, name and description of each, best "
        "first, none where nothing fits. Then execute one with skill.",
        SearchSkillsArgs,
        search_skills,
    )
