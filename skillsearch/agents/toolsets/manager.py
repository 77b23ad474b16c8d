"""Skills by name from one folder: a manager whose answers, errors included, are text for a model.

The tools: ``load_skill``, ``search_skills``, ``load_skill_asset``, ``get_skill_script_path`` and
``list_skill_assets``.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from skillsearch.agents.tools.tool import Tool, ToolArguments
from skillsearch.agents.tools.toolset import Toolset
from skillsearch.config import MAX_QUERY_CHARS, load_settings
from skillsearch.errors import RootError, SkillError, SkillNotFoundError
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.roots.sources import place_of
from skillsearch.setting_values import MAX_N
from skillsearch.text.safe_text import one_line
from skillsearch.types import JsonValue, Languages

ASSET_FOLDERS = ("references", "assets", "scripts")
"""The only folders of a skill that the tools read from."""
NOT_FOUND = "未找到技能: {name}"
"""How an unknown skill is answered: "no such skill"; the nearest names follow."""

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

    Every method looks at the disk as it is at that moment. What goes wrong with one skill is told
    in the text that is returned; nothing is raised for it.
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
        """Look at a folder, which may be missing still.

        Args:
            skills_root: The folder; by default the roots of the settings, or else ``skills``.
            library: Skills that are there already, in the place of all other arguments.
            index_dir: Folder of the index that searches use; by default in the user's cache.
            model: What to load the embedder by.
            languages: Which languages to index for; see `skillsearch.types.LANGUAGES`.
        """
        if library is not None:
            self.roots = tuple(root.path for root in library.roots)
            self.library = library
            return
        if skills_root is None:
            named: tuple[Path | str, ...] = load_settings().roots or ("skills",)
        else:
            named = (skills_root,)
        self.roots = tuple(place_of(root) for root in named)
        self.library = SkillLibrary.from_roots(
            named, index_dir=index_dir, model=model, languages=languages
        )

    def create_root(self) -> Path:
        """Make the folder where it is missing, with a README that says what belongs into it.

        Returns:
            The README; one that is there already stays as it is.

        Raises:
            RootError: When folder or README cannot be written.
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
                f"{self.roots[0]} cannot be made: {exc.strerror}; choose another folder."
            ) from exc
        return readme

    def list_skills(self) -> list[str]:
        """Return the names of all skills; none where the folder is missing."""
        self.library.refresh()
        return [document.name for document in self.library.list()]

    def get_skill_content(self, name: str) -> str:
        """Read the whole SKILL.md of a skill.

        Args:
            name: Name of the skill or of its folder, in any case.

        Returns:
            The text, frontmatter included, or why there is none.
        """
        self.library.refresh()
        try:
            return self.library.source(self._handle(name))
        except SkillError as exc:
            return self._problem(name, exc)

    def search_skills(self, query: str, n: int = 5) -> list[dict[str, str]]:
        """Find the skills that fit a request.

        Args:
            query: What is to be done, in words.
            n: How many skills at most.

        Returns:
            Name and description of each, best first; none where nothing fits.

        Raises:
            QueryError: When the query is empty or too long, or n cannot be used.
        """
        self.library.refresh()
        hits = self.library.search(query, n)
        return [{"name": hit.name, "description": hit.description} for hit in hits]

    def get_skill_asset(self, skill_name: str, relative_path: str) -> str:
        """Read a text file of a skill.

        Args:
            skill_name: Name of the skill or of its folder, in any case.
            relative_path: Path below the skill folder, in one of `ASSET_FOLDERS`.

        Returns:
            The text, or why there is none.
        """
        self.library.refresh()
        try:
            found = self.library.read(
                self._handle(skill_name), relative_path, folders=ASSET_FOLDERS
            )
        except SkillError as exc:
            return self._problem(skill_name, exc)
        if found.encoding == "base64":
            return (
                f"The file {relative_path!r} is no text ({found.size:,} bytes); "
                "use get_skill_script_path or a tool that reads such files."
            )
        return found.content

    def get_skill_script_path(self, skill_name: str, script_name: str) -> str:
        """Find a script of a skill.

        Args:
            skill_name: Name of the skill or of its folder, in any case.
            script_name: Path below the ``scripts`` folder of the skill.

        Returns:
            Its absolute path, or why there is none.
        """
        self.library.refresh()
        try:
            return str(self.library.script_path(self._handle(skill_name), script_name))
        except SkillError as exc:
            return self._problem(skill_name, exc)

    def list_skill_assets(self, skill_name: str) -> list[str]:
        """List the files of a skill that lie in one of `ASSET_FOLDERS`.

        Args:
            skill_name: Name of the skill or of its folder, in any case.

        Returns:
            Paths below the skill folder, sorted; none where there is no such skill.
        """
        self.library.refresh()
        try:
            files, _ = self.library.files(self._handle(skill_name))
        except SkillError:
            return []
        return [file for file in files if file.split("/")[0] in ASSET_FOLDERS]

    def toolset(self) -> Toolset:
        """Return the tools of an agent over this manager."""
        return Toolset(_tools(self))

    def _handle(self, name: str) -> str:
        """Return what the library finds a skill by, given its name or that of its folder."""
        try:
            return self.library.find(name).doc_id
        except SkillNotFoundError:
            found = self.library.in_folder(name)
            if found is None:
                raise
            return found.doc_id

    def _problem(self, name: str, error: SkillError) -> str:
        """Say what is wrong with a skill that was asked for."""
        if not isinstance(error, SkillNotFoundError):
            return str(error)
        for diagnostic in self.library.diagnostics:
            folder = Path(diagnostic.path).parent.name
            if diagnostic.severity == "error" and folder.casefold() == name.casefold():
                return f"{folder}/SKILL.md cannot be read as a skill: {diagnostic.message}"
        near = f" (nearest: {', '.join(error.nearest)})" if error.nearest else ""
        return NOT_FOUND.format(name=one_line(name, 200)) + near


