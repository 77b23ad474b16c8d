"""Handing records that no agent owns to the first agent that comes."""

from __future__ import annotations

from collections.abc import Mapping

from skillsearch.agents.session.keys import order_key, state_key
from skillsearch.agents.session.records import names_text, order_of, scope, text_at


def adopt_unowned(state: Mapping[str, str], agent: str) -> dict[str, str | None]:
    """Give the loads and selections that nobody owns to an agent.

    As in trpc-agent-go, ``temp:skill:loaded:NAME`` and ``temp:skill:docs:NAME`` become the keys
    of the agent that opens the state, unless it has a value of its own there; either way the old
    key goes. Two things differ. The order comes along: adopted skills count as touched before the
    agent's own. And a skill with ``temp:skill:lifetime:NAME`` stays: a session without an agent
    keeps it, and no agent takes from another.

    Args:
        state: The state as it is; not changed.
        agent: Who opens it; not empty.

    Returns:
        The changes to make: key to new value, None where the key is to go.
    """
    records = list(scope(state, ""))
    kept = {
        record.name
        for record in records
        if record.kind == "lifetime" and text_at(state, state_key(*record))
    }
    changes: dict[str, str | None] = {}
    for record in records:
        old = state_key(*record)
        value = text_at(state, old)
        if record.kind in {"loaded", "docs"} and record.name not in kept and value:
            new = state_key(record.kind, agent, record.name)
            changes |= {old: None, new: text_at(state, new) or value}
    if changes:
        changes |= _joined_orders(state, agent, kept)
    return changes


def _joined_orders(state: Mapping[str, str], agent: str, kept: set[str]) -> dict[str, str | None]:
    """Return the orders of those without an owner and of an agent, after its adoption of them."""
    unowned = order_of(state, "")
    mine = order_of(state, agent)
    elsewhere = kept.union(mine)
    adopted = [name for name in unowned if name not in elsewhere]
    staying = [name for name in unowned if name in kept]
    return {
        order_key(""): names_text(staying) if staying else None,
        order_key(agent): names_text([*adopted, *mine]) if adopted or mine else None,
    }
