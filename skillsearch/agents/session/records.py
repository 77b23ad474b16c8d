"""Reading and writing the records of a state that nobody vouches for.

What cannot be used reads as if it were not there; nothing here raises for a value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from skillsearch.agents.session.keys import SkillKey, order_key, parse_key, state_key
from skillsearch.agents.session.types import LIFETIMES, DocSelection, Lifetime
from skillsearch.execution.request import ArtifactRef
from skillsearch.types import JsonValue

LOADED = "1"
ALL_DOCS = "*"


def scope(state: Mapping[str, str], agent: str) -> Iterator[SkillKey]:
    """Yield all records of an agent, in the order of the state."""
    for key in state:
        record = parse_key(key) if isinstance(key, str) else None
        if record and record.agent == agent:
            yield record


def text_at(state: Mapping[str, str], key: str) -> str:
    """Return the text of a key; empty where it has none."""
    value = state.get(key)
    return value if isinstance(value, str) else ""


def order_of(state: Mapping[str, str], agent: str) -> tuple[str, ...]:
    """Return an agent's loaded skills, least recently touched first.

    A skill whose touch is not recorded counts as touched last, by name, as in trpc-agent-go.
    """
    loaded = {
        record.name
        for record in scope(state, agent)
        if record.kind == "loaded" and text_at(state, state_key(*record)) == LOADED
    }
    known = [name for name in names_at(state, order_key(agent)) if name in loaded]
    return (*known, *sorted(loaded.difference(known)))


def names_at(state: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the texts of a JSON array, each once."""
    value = parse_json(text_at(state, key))
    if not isinstance(value, list):
        return ()
    return tuple(dict.fromkeys(name for name in value if isinstance(name, str)))


def names_text(names: Iterable[str]) -> str:
    """Return names as a JSON array, each once; ``[]`` where there is none."""
    return json.dumps(list(dict.fromkeys(names)), ensure_ascii=False, separators=(",", ":"))


def selection_at(state: Mapping[str, str], agent: str, name: str) -> DocSelection:
    """Return the selected documents of a skill."""
    key = state_key("docs", agent, name)
    if text_at(state, key) == ALL_DOCS:
        return DocSelection(include_all=True)
    return DocSelection(names_at(state, key))


def artifacts_text(call_id: str, artifacts: Iterable[ArtifactRef]) -> str:
    """Return what a call saved as the JSON object that trpc-agent-go keeps of it."""
    saved = [{"name": each.name, "version": each.version, "ref": each.ref} for each in artifacts]
    record = {"tool_call_id": call_id, "artifacts": saved}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))


def since_at(state: Mapping[str, str], agent: str, name: str) -> datetime | None:
    """Return when a skill was loaded, in UTC; a time without a zone is taken for UTC."""
    try:
        moment = datetime.fromisoformat(text_at(state, state_key("since", agent, name)))
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def lifetime_at(state: Mapping[str, str], agent: str, name: str) -> Lifetime | None:
    """Return how long a skill stays, or None where the state does not tell."""
    text = text_at(state, state_key("lifetime", agent, name))
    return next((lifetime for lifetime in LIFETIMES if lifetime == text), None)


def parse_json(text: str) -> JsonValue:
    """Return the value of a JSON text; None where it is none, or nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
