"""One agent's session: which skills, documents and chunks it has loaded, and for how long.

Keys in a host's state are named as in trpc-agent-go, so that a state can pass between the two; the
kinds `chunks`, `since` and `lifetime` are ours. Nobody vouches for a state: values that cannot be
used read as missing, and nothing here raises because of a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, get_args
from urllib.parse import quote, unquote

from skillsearch.execution.types import ArtifactRef
from skillsearch.text.safe_text import counted
from skillsearch.types.json_values import Json, JsonObject
from skillsearch.types.signatures import public

StateKind = Literal["loaded", "docs", "chunks", "since", "lifetime"]
"""The kinds of records of a skill; `since` is when it was loaded."""
KINDS: tuple[StateKind, ...] = get_args(StateKind)

Lifetime = Literal["turn", "once", "session"]
"""turn: until the next turn begins; once: until the next model request is done; session: stays."""
LIFETIMES: tuple[Lifetime, ...] = get_args(Lifetime)

SelectMode = Literal["add", "replace", "clear"]
"""How named documents change a selection; clear empties it, whatever is named."""

StateChanges = dict[str, str | None]  # new values by key; None removes a key

LOADED = "1"
ALL_DOCS = "*"
ARTIFACTS_KEY = "temp:skill:artifacts"
"""The artifacts of the last call that saved any; one record for all agents."""

_PREFIX = "temp:skill:"
_KEY = re.compile(rf"{_PREFIX}({'|'.join(KINDS)})(_by_agent)?:(.*)", re.DOTALL)
_ORDER = "loaded_order"
"""The kind of the record that lists an agent's loaded skills, least recently touched first."""
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_UNESCAPED = "$&+=:@"
"""Characters that Go's url.PathEscape leaves alone besides letters, digits and ``-_.~``."""
_MODES: dict[str, SelectMode] = {"add": "add", "clear": "clear"}

utc_now = partial(datetime.now, UTC)


class StateDelta(StateChanges):
    """Changes of a call to the state, and the skills it evicted, least recently touched first."""

    def __init__(self, changes: StateChanges | tuple[()] = (), evicted: Iterable[str] = ()) -> None:
        super().__init__(changes)
        self.evicted = tuple(evicted)


@dataclass(frozen=True, slots=True)
class DocSelection:
    """The selected documents of a skill in order, and how and with what effect they changed."""

    names: tuple[str, ...] = ()
    include_all: bool = False
    mode: SelectMode | None = None
    delta: StateDelta = field(default_factory=StateDelta, compare=False)


class LoadedEntry(NamedTuple):
    """A loaded skill with its documents, none if it is all, and activated chunks in order."""

    name: str
    since: datetime | None
    docs: tuple[str, ...]
    include_all_docs: bool
    chunks: tuple[str, ...]


class SkillKey(NamedTuple):
    """The record of a skill for an agent, which is empty for a host without agents."""

    kind: StateKind
    agent: str
    name: str


class SessionOptions(TypedDict, total=False):
    """Options of a `SkillSession`."""

    agent: str
    lifetime: Lifetime
    max_loaded: int | None
    clock: Callable[[], datetime] | None


