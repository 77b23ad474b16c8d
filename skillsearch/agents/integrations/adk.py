"""A skill registry for Google's Agent Development Kit (extra ``adk``)."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import threading
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field

from skillsearch.agents.bounds import page
from skillsearch.agents.catalog import SkillCatalog
from skillsearch.agents.default_tools import SearchSkillsArgs
from skillsearch.agents.tool import description_of
from skillsearch.errors import SkillError, importing
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.skills.metadata import MAX_COMPATIBILITY_CHARS, MAX_DESCRIPTION_CHARS
from skillsearch.text.provenance import source_tag
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types.json_values import JsonObject

with importing("google-adk", "adk", "The ADK adapter"):
    from google.adk.skills import SkillRegistry
    from google.adk.skills.models import Frontmatter, Resources, Script, Skill

MAX_RESOURCES_BYTES = 16 * 1024 * 1024
"""The most that ADK copies to a sandbox; it wants all files of a skill at once."""
_FOLDERS = ("references", "assets", "scripts")
_IN_SKILL_MD = "go on with this, or tell the user that the skill is too long"
_BLANKS = re.compile(r"[\s_]+")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class SkillSearchRegistry(SkillRegistry):
    """A library as a registry for ADK's ``SkillToolset``: `n` hits an answer, by a threshold.

    ADK accepts only names of lower-case letters, digits and single hyphens. A name that differs
    from that form in case, blanks or underscores is shown in it; a skill that no such name finds is
    left out of the answers, and logged. Files beyond `max_bytes` of a skill are left out too.
    """

    library: SkillLibrary
    _: KW_ONLY
    n: int = 5
    threshold: float | None = None
    max_bytes: int = MAX_RESOURCES_BYTES
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    async def search_skills(self, *, query: str) -> list[Frontmatter]:
        """Find the skills that fit a task, then those that may; `QueryError` for a bad query."""
        return await asyncio.to_thread(self._search, query)

    async def get_skill(self, *, name: str) -> Skill:
        """Read a skill as it is on disk now, with its references, assets and scripts.

        Scripts that are not text are left out. `SkillError` if `search_skills` does not return that
        name, or ADK cannot take the skill.
        """
        return await asyncio.to_thread(self._read, name)

    def search_tool_description(self) -> str:
        """Return the description of ADK's tool ``search_skills``."""
        return description_of(SearchSkillsArgs).replace("task.", "task, said as a sentence.", 1)

    def _search(self, query: str) -> list[Frontmatter]:
        skills = []
        with self._lock:
            answer = SkillCatalog(self.library).search(query, self.n, self.threshold)
            for hit in answer.shown:
                if name := self._name_for(hit.doc_id, hit.name):
                    about = one_line(f"{source_tag(hit)} {hit.description}", MAX_DESCRIPTION_CHARS)
                    skills.append(Frontmatter(name=name, description=about))
        return skills

    def _read(self, name: str) -> Skill:
        with self._lock:
            loaded = self.library.load(name)
            adk_name = self._name_for(loaded.document.doc_id, loaded.skill.name)
            if adk_name is None:
                raise SkillError(
                    f"ADK does not accept the name of the skill {name!r}; rename it to lower-case"
                    " letters, digits and single hyphens."
                )
            resources = self._resources(loaded.document.doc_id, loaded.files)
            catalog = SkillCatalog(self.library)
            catalog.note_load(loaded.document.doc_id)
        metadata = loaded.skill.metadata
        fields = {
            "name": adk_name,
            "description": one_line(metadata.description, MAX_DESCRIPTION_CHARS),
            "license": metadata.license or None,
            "compatibility": one_line(metadata.compatibility, MAX_COMPATIBILITY_CHARS) or None,
            "allowed-tools": " ".join(metadata.allowed_tools) or None,
        }
        extra = {"metadata": metadata.frontmatter.get("metadata")}
        try:
            frontmatter = Frontmatter.model_validate(fields | extra)
        except ValueError:  # metadata that ADK does not understand
            frontmatter = Frontmatter.model_validate(fields)
        body = page(catalog.note(loaded.skill) + visible(loaded.skill.body), then=_IN_SKILL_MD)
        return Skill(frontmatter=frontmatter, instructions=body, resources=resources)

    def _name_for(self, doc_id: str, name: str) -> str | None:
        """Return a name that ADK accepts and that finds this skill, or None."""
        adk_name = _BLANKS.sub("-", one_line(name)).lower()
        with suppress(SkillError, ValueError):  # pydantic's error is a ValueError
            Frontmatter(name=adk_name, description="-")
            if self.library.find(adk_name).doc_id == doc_id:
                return adk_name
        logger.warning("ADK cannot be given the skill %s: no name that it accepts means it", doc_id)
        return None

    def _resources(self, doc_id: str, files: tuple[str, ...]) -> Resources:
        """Read the files in the three folders that ADK knows."""
        left = self.max_bytes
        resources: dict[str, JsonObject] = {folder: {} for folder in _FOLDERS}
        for path in files:
            folder, _, rest = path.partition("/")
            if folder not in _FOLDERS:
                continue
            file = None
            with suppress(SkillError):  # too large or unreadable
                file = self.library.read(doc_id, path)
            if file is None or file.size > left:
                logger.warning("ADK is not given %s of the skill %s", path, doc_id)
                continue
            left -= file.size
            is_text = file.encoding == "text"
            if folder != "scripts":
                data = file.content if is_text else base64.b64decode(file.content)
                resources[folder][rest] = data
            elif is_text:
                resources[folder][rest] = Script(src=file.content)
        return Resources(**resources)
