"""JSON values, records with a JSON form, and checked access: another type raises `TypeError`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field
from numbers import Integral
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias, TypeGuard, TypeVar

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"
"""A JSON value: a text, a number, a truth value, null, or lists and string-keyed maps of them."""

JsonObject: TypeAlias = dict[str, Json]
"""A JSON object."""


class Record:
    """A dataclass with slots that has a JSON form."""

    __slots__: tuple[str, ...] = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    KEYS: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """The JSON keys of fields that have another name."""

    def to_dict(self) -> JsonObject:
        """Return the JSON form; optional fields that have their default are left out."""
        # `asdict` takes far longer, and large corpora have thousands of diagnostics.
        values = {name: getattr(self, name) for name in self.__slots__}
        for name in self.OPTIONAL:
            if values[name] == self.__dataclass_fields__[name].default:
                del values[name]
        return {self.KEYS.get(name, name): _json_form(value) for name, value in values.items()}


def _json_form(value: Any) -> Json:
    if isinstance(value, tuple):
        return [_json_form(item) for item in value]
    return value.to_dict() if isinstance(value, Record) else value


_T = TypeVar("_T")

_SHOWN_CHARS = 80


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number, numpy's too; a truth value is none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def checked(value: object, expected: type[_T]) -> _T:
    """Return a value that has to be of a type."""
    if not isinstance(value, expected):
        raise TypeError(f"{repr(value)[:_SHOWN_CHARS]} is not of type {expected.__name__}")
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
