"""The manifest of a skill: its frontmatter, and digest and size of all its files (SEP-2640).

Files that `list_files` leaves out, such as links and ``.git``, have no URI and are not served.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from skillsearch.errors import ParseError, SkillError
from skillsearch.files.openat import RACY_NS, FileStat, is_racy
from skillsearch.index.documents import Document
from skillsearch.mcp_server.skill_uris import make_uri
from skillsearch.skills.frontmatter import Finding
from skillsearch.skills.metadata import MAX_COMPATIBILITY_CHARS, MAX_DESCRIPTION_CHARS, check_name
from skillsearch.skills.parser import decode_skill_md, read_sections
from skillsearch.skills.resources import content_hash, list_files, read_file, read_skill_md
from skillsearch.text.safe_text import all_visible
from skillsearch.types import JsonValue

SKILL_MD = "SKILL.md"
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024  # the largest skill that every host accepts

_LIMITS = {"description": MAX_DESCRIPTION_CHARS, "compatibility": MAX_COMPATIBILITY_CHARS}

Frontmatter = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file of a published skill; the digest is ``sha256:`` and hexadecimal digits."""

    uri: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """A skill's URI, frontmatter without hidden characters, and files, SKILL.md first."""

    uri: str
    frontmatter: Frontmatter
    resources: list[ManifestFile]


class Place(NamedTuple):
    """A skill, the URI of its SKILL.md, and the path there, which may end with its added name."""

    uri: str
    path: tuple[str, ...]
    document: Document
    is_renamed: bool

    @property
    def folder(self) -> Path:
        """The skill folder."""
        return Path(self.document.path).parent


class FileState(NamedTuple):
    """The stat of a file with its ``ctime``, which nobody can set back."""

    stat: FileStat
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileState:
        """Take it from the result of a system call."""
        return cls(FileStat.of(status), status.st_ctime_ns)


class _Read(NamedTuple):
    """A file as it was read in some state; only a SKILL.md has a frontmatter."""

    state: FileState
    is_settled: bool
    digest: str
    size: int
    frontmatter: Frontmatter | Finding


class Contents(NamedTuple):
    """A publishable skill: SKILL.md as read, and the state of each file, SKILL.md first."""

    place: Place
    skill_md: _Read
    frontmatter: Frontmatter
    files: Mapping[str, FileState]


def read_published(place: Place, path: str) -> tuple[bytes, os.stat_result | None]:
    """Read a file that `look` listed, SKILL.md with its stat; no error names a local path."""
    if path != SKILL_MD:
        return read_file(place.folder, path, limit=MAX_BYTES), None
    try:
        return read_skill_md(Path(place.document.path))
    except ParseError as exc:
        raise SkillError(f"The SKILL.md cannot be read ({exc.code}).") from exc


