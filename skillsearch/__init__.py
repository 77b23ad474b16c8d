"""Find the right skill for an AI agent: hybrid search over SKILL.md folders that can say "none"."""

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
    from skillsearch.types.answers import Hit, SearchResult
    from skillsearch.types.indexing import IndexReport
    from skillsearch.types.skills import Diagnostic, Skill, SkillMetadata

__all__ = [
    "Diagnostic", "Hit", "IndexReport", "RemoteIndex", "SearchResult", "Skill", "SkillIndex",
    "SkillLibrary", "SkillMetadata", "SkillSearchError", "SkillSession", "search_skills",
]  # fmt: skip

_HOMES = {
    "RemoteIndex": "remote.remote_index", "SkillIndex": "index.skill_index",
    "SkillLibrary": "library.skill_library", "SkillSession": "agents.session",
    "search_skills": "agents.default_tools", "Hit": "types.answers",
    "SearchResult": "types.answers", "IndexReport": "types.indexing",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a name when it is first used: some need numpy, faiss or pydantic."""
    if name not in __all__:
        raise AttributeError(f"module 'skillsearch' has no attribute {name!r}")
    return getattr(importlib.import_module(f"skillsearch.{_HOMES.get(name, 'types.skills')}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
