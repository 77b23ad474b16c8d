"""The manifest of one skill: its frontmatter, and digest and size of all its files (SEP-2640).

A skill is served as `list_files` sees it: without links, and without machinery such as ``.git``.
What is left out has no URI, so for a host the manifest is complete.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from skillsearch.errors import ParseError, SkillError
from skillsearch.index.documents import Document
from skillsearch.library.skill_uris import make_uri
from skillsearch.skills.frontmatter import Finding
from skillsearch.skills.listing import list_files
from skillsearch.skills.resources import content_hash, read_file, read_skill_md
from skillsearch.skills.strict_frontmatter import Frontmatter, strict_frontmatter
from skillsearch.text.safe_text import all_visible
from skillsearch.types import JsonValue

SKILL_MD = "SKILL.md"
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024
"""The largest skill that every host accepts."""

_RACY_NS = 2_000_000_000
"""A file that changed so shortly ago may change again and keep its times."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One file of a published skill.

    Attributes:
        uri: Where it is read.
        digest: ``sha256:`` and the hash of its bytes, hexadecimal.
        size: Bytes.
    """

    uri: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that a host is told of a skill before it reads a file.

    Attributes:
        uri: Where its SKILL.md is read.
        frontmatter: Every field of the SKILL.md, as JSON values without hidden characters.
        resources: All files, SKILL.md first, the others by path.
    """

    uri: str
    frontmatter: Frontmatter
    resources: tuple[ManifestFile, ...]

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        resources = [asdict(file) for file in self.resources]
        return {"uri": self.uri, "frontmatter": dict(self.frontmatter), "resources": resources}


class Place(NamedTuple):
    """A skill and its place among the URIs.

    Attributes:
        uri: URI of its SKILL.md.
        path: Authority and path of its folder, decoded.
        document: What the library knows of it.
        is_renamed: True where its folder is not called as the skill, so that the path has the
            name behind that of the folder.
    """

    uri: str
    path: tuple[str, ...]
    document: Document
    is_renamed: bool

    @property
    def folder(self) -> Path:
        """The skill folder."""
        return Path(self.document.path).parent


class FileState(NamedTuple):
    """What tells a changed file from one that was read before.

    Attributes:
        size: Bytes.
        mtime_ns: Time of the last change of its bytes.
        ctime_ns: Time of the last change at all, which nobody can set back.
        inode: Inode number.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileState:
        """Take what matters of a status."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    def is_settled(self) -> bool:
        """Say whether a change from now on will show."""
        now = time.time_ns()
        return all(abs(now - at) > _RACY_NS for at in (self.mtime_ns, self.ctime_ns))


class _Read(NamedTuple):
    """What was read of a file while it had a state; ``frontmatter`` is that of a SKILL.md."""

    state: FileState
    is_settled: bool
    digest: str
    size: int
    frontmatter: Frontmatter | Finding


class Contents(NamedTuple):
    """A skill that can be published, and its files.

    Attributes:
        place: Where it is.
        skill_md: What was read of its SKILL.md.
        frontmatter: Every field of that.
        files: The state of each file by path, SKILL.md first, the others sorted.
    """

    place: Place
    skill_md: _Read
    frontmatter: Frontmatter
    files: Mapping[str, FileState]


class ManifestReader:
    """Makes manifests, and reads no file twice while its state is the same."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._read: dict[str, dict[str, _Read]] = {}

    def forget_all_but(self, paths: Collection[str]) -> None:
        """Keep only what was read of some skills, each named by the path of its SKILL.md."""
        self._read = {path: files for path, files in self._read.items() if path in paths}

    def look(self, place: Place) -> Contents | Finding:
        """Look at a skill and read its SKILL.md.

        Args:
            place: The skill.

        Returns:
            What it holds, or why it cannot be published, which names no path of this machine.
        """
        skill_md = self._skill_md(place)
        if isinstance(skill_md, Finding):
            return skill_md
        frontmatter = skill_md.frontmatter
        if isinstance(frontmatter, Finding):
            return frontmatter
        if frontmatter["name"] != place.path[-1]:
            return Finding("skill-changed", "Its name is another now; bring the index up to date.")
        others = _others(place)
        if isinstance(others, Finding):
            return others
        files = {SKILL_MD: skill_md.state, **others}
        total = sum(state.size for state in files.values())
        if total > MAX_BYTES:
            message = f"Its files have {total:,} bytes together; {MAX_BYTES:,} are allowed."
            return Finding("files-too-large", message)
        return Contents(place, skill_md, frontmatter, files)

    def manifest(self, place: Place) -> Manifest | Finding:
        """Make the manifest of a skill.

        Args:
            place: The skill.

        Returns:
            The manifest, or why the skill cannot be published, as `look`.
        """
        contents = self.look(place)
        if isinstance(contents, Finding):
            return contents
        before = self._read.get(place.document.path, {})
        read = {SKILL_MD: contents.skill_md}
        for path, state in contents.files.items():
            if path in read:
                continue
            try:
                read[path] = _still_true(before, path, state) or _read(place.folder, path, state)
            except SkillError as error:
                return Finding("file-unreadable", str(error))
        self._read[place.document.path] = read
        resources = tuple(
            ManifestFile(make_uri((*place.path, *path.split("/"))), file.digest, file.size)
            for path, file in read.items()
        )
        return Manifest(place.uri, all_visible(contents.frontmatter), resources)

    def _skill_md(self, place: Place) -> _Read | Finding:
        """Read the SKILL.md of a skill, unless that is known."""
        path = Path(place.document.path)
        before = self._read.get(str(path), {})
        try:
            state = FileState.of(path.stat())
            if known := _still_true(before, SKILL_MD, state):
                return known
            is_settled = state.is_settled()
            data, status = read_skill_md(path)
        except (OSError, ParseError):
            return Finding("file-unreadable", "Its SKILL.md cannot be read; check that it exists.")
        is_settled = is_settled and FileState.of(status) == state
        read = _Read(
            FileState.of(status), is_settled, _digest(data), len(data), strict_frontmatter(data)
        )
        self._read[str(path)] = {**before, SKILL_MD: read}
        return read


def read_published(place: Place, path: str) -> bytes:
    """Read a file of a skill that `ManifestReader.look` listed.

    Args:
        place: The skill.
        path: The file as listed.

    Returns:
        Its bytes as they are now.

    Raises:
        SkillError: When it cannot be read; names no path of this machine.
    """
    if path != SKILL_MD:
        return read_file(place.folder, path, limit=MAX_BYTES)
    try:
        return read_skill_md(Path(place.document.path))[0]
    except ParseError as exc:
        raise SkillError(f"The SKILL.md cannot be read ({exc.code}).") from exc


def _still_true(read: Mapping[str, _Read], path: str, state: FileState) -> _Read | None:
    """Return what was read of a file where it cannot have changed since."""
    known = read.get(path)
    return known if known and known.is_settled and known.state == state else None


def _read(folder: Path, path: str, state: FileState) -> _Read:
    """Read and hash a file."""
    is_settled = state.is_settled()
    data = read_file(folder, path, limit=MAX_BYTES)
    return _Read(state, is_settled, _digest(data), len(data), {})


def _digest(data: bytes) -> str:
    """Return the hash of a file's bytes as manifests give it."""
    return f"sha256:{content_hash(data)}"


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
        message = f"Its URI is that of its own folder {name!r}; name the skill as its folder."
        return Finding("uri-taken", message)
    return states
