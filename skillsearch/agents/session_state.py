"""The records of sessions in the state of a host: their keys and values.

Keys are named as in trpc-agent-go, so that a state can pass between the two; the kinds `chunks`,
`since` and `lifetime` are ours. Nobody vouches for a state: values that cannot be used read as
missing, and nothing here raises because of a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, NamedTuple, get_args
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
_BY_AGENT = "_by_agent"
_HEADS: dict[str, Kind] = {kind: kind for kind in KINDS}
_AGENT_HEADS: dict[str, Kind] = {kind + _BY_AGENT: kind for kind in KINDS}
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_UNESCAPED = "$&+=:@"
"""Characters that Go's url.PathEscape leaves alone besides letters, digits and ``-_.~``."""


class StateDelta(Changes):
    """What a call changed in the state, and the skills it evicted, least recently touched first."""

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
    if not agent:
        return f"{_PREFIX}{kind}:{name}"
    return f"{_PREFIX}{kind}{_BY_AGENT}:{_segment(agent)}/{name}"


def order_key(agent: str) -> str:
    """Return the key of the order in which an agent's skills were touched."""
    if not agent:
        return f"{_PREFIX}loaded_order:"
    return f"{_PREFIX}loaded_order{_BY_AGENT}:{_segment(agent)}"


def parse_key(key: str) -> SkillKey | None:
    """Return the record that a key belongs to, or None if `state_key` never returns that key."""
    head, colon, rest = key.removeprefix(_PREFIX).partition(":")
    if not colon or not key.startswith(_PREFIX):
        return None
    if kind := _HEADS.get(head):
        return SkillKey(kind, "", rest)
    segment, slash, name = rest.partition("/")
    kind = _AGENT_HEADS.get(head)
    try:
        agent = unquote(segment, errors="surrogatepass") if "%" in segment else segment
    except UnicodeDecodeError:
        return None
    if not slash or not agent or not kind or ("%" in segment and _segment(agent) != segment):
        return None
    return SkillKey(kind, agent, name)


def _segment(agent: str) -> str:
    """Return an agent's name as it stands in a key."""
    if "/" in agent or _ESCAPE.search(agent):
        return quote(agent, safe=_UNESCAPED, errors="surrogatepass")
    return agent


@dataclass(frozen=True, slots=True)
class AgentRecords:
    """The records of one agent in a state; reads only."""

    state: Mapping[str, str]
    agent: str

    def key(self, kind: Kind, name: str) -> str:
        """Return the key of a record."""
        return state_key(kind, self.agent, name)

    def all_keys(self) -> Iterator[SkillKey]:
        """Yield all records, in the order of the state."""
        for key in self.state:
            record = parse_key(key) if isinstance(key, str) else None
            if record and record.agent == self.agent:
                yield record

    def skills(self) -> tuple[str, ...]:
        """Return the skills that have records."""
        return tuple(dict.fromkeys(record.name for record in self.all_keys()))

    def text(self, kind: Kind, name: str) -> str:
        """Return the text of a record; empty if there is none."""
        return _text(self.state, self.key(kind, name))

    def names(self, kind: Kind, name: str) -> tuple[str, ...]:
        """Return the texts of a record that is a JSON array, without duplicates."""
        return _names(self.text(kind, name))

    def order(self) -> tuple[str, ...]:
        """Return the loaded skills, least recently touched first; those never touched last."""
        kinds = ((kind, name) for kind, _, name in self.all_keys())
        loaded = {n for kind, n in kinds if kind == "loaded" and self.text(kind, n) == LOADED}
        touched = _names(_text(self.state, order_key(self.agent)))
        known = [name for name in touched if name in loaded]
        return (*known, *sorted(loaded.difference(known)))

    def in_order(self, names: Sequence[str]) -> Changes:
        """Return the change that makes skills the order."""
        return {order_key(self.agent): names_text(names) if names else None}

    def entry(self, name: str) -> LoadedEntry:
        """Return what is recorded of a skill; a time without a zone counts as UTC."""
        docs = self.selection(name)
        since = None
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(self.text("since", name))
            since = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        return LoadedEntry(name, since, docs.names, docs.include_all, self.names("chunks", name))

    def selection(self, name: str) -> DocSelection:
        """Return the selected documents of a skill."""
        if self.text("docs", name) == ALL_DOCS:
            return DocSelection(include_all=True)
        return DocSelection(self.names("docs", name))

    def lifetime(self, name: str) -> Lifetime | None:
        """Return how long a skill stays, or None if the state does not tell."""
        text = self.text("lifetime", name)
        return next((lifetime for lifetime in LIFETIMES if lifetime == text), None)


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


def _text(state: Mapping[str, str], key: str) -> str:
    value = state.get(key)
    return value if isinstance(value, str) else ""


def _names(text: str) -> tuple[str, ...]:
    value = parse_json(text)
    names = value if isinstance(value, list) else []
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def adopt_unowned(state: Mapping[str, str], agent: str) -> Changes:
    """Return the changes that give an agent the loads and selections that nobody owns.

    As in trpc-agent-go, ``temp:skill:loaded:NAME`` and ``temp:skill:docs:NAME`` become keys of the
    agent that opens the state, unless it has a value there; either way the old key goes. But
    adopted skills count as touched before the agent's own, and a skill with a lifetime stays: it
    belongs to a session without an agent.
    """
    nobody, ours = AgentRecords(state, ""), AgentRecords(state, agent)
    kept = {name for name in nobody.skills() if nobody.text("lifetime", name)}
    changes: Changes = {}
    for kind, _, name in nobody.all_keys():
        value = nobody.text(kind, name)
        if kind in {"loaded", "docs"} and name not in kept and value:
            changes[nobody.key(kind, name)] = None
            changes[ours.key(kind, name)] = ours.text(kind, name) or value
    if not changes:
        return {}
    unowned, mine = nobody.order(), ours.order()
    adopted = [name for name in unowned if name not in kept.union(mine)]
    staying = [name for name in unowned if name in kept]
    return changes | nobody.in_order(staying) | ours.in_order([*adopted, *mine])
