"""Find the right skill for an AI agent: hybrid search over SKILL.md folders that can say "none".

The quickest way in::

    from skillsearch import SkillIndex

    index = SkillIndex.from_roots("~/.claude/skills")
    for hit in index.search("fill in a PDF form"):
        print(f"{hit.score:.2f} {hit.name}")
"""

import importlib

from skillsearch._version import __version__ as __version__
from skillsearch.errors import SkillSearchError

TYPE_CHECKING = False  # `typing` and the types would cost the hook of a host half its time
if TYPE_CHECKING:
    from skillsearch.agents.default_tools import search_skills
    from skillsearch.agents.session import SkillSession
    from skillsearch.index.skill_index import SkillIndex
    from skillsearch.library.skill_library import SkillLibrary
    from skillsearch.remote.remote_index import RemoteIndex
    from skillsearch.types import Diagnostic, Hit, IndexReport, SearchResult, Skill, SkillMetadata

__all__ = [
    "Diagnostic",
    "Hit",
    "IndexReport",
    "RemoteIndex",
    "SearchResult",
    "Skill",
    "SkillIndex",
    "SkillLibrary",
    "SkillMetadata",
    "SkillSearchError",
    "SkillSession",
    "search_skills",
]

_TYPES = ("Diagnostic", "Hit", "IndexReport", "SearchResult", "Skill", "SkillMetadata")
_LATE = {
    **dict.fromkeys(_TYPES, "skillsearch.types"),
    "RemoteIndex": "skillsearch.remote.remote_index",
    "SkillIndex": "skillsearch.index.skill_index",
    "SkillLibrary": "skillsearch.library.skill_library",
    "SkillSession": "skillsearch.agents.session",
    "search_skills": "skillsearch.agents.default_tools",
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used: some need numpy, faiss or pydantic."""
    if name not in _LATE:
        raise AttributeError(f"module 'skillsearch' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATE[name]), name)
