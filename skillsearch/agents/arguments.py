"""Arguments of a call as hosts and models send them → a checked model of the tool's arguments.

A value that the model refuses is read again as the one thing that it can mean, if it can.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from skillsearch.text.safe_text import one_line
from skillsearch.types.json_values import Json, JsonObject, object_of

Arguments = Mapping[str, Json] | str | None
"""Arguments of a call, or their JSON text; None or blank text for none."""

MAX_ARGUMENTS_CHARS = 1 << 20
_NOTHING = frozenset({"", "null", "none", "undefined"})
_MOST_ROUNDS = 4  # text that holds a list of texts that hold numbers
_MOST_PROBLEMS = 100
_NEAR = 0.8
"""Least similarity (difflib's ratio) of an unknown argument that may be one that was misspelt."""
_GONE = object()

_Model = TypeVar("_Model", bound=BaseModel)

logger = logging.getLogger(__name__)


def checked(model: type[_Model], arguments: Arguments) -> _Model:
    """Return the arguments of a call as a model; a `ValueError` names each problem.

    Null or nothing in the place of what is optional is left out; so are arguments that hosts add,
    unless one may be misspelt. Numbers, truth values, lists and objects may be text, a text a
    number, and what is single a list of one, or the reverse.
    """
    unset = {name for name, field in model.model_fields.items() if field.default is None}
    values = {
        name: value
        for name, value in parsed(arguments).items()
        if not (name in unset and isinstance(value, str) and not value.strip())
    }
    for _ in range(_MOST_ROUNDS):
        try:
            return model.model_validate(values)
        except ValidationError as error:
            if error.error_count() > _MOST_PROBLEMS:
                raise
            before = values
            for problem in error.errors(include_url=False, include_context=False):
                with suppress(LookupError):
                    values = _mended(model, values, problem["loc"], problem["type"])
            if values is before:
                raise
    return model.model_validate(values)


def parsed(arguments: Arguments) -> JsonObject:
    """Return arguments as a mapping; what a host passes may be anything, else a `ValueError`."""
    if isinstance(arguments, str | bytes) and len(arguments) > MAX_ARGUMENTS_CHARS:
        most = f"{MAX_ARGUMENTS_CHARS:,} characters"
        raise ValueError(f"the arguments have more than {most}; shorten the longest one")
    value: object = arguments
    for _ in range(2):  # some hosts write JSON text as JSON
        if value is None or (isinstance(value, str) and not value.strip()):
            return {}
        if isinstance(value, str | bytes):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"the arguments are not valid JSON; correct: {error}") from error
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(f"the arguments are not an object but {type(value).__name__}; send an object")


def _mended(
    model: type[BaseModel], values: JsonObject, path: tuple[int | str, ...], kind: str
) -> JsonObject:
    """Return values in which the refused one is replaced; LookupError if nothing can replace it."""
    if kind != "extra_forbidden":
        return object_of(_changed(values, path, lambda value: _corrected(kind, value)))
    if len(path) > 1:
        raise LookupError(kind)
    key = str(path[0])
    rest = {name: value for name, value in values.items() if name != key}
    absent = {_folded(name): name for name in model.model_fields if name not in values}
    if name := absent.get(_folded(key)):
        return {**rest, name: values[key]}
    if difflib.get_close_matches(_folded(key), absent, n=1, cutoff=_NEAR):
        raise LookupError(kind)
    logger.info("A host sent an argument that no tool has: %s", one_line(key, 100))
    return rest


def _folded(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _changed(value: Any, path: tuple[int | str, ...], change: Callable[[Any], Any]) -> Any:
    """Return a copy of a value in which the part at a path is changed, or gone."""
    if not path:
        return change(value)
    if not isinstance(value, dict | list):
        raise LookupError(path)
    copy: Any = value.copy()
    copy[path[0]] = _changed(copy[path[0]], path[1:], change)
    if copy[path[0]] is _GONE:
        del copy[path[0]]
    return copy


def _corrected(kind: str, value: Any) -> Any:
    """Return the corrected value if only one correction is possible for this kind of error."""
    wants_text = kind.startswith("string")
    wants_many = kind in {"list_type", "tuple_type"}
    if value is None:
        return _GONE
    if isinstance(value, str) and not wants_text:
        if value.strip().lower() in _NOTHING:
            return _GONE
        with suppress(ValueError, RecursionError):
            if not isinstance(read := json.loads(value), str):
                return read
            value = read
    if wants_many and isinstance(value, str | int | float | dict):
        return [value]
    if isinstance(value, list) and len(value) == 1 and not wants_many:
        return value[0]
    if kind == "string_type" and type(value) in {int, float}:
        return str(value)
    raise LookupError(kind)
