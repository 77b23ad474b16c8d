"""The folder of an environment → its skills, each under the name of its own folder."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from skillsearch.files.paths import printable
from skillsearch.index.documents import Document
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.skills.parser import decode_skill_md, read_sections
from skillsearch.skills.resources import read_skill_md
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types import Diagnostic, Hit, Languages

_MAX_NAME_CHARS = 200
_MAX_DESCRIPTION_CHARS = 1024
"""The specification's limit."""
_LISTING_CODES = frozenset({"folder-unreadable", "too-many-folders"})

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SkillInfo:
    """A skill of an environment.

    Attributes:
        id: Its folder, relative to the folder of all skills.
        name: Its name; that of its folder where it says none.
        description: What it does and when to use it, as written.
        path: Absolute path of its file, ``SKILL.md`` or ``skill.md``.
    """

    id: str
    name: str
    description: str
    path: str

    @property
    def shown_name(self) -> str:
        """The name on one line without tricks, for a model."""
        return one_line(self.name, _MAX_NAME_CHARS)

    @property
    def shown_description(self) -> str:
        """The description on one line without tricks, for a model."""
        return one_line(self.description, _MAX_DESCRIPTION_CHARS)

    def read_body(self) -> str:
        """Read the instructions as they are on disk now.

        Returns:
            What follows the frontmatter, its ends stripped, without hidden characters.

        Raises:
            ParseError: When the file cannot be read, or has no frontmatter.
        """
        data, _ = read_skill_md(Path(self.path))
        _, body, _ = read_sections(decode_skill_md(data)[0])
        return visible(body).strip()


class SkillLoader:
    """The skills below one folder.

    What cannot be loaded is skipped, and logged once. Left out too are skills that ask not to be
    offered to models and, of several versions of one, the older.
    """

    def __init__(
        self,
        skills_dir: str | Path,
        *,
        index_dir: str | Path | None = None,
        model: str = "onnx",
        languages: Languages = "auto",
    ) -> None:
        """Name the folder; nothing is read yet.

        Args:
            skills_dir: The folder, which may be missing still.
            index_dir: Folder of the index that searches use; by default in the user's cache.
            model: What to load the embedder by.
            languages: Which languages to index for; see `skillsearch.types.LANGUAGES`.
        """
        self.skills_dir = Path(skills_dir).expanduser().absolute()
        self._index_dir = index_dir
        self._model = model
        self._languages = languages
        self._library: SkillLibrary | None = None
        self._skills: list[SkillInfo] = []
        self._logged: frozenset[Diagnostic] = frozenset()

    def load_all(self) -> list[SkillInfo]:
        """Look at the folder as it is now; what did not change is not read again.

        Returns:
            The skills by id; none where the folder is missing.
        """
        is_first = self._library is None
        library = self._scanned()
        if is_first or library.refresh():
            found = (_info(document) for document in library.list())
            self._skills = sorted(found, key=lambda info: info.id)
        self._log(frozenset(library.diagnostics))
        return list(self._skills)

    def search(self, query: str, n: int = 5, threshold: float | None = None) -> list[SkillInfo]:
        """Find the skills that fit a request, among those that were last loaded.

        Args:
            query: What is to be done, in words.
            n: How many skills at most.
            threshold: Lowest accepted score; None for the default.

        Returns:
            The skills, best first; none where nothing fits.

        Raises:
            QueryError: When the query is empty or too long, or n or threshold cannot be used.
        """
        hits = self._scanned().search(query, n, threshold)
        return [_info(hit) for hit in hits]

    def _scanned(self) -> SkillLibrary:
        """Return the library of the folder, made when it is first needed."""
        if self._library is None:
            self._library = SkillLibrary.from_roots(
                self.skills_dir,
                index_dir=self._index_dir,
                model=self._model,
                languages=self._languages,
            )
        return self._library

    def _log(self, diagnostics: frozenset[Diagnostic]) -> None:
        """Log what could not be loaded, but for what was logged at the look before."""
        for diagnostic in sorted(diagnostics - self._logged, key=lambda found: found.path):
            is_folder = diagnostic.path == printable(self.skills_dir)
            if is_folder or diagnostic.severity == "error":
                logger.warning("%s", one_line(_warning(diagnostic, is_folder=is_folder)))
        self._logged = diagnostics


def _info(found: Document | Hit) -> SkillInfo:
    """Return what an environment knows of a document, whose id is ``root:folder``."""
    folder = found.doc_id.partition(":")[2]
    return SkillInfo(folder, found.name, found.description, found.path)


def _warning(found: Diagnostic, *, is_folder: bool) -> str:
    """Say what could not be loaded."""
    if is_folder or found.code in _LISTING_CODES:
        return f"Failed to read skills directory: {found.path}: {found.message}"
    if found.code == "frontmatter-missing":
        return f"No frontmatter found in {found.path}: {found.message}"
    if found.code == "description-missing":
        return f"Missing name or description in {found.path}: {found.message}"
    if found.code.startswith(("frontmatter-", "yaml-")):
        return f"Failed to parse frontmatter in {found.path}: {found.message}"
    return f"Failed to load skill: {Path(found.path).parent.name}: {found.message}"
