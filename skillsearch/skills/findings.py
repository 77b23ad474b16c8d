"""Problems of a skill before anyone says in which file; ``findings.txt`` has what they say."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple, get_args

from skillsearch.text.tables import rows_of
from skillsearch.types.skills import Diagnostic, Severity


class Finding(NamedTuple):
    """A problem in a text, before anyone says which file the text came from; see `Diagnostic`."""

    code: str
    message: str
    line: int | None = None
    severity: Severity = "warning"

    def at(self, path: str) -> Diagnostic:
        """Return this finding as a diagnostic about a path."""
        return Diagnostic(self.code, self.severity, self.message, path, self.line)


@cache
def _texts() -> dict[tuple[str, str], str]:
    return {(title, key): text for title, key, text in rows_of(Path(__file__).with_suffix(".txt"))}


def finding_of(module: str, code: str, *values: object, line: int | None = None) -> Finding:
    """Return what a module says under a code, as severe as the table has it, with these values."""
    for severity in get_args(Severity):
        if text := _texts().get((f"{module}.{severity}", code)):
            return Finding(code, text.format(*values), line, severity)
    raise KeyError(code)
