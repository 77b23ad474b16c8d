"""What a website offers: its skills by ARD and by Agent Skills Discovery 0.2, as files to serve.

A skill of one file is offered as it is, any other as an archive.
"""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from skillsearch.ard.entries import ARCHIVE, MARKDOWN, PublishedSkill, entry_of, publisher_of
from skillsearch.errors import RootError, SkillError
from skillsearch.index.documents.document import Document
from skillsearch.roots.downloads import check_url
from skillsearch.roots.sources import WELL_KNOWN, shown
from skillsearch.roots.well_known import (
    MAX_BYTES,
    MAX_INDEX_BYTES,
    MAX_SKILLS,
    SCHEMA,
    WellKnownSkill,
)
from skillsearch.settings.values import is_url
from skillsearch.text.safe_text import listed, one_line
from skillsearch.types.json_values import Json, JsonObject
from skillsearch.types.skills import SKILL_MD

CATALOGS = ("/.well-known/ai-catalog.json", "/.well-known/ard.json")
"""Where registries look for a catalog: before the draft 0.91, and since."""
SPEC_VERSION = "1.0"

_MOST_NAMED = 10
_FOLDER = WELL_KNOWN.rpartition("/")[0]
_OLDEST = (1980, 1, 1, 0, 0, 0)
"""The time of all files in an archive, so that the same files make the same bytes."""


class SkillFiles(NamedTuple):
    """A skill as it is to be offered: all files by path, and those that may be run as they are."""

    document: Document
    description: str
    files: Mapping[str, bytes]
    programs: frozenset[str] = frozenset()
    origin: str = ""


class Website(NamedTuple):
    """The files of a website by path, what refers to others last, and the skills it offers."""

    files: Mapping[str, bytes]
    skills: Sequence[WellKnownSkill]


def base_of(url: str) -> str:
    """Return the URL of a website without its last ``/``, or raise `RootError`."""
    parts = check_url(url)
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise RootError(f"{shown(url)} has a query or a fragment; write https://HOST.")
    return url.rstrip("/")


def website_of(url: str, skills: Sequence[SkillFiles]) -> Website:
    """Return the files by which a website offers some skills.

    A RootError for an unusable URL; a SkillError for more, or larger, skills than readers take, or
    for two of one name.
    """
    base = base_of(url)
    _check_names([skill.document for skill in skills])
    host = urlsplit(base).hostname or ""
    files: dict[str, bytes] = {}
    offered: list[WellKnownSkill] = []
    entries: list[Json] = []
    rows: list[Json] = []
    for skill in skills:
        name = skill.document.name
        kind, path, data = _artifact(skill)
        files[path] = data
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        made = WellKnownSkill(name, kind, base + path, digest)
        offered.append(made)
        entries.append(_entry(skill, made, publisher_of(host)))
        about = one_line(skill.description)
        rows.append({**made._asdict(), "description": about})
    index = _written({"$schema": SCHEMA, "skills": rows})
    _check_size(files, index)
    files[WELL_KNOWN] = index
    catalog: JsonObject = {"specVersion": SPEC_VERSION, "host": {"displayName": host}}
    for path in CATALOGS:
        files[path] = _written({**catalog, "entries": entries})
    return Website(files, offered)


def _check_names(documents: Sequence[Document]) -> None:
    """Refuse documents of one name, and say how to leave out all but the first of each name."""
    first = {document.name: document for document in reversed(documents)}
    if others := [document for document in documents if document is not first[document.name]]:
        names = dict.fromkeys(repr(one_line(document.name, 80)) for document in others)
        options = (word for document in others for word in ("--exclude", document.doc_id))
        raise SkillError(
            f"Several skills are named {listed(names, _MOST_NAMED)}, and a website offers one of a "
            f"name; to leave the others out: {one_line(shlex.join(options))}"
        )


def _entry(skill: SkillFiles, made: WellKnownSkill, publisher: str) -> JsonObject:
    published = PublishedSkill(
        path=("skills", made.name),
        document=skill.document,
        description=skill.description,
        url=made.url,
        digest=made.digest,
        media_type=MARKDOWN if made.type == "skill-md" else ARCHIVE,
        # An archive that a path names is nobody's business but the user's.
        facts={"origin": skill.origin} if is_url(skill.origin) else {},
    )
    return entry_of(published, publisher)


def _artifact(skill: SkillFiles) -> tuple[str, str, bytes]:
    """Return the form in which a skill is offered, and the path and bytes of its one file."""
    name = skill.document.name
    if list(skill.files) == [SKILL_MD]:
        return "skill-md", f"{_FOLDER}/{name}/{SKILL_MD}", skill.files[SKILL_MD]
    return "archive", f"{_FOLDER}/{name}.zip", _packed(skill)


def _packed(skill: SkillFiles) -> bytes:
    """Pack a skill, SKILL.md at the top; the same files make the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(skill.files):
            info = zipfile.ZipInfo(path, _OLDEST)
            info.create_system = 3  # Unix: the modes below are its modes
            info.external_attr = (0o100755 if path in skill.programs else 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, skill.files[path])
    return buffer.getvalue()


def _check_size(files: Mapping[str, bytes], index: bytes) -> None:
    total = sum(map(len, files.values()))
    if len(files) > MAX_SKILLS or total > MAX_BYTES or len(index) > MAX_INDEX_BYTES:
        raise SkillError(
            f"The {len(files):,} skills have {total:,} bytes, their index {len(index):,}; readers "
            f"of a website take {MAX_SKILLS:,} skills, {MAX_BYTES:,} bytes and "
            f"{MAX_INDEX_BYTES:,}. Choose some with --include, --exclude or --root."
        )
    if not files:
        raise SkillError(
            "There is no skill to offer. See which are indexed: skillsearch list; and why some are "
            "not published: skillsearch doctor."
        )


def _written(record: JsonObject) -> bytes:
    return (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode()
