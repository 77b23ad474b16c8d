"""Skills of a project, found by what they are for; `context_tools` has the tools for agents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skillsearch.agents.tools.library_tools import MAX_DESCRIPTION_CHARS
from skillsearch.agents.toolsets.context_loader import SkillMetadata, SkillsLoader, metadata_of
from skillsearch.index.documents import Document
from skillsearch.library.order import LoadOrder
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.library.source import Changes
from skillsearch.text.safe_text import one_line
from skillsearch.types import Hit, SearchResult

SUMMARY_CHARS = 8_000
"""What hosts list of skills before they cut."""
MIN_SUMMARY_CHARS = 128
"""Room to say that nothing is listed."""

_LEFT_OUT = "(not listed: {:,} of {:,} skills; find them with search_skills)"


class SkillsManager:
    """Finds skills by what they are for; their content is loaded only when it is asked for.

    Like its loader, it shows at every call what is on the disk then.
    """

    def __init__(
        self,
        loader: SkillsLoader,
        *,
        summary_chars: int = SUMMARY_CHARS,
        threshold: float | None = None,
    ) -> None:
        """Take the skills of a loader.

        Args:
            loader: The loader.
            summary_chars: Characters that the summary may have.
            threshold: Lowest accepted score of a search; None for the default, 0.3.

        Raises:
            ValueError: When `summary_chars` is less than `MIN_SUMMARY_CHARS`.
        """
        if summary_chars < MIN_SUMMARY_CHARS:
            raise ValueError(f"summary_chars is {summary_chars}; use {MIN_SUMMARY_CHARS} or more")
        self.loader = loader
        self._summary_chars = summary_chars
        self._threshold = threshold

    @property
    def metadata_list(self) -> list[SkillMetadata]:
        """The metadata of all skills that models may be offered, by name."""
        return self.loader.load_all_metadata()

    def reload(self) -> Changes:
        """Look at the disk, as every call does, and return what came, changed and went."""
        return self.loader.reload()

    def search_skills(self, query: str, limit: int = 3) -> list[SkillMetadata]:
        """Find the skills that fit a request, by the index and not by `calculate_match_score`.

        Args:
            query: What is to be done, in words.
            limit: How many skills at most.

        Returns:
            Their metadata, best first; none where nothing fits.

        Raises:
            QueryError: When the query is empty or too long, or limit or threshold cannot be used.
        """
        return [metadata_of(hit) for hit in self.hits(query, limit)]

    def hits(self, query: str, limit: int) -> SearchResult:
        """Find as `search_skills` does, and return the hits themselves."""
        self.reload()
        return self.loader.library.search(query, limit, self._threshold)

    def get_skill_content(self, skill_name: str) -> str | None:
        """Return the whole Markdown of a skill's file, or None where it cannot be loaded."""
        return self.loader.load_skill_content(skill_name)

    def get_metadata_summary(self) -> str:
        """Return a line for each skill, for a system prompt; where there are too many, for some.

        The last line then says how many are left out, and how to find them.
        """
        return self.lines(self._summary_chars)

    def lines(self, room: int) -> str:
        """Return the summary for another budget, in characters."""
        self.reload()
        return skill_lines(self.loader.library, self.loader.library.list(), room)

    def load_order(self, names: Iterable[str]) -> LoadOrder:
        """Order skills and all that they need; tells what is missing, and what needs itself."""
        self.reload()
        return self.loader.library.load_order(names)


def skill_lines(library: SkillLibrary, found: Sequence[Document | Hit], room: int) -> str:
    """Return a line ``- name: description`` for each skill that there is room for.

    Args:
        library: Where the skills are found by these names.
        found: The skills.
        room: Characters; at least `MIN_SUMMARY_CHARS`.

    Returns:
        The lines, and how many have none.
    """
    lines: list[str] = []
    used = -1
    for skill in found:
        description = one_line(skill.description, MAX_DESCRIPTION_CHARS)
        line = f"- {library.handle(skill)}: {description}"
        used += len(line) + 1
        if used > room:
            break
        lines.append(line)
    else:
        return "\n".join(lines)
    while True:
        text = "\n".join([*lines, _LEFT_OUT.format(len(found) - len(lines), len(found))])
        if len(text) <= room or not lines:
            return text
        lines.pop()


def calculate_match_score(query: str, metadata: SkillMetadata) -> float:
    """Score by keywords alone: a baseline to compare with, which no search uses.

    The whole query in the name counts 0.8, one of its words 0.5; in the description 0.6 and 0.3.
    Upper and lower case are the same, and parts of words count.

    Args:
        query: What is to be done, in words.
        metadata: The skill.

    Returns:
        The best of these, or 0.
    """
    whole = query.lower()
    name = _share(whole, metadata.name.lower(), 0.8, 0.5)
    return max(name, _share(whole, metadata.description.lower(), 0.6, 0.3))


def _share(query: str, text: str, whole: float, part: float) -> float:
    """Return one score where a text has a query whole, another where it has a word of it."""
    if query in text:
        return whole
    return part if any(word in text for word in query.split()) else 0.0