class ManifestReader:
    """Makes manifests, reading no file twice while its state stays the same."""

    def __init__(
        self,
        *,
        read: Callable[[Place, str], tuple[bytes, os.stat_result | None]] = read_published,
        racy_ns: int = RACY_NS,
    ) -> None:
        self._read = read
        self._racy_ns = racy_ns
        self._known: dict[str, dict[str, _Read]] = {}
        """Files by the path of their SKILL.md, then by their own."""

    def forget_all_but(self, paths: Collection[str]) -> None:
        """Keep only what was read of some skills, each named by the path of its SKILL.md."""
        self._known = {path: files for path, files in self._known.items() if path in paths}

    def look(self, place: Place) -> Contents | Finding:
        """Read SKILL.md and list the files, or return why the skill cannot be published."""
        try:
            state = FileState.of(Path(place.document.path).stat())
            skill_md = self._file(place, SKILL_MD, state)
        except (OSError, SkillError):
            return Finding("file-unreadable", "Its SKILL.md cannot be read; check that it exists.")
        self._known.setdefault(place.document.path, {})[SKILL_MD] = skill_md
        frontmatter = skill_md.frontmatter
        if isinstance(frontmatter, Finding):
            return frontmatter
        if frontmatter["name"] != place.path[-1]:
            return Finding("skill-changed", "Its name has changed; bring the index up to date.")
        others = _others(place)
        if isinstance(others, Finding):
            return others
        files = {SKILL_MD: skill_md.state, **others}
        total = sum(state.stat.size for state in files.values())
        if total > MAX_BYTES:
            message = f"Its files have {total:,} bytes together; {MAX_BYTES:,} are allowed."
            return Finding("files-too-large", message)
        return Contents(place, skill_md, frontmatter, files)

    def manifest(self, place: Place) -> Manifest | Finding:
        """Make the manifest of a skill, or return why it cannot be published, as `look` does."""
        contents = self.look(place)
        if isinstance(contents, Finding):
            return contents
        try:
            read = {
                path: contents.skill_md if path == SKILL_MD else self._file(place, path, state)
                for path, state in contents.files.items()
            }
        except SkillError as error:
            return Finding("file-unreadable", str(error))
        self._known[place.document.path] = read
        resources = [
            ManifestFile(make_uri((*place.path, *path.split("/"))), file.digest, file.size)
            for path, file in read.items()
        ]
        return Manifest(place.uri, all_visible(contents.frontmatter), resources)

    def _file(self, place: Place, path: str, state: FileState) -> _Read:
        """Read and hash a file, unless it cannot have changed since it was read."""
        known = self._known.get(place.document.path, {}).get(path)
        if known and known.is_settled and known.state == state:
            return known
        now, times = time.time_ns(), (state.stat.mtime_ns, state.ctime_ns)
        is_settled = not any(is_racy(at, now, self._racy_ns) for at in times)
        data, status = self._read(place, path)
        if status is not None:
            is_settled = is_settled and FileState.of(status) == state
            state = FileState.of(status)
        frontmatter = strict_frontmatter(data) if path == SKILL_MD else {}
        return _Read(state, is_settled, f"sha256:{content_hash(data)}", len(data), frontmatter)


def _others(place: Place) -> dict[str, FileState] | Finding:
    """Return the state of each file beside SKILL.md, or why they cannot be published."""
    try:
        paths, is_truncated = list_files(place.folder, limit=MAX_FILES)
        states = {path: FileState.of((place.folder / path).lstat()) for path in paths}
    except (OSError, SkillError):
        return Finding("file-unreadable", "Its files cannot be read; check their permissions.")
    if len(paths) >= MAX_FILES:
        message = f"It has more than {MAX_FILES} files; move those that no agent needs elsewhere."
        return Finding("too-many-files", message)
    if is_truncated:
        message = "Some of its files cannot be listed; check their names, depth and permissions."
        return Finding("files-incomplete", message)
    name = place.path[-1]
    if place.is_renamed and any(path.startswith(f"{name}/") for path in paths):
        message = f"Its URI is taken by its folder {name!r}; give the skill its folder's name."
        return Finding("uri-taken", message)
    return states


def strict_frontmatter(data: bytes) -> Frontmatter | Finding:
    """Read the frontmatter as every host does, or return its first need of repair or problem."""
    text, odd = decode_skill_md(data)
    try:
        frontmatter, _, more = read_sections(text)
    except ParseError as error:
        return Finding("frontmatter-unreadable", str(error), error.line)
    for finding in (*odd, *more):
        if finding.code != "byte-order-mark":
            return finding._replace(code="frontmatter-unreadable", severity="warning")
    name = frontmatter.get("name", "")
    if problem := check_strict_name(name if isinstance(name, str) else ""):
        return problem
    for key, limit in _LIMITS.items():
        if key == "compatibility" and key not in frontmatter:
            continue
        value = frontmatter.get(key)
        if not isinstance(value, str) or not value.strip():
            return Finding(f"{key}-not-text", f"The {key} is not text; write a sentence.")
        if len(value) > limit:
            message = f"The {key} has {len(value):,} characters; shorten it to {limit:,}."
            return Finding(f"{key}-too-long", message)
    return frontmatter


def check_strict_name(name: str) -> Finding | None:
    """Return why some host would refuse a name, or None; the official tools accept only ASCII."""
    if problems := check_name(name, name or "the-name-of-the-folder"):
        return problems[0]
    if not name.isascii():
        message = f"Some hosts refuse the name {name!r}; they accept a-z, 0-9 and hyphens."
        return Finding("name-not-ascii", message, None, "note")
    return None
