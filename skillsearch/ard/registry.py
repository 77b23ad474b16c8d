"""Requests to a registry of Agentic Resource Discovery, and its answers: no I/O, no clock.

A `QueryError` says what is wrong with a request.
"""

from __future__ import annotations

import base64
import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from skillsearch.errors import QueryError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.text.safe_text import listed, one_line
from skillsearch.types.json_values import Json, JsonObject, is_whole, list_of, object_of

MAX_PAGE = 100
MAX_HITS = 100
"""Entries of all pages of a search together."""
SEARCH_PAGE, LIST_PAGE = 10, 20
"""Entries on a page if a client names no number."""
FEDERATIONS = ("auto", "referrals", "none")
"""Ways to involve other registries. We know none, so all of them mean the same."""
TERMS = (
    *("identifier", "displayName", "type", "url", "description", "tags", "capabilities"),
    *("representativeQueries", "version", "updatedAt", "metadata", "trustManifest", "publisher"),
)
"""Terms by which a search can be filtered, the last of them a part of the identifier."""

_MAX_EXPRESSION_CHARS = 1_000
_MAX_TOKEN_CHARS = 4_096
_SHOWN_CHARS = 80
_CLAUSE = lazy_pattern(
    r"""\s*(?P<field>\w+)\s*(?P<sign>[=>])\s*(?P<value>'[^']*'|"[^"]*"|.*?)\s*"""
    r"""(?P<more>\sAND\s|\Z)"""
)
_LISTED_BY = ("displayName", "type", "publisherId", "updatedAfter")
_ORDERS = ("displayName", "identifier")
_PARAMETERS = ("filter", "orderBy", "pageSize", "pageToken")

Filter = Mapping[str, frozenset[str]]
"""Values by the path of a term; an entry has one of them, for each path."""


class SearchRequest(NamedTuple):
    """A request of ``POST /search``."""

    text: str
    filter: Filter
    size: int
    offset: int
    digest: str


class ListRequest(NamedTuple):
    """A request of ``GET /agents``: what it is filtered by, its order, and its page.

    A page begins `after` an entry, or at an end of the list.
    """

    by: Mapping[str, Sequence[str]]
    updated_after: datetime | None
    order: str
    is_descending: bool
    size: int
    after: tuple[str, str] | None
    digest: str


class Listed(NamedTuple):
    """The parts of an entry that a list can be filtered by without reading its files."""

    identifier: str
    name: str
    media_type: str


def read_search(body: bytes) -> SearchRequest:
    """Read the body of ``POST /search``, or raise `QueryError`."""
    try:
        record: Json = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise QueryError(
            f'The body is not JSON: {one_line(str(exc), 200)}. Send {{"query": {{"text": "..."}}}}.'
        ) from exc
    request = _object(record, "The body", ("query", "federation", "pageSize", "pageToken"))
    query = _object(request.get("query"), "query", ("@context", "text", "filter"))
    text = query.get("text")
    if not isinstance(text, str) or not text.strip():
        raise QueryError(f"query.text is {_shown(text)}; say in a sentence what is to be done.")
    if request.get("federation", "auto") not in FEDERATIONS:
        raise QueryError(
            f"federation is {_shown(request['federation'])}; use one of: {', '.join(FEDERATIONS)}."
        )
    size = _size(request.get("pageSize", SEARCH_PAGE))
    wanted = _filter(query.get("filter", {}))
    digest = _digest([text, {path: sorted(values) for path, values in wanted.items()}])
    token = request.get("pageToken")
    offset = 0 if token is None else _read_token(token, digest)[0]
    if not isinstance(offset, int) or not 0 <= offset < MAX_HITS:
        raise _unknown_token(token)
    return SearchRequest(text, wanted, size, offset, digest)


def search_answer(request: SearchRequest, entries: Iterable[JsonObject]) -> JsonObject:
    """Return the page that answers a search, given all entries, best first."""
    fitting = (entry for entry in entries if matches(entry, request.filter))
    end = request.offset + request.size
    page = list(islice(fitting, request.offset, end + 1))
    answer: JsonObject = {"results": page[: request.size]}
    if len(page) > request.size and end < MAX_HITS:
        answer["pageToken"] = _token(request.digest, end)
    return answer


def result_of(entry: JsonObject, score: float, state: str, source: str) -> JsonObject:
    """Return an entry as a search tells it: with its score in percent, and whether it fits.

    As the draft says, representative queries are left out; the entry itself has them.
    """
    brief = {key: value for key, value in entry.items() if key != "representativeQueries"}
    brief["metadata"] = {**object_of(entry["metadata"]), "state": state}
    return {**brief, "score": round(100 * max(0.0, min(score, 1.0))), "source": source}


