"""The keys under which a session keeps its records in the state of a host.

The names are those of trpc-agent-go, so that a state can pass between the two; `chunks`, `since`
and `lifetime` are ours, in the same manner.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, get_args
from urllib.parse import quote, unquote

Kind = Literal["loaded", "docs", "chunks", "since", "lifetime"]
"""What a key records of a skill: that it is loaded, its selected documents, its activated chunks,
when it was loaded, and until when it stays."""
KINDS: tuple[Kind, ...] = get_args(Kind)

ARTIFACTS_KEY = "temp:skill:artifacts"
"""What the last call that saved artifacts saved; one record for all agents."""

_PREFIX = "temp:skill:"
_BY_AGENT = "_by_agent"
_HEADS: dict[str, Kind] = {kind: kind for kind in KINDS}
_AGENT_HEADS: dict[str, Kind] = {kind + _BY_AGENT: kind for kind in KINDS}
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_UNESCAPED = "$&+=:@"
"""What Go's url.PathEscape leaves alone besides letters, digits and ``-_.~``."""


class SkillKey(NamedTuple):
    """One record of one skill for one agent.

    Attributes:
        kind: What is recorded.
        agent: Whose record it is; empty for a host without agents.
        name: The skill, as its caller names it.
    """

    kind: Kind
    agent: str
    name: str


def state_key(kind: Kind, agent: str, name: str) -> str:
    """Build the key of a record; no two records have the same.

    Names stand as they are. An agent is percent-encoded where it holds a slash, as in
    trpc-agent-go, and where it holds what looks like an escape: ``a/b`` and ``a%2Fb`` would share
    their keys otherwise.

    Args:
        kind: What is recorded.
        agent: Whose record it is; empty gives the keys without an agent.
        name: The skill.

    Returns:
        The key, such as ``temp:skill:docs_by_agent:cook/brew-tea``.
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
    """Return the record that a key belongs to, or None where `state_key` never gives that key."""
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
    """Return the agent that a part of a key stands for; None where `_segment` never gives it."""
    if "%" not in segment:
        return segment
    try:
        agent = unquote(segment, errors="surrogatepass")
    except UnicodeDecodeError:
        return None
    return agent if _segment(agent) == segment else None
