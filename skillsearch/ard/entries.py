"""A skill → an entry of Agentic Resource Discovery (ARD), as the draft 0.91 has it.

No entry has a ``trustManifest``, because nothing here can prove who somebody is. What we know of a
skill stands in ``metadata``: its digest, who vouches for it, and where it came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.index.documents.document import Document
from skillsearch.text.safe_text import one_line
from skillsearch.types.json_values import Json, JsonObject

MARKDOWN = 'text/markdown; profile="urn:air:agent-skills"'
"""The type of an entry whose URL leads to a SKILL.md."""
ARCHIVE = "application/agent-skills+zip"
"""The type of an entry whose URL leads to a packed folder."""
REGISTRY = "application/ai-registry+json"
UNNAMED_PUBLISHER = "agent.localhost"
"""The publisher of a server without a domain; the draft reserves this name."""
MIN_QUERIES, MAX_QUERIES = 2, 5

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TAGS, _MAX_CHARS = 32, 300
_LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_DOMAIN = lazy_pattern(rf"(?:{_LABEL}\.)+(?!\d+$){_LABEL}")
_IDENTIFIER = lazy_pattern(r"urn:air:[a-zA-Z0-9.-]+(?::[a-zA-Z0-9._-]+)+")
_UNPLAIN = lazy_pattern("[^a-zA-Z0-9.-]")


@dataclass(frozen=True, slots=True)
class PublishedSkill:
    """A skill, and where it can be fetched.

    Attributes:
        path: Its address below its publisher, from the general to the name.
        description: What its SKILL.md says now.
        url: Where its SKILL.md is, or with another `media_type` its folder.
        digest: Of what is there, ``sha256:`` and hexadecimal digits.
        changed_ns: When its SKILL.md was last changed; None to say nothing of it.
        facts: What else its publisher says of it, such as who vouches for it.
    """

    path: Sequence[str]
    document: Document
    description: str
    url: str
    digest: str
    media_type: str = MARKDOWN
    changed_ns: int | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


def publisher_of(host: str) -> str:
    """Return the name of a publisher in identifiers: the domain of a host, if it has one."""
    name = host.lower().rstrip(".")
    return name if _DOMAIN.fullmatch(name) else UNNAMED_PUBLISHER


def identifier_of(publisher: str, path: Sequence[str]) -> str:
    """Return the identifier of a skill; different paths have different ones."""
    parts = (_UNPLAIN.sub(_spelled, part) for part in path)
    return ":".join(("urn:air", publisher, *parts))


def is_identifier(text: str) -> bool:
    """Return whether a text has the form of an identifier."""
    return _IDENTIFIER.fullmatch(text) is not None


def entry_of(skill: PublishedSkill, publisher: str) -> JsonObject:
    """Return the entry of a skill, with the example requests as its representative queries.

    Fewer than two are left out: the draft asks for two to five, and we make none up.
    """
    document = skill.document
    queries = _lines((example.text for example in document.examples), MAX_QUERIES)
    optional: JsonObject = {
        "tags": _lines(document.tags, _MAX_TAGS),
        "representativeQueries": queries if len(queries) >= MIN_QUERIES else [],
        "version": one_line(document.version, _MAX_CHARS),
        "updatedAt": "" if skill.changed_ns is None else _timestamp(skill.changed_ns),
    }
    facts = {key: one_line(value, _MAX_CHARS) for key, value in skill.facts.items() if value}
    return {
        "identifier": identifier_of(publisher, skill.path),
        "displayName": one_line(document.name),
        "type": skill.media_type,
        "url": skill.url,
        "description": one_line(skill.description),
        **{key: value for key, value in optional.items() if value},
        "metadata": {"digest": skill.digest, **facts},
    }


def registry_entry(publisher: str, url: str) -> JsonObject:
    """Return the entry of a registry of skills, by its base URL."""
    return {
        "identifier": identifier_of(publisher, ("registry", "skillsearch")),
        "displayName": "skillsearch",
        "type": REGISTRY,
        "url": url,
        "description": "Finds the skills that fit a request, or says that none does.",
    }


def _lines(texts: Iterable[str], most: int) -> list[Json]:
    """Return the first texts that differ and are not blank to a reader."""
    lines: list[Json] = []
    for line in dict.fromkeys(one_line(text, _MAX_CHARS) for text in texts):
        lines += [line] if line else []
    return lines[:most]


def _spelled(match: re.Match[str]) -> str:
    return f"_{ord(match[0]):x}_"


def _timestamp(nanoseconds: int) -> str:
    at = _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