def matches(entry: JsonObject, wanted: Filter) -> bool:
    """Return whether an entry has one of the values, for each path."""
    return all(
        not values.isdisjoint(_comparable(path, value) for value in _values(entry, path))
        for path, values in wanted.items()
    )


def read_list(parameters: Sequence[tuple[str, str]]) -> ListRequest:
    """Read the parameters of ``GET /agents``, or raise `QueryError`."""
    values = _each_once(parameters)
    by = _read_expression(values.get("filter", ""))
    order, is_descending = _order(values.get("orderBy", "displayName"))
    text = values.get("pageSize", str(LIST_PAGE))
    size = _size(int(text) if text.isascii() and text.isdigit() and len(text) < 9 else text)
    digest = _digest([values.get("filter", ""), order, is_descending])
    after = None
    if token := values.get("pageToken"):
        key = _read_token(token, digest)
        if len(key) != 2 or not (isinstance(key[0], str) and isinstance(key[1], str)):
            raise _unknown_token(token)
        after = (key[0], key[1])
    updated = _moment(by["updatedAfter"][0]) if "updatedAfter" in by else None
    return ListRequest(by, updated, order, is_descending, size, after, digest)


def _each_once(parameters: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the parameters by name; `QueryError` for one that is unknown or there twice."""
    names = [name for name, _ in parameters]
    for name in names:
        if name not in _PARAMETERS or names.count(name) > 1:
            raise QueryError(
                f"The parameter {_shown(name)} is unknown or there twice; use each of these once: "
                f"{', '.join(_PARAMETERS)}."
            )
    return dict(parameters)


def list_answer(
    request: ListRequest, entries: Iterable[Listed], entry: Callable[[str], JsonObject | None]
) -> JsonObject:
    """Return a page of the list: in a stable order, which a page token goes on with.

    `entry` makes the entry of an identifier; if that is None, the entry is left out.
    """

    def key(row: Listed) -> tuple[str, str]:
        name = row.name.casefold() if request.order == "displayName" else ""
        return name, row.identifier

    is_listed = _list_filter(request.by)
    keys = sorted(key(row) for row in entries if is_listed(row))
    if request.is_descending:
        end = len(keys) if request.after is None else bisect_left(keys, request.after)
        left = keys[:end][::-1]
    else:
        left = keys[0 if request.after is None else bisect_right(keys, request.after) :]
    items: list[JsonObject] = []
    for position, (_, identifier) in enumerate(left):
        made = entry(identifier)
        if made is not None and _is_recent(made, request.updated_after):
            items.append(made)
        if len(items) == request.size and position + 1 < len(left):
            return {"items": items, "pageToken": _token(request.digest, *left[position])}
    return {"items": items}


def error_record(code: str, message: str) -> JsonObject:
    """Return the error that a registry answers."""
    return {"errorCode": code, "message": one_line(message, 1_000)}


def _object(value: Json, what: str, keys: Sequence[str]) -> Mapping[str, Json]:
    """Return a value that is an object with some keys at most, or raise `QueryError`."""
    if not isinstance(value, dict):
        raise QueryError(f"{what} is {_shown(value)}; use an object with: {', '.join(keys)}.")
    if unknown := [key for key in value if key not in keys]:
        named = listed((one_line(key, _SHOWN_CHARS) for key in unknown), 5)
        raise QueryError(f"{what} has unknown keys: {named}; use: {', '.join(keys)}.")
    return value


def _size(value: Json) -> int:
    if not is_whole(value) or not 1 <= value <= MAX_PAGE:
        raise QueryError(f"pageSize is {_shown(value)}; use a whole number from 1 to {MAX_PAGE}.")
    return value


def _filter(value: Json) -> Filter:
    """Read the filter of a search."""
    if not isinstance(value, dict):
        raise QueryError(f"query.filter is {_shown(value)}; use an object of terms and values.")
    wanted: dict[str, frozenset[str]] = {}
    for path, values in value.items():
        if path.partition(".")[0] not in TERMS:
            raise QueryError(
                f"query.filter has {_shown(path)}, a term that no entry here has; use: "
                f"{', '.join(TERMS)}."
            )
        texts = list_of(values) if isinstance(values, list) else [values]
        if not all(isinstance(text, str) for text in texts):
            raise QueryError(f"query.filter: {path} is {_shown(values)}; use texts.")
        wanted[path] = frozenset(_comparable(path, str(text)) for text in texts)
    return wanted


def _comparable(path: str, value: str) -> str:
    """Return a value as it is compared: in a media type, case and blanks do not count."""
    return "".join(value.split()).casefold() if path == "type" else value


def _values(entry: JsonObject, path: str) -> Iterator[str]:
    """Yield the values of an entry at the path of a term, as texts."""
    if path == "publisher":
        yield str(entry["identifier"]).split(":")[2]
        return
    there: Json = entry
    for part in path.split("."):
        there = there.get(part) if isinstance(there, dict) else None
    for value in there if isinstance(there, list | tuple) else [there]:
        if isinstance(value, str | int | float):
            yield str(value)


def _read_expression(text: str) -> dict[str, tuple[str, ...]]:
    """Read the filter of a list, such as ``type = 'a, b' AND updatedAfter > '2026-01-01'``."""
    hint = "write it as displayName = 'pdf' AND updatedAfter > '2026-01-01'"
    if len(text) > _MAX_EXPRESSION_CHARS:
        raise QueryError(f"filter has {len(text):,} characters; {hint}.")
    by: dict[str, tuple[str, ...]] = {}
    position = 0
    while text.strip() and position < len(text):
        clause = _CLAUSE.match(text, position)
        if clause is None:
            raise QueryError(f"filter has {_shown(text[position:])}, which is no clause; {hint}.")
        field, quoted = clause["field"], clause["value"]
        values = tuple(filter(None, map(str.strip, _unquoted(quoted).split(","))))
        if field not in _LISTED_BY or field in by or not values:
            raise QueryError(
                f"filter has {_shown(clause[0].strip())}; use each of these once, with a value: "
                f"{', '.join(_LISTED_BY)}."
            )
        is_dangling = bool(clause["more"]) and not text[clause.end() :].strip()
        is_unordered = clause["sign"] == ">" and field != "updatedAfter"
        if is_dangling or is_unordered or quoted.endswith(" AND"):
            raise QueryError(f"filter has {_shown(clause[0].strip())}; {hint}.")
        by[field] = values
        position = clause.end()
    return by


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value


def _order(text: str) -> tuple[str, bool]:
    words = text.split()
    direction = words[1].upper() if len(words) == 2 else "ASC"
    if not words or len(words) > 2 or words[0] not in _ORDERS or direction not in ("ASC", "DESC"):
        raise QueryError(
            f"orderBy is {_shown(text)}; use {' or '.join(_ORDERS)}, with ASC or DESC behind it."
        )
    return words[0], direction == "DESC"


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        message = f"updatedAfter is {_shown(text)}; use ISO 8601, such as 2026-01-31T12:00:00Z."
        raise QueryError(message) from exc
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _list_filter(by: Mapping[str, Sequence[str]]) -> Callable[[Listed], bool]:
    """Return what says whether an entry passes the filters of a list."""
    names = [name.casefold() for name in by.get("displayName", ("",))]
    types = {_comparable("type", value) for value in by.get("type", ())}
    publishers = by.get("publisherId")

    def is_listed(row: Listed) -> bool:
        name = row.name.casefold()
        return (
            any(part in name for part in names)
            and (not types or _comparable("type", row.media_type) in types)
            and (publishers is None or row.identifier.split(":")[2] in publishers)
        )

    return is_listed


def _is_recent(entry: JsonObject, after: datetime | None) -> bool:
    return after is None or _moment(str(entry["updatedAt"])) > after


def _digest(request: Json) -> str:
    """Return a digest of a request, which ties page tokens to it."""
    written = json.dumps(request, sort_keys=True).encode()
    return hashlib.sha256(written).hexdigest()[:16]


def _token(digest: str, *position: str | int) -> str:
    return base64.urlsafe_b64encode(json.dumps([digest, *position]).encode()).decode("ascii")


def _read_token(token: Json, digest: str) -> Sequence[Json]:
    """Return the position in a page token of ours, or raise `QueryError`."""
    try:
        is_short = isinstance(token, str) and len(token) <= _MAX_TOKEN_CHARS
        record = json.loads(base64.b64decode(str(token), b"-_", validate=True)) if is_short else []
    except (ValueError, RecursionError):
        record = []
    if not isinstance(record, list) or len(record) < 2 or record[0] != digest:
        raise _unknown_token(token)
    return record[1:]


def _unknown_token(token: Json) -> QueryError:
    return QueryError(
        f"pageToken is {_shown(token)}, which is of no page of this; use the pageToken of the page "
        "before with the same query, filter and order, or none."
    )


def _shown(value: Json) -> str:
    """Return a value as a message quotes it; of a list or an object, only what it is."""
    if isinstance(value, str):
        return repr(one_line(value, _SHOWN_CHARS))
    return type(value).__name__ if isinstance(value, dict | list) else one_line(repr(value), 40)
