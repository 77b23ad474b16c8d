"""Systems to compare: ways to search with their settings, and run files; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.lines import shown
from skillsearch.evaluation.types import SystemSpec
from skillsearch.text.safe_text import one_line
from skillsearch.types import LANGUAGES, SYSTEMS, Languages, System

DEFAULT_SYSTEMS: tuple[System, ...] = ("hybrid", "bm25", "dense")
"""Systems compared by default; the first is the baseline."""

_KEYS = ("system", "model", "fields", "languages", "threshold", "calibration")
_WORDS: Mapping[str, Sequence[str]] = {
    "system": SYSTEMS,
    "fields": ("full", "metadata"),
    "languages": LANGUAGES,
}
"""Settings that are one of some words."""
_MAX_NAME_CHARS = 80
_EXAMPLES = (
    "write hybrid, bm25, dense or rrf; NAME=key:value,... such as "
    "lean=system:hybrid,fields:metadata; or NAME=@FILE for a TREC run file"
)


def parse_systems(
    texts: Iterable[str],
    *,
    model: str = "onnx",
    fields: str = "full",
    languages: Languages = "auto",
) -> tuple[SystemSpec, ...]:
    """Read the systems to compare, each with another name; without texts `DEFAULT_SYSTEMS`."""
    specs: dict[str, SystemSpec] = {}
    for text in list(texts) or DEFAULT_SYSTEMS:
        spec = parse_system(text, model=model, fields=fields, languages=languages)
        if spec.name in specs:
            same = f"Two systems are named {shown(spec.name)}"
            raise EvaluationError(f"{same}; rename one, such as second=system:hybrid")
        specs[spec.name] = spec
    return tuple(specs.values())


def parse_system(
    text: str, *, model: str = "onnx", fields: str = "full", languages: Languages = "auto"
) -> SystemSpec:
    """Read the description of a system; model, fields and languages are defaults.

    It is a name in `SYSTEMS`; ``NAME=key:value,...`` with keys of `_KEYS` and values that may
    contain colons; or ``NAME=@FILE``. An EvaluationError names the piece, and what is allowed.
    """
    name, equals, rest = text.partition("=")
    if not equals and name not in SYSTEMS:
        raise _error(text, "it is not a way to search")
    if not name or name != one_line(name, _MAX_NAME_CHARS):
        problem = f"its name must be 1 to {_MAX_NAME_CHARS} visible characters on one line"
        raise _error(text, problem)
    if rest.startswith("@"):
        if rest == "@":
            raise _error(text, "there is no file name after the @")
        return SystemSpec(name, run=Path(rest[1:]))
    settings: dict[str, Any] = {}
    for piece in rest.split(",") if equals else ():
        key, colon, value = piece.partition(":")
        if not colon or key not in _KEYS:
            problem = f"{shown(piece)} is not a setting; use key:value with one of the keys"
            raise _error(text, f"{problem} {', '.join(_KEYS)}")
        if key in settings:
            raise _error(text, f"it has {key} twice")
        try:
            settings[key] = _value(key, value)
        except ValueError as exc:
            raise _error(text, f"{key} is {shown(value)}; {exc}") from exc
    if name in SYSTEMS and settings.setdefault("system", name) != name:
        raise _error(text, f"{name} is the name of another way to search; choose another name")
    defaults = {"model": model, "fields": fields, "languages": languages}
    return SystemSpec(name, **{**defaults, **settings})


def _value(key: str, value: str) -> str | float | Path:
    """Read the value of a setting; the text of a ValueError completes "KEY is VALUE; ..."."""
    if key == "threshold":
        with suppress(ValueError):
            if 0.0 <= (number := float(value)) <= 1.0:
                return number
        raise ValueError("use a number from 0 to 1")
    if key in _WORDS and value not in _WORDS[key]:
        raise ValueError(f"use one of: {', '.join(_WORDS[key])}")
    if not value.strip():
        raise ValueError("name one")
    return Path(value) if key == "calibration" else value


def _error(text: str, problem: str) -> EvaluationError:
    return EvaluationError(f"--system {shown(text)}: {problem}. In general: {_EXAMPLES}.")
