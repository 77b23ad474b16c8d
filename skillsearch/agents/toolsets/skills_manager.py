"""Skills by name from one folder: a manager whose answers, errors included, are text for a model.

The tools: ``load_skill``, ``search_skills``, ``load_skill_asset``, ``get_skill_script_path`` and
``list_skill_assets``.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from skillsearch.agents.tools.tool import Tool, ToolArguments, Toolset
from skillsearch.config import MAX_QUERY_CHARS, load_settings
from skillsearch.errors import RootError, SkillError, SkillNotFoundError
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.roots.sources import place_of
from skillsearch.setting_values import MAX_N
from skillsearch.text.safe_text import one_line
from skillsearch.types import Languages

ASSET_FOLDERS = ("references", "assets", "scripts")
"""The only folders of a skill that the tools read."""
NOT_FOUND = "未找到技能: {name}"
"""The answer for an unknown skill, "no such skill"; the nearest names follow."""

_README = """\
# Skills

Each folder in here is a skill after the Agent Skills specification
(https://agentskills.io/specification): it holds a `SKILL.md`, and may hold `references/`,
`assets/` and `scripts/`.

    skill-name/
        SKILL.md

`SKILL.md` begins with a frontmatter that names the skill as its folder and says what it does and
when to use it; below it stand the instructions:

    ---
    name: skill-name
    description: What it does, and when an agent should use it.
    ---

    # Steps

`skillsearch validate .` checks all skills in here.
"""


class SkillsManager:
    """The skills of one folder, found and read by name.

    Every method looks at the disk as it is then. A skill is named by its own name or its folder's,
    in any case. Problems with a skill are described in the returned text, never raised.
    """

    def __init__(
        self,
        skills_root: str | Path | None = None,
        *,
        library: SkillLibrary | None = None,
        index_dir: str | Path | None = None,
        model: str = "onnx",
        languages: Languages = "auto",
    ) -> None:
        """Look at a folder, which may not exist yet; by default at the roots of the settings.

        A given library is used instead. The other arguments are those of
        `SkillLibrary.from_roots`.
        """
        if library is not None:
            self.roots = tuple(root.path for root in library.roots)
            self.library = library
            return
        named: tuple[Path | str, ...] = (skills_root,) if skills_root is not None else ()
        named = named or load_settings().roots or ("skills",)
        self.roots = tuple(place_of(root) for root in named)
        self.library = SkillLibrary.from_roots(
            named, index_dir=index_dir, model=model, languages=languages
        )

    def create_root(self) -> Path:
        """Create the folder if it is missing, with a README that says what belongs there.

        Returns the README, which is left alone if it exists; raises `RootError` if folder or README
        cannot be written.
        """
        readme = self.roots[0] / "README.md"
        try:
            self.roots[0].mkdir(parents=True, exist_ok=True)
            with readme.open("x", encoding="utf-8") as file:
                file.write(_README)
        except FileExistsError:
            pass
        except OSError as exc:
            raise RootError(
                f"{self.roots[0]} cannot be created: {exc.strerror}; choose another folder."
            ) from exc
        return readme

    def list_skills(self) -> list[str]:
        """Return the names of all skills; empty if the folder is missing."""
        self.library.refresh()
        return [document.name for document in self.library.list()]

    def get_skill_content(self, name: str) -> str:
        """Return the whole SKILL.md of a skill, or why there is none."""
        self.library.refresh()
        try:
            return self.library.source(self._id(name))
        except SkillError as exc:
            return self._problem(name, exc)

    def search_skills(self, query: str, n: int = 5) -> list[dict[str, str]]:
        """Find the skills that fit a request: name and description of each, best first.

        `QueryError` if an argument cannot be used.
        """
        self.library.refresh()
        hits = self.library.search(query, n)
        return [{"name": hit.name, "description": hit.description} for hit in hits]

    def get_skill_asset(self, skill_name: str, relative_path: str) -> str:
        """Return a text file of a skill, in one of `ASSET_FOLDERS`, or why there is none."""
        self.library.refresh()
        try:
            found = self.library.read(self._id(skill_name), relative_path, folders=ASSET_FOLDERS)
        except SkillError as exc:
            return self._problem(skill_name, exc)
        if found.encoding == "base64":
            return (
                f"The file {relative_path!r} is not text ({found.size:,} bytes); "
                "use get_skill_script_path or a tool that reads such files."
            )
        return found.content

    def get_skill_script_path(self, skill_name: str, script_name: str) -> str:
        """Return the absolute path of a file below a skill's ``scripts``, or why there is none."""
        self.library.refresh()
        try:
            return str(self.library.script_path(self._id(skill_name), script_name))
        except SkillError as exc:
            return self._problem(skill_name, exc)

    def list_skill_assets(self, skill_name: str) -> list[str]:
        """Return the paths of a skill's files in `ASSET_FOLDERS`; none for an unknown skill."""
        self.library.refresh()
        try:
            files, _ = self.library.files(self._id(skill_name))
        except SkillError:
            return []
        return [file for file in files if file.split("/")[0] in ASSET_FOLDERS]

    def toolset(self) -> Toolset:
        """Return the tools of an agent over this manager."""
        return Toolset(_tools(self))

    def _id(self, name: str) -> str:
        """Return the id of a skill, given its name or its folder's."""
        try:
            return self.library.find(name).doc_id
        except SkillNotFoundError:
            found = self.library.in_folder(name)
            if found is None:
                raise
            return found.doc_id

    def _problem(self, name: str, error: SkillError) -> str:
        """Describe what is wrong with a skill that was asked for."""
        if not isinstance(error, SkillNotFoundError):
            return str(error)
        for diagnostic in self.library.diagnostics:
            folder = Path(diagnostic.path).parent.name
            if diagnostic.severity == "error" and folder.casefold() == name.casefold():
                return f"{folder}/SKILL.md cannot be read as a skill: {diagnostic.message}"
        near = f" (nearest: {', '.join(error.nearest)})" if error.nearest else ""
        return NOT_FOUND.format(name=one_line(name, 200)) + near


class _OfSkill(ToolArguments):
    """Arguments of ``load_skill`` and ``list_skill_assets``."""

    skill_name: str = Field(description="Name of the skill, in any case.")


class _SearchSkills(ToolArguments):
    """Arguments of ``search_skills``."""

    query: str = Field(
        min_length=1, max_length=MAX_QUERY_CHARS, description="What is to be done, in words."
    )
    n: int = Field(default=5, ge=1, le=MAX_N, description="How many skills at most.")


class _LoadSkillAsset(_OfSkill):
    """Arguments of ``load_skill_asset``."""

    relative_path: str = Field(
        description="Path below the skill, such as references/SPEC.md; see list_skill_assets."
    )


class _GetSkillScriptPath(_OfSkill):
    """Arguments of ``get_skill_script_path``."""

    script_name: str = Field(description="Path below its scripts folder, such as compare.py.")


def _tools(manager: SkillsManager) -> tuple[Tool, ...]:
    return (
        Tool(
            "load_skill",
            "Load the whole SKILL.md of a skill and follow it. Search first if you do not know the"
            " name.",
            _OfSkill,
            lambda args: manager.get_skill_content(args.skill_name),
        ),
        Tool(
            "search_skills",
            "Find skills for a task: name and description of each, best first, none if nothing"
            " fits. Then load_skill; with no hit, plan the task yourself.",
            _SearchSkills,
            lambda args: manager.search_skills(args.query, args.n),
        ),
        Tool(
            "load_skill_asset",
            "Load the text of a file of a skill below references/, assets/ or scripts/, such as a"
            " template or a format to comply with.",
            _LoadSkillAsset,
            lambda args: manager.get_skill_asset(args.skill_name, args.relative_path),
        ),
        Tool(
            "get_skill_script_path",
            "Get the absolute path of a script of a skill, to run it with a shell tool.",
            _GetSkillScriptPath,
            lambda args: manager.get_skill_script_path(args.skill_name, args.script_name),
        ),
        Tool(
            "list_skill_assets",
            "List the files of a skill that load_skill_asset and get_skill_script_path take.",
            _OfSkill,
            lambda args: manager.list_skill_assets(args.skill_name),
        ),
    )
