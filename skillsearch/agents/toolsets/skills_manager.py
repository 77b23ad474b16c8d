"""Skills by name from one folder; answers, errors included, are text for a model."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, Unpack

from pydantic import Field

from skillsearch.agents.bounds import MAX_CHARS, first, page
from skillsearch.agents.catalog import SkillCatalog, as_list, nearest_of, record_of
from skillsearch.agents.failures import MAX_MESSAGE_CHARS
from skillsearch.agents.tool import Offset, SearchArgs, Tool, ToolArguments, Toolset
from skillsearch.errors import (
    QueryError,
    RootError,
    SelectionError,
    SkillError,
    SkillNotFoundError,
    explained,
)
from skillsearch.library.skill_library import LibraryConfig, SkillLibrary
from skillsearch.roots.sources import folder_of
from skillsearch.settings.config import load_only
from skillsearch.text.safe_text import counted, one_line
from skillsearch.types.json_values import Json, JsonObject

ASSET_FOLDERS = ("references", "assets", "scripts")
"""The only folders of a skill that the tools read."""
NOT_FOUND = "未找到技能: {name}"
"""The answer for an unknown skill, "no such skill"; the nearest names follow."""

_README = Path(__file__).with_name("skills_readme.txt")

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class SkillsManager:
    """The skills of one folder as they are on disk, named as in `SkillCatalog.find`.

    Problems with a skill or a request are described in the returned text, or make a list empty and
    are logged; they are never raised. One manager belongs to one thread; the calls of its `toolset`
    take turns.
    """

    def __init__(
        self,
        skills_root: str | Path | None = None,
        *,
        library: SkillLibrary | None = None,
        threshold: float | None = None,
        **options: Unpack[LibraryConfig],
    ) -> None:
        """Look at a folder, by default at the roots of the settings, or take a library.

        The document's folder is ``Path(DOCUMENT_ROOT) / "skills"``. The threshold is the lowest
        accepted score of a search.
        """
        if library is None:
            usual = load_only("roots").roots or ("skills",)
            named = usual if skills_root is None else (skills_root,)
            self.roots = tuple(map(folder_of, named))
            library = SkillLibrary.from_roots(named, **options)
        else:
            self.roots = tuple(root.path for root in library.roots)
        self.library = library
        self._catalog = SkillCatalog(library, threshold=threshold)

    def create_root(self) -> Path:
        """Create the folder with a README, unless they exist; `RootError` if that fails."""
        readme = self.roots[0] / "README.md"
        failed = f"{self.roots[0]} cannot be created: %s; choose another folder."
        with explained(RootError, failed), suppress(FileExistsError):
            self.roots[0].mkdir(parents=True, exist_ok=True)
            with readme.open("x", encoding="utf-8") as file:
                file.write(_README.read_text("utf-8"))
        return readme

    def list_skills(self) -> list[str]:
        """Return the names of all skills; empty if the folder is missing."""
        self.library.refresh()
        return [document.name for document in self.library.list()]

    def get_skill_content(self, name: str) -> str:
        """Return the whole SKILL.md of a skill, or why there is none."""
        return self._answer(name, self._source)

    def _load(self, skill_name: str, offset: int) -> str:
        """Return a page of the same, below a warning if nobody vouches for the skill."""

        def read(doc_id: str) -> str:
            return self._catalog.note(self.library.find(doc_id)) + self._source(doc_id)

        return page(self._answer(skill_name, read), offset)

    def _source(self, doc_id: str) -> str:
        source = self.library.source(doc_id)
        self._catalog.note_load(doc_id)
        return source

    def search_skills(self, query: str, n: int = 5) -> list[JsonObject]:
        """Find the skills for a request: name and description of each, best first.

        Those that only may fit come last, and have a ``state``: *perhaps*.
        """
        return self._search(query, n, sys.maxsize)

    def _search(self, query: str, n: int, room: int = MAX_CHARS) -> list[JsonObject]:
        self.library.refresh()
        try:
            result = self._catalog.search(query, n)
        except QueryError as exc:
            logger.warning("Nothing was searched: %s", exc)
            return []
        return as_list(record_of(result, self._catalog.overview, room))

    def get_skill_asset(self, skill_name: str, relative_path: str) -> str:
        """Return a text file of a skill, in one of `ASSET_FOLDERS`, or why there is none."""

        def read(doc_id: str) -> str:
            file = self.library.read(doc_id, relative_path, folders=ASSET_FOLDERS)
            if file.encoding == "text":
                return file.content
            what = f"The file {relative_path!r} is not text ({counted(file.size, 'byte')})"
            return f"{what}; use get_skill_script_path or a tool that reads such files."

        return self._answer(skill_name, read)

    def get_skill_script_path(self, skill_name: str, script_name: str) -> str:
        """Return the absolute path of a file below a skill's ``scripts``, or why there is none."""
        return self._answer(skill_name, lambda id: str(self.library.script_path(id, script_name)))

    def list_skill_assets(self, skill_name: str) -> list[str] | str:
        """Return the paths of a skill's files in `ASSET_FOLDERS`, or why there is no such skill."""

        def listed(doc_id: str) -> list[str]:
            files, _ = self.library.files(doc_id)
            return [file for file in files if file.split("/")[0] in ASSET_FOLDERS]

        return self._answer(skill_name, listed)

    def _asset(self, skill_name: str, relative_path: str, offset: int) -> str:
        return page(self.get_skill_asset(skill_name, relative_path), offset)

    def _assets(self, skill_name: str, offset: int) -> list[str] | str:
        """Return a page of the paths; the last line tells of the others."""
        paths = self.list_skill_assets(skill_name)
        if isinstance(paths, str):
            return paths
        kept, left_out = first(paths, "file", offset=offset)
        return [*kept, *left_out]

    def toolset(self) -> Toolset:
        """Return the tools of an agent over this manager."""

        def spread(function: Callable[..., Json]) -> Callable[[ToolArguments], Json]:
            return lambda args: function(**dict(args))

        scripts = spread(self.get_skill_script_path)
        return Toolset(
            [
                Tool.of("load_skill", _LoadSkill, spread(self._load)),
                Tool.of("search_skills", _SearchSkills, spread(self._search), searches=True),
                Tool.of("load_skill_asset", _LoadSkillAsset, spread(self._asset)),
                Tool.of("get_skill_script_path", _GetSkillScriptPath, scripts),
                Tool.of("list_skill_assets", _ListSkillAssets, spread(self._assets)),
            ]
        )

    def _answer(self, name: str, get: Callable[[str], _T]) -> _T | str:
        """Return the result of `get` for a skill, by name or folder, or why there is none."""
        self.library.refresh()
        try:
            return get(self._catalog.find(name).doc_id)
        except SkillNotFoundError as exc:
            for diagnostic in self.library.diagnostics:
                folder = Path(diagnostic.path).parent.name
                is_why = diagnostic.severity == "error" or diagnostic.code == "strict-skipped"
                if is_why and folder.casefold() == name.casefold():
                    why = f"{folder}/SKILL.md cannot be read as a skill: {diagnostic.message}"
                    return one_line(why, MAX_MESSAGE_CHARS)
            return NOT_FOUND.format(name=one_line(name, 200)) + nearest_of(exc)
        except (SkillError, SelectionError) as exc:
            return one_line(str(exc), MAX_MESSAGE_CHARS)


class _OfSkill(ToolArguments):
    skill_name: str = Field(description="Name of the skill, in any case.")


class _LoadSkill(_OfSkill):
    """Load the whole SKILL.md of a skill and follow it.

    Search first if you do not know the name.
    """

    offset: Offset = 0


class _SearchSkills(SearchArgs):
    """Find skills for a task: name and description of each, best first, none if nothing fits.

    Then load_skill; with no hit, plan the task yourself.
    """


class _LoadSkillAsset(_OfSkill):
    """Load the text of a file of a skill below references/, assets/ or scripts/.

    It may be a template, or a format to comply with.
    """

    relative_path: str = Field(
        description="Path of the file in the skill's folder, as list_skill_assets lists it."
    )
    offset: Offset = 0


class _GetSkillScriptPath(_OfSkill):
    """Get the absolute path of a script of a skill, to run it with a shell tool."""

    script_name: str = Field(
        description="Path of the script in the skill's scripts folder, such as compare.py."
    )


class _ListSkillAssets(_OfSkill):
    """List the files of a skill that load_skill_asset and get_skill_script_path take."""

    offset: Offset = 0