class _LoadSkill(ToolArguments):
    """Arguments of ``load_skill``."""

    skill_name: str = Field(description="Name of the skill, in any case.")


class _SearchSkills(ToolArguments):
    """Arguments of ``search_skills``."""

    query: str = Field(
        min_length=1, max_length=MAX_QUERY_CHARS, description="What is to be done, in words."
    )
    n: int = Field(default=5, ge=1, le=MAX_N, description="How many skills at most.")


class _LoadSkillAsset(ToolArguments):
    """Arguments of ``load_skill_asset``."""

    skill_name: str = Field(description="Name of the skill, in any case.")
    relative_path: str = Field(
        description="Path below the skill, such as references/SPEC.md; see list_skill_assets."
    )


class _GetSkillScriptPath(ToolArguments):
    """Arguments of ``get_skill_script_path``."""

    skill_name: str = Field(description="Name of the skill, in any case.")
    script_name: str = Field(description="Path below its scripts folder, such as compare.py.")


class _ListSkillAssets(ToolArguments):
    """Arguments of ``list_skill_assets``."""

    skill_name: str = Field(description="Name of the skill, in any case.")


def _tools(manager: SkillsManager) -> tuple[Tool, ...]:
    """Return the five tools of a manager."""

    def load_skill(args: _LoadSkill) -> JsonValue:
        return manager.get_skill_content(args.skill_name)

    def search_skills(args: _SearchSkills) -> JsonValue:
        return manager.search_skills(args.query, args.n)

    def load_skill_asset(args: _LoadSkillAsset) -> JsonValue:
        return manager.get_skill_asset(args.skill_name, args.relative_path)

    def get_skill_script_path(args: _GetSkillScriptPath) -> JsonValue:
        return manager.get_skill_script_path(args.skill_name, args.script_name)

    def list_skill_assets(args: _ListSkillAssets) -> JsonValue:
        return manager.list_skill_assets(args.skill_name)

    return (
        Tool(
            "load_skill",
            "Load the whole SKILL.md of a skill and follow it. Search first when you do not know "
            "the name.",
            _LoadSkill,
            load_skill,
        ),
        Tool(
            "search_skills",
            "Find skills for a task: name and description of each, best first, none where nothing "
            "fits. Then load_skill; with no hit, plan the task yourself.",
            _SearchSkills,
            search_skills,
        ),
        Tool(
            "load_skill_asset",
            "Load the text of a file of a skill below references/, assets/ or scripts/, such as a "
            "template or a format to comply with.",
            _LoadSkillAsset,
            load_skill_asset,
        ),
        Tool(
            "get_skill_script_path",
            "Get the absolute path of a script of a skill, to run it with a shell tool.",
            _GetSkillScriptPath,
            get_skill_script_path,
        ),
        Tool(
            "list_skill_assets",
            "List the files of a skill that load_skill_asset and get_skill_script_path take.",
            _ListSkillAssets,
            list_skill_assets,
        ),
    )
