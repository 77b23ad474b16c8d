"""Find the right skill for an AI agent: hybrid search over SKILL.md folders that can say "none".

The quickest way in::

    from skillsearch import SkillIndex

    index = SkillIndex.from_roots("~/.claude/skills")
    for hit in index.search("fill in a PDF form"):
        print(f"{hit.score:.2f} {hit.name}")
"""

import importlib
from typing import TYPE_CHECKING

from skillsearch.errors import SkillSearchError
from skillsearch.types import Diagnostic, Hit, IndexReport, SearchResult, Skill, SkillMetadata

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.library.skill_library import SkillLibrary
    from skillsearch.session.skill_session import SkillSession
    from skillsearch.tools.configured import search_skills

__all__ = [
    "Diagnostic",
    "Hit",
    "IndexReport",
    "SearchResult",
    "Skill",
    "SkillIndex",
    "SkillLibrary",
    "SkillMetadata",
    "SkillSearchError",
    "SkillSession",
    "search_skills",
]
__version__ = "0.1.0"

_LATE = {
    "SkillIndex": "skillsearch.index.skill_index",
    "SkillLibrary": "skillsearch.library.skill_library",
    "SkillSession": "skillsearch.session.skill_session",
    "search_skills": "skillsearch.tools.configured",
}


def __getattr__(name: str) -> object:
    """Import the names that need numpy, faiss or pydantic when they are first used."""
    if name not in _LATE:
        raise AttributeError(f"module 'skillsearch' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATE[name]), name)
