"""The skills that a host offers: Agent Skills Discovery, version 0.2.

``/.well-known/agent-skills/index.json`` lists them; each entry has a name, a type, a URL and the
digest of what is there (github.com/cloudflare/agent-skills-discovery-rfc).
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from skillsearch.errors import RootError, UnusableError
from skillsearch.roots.downloads import fetch
from skillsearch.roots.sources import Downloaded, shown
from skillsearch.text.safe_text import one_line
from skillsearch.types.json_values import Json
from skillsearch.types.skills import SKILL_MD

SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
MAX_SKILLS, MAX_INDEX_BYTES, MAX_BYTES, MAX_SKILL_MD = 1_000, 4 << 20, 256 << 20, 1 << 20
SECONDS = 300.0
"""How long all downloads of one host may take together."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

logger = logging.getLogger(__name__)


class WellKnownSkill(NamedTuple):
    """A skill that a host offers: ``skill-md`` is a file, ``archive`` a packed folder."""

    name: str
    type: str
    url: str
    digest: str


def fetch_skills(index: str, folder: Path) -> Downloaded:
    """Download the skills of an index into a new folder, one below each name.

    RootError if the index is unusable or a skill has another digest; nothing is usable then.
    """
    until = time.monotonic() + SECONDS
    data = _download(index, MAX_INDEX_BYTES, until, index)
    listed = read_index(data, index)
    folder.mkdir()
    digest, remaining = hashlib.sha256(), MAX_BYTES
    for skill in listed:
        content = _download(skill.url, min(remaining, 64 << 20), until, index)
        remaining -= len(content)
        actual = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if actual != skill.digest:
            raise RootError(
                f"{shown(skill.url)} has the digest {actual}, where its index says {skill.digest}: "
                "it was changed on the way, or the index is old. Nothing was added; try again "
                "later."
            )
        _write(skill, content, folder)
        digest.update(f"{skill.name}\0{actual}\n".encode())
    return Downloaded(digest.hexdigest())


def read_index(data: bytes, url: str) -> list[WellKnownSkill]:
    """Return the usable entries of an index; the rest is logged.

    RootError if the index has an unknown version or offers nothing.
    """
    try:
        record = json.loads(data)
        skills = record["skills"]
        if record.get("$schema", SCHEMA) != SCHEMA or not isinstance(skills, list):
            raise UnusableError(f"its $schema is {record.get('$schema')!r}, not {SCHEMA!r}")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
        reason = one_line(str(exc), 200)
        raise RootError(f"{shown(url)} is not an index of skills, version 0.2: {reason}.") from exc
    listed: dict[str, WellKnownSkill] = {}
    for entry in skills[:MAX_SKILLS]:
        skill = _skill_of(entry, url)
        if isinstance(skill, str):
            logger.warning("Left out of %s: %s", shown(url), skill)
        elif skill.name in listed:
            logger.warning("Left out of %s: %s stands twice", shown(url), skill.name)
        else:
            listed[skill.name] = skill
    if len(skills) > MAX_SKILLS:
        message = "%s lists %d skills; the first %d count"
        logger.warning(message, shown(url), len(skills), MAX_SKILLS)
    if not listed:
        raise RootError(
            f"{shown(url)} offers no skill that can be used; see its page for another address."
        )
    return list(listed.values())


def _skill_of(entry: Json, index: str) -> WellKnownSkill | str:
    """Return the skill of an entry, or its problem."""
    values = entry if isinstance(entry, dict) else {}
    name, kind, url, digest = (
        text if isinstance(text := values.get(key), str) else ""
        for key in ("name", "type", "url", "digest")
    )
    if not _NAME.fullmatch(name):
        return f"the name {one_line(name, 80)!r} is not of a-z, 0-9 and hyphens"
    if kind not in ("skill-md", "archive"):
        return f"{name} has the type {one_line(kind, 80)!r}, not skill-md or archive"
    if not _DIGEST.fullmatch(digest):
        return f"{name} has no digest such as sha256:9f2c..."
    try:
        absolute = urljoin(index, url)
        is_usable = bool(url) and urlsplit(absolute).scheme in ("http", "https")
    except ValueError:
        is_usable = False
    if not is_usable or (index.startswith("https:") and not absolute.startswith("https:")):
        return f"{name} has the URL {one_line(url, 80)!r}, which is not to be fetched"
    return WellKnownSkill(name, kind, absolute, digest)


def _download(url: str, max_bytes: int, until: float, index: str) -> bytes:
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise RootError(f"The skills of {shown(index)} take more than {SECONDS:g} s; try again.")
    buffer = io.BytesIO()
    fetch(url, buffer, max_bytes=max(max_bytes, 1), seconds=min(seconds, 60.0), around=index)
    return buffer.getvalue()


def _write(skill: WellKnownSkill, content: bytes, folder: Path) -> None:
    skill_folder = folder / skill.name
    if skill.type == "skill-md":
        if len(content) > MAX_SKILL_MD:
            raise RootError(
                f"{shown(skill.url)} is larger than a SKILL.md may be ({MAX_SKILL_MD:,} bytes). "
                "Nothing was added; tell its author."
            )
        skill_folder.mkdir()
        (skill_folder / SKILL_MD).write_bytes(content)
        return
    from skillsearch.roots.archives import extract

    packed = folder / f"{skill.name}.packed"
    packed.write_bytes(content)
    extract(packed, skill_folder, name=shown(skill.url))
    packed.unlink()
