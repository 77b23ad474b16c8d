"""The keys and values of sessions in the state of a host.

Keys are named as in trpc-agent-go, so that a state can pass between the two; the kinds `chunks`,
`since` and `lifetime` are ours. Nobody vouches for a state: values that cannot be used read as
missing, and nothing here raises because of a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import quote, unquote

from skillsearch.types import JsonValue

Kind = Literal["loaded", "docs", "chunks", "since", "lifetime"]
"""The kinds of records of a skill; `since` is when it was loaded."""
KINDS: tuple[Kind, ...] = get_args(Kind)

Lifetime = Literal["turn", "once", "session"]
"""turn: until the next turn begins; once: until the next model request is done; session: stays."""
LIFETIMES: tuple[Lifetime, ...] = get_args(Lifetime)

SelectMode = Literal["add", "replace", "clear"]
"""How named documents change a selection; clear empties it, whatever is named."""

Changes = dict[str, str | None]
"""New values by key; None removes a key."""

LOADED = "1"
ALL_DOCS = "*"
ARTIFACTS_KEY = "temp:skill:artifacts"
"""The artifacts of the last call that saved any; one record for all agents."""

_PREFIX = "temp:skill:"
_KEY = re.compile(rf"{_PREFIX}({'|'.join(KINDS)})(_by_agent)?:(.*)", re.DOTALL)
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_UNESCAPED = "$&+=:@"
"""Characters that Go's url.PathEscape leaves alone besides letters, digits and ``-_.~``."""


class StateDelta(Changes):
    """Changes of a call to the state, and the skills it evicted, least recently touched first."""

    def __init__(
        self, changes: Mapping[str, str | None] | None = None, evicted: Iterable[str] = ()
    ) -> None:
        super().__init__(changes or {})
        self.evicted = tuple(evicted)


@dataclass(frozen=True, slots=True)
class DocSelection:
    """The selected documents of a skill in order, and how and with what effect they changed."""

    names: tuple[str, ...] = ()
    include_all: bool = False
    mode: SelectMode | None = None
    delta: StateDelta = field(default_factory=StateDelta, compare=False)


@dataclass(frozen=True, slots=True)
class LoadedEntry:
    """A loaded skill with its documents, none if it is all, and activated chunks in order."""

    name: str
    since: datetime | None
    docs: tuple[str, ...]
    include_all_docs: bool
    chunks: tuple[str, ...]


class SkillKey(NamedTuple):
    """The record of a skill for an agent, which is empty for a host without agents."""

    kind: Kind
    agent: str
    name: str


def state_key(kind: Kind, agent: str, name: str) -> str:
    """Return the key of a record, such as ``temp:skill:docs_by_agent:cook/brew-tea``.

    An agent is percent-encoded if it contains a slash, as in trpc-agent-go, or anything that looks
    like an escape: otherwise ``a/b`` and ``a%2Fb`` would share their keys.
    """
    return f"{_head(kind, agent)}/{name}" if agent else f"{_head(kind, agent)}{name}"


def order_key(agent: str) -> str:
    """Return the key of the order in which an agent's skills were touched."""
    return _head("loaded_order", agent)


def _head(kind: str, agent: str) -> str:
    if not agent:
        return f"{_PREFIX}{kind}:"
    if "/" in agent or _ESCAPE.search(agent):
        agent = quote(agent, safe=_UNESCAPED, errors="surrogatepass")
    return f"{_PREFIX}{kind}_by_agent:{agent}"


def parse_key(key: str) -> SkillKey | None:
    """Return the record that a key belongs to, or None if `state_key` never returns that key."""
    found = _KEY.fullmatch(key)
    if found is None:
        return None
    parts: tuple[Any, ...] = found.groups()
    kind, by_agent, rest = parts
    if not by_agent:
        return SkillKey(kind, "", rest)
    segment, slash, name = rest.partition("/")
    try:
        agent = unquote(segment, errors="surrogatepass")
    except UnicodeDecodeError:
        return None
    is_ours = slash and agent and state_key(kind, agent, name) == key
    return SkillKey(kind, agent, name) if is_ours else None


def names_text(names: Iterable[str]) -> str:
    """Return names as a JSON array, without duplicates."""
    return compact_json(list(dict.fromkeys(names)))


def compact_json(value: JsonValue) -> str:
    """Return JSON as trpc-agent-go writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_json(text: str) -> JsonValue:
    """Return the value of a JSON text; None if it is invalid or nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def parse_names(text: str) -> tuple[str, ...]:
    """Return the texts of a JSON array, without duplicates; none if it is anything else."""
    value = parse_json(text)
    names = value if isinstance(value, list) else []
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))
