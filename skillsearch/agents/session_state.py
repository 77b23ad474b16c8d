"""The records of sessions in the state of a host: their keys and values.

Keys are named as in trpc-agent-go, so that a state can pass between the two; the kinds `chunks`,
`since` and `lifetime` are ours. Nobody vouches for a state: values that cannot be used read as
missing, and nothing here raises because of a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, NamedTuple, get_args
from urllib.parse import quote, unquote

from skillsearch.execution.types import ArtifactRef
from skillsearch.types import JsonValue

Kind = Literal["loaded", "docs", "chunks", "since", "lifetime"]
"""The kinds of records of a skill: that it is loaded, its selected documents, its activated chunks,
when it was loaded, and how long it stays."""
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
    """The selected documents of a skill, in the order of their selection.

    `names` is empty if all are selected. `mode` and `delta` say how the selection was made, and
    what that changed; a selection that was only read has none.
    """

    names: tuple[str, ...] = ()
    include_all: bool = False
    mode: SelectMode | None = None
    delta: StateDelta = field(default_factory=StateDelta, compare=False)


@dataclass(frozen=True, slots=True)
class LoadedEntry:
    """A loaded skill, as its caller named it, with its documents and activated chunks in order.

    `since` is in UTC, or None if the state does not tell; `docs` is empty if all are selected.
    """

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

    No two records share a key. Names stand as they are. An agent is percent-encoded if it contains
    a slash, as in trpc-agent-go, or anything that looks like an escape: otherwise ``a/b`` and
    ``a%2Fb`` would share their keys.
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
    if not key.startswith(_PREFIX):
        return None
    head, colon, rest = key[len(_PREFIX) :].partition(":")
    if not colon:
        return None
    if kind := _HEADS.get(head):
        return SkillKey(kind, "", rest)
    segment, slash, name = rest.partition("/")
    agent = _agent(segment)
    if slash and agent and (kind := _AGENT_HEADS.get(head)):
        return SkillKey(kind, agent, name)
    return None


def _segment(agent: str) -> str:
    """Return an agent's name as it stands in a key."""
    if "/" in agent or _ESCAPE.search(agent):
        return quote(agent, safe=_UNESCAPED, errors="surrogatepass")
    return agent


def _agent(segment: str) -> str | None:
    """Undo `_segment`; None if it never returns this."""
    if "%" not in segment:
        return segment
    try:
        agent = unquote(segment, errors="surrogatepass")
    except UnicodeDecodeError:
        return None
    return agent if _segment(agent) == segment else None


def scope(state: Mapping[str, str], agent: str) -> Iterator[SkillKey]:
    """Yield all records of an agent, in the order of the state."""
    for key in state:
        record = parse_key(key) if isinstance(key, str) else None
        if record and record.agent == agent:
            yield record


def text_at(state: Mapping[str, str], key: str) -> str:
    """Return the text at a key; empty if there is none."""
    value = state.get(key)
    return value if isinstance(value, str) else ""


def names_at(state: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the texts of a JSON array, without duplicates."""
    value = parse_json(text_at(state, key))
    if not isinstance(value, list):
        return ()
    return tuple(dict.fromkeys(name for name in value if isinstance(name, str)))


def names_text(names: Iterable[str]) -> str:
    """Return names as a JSON array, without duplicates."""
    return json.dumps(list(dict.fromkeys(names)), ensure_ascii=False, separators=(",", ":"))


def order_of(state: Mapping[str, str], agent: str) -> tuple[str, ...]:
    """Return an agent's loaded skills, least recently touched first.

    As in trpc-agent-go, skills without a recorded touch come last, by name.
    """
    loaded = {
        record.name
        for record in scope(state, agent)
        if record.kind == "loaded" and text_at(state, state_key(*record)) == LOADED
    }
    known = [name for name in names_at(state, order_key(agent)) if name in loaded]
    return (*known, *sorted(loaded.difference(known)))


def selection_at(state: Mapping[str, str], agent: str, name: str) -> DocSelection:
    """Return the selected documents of a skill."""
    key = state_key("docs", agent, name)
    if text_at(state, key) == ALL_DOCS:
        return DocSelection(include_all=True)
    return DocSelection(names_at(state, key))


def since_at(state: Mapping[str, str], agent: str, name: str) -> datetime | None:
    """Return when a skill was loaded, in UTC; a time without a zone counts as UTC."""
    try:
        moment = datetime.fromisoformat(text_at(state, state_key("since", agent, name)))
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def lifetime_at(state: Mapping[str, str], agent: str, name: str) -> Lifetime | None:
    """Return how long a skill stays, or None if the state does not tell."""
    text = text_at(state, state_key("lifetime", agent, name))
    return next((lifetime for lifetime in LIFETIMES if lifetime == text), None)


def artifacts_text(call_id: str, artifacts: Iterable[ArtifactRef]) -> str:
    """Return what a call saved, as the JSON object that trpc-agent-go keeps."""
    saved = [{"name": each.name, "version": each.version, "ref": each.ref} for each in artifacts]
    record = {"tool_call_id": call_id, "artifacts": saved}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def parse_json(text: str) -> JsonValue:
    """Return the value of a JSON text; None if it is invalid or nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def adopt_unowned(state: Mapping[str, str], agent: str) -> Changes:
    """Return the changes that give an agent the loads and selections that nobody owns.

    As in trpc-agent-go, ``temp:skill:loaded:NAME`` and ``temp:skill:docs:NAME`` become keys of the
    agent that opens the state, unless it has a value there; either way the old key goes. Two things
    differ. The order comes along: adopted skills count as touched before the agent's own. And a
    skill with ``temp:skill:lifetime:NAME`` stays: it belongs to a session without an agent, and no
    agent takes from another.
    """
    records = list(scope(state, ""))
    kept = {
        record.name
        for record in records
        if record.kind == "lifetime" and text_at(state, state_key(*record))
    }
    changes: Changes = {}
    for record in records:
        old = state_key(*record)
        value = text_at(state, old)
        if record.kind in {"loaded", "docs"} and record.name not in kept and value:
            new = state_key(record.kind, agent, record.name)
            changes |= {old: None, new: text_at(state, new) or value}
    return changes | _joined_orders(state, agent, kept) if changes else {}


def _joined_orders(state: Mapping[str, str], agent: str, kept: set[str]) -> Changes:
    """Return the orders of the unowned and of an agent after it has adopted some."""
    unowned, mine = order_of(state, ""), order_of(state, agent)
    adopted = [name for name in unowned if name not in kept.union(mine)]
    staying = [name for name in unowned if name in kept]
    return {
        order_key(""): names_text(staying) if staying else None,
        order_key(agent): names_text([*adopted, *mine]) if adopted or mine else None,
    }
