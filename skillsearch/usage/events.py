"""What a log of usage holds: an event a line, as JSON; pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skillsearch.errors import UnusableError
from skillsearch.types.json_values import Json, JsonObject, checked, list_of, object_of, text_of
from skillsearch.types.skills import LAST_SECOND

Vector = NDArray[np.float32]
"""A request as its embedder has it, at unit length; or several, one a row."""
EventKind = Literal["asked", "loaded", "pin"]
KINDS: tuple[EventKind, ...] = ("asked", "loaded", "pin")
LEVELS = 127
"""A vector is kept in whole numbers from -LEVELS to LEVELS, as shares of its largest."""
MAX_TEXT_CHARS = 1000
_ASKED = b'{"kind": "asked"'


class OfferedSkill(NamedTuple):
    """A skill in an answer, by its id, and its score."""

    skill: str
    score: float


class Event(NamedTuple):
    """A request and its answer, a skill that was loaded, or a request that is pinned to a skill.

    Attributes:
        kind: Which of these.
        at: When, in seconds since 1970.
        index_id: The keyed hash of the folder of the index.
        project_id: The keyed hash of the project, or folder, that it comes from.
        interface: Who answered or loaded: query, find, ui, prompt, hook, mcp, agent, show.
        request_id: The keyed hash of the request; of a load, of the request that led to it.
        model: The fingerprint of the embedder of the vector.
        vector: The request as a vector, 8 bits a number.
        state: What the answer said: fits, perhaps or none.
        offered: The skills that it offered, or would have, best first.
        is_shadow: Whether nothing was offered, only decided.
        skill: The id of the skill that was loaded, or is pinned.
        after: Of a load, which request back led to it, from 1; 0 if none is known.
        text: The words of the request, if they are kept.
    """

    kind: EventKind
    at: int
    index_id: str
    project_id: str = ""
    interface: str = ""
    request_id: str = ""
    model: str = ""
    vector: bytes = b""
    state: str = ""
    offered: tuple[OfferedSkill, ...] = ()
    is_shadow: bool = False
    skill: str = ""
    after: int = 0
    text: str = ""

    def line(self) -> bytes:
        """Return its line: what has its default is left out."""
        usual, values = self._field_defaults, self._asdict()
        record: JsonObject = {key: values[key] for key in values if values[key] != usual.get(key)}
        if self.vector:
            record["vector"] = base64.b64encode(self.vector).decode("ascii")
        return json.dumps(record).encode("ascii") + b"\n"


def read_line(line: bytes) -> Event | None:
    """Return the event of a line, or None if the line is not an event."""
    try:
        record = object_of(json.loads(line))
        values: dict[str, Any] = {name: _value(name, value) for name, value in record.items()}
        return Event(**values) if values["kind"] in KINDS else None
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None


def _value(name: str, value: Json) -> object:
    """Return the value of a field; a TypeError or ValueError if it cannot be that."""
    if name == "vector":
        return base64.b64decode(checked(value, str), validate=True)
    if name == "offered":
        pairs = (list_of(pair) for pair in list_of(value))
        return tuple(OfferedSkill(text_of(skill), checked(at, float)) for skill, at in pairs)
    if name in ("at", "after"):
        if not 0 <= (number := checked(value, int)) <= LAST_SECOND:
            raise UnusableError(f"{name} is out of bounds")
        return number
    return checked(value, bool if name == "is_shadow" else str)


def is_request(line: bytes) -> bool:
    """Return whether a line that we wrote is a request, without parsing it."""
    return line.startswith(_ASKED)


def packed(vector: Vector) -> bytes:
    """Return a vector in 8 bits a number; empty for a vector of zeros."""
    most = float(np.abs(vector).max(initial=0.0))
    return np.rint(vector / most * LEVELS).astype(np.int8).tobytes() if most else b""


def unpacked(vectors: Sequence[bytes]) -> Vector:
    """Return packed vectors of one size as unit rows."""
    rows = np.stack([np.frombuffer(data, np.int8) for data in vectors]).astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units: Vector = rows / np.maximum(lengths, 1e-9)
    return units
