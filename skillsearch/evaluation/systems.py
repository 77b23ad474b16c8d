"""The systems of an evaluation, as texts name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from skillsearch.errors import EvaluationError, UnusableError
from skillsearch.evaluation.lines import shown
from skillsearch.evaluation.types import Examples, SystemSpec
from skillsearch.settings.values import parse_reader
from skillsearch.text.safe_text import one_line
from skillsearch.types.answers import SYSTEMS, System

DEFAULT_SYSTEMS: tuple[System, ...] = ("hybrid", "bm25", "dense")
USUAL = SystemSpec("")
"""A system with the defaults."""
_SETTINGS = tuple("system model fields threshold reader calibration examples".split())
_OF_A_RUN = ("run", "threshold", "perhaps")
_WORDS: Mapping[str, Sequence[str]] = {
    "system": SYSTEMS,
    "fields": ("full", "metadata"),
    "examples": get_args(Examples),
}
"""The allowed values of settings that are not free text."""
_MAX_NAME_CHARS = 80
_EXAMPLES = (
    "write hybrid, bm25, dense or rrf; NAME=key:value,... such as "
    "lean=system:hybrid,fields:metadata; or NAME=@FILE for a TREC run file, "
    "NAME=run:FILE,threshold:0.5,perhaps:0.3 for one whose scores say what fits and may fit"
)


def parse_systems(texts: Sequence[str], usual: SystemSpec = USUAL) -> tuple[SystemSpec, ...]:
    """Read the systems to compare, each with another name; without texts `DEFAULT_SYSTEMS`.

    A text is a name in `SYSTEMS`; ``NAME=key:value,...`` with keys of `_SETTINGS` or `_OF_A_RUN`,
    and values that may contain colons; or ``NAME=@FILE``. Settings it does not name are as in the
    `usual` one. An EvaluationError names the piece, and what is allowed.
    """
    specs: dict[str, SystemSpec] = {}
    for text in texts or DEFAULT_SYSTEMS:
        try:
            spec = _parse_system(text, usual)
        except ValueError as exc:
            message = f"--system {shown(text)}: {exc}. In general: {_EXAMPLES}."
            raise EvaluationError(message) from exc
        if spec.name in specs:
            same = f"Two systems are named {shown(spec.name)}"
            raise EvaluationError(f"{same}; rename one, such as second=system:hybrid")
        specs[spec.name] = spec
    return tuple(specs.values())


def _parse_system(text: str, usual: SystemSpec) -> SystemSpec:
    name, equals, rest = text.partition("=")
    if not equals:
        if name not in SYSTEMS:
            raise UnusableError(f"it is not a system; those are {', '.join(SYSTEMS)}")
        return replace(usual, name=name, system=name)
    if not name or name != one_line(name, _MAX_NAME_CHARS):
        raise UnusableError(
            f"its name must be 1 to {_MAX_NAME_CHARS} visible characters on one line"
        )
    if rest == "@":
        raise UnusableError("there is no file name after the @")
    if rest.startswith("@"):
        return SystemSpec(name, run=Path(rest[1:]))
    settings: dict[str, Any] = {}
    for key, value in map(_read_setting, rest.split(",")):
        if key in settings:
            raise UnusableError(f"it has {key} twice")
        settings[key] = value
    if not settings.keys().isdisjoint(("run", "perhaps")):
        return _run_spec(name, settings)
    if name in SYSTEMS and settings.setdefault("system", name) != name:
        raise UnusableError(f"{name} is the name of another way to search; choose another name")
    return replace(usual, name=name, **settings)


def _run_spec(name: str, settings: Mapping[str, Any]) -> SystemSpec:
    """Return a run file with the lowest scores of what fits, and of what may fit."""
    if "run" not in settings or (others := settings.keys() - set(_OF_A_RUN)):
        problem = (
            f"it has {', '.join(sorted(others))} too" if "run" in settings else "it has no run"
        )
        raise UnusableError(f"{problem}; a run file has {', '.join(_OF_A_RUN)}")
    if settings.get("perhaps", 0.0) > settings.get("threshold", 0.0):
        raise UnusableError(
            "perhaps is above the threshold; what may fit scores lower than what fits"
        )
    return SystemSpec(name, **settings)


def _read_setting(piece: str) -> tuple[str, str | float | Path]:
    key, colon, value = piece.partition(":")
    if not colon or key not in (*_SETTINGS, *_OF_A_RUN):
        next_step = f"use key:value with one of the keys {', '.join(_SETTINGS)}"
        raise UnusableError(f"{shown(piece)} is not a setting; {next_step}")
    problem = f"{key} is {shown(value)}"
    if key in ("threshold", "perhaps"):
        with suppress(ValueError):
            if 0.0 <= (number := float(value)) <= 1.0:
                return key, number
        raise UnusableError(f"{problem}; use a number from 0 to 1")
    if key == "reader":
        try:
            return key, parse_reader(value, Path())
        except ValueError as exc:
            raise UnusableError(f"{problem}; it {exc}") from exc
    if value not in _WORDS.get(key, [value]):
        raise UnusableError(f"{problem}; use one of: {', '.join(_WORDS[key])}")
    if not value.strip():
        raise UnusableError(f"{problem}; name one")
    return key, Path(value) if key in ("calibration", "run") else value
