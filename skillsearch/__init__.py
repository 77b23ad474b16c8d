"""Find the right skill for an AI agent: hybrid search over SKILL.md folders that can say "none".

The quickest way in::

    from skillsearch import SkillIndex

    index = SkillIndex.from_roots("~/.claude/skills")
    for hit in index.search("fill in a PDF form"):
        print(f"{hit.score:.2f} {hit.name}")
"""

from typing import TYPE_CHECKING

from skillsearch.errors import SkillSearchError
from skillsearch.types import Diagnostic, Hit, IndexReport, SearchResult, Skill, SkillMetadata

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.tools import search_skills

__all__ = [
    "Diagnostic",
    "Hit",
    "IndexReport",
    "SearchResult",
    "Skill",
    "SkillIndex",
    "SkillMetadata",
    "SkillSearchError",
    "search_skills",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the names that need numpy and faiss when they are first used."""
    if name == "SkillIndex":
        from skillsearch.index.skill_index import SkillIndex

        return SkillIndex
    if name == "search_skills":
        from skillsearch.tools import search_skills

        return search_skills
    raise AttributeError(f"module 'skillsearch' has no attribute {name!r}")
