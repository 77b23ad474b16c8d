"""Systems to compare: ways to search with their settings, and run files; pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.lines import shown
from skillsearch.text.safe_text import one_line
from skillsearch.types import LANGUAGES, SYSTEMS, Languages, System

DEFAULT_SYSTEMS: tuple[System, ...] = ("hybrid", "bm25", "dense")
"""Systems compared by default; the first is the baseline."""

_MAX_NAME_CHARS = 80
_EXAMPLES = (
    "write hybrid, bm25, dense or rrf; NAME=key:value,... such as "
    "lean=system:hybrid,fields:metadata; or NAME=@FILE for a TREC run file"
)


@dataclass(frozen=True, slots=True)
class SystemSpec:
    """A system to measure.

    Attributes:
        fields: Indexed fields: ``full``, or ``metadata`` for names and descriptions only.
        threshold: Lowest score that it answers with; None for the default.
        calibration: File with the calibration; None for the packaged one.
        run: Run file with its answers; nothing is searched then, and other settings are unused.
    """

    name: str
    system: System = "hybrid"
    model: str = "onnx"
    fields: str = "full"
    threshold: float | None = None
    calibration: Path | None = None
    languages: Languages = "auto"
    run: Path | None = None

    @property
    def settings(self) -> str:
        """All settings in one line, without languages if the index decides by itself."""
        if self.run is not None:
            return f"run file {self.run}"
        parts = [self.system, f"model {self.model}", f"fields {self.fields}"]
        parts += [] if self.languages == "auto" else [f"languages {self.languages}"]
        parts += [] if self.threshold is None else [f"threshold {self.threshold:g}"]
        parts += [] if self.calibration is None else [f"calibration {self.calibration}"]
        return ", ".join(parts)


def parse_systems(
    texts: Iterable[str],
    *,
    model: str = "onnx",
    fields: str = "full",
    languages: Languages = "auto",
) -> tuple[SystemSpec, ...]:
    """Read the systems to compare, those of `DEFAULT_SYSTEMS` if there are no texts.

    Model, fields and languages hold for systems that do not give their own. Raises EvaluationError
    if one cannot be read, or two have the same name.
    """
    given = list(texts) or DEFAULT_SYSTEMS
    usual: dict[str, Any] = {"model": model, "fields": fields, "languages": languages}
    specs = tuple(parse_system(text, **usual) for text in given)
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen:
            raise EvaluationError(
                f"Two systems are named {shown(spec.name)}; rename one, such as "
                "second=system:hybrid"
            )
        seen.add(spec.name)
    return specs


def parse_system(
    text: str, *, model: str = "onnx", fields: str = "full", languages: Languages = "auto"
) -> SystemSpec:
    """Read the description of a system.

    It is a name in `SYSTEMS`; ``NAME=key:value,...`` with the keys ``system``, ``model``,
    ``fields``, ``languages``, ``threshold`` and ``calibration``; or ``NAME=@FILE``. A value may
    contain colons. Model, fields and languages are defaults. Raises EvaluationError if it is
    something else; names the piece, and what is allowed there.
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
    usual = {"model": model, "fields": fields, "languages": languages}
    given: dict[str, Any] = usual | (_settings(text, rest) if equals else {})
    if name in SYSTEMS and given.setdefault("system", name) != name:
        raise _error(text, f"{name} is the name of another way to search; choose another name")
    return SystemSpec(name, **given)


def _settings(text: str, rest: str) -> dict[str, Any]:
    """Read the settings behind a name."""
    settings: dict[str, Any] = {}
    for piece in rest.split(","):
        key, colon, value = piece.partition(":")
        if not colon or key not in _PARSERS:
            problem = f"{shown(piece)} is not a setting; use key:value with one of the keys"
            raise _error(text, f"{problem} {', '.join(_PARSERS)}")
        if key in settings:
            raise _error(text, f"it has {key} twice")
        try:
            settings[key] = _PARSERS[key](value)
        except ValueError as exc:
            raise _error(text, f"{key} is {shown(value)}; {exc}") from exc
    return settings


def _error(text: str, problem: str) -> EvaluationError:
    return EvaluationError(f"--system {shown(text)}: {problem}. In general: {_EXAMPLES}.")


def _one_of(values: Iterable[str]) -> Callable[[str], str]:
    """Return a parser of one of several words."""
    words = tuple(values)

    def read(value: str) -> str:
        """Return the word; raise ValueError for any other."""
        if value not in words:
            raise ValueError(f"use one of: {', '.join(words)}")
        return value

    return read


def _filled(value: str) -> str:
    """Read a text that is not blank."""
    if not value.strip():
        raise ValueError("name one")
    return value


def _threshold(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0.0 <= number <= 1.0:
        raise ValueError("use a number from 0 to 1")
    return number


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "system": _one_of(SYSTEMS),
    "model": _filled,
    "fields": _one_of(("full", "metadata")),
    "languages": _one_of(LANGUAGES),
    "threshold": _threshold,
    "calibration": lambda value: Path(_filled(value)),
}
"""Parsers of the settings; errors complete the sentence "KEY is VALUE; ..."."""
