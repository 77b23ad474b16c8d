"""The skills of a library as every toolset offers them: found, described, searched and read.

If the library has a log of usage, requests and loads are recorded there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from skillsearch.agents.bounds import MAX_CHARS, first
from skillsearch.agents.failures import MAX_MESSAGE_CHARS
from skillsearch.agents.prompt import fit_lines, overview_line
from skillsearch.errors import SelectionError, SkillError, SkillNotFoundError
from skillsearch.index.documents.document import Document
from skillsearch.index.indexing.changes import Changes
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.skills.metadata import MAX_DESCRIPTION_CHARS
from skillsearch.skills.versions import satisfies
from skillsearch.text.provenance import body_warning, record_of_source
from skillsearch.text.safe_text import one_line
from skillsearch.text.states import note_for_model
from skillsearch.types.answers import Hit, SearchResult
from skillsearch.types.json_values import Json, JsonObject, objects_of, texts_of
from skillsearch.types.skills import LOADED_NAME_CHARS, Diagnostic, Skill
from skillsearch.usage.recording import record, record_load

ToolRecord = JsonObject
Describe = Callable[[Diagnostic], str | None]
"""Returns the log line of a diagnostic, or None."""

_LEFT_OUT = "(not listed: {hidden:,} of {total:,} skills; find them with search_skills)"

logger = logging.getLogger(__name__)


class SkillCatalog:
    """Searches and loads the skills of a library for one toolset, and logs their diagnostics."""

    def __init__(
        self,
        library: SkillLibrary,
        *,
        threshold: float | None = None,
        describe: Describe | None = None,
        logger: logging.Logger = logger,
    ) -> None:
        """Take a library, the lowest accepted score, and the log lines of its diagnostics."""
        self.library = library
        self._threshold = threshold
        self._describe, self._logger = describe, logger
        self._logged: frozenset[Diagnostic] = frozenset()
        self._log()

    def refresh(self) -> Changes:
        """Look at the disk, and log each diagnostic when it first appears."""
        changes = self.library.refresh()
        self._log()
        return changes

    def find(self, name: str, constraint: str = "") -> Document:
        """Find a skill by its name or its folder's, in any case, perhaps of some versions."""
        try:
            return self.library.find(f"{name}@{constraint}" if constraint else name)
        except SkillNotFoundError:
            document = self.library.in_folder(name)
            if document is None or not satisfies(document.version, constraint):
                raise
            return document

    def search(self, query: str, n: int, threshold: float | None = None) -> SearchResult:
        """Find the skills for a request, above a threshold, by default the one of the catalog."""
        cut = self._threshold if threshold is None else threshold
        answer = self.library.search(query, n, cut)
        self.note_request(answer)
        return answer

    def note_request(self, answer: SearchResult) -> None:
        """Record the request of an answer that the library gave."""
        library = self.library
        if library.usage and (index := library.index):
            record(library.usage, index, answer, library.selection)

    def note_load(self, name: str) -> None:
        """Record that a model was given a skill, by a name or id that it has just been found by."""
        library = self.library
        if library.usage and (index := library.index):
            with suppress(SkillError, SelectionError):  # it may be gone since
                skill = library.find(name).doc_id
                record_load(library.usage, index, skill, library.selection)

    def note(self, skill: Document | Skill) -> str:
        """Return the note before the body of a skill that nobody vouches for, else nothing."""
        root = self.library.root_of(skill)
        note = body_warning(root.trust, root.origin)
        return f"{note}\n\n" if note else ""

    def overview(
        self, skill: Document | Hit | Skill, limit: int = MAX_DESCRIPTION_CHARS
    ) -> dict[str, str]:
        """Return name and description of a skill as a model sees them, each on one line.

        Trust and origin are there unless its root is vetted; ``also`` if it is a hit with
        near-copies.
        """
        description = one_line(skill.description, limit)
        source = record_of_source(skill if isinstance(skill, Hit) else self.library.root_of(skill))
        return {"name": self.library.handle(skill), "description": description, **source}

    def lines(
        self, skills: Sequence[Document | Hit], room: int, limit: int = MAX_DESCRIPTION_CHARS
    ) -> str:
        """Return a line for each skill; the last one says how many do not fit, and what to do."""
        lines = (f"- {overview_line(self.overview(skill, limit))}" for skill in skills)
        return fit_lines(lines, len(skills), room, _LEFT_OUT)[0]

    def _log(self) -> None:
        if self._describe is None:
            return
        diagnostics = frozenset(self.library.diagnostics)
        new = sorted(diagnostics - self._logged, key=lambda each: (each.path, each.line or 0))
        for diagnostic in new:
            if text := self._describe(diagnostic):
                self._logger.warning("%s", one_line(text, MAX_MESSAGE_CHARS))
        self._logged = diagnostics


def record_of(
    result: SearchResult, row: Callable[[Hit], Mapping[str, Json]], room: int = MAX_CHARS
) -> ToolRecord:
    """Return an answer for a model: the skills that fit, those that may, and a note if needed.

    What it has no room for, ``left_out`` tells.
    """
    rows, fits = list(map(row, result.shown)), len(result)
    shown, left_out = first(rows, "skill", "say the task more exactly", room=room)
    record: ToolRecord = {"skills": shown[:fits], "perhaps": shown[fits:]}
    record |= {"left_out": left_out} if left_out else {}
    note = note_for_model(fits=bool(result), perhaps=bool(result.perhaps))
    return record | ({"note": note} if note else {})


def as_list(record: ToolRecord) -> list[ToolRecord]:
    """Return the skills of an answer: those that fit, then with a ``state`` those that may."""
    perhaps = ({**row, "state": "perhaps"} for row in objects_of(record["perhaps"]))
    left_out: list[ToolRecord] = [
        {"left_out": line} for line in texts_of(record.get("left_out", []))
    ]
    return [*objects_of(record["skills"]), *perhaps, *left_out]


def nearest_of(error: SkillNotFoundError) -> str:
    """Return the nearest names in brackets, for an answer that is one text."""
    nearest = ", ".join(one_line(name, LOADED_NAME_CHARS) for name in error.nearest)
    return f" (nearest: {nearest})" if nearest else ""
