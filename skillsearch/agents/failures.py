"""Errors and diagnostics → messages for a model, and lines of the log.

A model is told a stable code, what was wrong, and the next step, but never where on the host
something lies: such details go to the log, for those who run the host.
"""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from skillsearch import errors
from skillsearch.agents.bounds import first
from skillsearch.errors import SkillSearchError
from skillsearch.text.safe_text import one_line
from skillsearch.types.json_values import Json, JsonObject, object_of, text_of

if TYPE_CHECKING:
    from pydantic import ValidationError

ToolAnswer = JsonObject
"""``{"result": ...}``, or ``{"error": {"code", "message", "next_step", ...}}``."""

MAX_MESSAGE_CHARS = 1_000
INDEXING = "indexing"  # error code of a search while the first index is still being built
_MAX_PROBLEMS = 20
_MAX_PROBLEM_CHARS = 300
_MAX_VALUE_CHARS = 80
_DETAILS = ("nearest", "candidates", "versions", "available", "line")
"""Attributes of errors that help a model in addition to the message."""
_OTHERS = {
    "candidates": ("candidate", "list or search the skills"),
    "available": ("chunk", "SKILL.md has them all"),
}
"""What such a list is of, and where a model finds those that it leaves out."""
_MAX_DETAILS = 50
_QUOTED_PATH = re.compile(r"""(?P<quote>['"])/(?:\\.|(?!(?P=quote)).)*/""")
_BARE_PATH = re.compile(r"(?<![^\s(])/(?:[^\s/]+/)+")

logger = logging.getLogger(__name__)


@cache
def _forms() -> dict[str, dict[str, str]]:
    """Return the message and the next step for each error, by the name of its class."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def failure(
    code: str, message: str, next_step: str, details: Mapping[str, Json] = {}
) -> ToolAnswer:
    """Return the answer of a tool that failed."""
    message = one_line(message, MAX_MESSAGE_CHARS)
    return {"error": {"code": code, "message": message, "next_step": next_step, **details}}


def failure_of(error: SkillSearchError) -> ToolAnswer:
    """Return the answer that one of our errors gives, with whatever else it knows that helps."""
    forms = _forms()
    form = next(forms[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in forms)
    message = form.get("message") or str(error)[: 2 * MAX_MESSAGE_CHARS]
    if "message" in form:
        logger.warning("%s", error)
    elif not isinstance(error, errors.UnsafePathError | LookupError | errors.QueryError):
        message = without_folders(message)  # those echo arguments
    values = {name: getattr(error, name, None) for name in _DETAILS}
    details: JsonObject = {}
    for name, value in values.items():
        if isinstance(value, tuple):
            value, more = first(value, *_OTHERS.get(name, (name, "")), most=_MAX_DETAILS)
            details |= {"left_out": more[0]} if more else {}
        details |= {name: _shown(value)} if value else {}
    return failure(form["code"], message, form["next_step"], details)


def problem_in(answer: ToolAnswer) -> JsonObject:
    """Return the error in the answer of a tool that failed."""
    return object_of(answer["error"])


def without_folders(message: str) -> str:
    """Return a message in which absolute paths have lost their folders."""
    return _BARE_PATH.sub("", _QUOTED_PATH.sub(r"\g<quote>", message))


def message_of(error: SkillSearchError) -> str:
    """Return the message of an error as a model may read it."""
    return text_of(problem_in(failure_of(error))["message"])


def problems_of(error: ValidationError) -> list[str]:
    """Return a line for each of the first arguments that pydantic refused."""
    lines = []
    for problem in error.errors(include_url=False, include_context=False)[:_MAX_PROBLEMS]:
        where = ".".join(map(str, problem["loc"])) or "arguments"
        if problem["type"] != "missing":
            with suppress(ValueError, RecursionError):  # a very long number, a deep nest
                where += f" = {str(problem['input'])[:_MAX_VALUE_CHARS]!r}"
        lines.append(one_line(f"{where}: {problem['msg']}", _MAX_PROBLEM_CHARS))
    return lines


def _shown(value: Json) -> Json:
    """Return a detail as JSON, each text on one line."""
    if isinstance(value, str):
        return one_line(value, MAX_MESSAGE_CHARS)
    if isinstance(value, tuple | list):
        return [_shown(item) for item in value]
    return value
