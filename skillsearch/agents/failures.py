"""Errors and diagnostics → what a model is told, and what the log keeps.

A model is told a stable code, what was wrong, and the next step, but never where on the host
something lies: such details go to the log, for those who run the host.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillsearch import errors
from skillsearch.errors import SkillSearchError
from skillsearch.text.safe_text import one_line
from skillsearch.types import Diagnostic, JsonValue

if TYPE_CHECKING:
    from pydantic import ValidationError

Answer = dict[str, JsonValue]
"""``{"result": ...}``, or ``{"error": {"code", "message", "next_step", ...}}``."""

MAX_MESSAGE_CHARS = 1_000
INDEXING = "indexing"  # error code of a search while the first index is still being built
_MAX_PROBLEMS = 20
_MAX_PROBLEM_CHARS = 300
_MAX_VALUE_CHARS = 80
_DETAILS = ("nearest", "candidates", "versions", "available", "line")
"""Attributes of errors that help a model beside the message."""
_MAX_DETAILS = 50
_QUOTED_PATH = re.compile(r"""(?P<quote>['"])/(?:\\.|(?!(?P=quote)).)*/""")
_BARE_PATH = re.compile(r"(?<![^\s(])/(?:[^\s/]+/)+")

logger = logging.getLogger(__name__)

_TELL_USER = "Tell the user; go on without skills."
_FORMS: dict[type, tuple[str, ...]] = {
    errors.SkillNotFoundError: (
        "skill-not-found",
        "Use one of `nearest` if there is any, or search for the task.",
    ),
    errors.SelectionError: ("selection", _TELL_USER),
    errors.VersionNotFoundError: (
        "version-not-found",
        "Use one of `versions`, or the name without a version.",
    ),
    errors.VersionConstraintError: ("version-invalid", "Leave out everything after the last '@'."),
    errors.AmbiguousNameError: ("ambiguous-name", "Use one of `candidates`."),
    errors.ChunkNotFoundError: (
        "chunk-not-found",
        "Use one of `available` if there is any, or go on with the body.",
    ),
    errors.UnsafePathError: ("unsafe-path", "Use a path from the skill's list of files."),
    errors.ParseError: ("parse-error", "Use another skill, or tell the user that it is broken."),
    errors.SkillError: ("skill-error", "Check the skill's list of files, or use another skill."),
    errors.QueryError: ("query-invalid", "Call again with arguments that the message allows."),
    errors.IndexNotFoundError: (
        "no-index",
        "Tell the user to build one: skillsearch index FOLDER",
        "There is no index of skills yet.",
    ),
    errors.IndexingError: (
        INDEXING,
        "Go on without; skills whose names you know can already be loaded.",
    ),
    errors.StorageError: ("storage", _TELL_USER, "The index of skills cannot be read or written."),
    errors.CacheError: (
        "storage",
        _TELL_USER,
        "A part of the index of skills is damaged. To fix: run `skillsearch index --verify`.",
    ),
    errors.EmbedderError: ("embedder", _TELL_USER, "The embedder of the index cannot be used."),
    errors.RootError: ("root", _TELL_USER, "A folder of skills cannot be read."),
    errors.ConfigError: ("config", _TELL_USER, "The settings of skillsearch cannot be used."),
    errors.SkillNotLoadedError: (
        "skill-not-loaded",
        "Call skill_load with this name, then skill_run again.",
    ),
    errors.CommandRefusedError: (
        "command-refused",
        "Use a command that the message allows, or tell the user.",
    ),
    errors.WorkspaceError: ("workspace", "Call again with what the message asks for."),
    errors.ArtifactNotFoundError: (
        "artifact-not-found",
        "Use a name and version from artifact_files of an earlier answer.",
    ),
    errors.IsolationError: (
        "not-isolated",
        _TELL_USER,
        "No command is run: this machine cannot isolate it. The host may allow what isolates"
        " nothing: executor='local'.",
    ),
    errors.ExecutorError: ("executor", _TELL_USER, "Commands cannot be run on this machine."),
    errors.ExecutionError: ("execution", "Call again with other arguments, or tell the user."),
    errors.MissingDependencyError: ("missing-dependency", "Tell the user what to install."),
    SkillSearchError: ("failed", "Call again with other arguments, or go on without."),
}
"""Code, next step and, if the error speaks of the host, another message; base classes count too."""


def failure(code: str, message: str, next_step: str, **details: JsonValue) -> Answer:
    """Return the answer of a tool that failed."""
    message = one_line(message, MAX_MESSAGE_CHARS)
    return {"error": {"code": code, "message": message, "next_step": next_step, **details}}


def failure_of(error: SkillSearchError) -> Answer:
    """Return the answer that one of our errors gives, with whatever else it knows that helps."""
    form = next(_FORMS[kind] for kind in type(error).__mro__ if kind in _FORMS)
    code, next_step, *of_host = form
    message = of_host[0] if of_host else str(error)[: 2 * MAX_MESSAGE_CHARS]
    if of_host:
        logger.warning("%s", error)
    elif not isinstance(error, errors.UnsafePathError | LookupError | errors.QueryError):
        message = without_folders(message)  # those echo arguments
    known = {name: getattr(error, name, None) for name in _DETAILS}
    details = {name: _shown(value) for name, value in known.items() if value}
    return failure(code, message, next_step, **details)


def without_folders(message: str) -> str:
    """Return a message in which absolute paths have lost their folders."""
    return _BARE_PATH.sub("", _QUOTED_PATH.sub(r"\g<quote>", message))


def message_of(error: SkillSearchError) -> str:
    """Return the message of an error as a model may read it."""
    return str(failure_of(error)["error"]["message"])


def problems_of(error: ValidationError) -> list[str]:
    """Return a line for each of the first arguments that pydantic refused."""
    lines = []
    for problem in error.errors(include_url=False, include_context=False)[:_MAX_PROBLEMS]:
        place = ".".join(map(str, problem["loc"])) or "arguments"
        if problem["type"] != "missing":
            with suppress(ValueError, RecursionError):  # a very long number, a deep nest
                place += f" = {str(problem['input'])[:_MAX_VALUE_CHARS]!r}"
        lines.append(one_line(f"{place}: {problem['msg']}", _MAX_PROBLEM_CHARS))
    return lines


@dataclass(slots=True)
class DiagnosticLog:
    """Logs what `describe` returns for each diagnostic when it first appears, if anything."""

    logger: logging.Logger
    describe: Callable[[Diagnostic], str | None]
    known: frozenset[Diagnostic] = frozenset()

    def update(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Log what is new in the current diagnostics, sorted by path."""
        found = frozenset(diagnostics)
        for each in sorted(found - self.known, key=lambda new: (new.path, new.line or 0)):
            if text := self.describe(each):
                self.logger.warning("%s", one_line(text, MAX_MESSAGE_CHARS))
        self.known = found


def _shown(value: JsonValue) -> JsonValue:
    """Return a detail as JSON, each text on one line."""
    if isinstance(value, str):
        return one_line(value, MAX_MESSAGE_CHARS)
    many = isinstance(value, tuple | list)
    return [_shown(item) for item in value[:_MAX_DETAILS]] if many else value
