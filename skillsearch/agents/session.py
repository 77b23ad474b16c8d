"""One agent's session: which skills, documents and chunks it has loaded, and for how long."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from datetime import UTC, datetime

from skillsearch.agents.session_state import (
    ALL_DOCS,
    ARTIFACTS_KEY,
    KINDS,
    LIFETIMES,
    LOADED,
    Changes,
    DocSelection,
    Kind,
    Lifetime,
    LoadedEntry,
    SelectMode,
    StateDelta,
    adopt_unowned,
    artifacts_text,
    lifetime_at,
    names_at,
    names_text,
    order_key,
    order_of,
    parse_json,
    scope,
    selection_at,
    since_at,
    state_key,
    text_at,
)
from skillsearch.execution.types import ArtifactRef

_MODES: dict[str, SelectMode] = {"add": "add", "clear": "clear"}


def utc_now() -> datetime:
    """Return the current time, in UTC."""
    return datetime.now(UTC)


class SkillSession:
    """What one agent has loaded, kept in a host's state and nowhere else.

    Every call reads the state anew, so sessions may share one; each sees only the records of its
    own agent. Skills are known by names that the caller has resolved. A session belongs to one
    thread at a time.

    Each skill keeps the lifetime of the session that last loaded it. Records without a lifetime,
    such as those of trpc-agent-go, have that of the session that reads them. An agent that opens a
    state adopts the records that nobody owns; see `adopt_unowned`.

    `state` also holds whatever else the host keeps there, and is changed in place; `opening` is
    what opening the session changed in it. A host without agents has an empty `agent`. If more than
    ``max_loaded`` skills would be loaded, the least recently touched makes room; loading, selecting
    documents and activating a chunk are touches. ``clock`` returns the time of a load, with its
    zone. `ValueError` if the lifetime is unknown or ``max_loaded`` less than one.
    """

    def __init__(
        self,
        state: MutableMapping[str, str] | None = None,
        *,
        agent: str = "",
        lifetime: Lifetime = "turn",
        max_loaded: int | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        if lifetime not in LIFETIMES:
            raise ValueError(f"lifetime is {lifetime!r}; use one of: {', '.join(LIFETIMES)}.")
        if max_loaded is not None and max_loaded < 1:
            raise ValueError(f"max_loaded is {max_loaded!r}; use 1 or more, or None for no limit.")
        self.state: MutableMapping[str, str] = {} if state is None else state
        self.agent = agent
        self._lifetime = lifetime
        self._max_loaded = max_loaded
        self._clock = clock
        adopted = self._apply(adopt_unowned(self.state, agent) if agent else {})
        evicted = self._surplus(order_of(self.state, agent))
        self.opening = StateDelta(adopted | self._drop(evicted), evicted)

    @classmethod
    def from_json(
        cls,
        text: str,
        *,
        agent: str = "",
        lifetime: Lifetime = "turn",
        max_loaded: int | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> SkillSession:
        """Open a session on a state that `to_json` wrote; the other arguments are the class's.

        Members that are not texts are left out; if `text` is not a JSON object, the state is empty.
        """
        members = parse_json(text)
        state = _texts(members.items()) if isinstance(members, dict) else {}
        return cls(state, agent=agent, lifetime=lifetime, max_loaded=max_loaded, clock=clock)

    def to_json(self) -> str:
        """Return the whole state, of all agents and of the host, as a JSON object of texts."""
        return json.dumps(_texts(self.state.items()))

    def for_agent(self, agent: str) -> SkillSession:
        """Return the session of another agent on the same state, with the same settings."""
        return SkillSession(
            self.state,
            agent=agent,
            lifetime=self._lifetime,
            max_loaded=self._max_loaded,
            clock=self._clock,
        )

    def load(
        self, name: str, docs: Sequence[str] | None = None, include_all_docs: bool = False
    ) -> StateDelta:
        """Load a skill, or touch it if it is loaded; it then keeps its time and its chunks.

        `docs` replaces the selected documents, unless it is empty; `include_all_docs` selects all.
        """
        changes: Changes = {
            self._key("loaded", name): LOADED,
            self._key("lifetime", name): self._lifetime,
        }
        if not self.is_loaded(name):
            changes[self._key("since", name)] = self._clock().astimezone(UTC).isoformat()
        if include_all_docs:
            changes[self._key("docs", name)] = ALL_DOCS
        elif docs:
            changes[self._key("docs", name)] = names_text(docs)
        order = self._touched(name)
        evicted = self._surplus(order)
        changes[order_key(self.agent)] = names_text(order[len(evicted) :])
        return self._apply(changes | self._forgetting(evicted), evicted)

    def unload(self, name: str) -> StateDelta:
        """Forget a skill with its documents and chunks, if anything is recorded of it."""
        return self._drop([name])

    def select_docs(
        self,
        name: str,
        docs: Sequence[str] | None = None,
        include_all_docs: bool = False,
        mode: str = "replace",
    ) -> DocSelection:
        """Change which documents of a skill are selected; the skill need not be loaded.

        Once all are selected, only ``clear`` narrows the selection, as in trpc-agent-go. A mode
        other than ``add`` and ``clear`` means ``replace``.
        """
        how = _MODES.get(mode.strip().lower(), "replace")
        before = self.selection(name)
        include_all = how != "clear" and (include_all_docs or before.include_all)
        names: tuple[str, ...] = ()
        if how != "clear" and not include_all:
            names = (*(before.names if how == "add" else ()), *(docs or ()))
        delta = self._record("docs", name, ALL_DOCS if include_all else names_text(names))
        return DocSelection(tuple(dict.fromkeys(names)), include_all, how, delta)

    def activate_chunk(self, name: str, chunk_id: str) -> StateDelta:
        """Record that a chunk of a skill was handed out; the skill need not be loaded."""
        return self._record("chunks", name, names_text([*self.active_chunks(name), chunk_id]))

    def deactivate_chunks(self, name: str, chunk_ids: Collection[str] | None = None) -> StateDelta:
        """Forget that some chunks of a skill, or with None all, were handed out."""
        gone = self.active_chunks(name) if chunk_ids is None else chunk_ids
        left = [each for each in self.active_chunks(name) if each not in gone]
        return self._apply({self._key("chunks", name): names_text(left) if left else None})

    def record_artifacts(self, artifacts: Iterable[ArtifactRef], call_id: str = "") -> StateDelta:
        """Record what a tool call saved, in place of the previous record, which all agents share.

        `call_id` is the host's id of the call.
        """
        return self._apply({ARTIFACTS_KEY: artifacts_text(call_id, artifacts)})

    def begin_turn(self) -> StateDelta:
        """Forget what was loaded for the previous turn; the host calls this first in each turn."""
        return self._end("turn")

    def end_request(self) -> StateDelta:
        """Forget what was loaded for one model request; the host calls this after each."""
        return self._end("once")

    def is_loaded(self, name: str) -> bool:
        """Return whether a skill is loaded."""
        return text_at(self.state, self._key("loaded", name)) == LOADED

    def selection(self, name: str) -> DocSelection:
        """Return the selected documents of a skill, loaded or not."""
        return selection_at(self.state, self.agent, name)

    def active_chunks(self, name: str) -> tuple[str, ...]:
        """Return the ids of a skill's activated chunks, in the order of their activation."""
        return names_at(self.state, self._key("chunks", name))

    def loaded(self) -> tuple[LoadedEntry, ...]:
        """Return the loaded skills, least recently touched first."""
        return tuple(self._entry(name) for name in order_of(self.state, self.agent))

    def _entry(self, name: str) -> LoadedEntry:
        since = since_at(self.state, self.agent, name)
        docs = self.selection(name)
        return LoadedEntry(name, since, docs.names, docs.include_all, self.active_chunks(name))

    def _key(self, kind: Kind, name: str) -> str:
        return state_key(kind, self.agent, name)

    def _touched(self, name: str) -> list[str]:
        """Return the loaded skills in order, with one of them, loaded or not, last."""
        return [*(other for other in order_of(self.state, self.agent) if other != name), name]

    def _surplus(self, order: Sequence[str]) -> Sequence[str]:
        """Return the skills at the front that exceed the limit."""
        return order[: max(0, len(order) - self._max_loaded)] if self._max_loaded else ()

    def _record(self, kind: Kind, name: str, value: str) -> StateDelta:
        """Write a record of a skill and touch it; a skill new to the state gets a lifetime."""
        changes: Changes = {self._key(kind, name): value}
        if lifetime_at(self.state, self.agent, name) is None:
            changes[self._key("lifetime", name)] = self._lifetime
        if self.is_loaded(name):
            changes[order_key(self.agent)] = names_text(self._touched(name))
        return self._apply(changes)

    def _end(self, lifetime: Lifetime) -> StateDelta:
        """Forget every skill of a lifetime; the session's own stands in for a missing one."""
        names = dict.fromkeys(record.name for record in scope(self.state, self.agent))
        lifetimes = {n: lifetime_at(self.state, self.agent, n) or self._lifetime for n in names}
        return self._drop([name for name in names if lifetimes[name] == lifetime])

    def _drop(self, names: Collection[str]) -> StateDelta:
        """Remove all records of skills."""
        if not names:
            return StateDelta()
        gone = frozenset(names)
        left = [name for name in order_of(self.state, self.agent) if name not in gone]
        order = {order_key(self.agent): names_text(left) if left else None}
        return self._apply(self._forgetting(names) | order)

    def _forgetting(self, names: Iterable[str]) -> Changes:
        """Return the changes that remove all records of skills except their place in the order."""
        return {self._key(kind, name): None for name in names for kind in KINDS}

    def _apply(self, changes: Changes, evicted: Iterable[str] = ()) -> StateDelta:
        """Make changes to the state and return those that had an effect."""
        delta = StateDelta(
            {key: value for key, value in changes.items() if self.state.get(key) != value}, evicted
        )
        for key, value in delta.items():
            if value is None:
                del self.state[key]
            else:
                self.state[key] = value
        return delta


def _texts(items: Iterable[tuple[object, object]]) -> dict[str, str]:
    """Return the entries whose key and value are both texts."""
    return {key: value for key, value in items if isinstance(key, str) and isinstance(value, str)}
