"""Errors and diagnostics → what a model is told, and what the log keeps.

A model is told a stable code, what was wrong, and the next step, but never where on the host
something lies: such details go to the log, for those who run the host.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from skillsearch.errors import (
    AmbiguousNameError,
    ArtifactNotFoundError,
    CacheError,
    ChunkNotFoundError,
    CommandRefusedError,
    ConfigError,
    EmbedderError,
    ExecutionError,
    ExecutorError,
    IndexingError,
    IndexNotFoundError,
    IsolationError,
    MissingDependencyError,
    ParseError,
    QueryError,
    RootError,
    SkillError,
    SkillNotFoundError,
    SkillNotLoadedError,
    SkillSearchError,
    StorageError,
    UnsafePathError,
    VersionConstraintError,
    VersionNotFoundError,
    WorkspaceError,
)
from skillsearch.text.safe_text import one_line
from skillsearch.types import Diagnostic, JsonValue

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MAX_MESSAGE_CHARS = 1_000
INDEXING = "indexing"
"""Error code of a search while the first index is still being built."""
_MAX_PROBLEMS = 20
_MAX_PROBLEM_CHARS = 300
_MAX_VALUE_CHARS = 80
_DETAILS = ("nearest", "candidates", "versions", "available", "line")
"""Attributes of errors that help a model beside the message."""
_MAX_DETAILS = 50
_QUOTED_PATH = re.compile(r"""(?P<quote>['"])/(?:\\.|(?!(?P=quote)).)*/""")
_BARE_PATH = re.compile(r"(?<![^\s(])/(?:[^\s/]+/)+")

logger = logging.getLogger(__name__)


class _Form(NamedTuple):
    """How one kind of error is told; `message` replaces one that would speak of the host."""

    code: str
    next_step: str
    message: str = ""


_TELL_USER = "Tell the user; go on without skills."
_FORMS: dict[type[SkillSearchError], _Form] = {  # an error takes the form of its nearest base class
    SkillNotFoundError: _Form(
        "skill-not-found", "Use one of `nearest` if there is any, or search for the task."
    ),
    VersionNotFoundError: _Form(
        "version-not-found", "Use one of `versions`, or the name without a version."
    ),
    VersionConstraintError: _Form("version-invalid", "Leave out everything after the last '@'."),
    AmbiguousNameError: _Form("ambiguous-name", "Use one of `candidates`."),
    ChunkNotFoundError: _Form(
        "chunk-not-found", "Use one of `available` if there is any, or go on with the body."
    ),
    UnsafePathError: _Form("unsafe-path", "Use a path from the skill's list of files."),
    ParseError: _Form("parse-error", "Use another skill, or tell the user that it is broken."),
    SkillError: _Form("skill-error", "Check the skill's list of files, or use another skill."),
    QueryError: _Form("query-invalid", "Call again with arguments that the message allows."),
    IndexNotFoundError: _Form(
        "no-index",
        "Tell the user to build one: skillsearch index FOLDER",
        "There is no index of skills yet.",
    ),
    IndexingError: _Form(
        INDEXING, "Go on without; skills whose names you know can already be loaded."
    ),
    StorageError: _Form("storage", _TELL_USER, "The index of skills cannot be read or written."),
    CacheError: _Form(
        "storage",
        _TELL_USER,
        "A part of the index of skills is damaged. To fix: run `skillsearch index --verify`.",
    ),
    EmbedderError: _Form("embedder", _TELL_USER, "The embedder of the index cannot be used."),
    RootError: _Form("root", _TELL_USER, "A folder of skills cannot be read."),
    ConfigError: _Form("config", _TELL_USER, "The settings of skillsearch cannot be used."),
    SkillNotLoadedError: _Form(
        "skill-not-loaded", "Call skill_load with this name, then skill_run again."
    ),
    CommandRefusedError: _Form(
        "command-refused", "Use a command that the message allows, or tell the user."
    ),
    WorkspaceError: _Form("workspace", "Call again with what the message asks for."),
    ArtifactNotFoundError: _Form(
        "artifact-not-found",
        "Use a name and version from artifact_files of an earlier answer.",
    ),
    IsolationError: _Form(
        "not-isolated", _TELL_USER, "No command is run: this machine cannot isolate it."
    ),
    ExecutorError: _Form("executor", _TELL_USER, "Commands cannot be run on this machine."),
    ExecutionError: _Form("execution", "Call again with other arguments, or tell the user."),
    MissingDependencyError: _Form("missing-dependency", "Tell the user what to install."),
    SkillSearchError: _Form("failed", "Call again with other arguments, or go on without."),
}


def failure(
    code: str, message: str, next_step: str, **details: JsonValue
) -> dict[str, dict[str, JsonValue]]:
    """Return the answer of a tool that failed."""
    message = one_line(message, MAX_MESSAGE_CHARS)
    return {"error": {"code": code, "message": message, "next_step": next_step, **details}}


def failure_of(error: SkillSearchError) -> dict[str, dict[str, JsonValue]]:
    """Return the answer that one of our errors gives, with whatever else it knows that helps."""
    form = next(_FORMS[kind] for kind in type(error).__mro__ if kind in _FORMS)
    if form.message:
        logger.warning("%s", error)
    known = {name: getattr(error, name, None) for name in _DETAILS}
    details = {name: _shown(value) for name, value in known.items() if value}
    return failure(form.code, form.message or _without_folders(error), form.next_step, **details)


def message_of(error: SkillSearchError) -> str:
    """Return the message of an error as a model may read it."""
    return str(failure_of(error)["error"]["message"])


def problems_of(error: ValidationError) -> list[str]:
    """Return a line for each argument that pydantic refused, at most twenty."""
    found = error.errors(include_url=False, include_context=False)
    return [
        one_line(f"{_where(problem)}: {problem['msg']}", _MAX_PROBLEM_CHARS)
        for problem in found[:_MAX_PROBLEMS]
    ]


class DiagnosticLog:
    """Logs each diagnostic when it first appears, not again while it stays."""

    def __init__(
        self, logger: logging.Logger, describe: Callable[[Diagnostic], str | None]
    ) -> None:
        """Log to `logger` what `describe` returns; None or an empty text skips a diagnostic."""
        self._logger = logger
        self._describe = describe
        self._known: frozenset[Diagnostic] = frozenset()

    def update(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Log what is new in the current diagnostics, sorted by path."""
        found = frozenset(diagnostics)
        for each in sorted(found - self._known, key=lambda new: (new.path, new.line or 0)):
            if text := self._describe(each):
                self._logger.warning("%s", one_line(text, MAX_MESSAGE_CHARS))
        self._known = found


def _where(problem: ErrorDetails) -> str:
    """Return the name of an argument, or a place within it, and the value that was given."""
    place = ".".join(str(part) for part in problem["loc"]) or "arguments"
    if problem["type"] == "missing":
        return place
    try:
        return f"{place} = {str(problem['input'])[:_MAX_VALUE_CHARS]!r}"
    except (ValueError, RecursionError):  # a number of thousands of digits, a deep nest
        return place


def _without_folders(error: SkillSearchError) -> str:
    """Return a message in which absolute paths have lost their folders."""
    text = str(error)[: 2 * MAX_MESSAGE_CHARS]
    if isinstance(error, UnsafePathError | LookupError | QueryError):  # echoes arguments
        return text
    return _BARE_PATH.sub("", _QUOTED_PATH.sub(r"\g<quote>", text))


def _shown(value: JsonValue) -> JsonValue:
    """Return a detail as JSON, each text on one line."""
    if isinstance(value, str):
        return one_line(value, MAX_MESSAGE_CHARS)
    many = isinstance(value, tuple | list)
    return [_shown(item) for item in value[:_MAX_DETAILS]] if many else value