@public()
class SkillSession:
    """The skills that one agent has loaded, kept in a host's state and nowhere else.

    Every call reads the state anew, so sessions may share one; each sees only the records of its
    own agent. Skills are known by names that the caller has resolved. It is not thread-safe.
    Each skill keeps the lifetime of the session that last loaded it; records without one, such as
    those of trpc-agent-go, have that of the session that reads them. If more than ``max_loaded``
    skills would be loaded, the least recently touched makes room. `opening` is what opening the
    session changed in the state. An invalid lifetime or ``max_loaded`` is a `ValueError`.
    """

    def __init__(
        self,
        state: MutableMapping[str, str] | None = None,
        *,
        agent: str = "",
        lifetime: Lifetime = "turn",
        max_loaded: int | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        if lifetime not in LIFETIMES:
            raise ValueError(f"lifetime is {lifetime!r}; use one of: {', '.join(LIFETIMES)}.")
        if max_loaded is not None and max_loaded < 1:
            raise ValueError(f"max_loaded is {max_loaded!r}; use 1 or more, or None for no limit.")
        self.state: MutableMapping[str, str] = {} if state is None else state
        self.agent = agent
        self._lifetime = lifetime
        self._max_loaded = max_loaded
        self._clock = clock or utc_now
        adopted = self._apply(self._adopting() if agent else {})
        evicted = self._surplus(self._order())
        self.opening = StateDelta(adopted | self._drop(evicted), evicted)

    def __repr__(self) -> str:
        return f"<SkillSession with {counted(len(self._order()), 'loaded skill')}>"

    @classmethod
    def from_json(cls, text: str, **options: Unpack[SessionOptions]) -> SkillSession:
        """Open a session on what `to_json` wrote; whatever is not a text in it is left out."""
        members = parse_json(text)
        state = _texts(members.items()) if isinstance(members, dict) else {}
        return cls(state, **options)

    def to_json(self) -> str:
        """Return the whole state, of all agents and of the host, as a JSON object of texts."""
        return json.dumps(_texts(self.state.items()))

    def load(
        self, name: str, docs: Sequence[str] | None = None, *, include_all_docs: bool = False
    ) -> StateDelta:
        """Load a skill, or touch it if it is loaded; it then keeps its time and its chunks.

        `docs` replaces the selected documents, unless it is empty; `include_all_docs` selects all.
        """
        values: dict[StateKind, str] = {"loaded": LOADED, "lifetime": self._lifetime}
        if not self.is_loaded(name):
            values["since"] = self._clock().astimezone(UTC).isoformat()
        if include_all_docs or docs:
            values["docs"] = ALL_DOCS if include_all_docs else names_text(docs or ())
        changes: StateChanges = {self._key(kind, name): value for kind, value in values.items()}
        order = self._touched(name)
        evicted = self._surplus(order)
        changes |= self._in_order(order[len(evicted) :]) | self._forgetting(evicted)
        return self._apply(changes, evicted)

    def unload(self, name: str) -> StateDelta:
        """Forget a skill with its documents and chunks, if anything is recorded of it."""
        return self._drop([name])

    def select_docs(
        self,
        name: str,
        docs: Sequence[str] | None = None,
        *,
        include_all_docs: bool = False,
        mode: str = "replace",
    ) -> DocSelection:
        """Change which documents of a skill are selected; the skill need not be loaded.

        Once all are selected, only ``clear`` narrows that, as in trpc-agent-go. An unknown mode is
        ``replace``.
        """
        how = _MODES.get(mode.strip().lower(), "replace")
        before = self.selection(name)
        include_all = how != "clear" and (include_all_docs or before.include_all)
        earlier = before.names if how == "add" else ()
        names = () if how == "clear" or include_all else (*earlier, *(docs or ()))
        delta = self._record("docs", name, ALL_DOCS if include_all else names_text(names))
        return DocSelection(tuple(dict.fromkeys(names)), include_all, how, delta)

    def activate_chunk(self, name: str, chunk_id: str) -> StateDelta:
        """Record that a chunk of a skill was handed out; the skill need not be loaded."""
        return self._record("chunks", name, names_text([*self.active_chunks(name), chunk_id]))

    def deactivate_chunks(self, name: str, chunk_ids: Collection[str] | None = None) -> StateDelta:
        """Forget that some chunks of a skill, or with None all, were handed out."""
        active = self.active_chunks(name)
        left = [] if chunk_ids is None else [each for each in active if each not in chunk_ids]
        return self._apply({self._key("chunks", name): names_text(left) if left else None})

    def reset_chunks(self) -> None:
        """Forget that any chunk of any skill was handed out."""
        for name in self._skills():
            self.deactivate_chunks(name)

    def record_artifacts(self, artifacts: Iterable[ArtifactRef], call_id: str = "") -> StateDelta:
        """Record the artifacts that the host's call saved, in place of the previous record."""
        saved = [{**asdict(each), "ref": each.ref} for each in artifacts]
        record: JsonObject = {"tool_call_id": call_id, "artifacts": saved}
        return self._apply({ARTIFACTS_KEY: compact_json(record)})

    def begin_turn(self) -> StateDelta:
        """Forget the skills loaded for the previous turn; the host calls this at each new turn."""
        return self._end("turn")

    def end_request(self) -> StateDelta:
        """Forget the skills loaded for one model request; the host calls this after each."""
        return self._end("once")

    def is_loaded(self, name: str) -> bool:
        """Return whether a skill is loaded."""
        return self._text("loaded", name) == LOADED

    def selection(self, name: str) -> DocSelection:
        """Return the selected documents of a skill, loaded or not."""
        text = self._text("docs", name)
        return DocSelection(parse_names(text), text == ALL_DOCS)

    def active_chunks(self, name: str) -> tuple[str, ...]:
        """Return the ids of a skill's activated chunks, in the order of their activation."""
        return parse_names(self._text("chunks", name))

    def loaded(self) -> tuple[LoadedEntry, ...]:
        """Return the loaded skills, least recently touched first."""
        return tuple(map(self._entry, self._order()))

    def _entry(self, name: str) -> LoadedEntry:
        """Return the record of a skill; a time without a zone counts as UTC."""
        docs, since = self.selection(name), None
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(self._text("since", name))
            since = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        return LoadedEntry(name, since, docs.names, docs.include_all, self.active_chunks(name))

    def _key(self, kind: str, *name: str) -> str:
        return state_key(kind, self.agent, *name)

    def _text(self, kind: str, *name: str) -> str:
        value = self.state.get(self._key(kind, *name))
        return value if isinstance(value, str) else ""

    def _lifetime_of(self, name: str) -> str:
        """Return how long a skill stays; the session's own lifetime if the state does not tell."""
        text = self._text("lifetime", name)
        return text if text in LIFETIMES else self._lifetime

    def _recorded(self) -> list[SkillKey]:
        """Return all records of the agent, in the order of the state."""
        records = (parse_key(key) for key in self.state if isinstance(key, str))
        return [record for record in records if record and record.agent == self.agent]

    def _skills(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(record.name for record in self._recorded()))

    def _order(self) -> list[str]:
        """Return the loaded skills, least recently touched first; those never touched last."""
        loaded = set(filter(self.is_loaded, self._skills()))
        touched = [name for name in parse_names(self._text(_ORDER)) if name in loaded]
        return [*touched, *sorted(loaded.difference(touched))]

    def _in_order(self, names: Sequence[str]) -> StateChanges:
        return {self._key(_ORDER): names_text(names) if names else None}

    def _touched(self, name: str) -> list[str]:
        """Return the loaded skills in order, with one of them, loaded or not, last."""
        return [*(other for other in self._order() if other != name), name]

    def _surplus(self, order: Sequence[str]) -> Sequence[str]:
        """Return the skills at the front that exceed the limit."""
        return order[: max(0, len(order) - self._max_loaded)] if self._max_loaded else ()

    def _record(self, kind: StateKind, name: str, value: str) -> StateDelta:
        """Write a record of a skill and touch it; a skill new to the state gets a lifetime."""
        lifetime = self._lifetime_of(name)
        changes: StateChanges = {
            self._key(kind, name): value,
            self._key("lifetime", name): lifetime,
        }
        if self.is_loaded(name):
            changes |= self._in_order(self._touched(name))
        return self._apply(changes)

    def _end(self, lifetime: Lifetime) -> StateDelta:
        return self._drop([n for n in self._skills() if self._lifetime_of(n) == lifetime])

    def _drop(self, names: Collection[str]) -> StateDelta:
        if not names:
            return StateDelta()
        left = [name for name in self._order() if name not in names]
        return self._apply(self._forgetting(names) | self._in_order(left))

    def _forgetting(self, names: Iterable[str]) -> StateChanges:
        """Return the changes that remove all records of skills except their place in the order."""
        return {self._key(kind, name): None for name in names for kind in KINDS}

    def _apply(self, changes: StateChanges, evicted: Iterable[str] = ()) -> StateDelta:
        """Make changes to the state and return those that had an effect."""
        real = {key: value for key, value in changes.items() if self.state.get(key) != value}
        delta = StateDelta(real, evicted)
        for key, value in delta.items():
            if value is None:
                del self.state[key]
            else:
                self.state[key] = value
        return delta

    def _adopting(self) -> StateChanges:
        """Return the changes that give the agent the loads and selections that nobody owns.

        As in trpc-agent-go, ``temp:skill:loaded:NAME`` and ``temp:skill:docs:NAME`` become keys of
        the agent that opens the state, unless it has a value there; either way the old key goes.
        But adopted skills count as touched before the agent's own, and a skill with a lifetime
        stays: it belongs to a session without an agent.
        """
        nobody = SkillSession(self.state)
        theirs = {name for name in nobody._skills() if nobody._text("lifetime", name)}
        changes: StateChanges = {}
        for kind, _, name in nobody._recorded():
            value = nobody._text(kind, name)
            if kind in {"loaded", "docs"} and name not in theirs and value:
                changes[nobody._key(kind, name)] = None
                changes[self._key(kind, name)] = self._text(kind, name) or value
        if not changes:
            return {}
        unowned, mine = nobody._order(), self._order()
        adopted = [name for name in unowned if name not in theirs.union(mine)]
        staying = [name for name in unowned if name in theirs]
        return changes | nobody._in_order(staying) | self._in_order([*adopted, *mine])


def _texts(items: Iterable[tuple[object, object]]) -> dict[str, str]:
    return {key: value for key, value in items if isinstance(key, str) and isinstance(value, str)}


def state_key(kind: str, agent: str, *name: str) -> str:
    """Return the key of a record, such as ``temp:skill:docs_by_agent:cook/brew-tea``.

    An agent is percent-encoded if it contains a slash, as in trpc-agent-go, or anything that looks
    like an escape: otherwise ``a/b`` and ``a%2Fb`` would share their keys.
    """
    if not agent:
        return f"{_PREFIX}{kind}:{''.join(name)}"
    if "/" in agent or _ESCAPE.search(agent):
        agent = quote(agent, safe=_UNESCAPED, errors="surrogatepass")
    return f"{_PREFIX}{kind}_by_agent:{'/'.join([agent, *name])}"


def parse_key(key: str) -> SkillKey | None:
    """Return the record that a key belongs to, or None if `state_key` never returns that key."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    parts: tuple[Any, ...] = match.groups()
    kind, by_agent, rest = parts
    if not by_agent:
        return SkillKey(kind, "", rest)
    quoted, slash, name = rest.partition("/")
    try:
        agent = unquote(quoted, errors="surrogatepass")
    except UnicodeDecodeError:
        return None
    is_ours = slash and agent and state_key(kind, agent, name) == key
    return SkillKey(kind, agent, name) if is_ours else None


def names_text(names: Iterable[str]) -> str:
    """Return names as a JSON array, without duplicates."""
    return compact_json(list(dict.fromkeys(names)))


def compact_json(value: Json) -> str:
    """Return JSON as trpc-agent-go writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_json(text: str) -> Json:
    """Return the value of a JSON text; None if it is invalid or nested too deeply."""
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def parse_names(text: str) -> tuple[str, ...]:
    """Return the texts of a JSON array, without duplicates; none if it is anything else."""
    value = parse_json(text)
    names = value if isinstance(value, list) else []
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))
