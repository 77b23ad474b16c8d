"""Checked access to JSON whose form is not sure: what has another type raises `TypeError`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from skillsearch.types import Json, JsonObject

_T = TypeVar("_T")

_SHOWN_CHARS = 80


def checked(value: object, kind: type[_T]) -> _T:
    """Return a value that has to be of a type."""
    if not isinstance(value, kind):
        raise TypeError(f"{repr(value)[:_SHOWN_CHARS]} is not of type {kind.__name__}")
    return value


def object_of(value: Json) -> JsonObject:
    """Return a JSON object."""
    return checked(value, dict)


def list_of(value: Json) -> Sequence[Json]:
    """Return a JSON array."""
    return value if isinstance(value, tuple) else checked(value, list)


def objects_of(value: Json) -> list[JsonObject]:
    """Return an array of objects."""
    return list(map(object_of, list_of(value)))


def text_of(value: Json) -> str:
    """Return a text."""
    return checked(value, str)


def texts_of(value: Json) -> tuple[str, ...]:
    """Return an array of texts."""
    return tuple(map(text_of, list_of(value)))


def choice_of(value: Json, choices: Sequence[_T]) -> _T:
    """Return a value that has to be among some; `ValueError` if it is not."""
    for choice in choices:
        if value == choice:
            return choice
    raise ValueError(f"{repr(value)[:_SHOWN_CHARS]} is not one of {', '.join(map(str, choices))}")
