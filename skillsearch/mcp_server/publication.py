"""Which skills of a library are published, under which URIs, and why others are not (SEP-2640).

Files that `list_files` leaves out, such as links and ``.git``, have no URI and are not served.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import NamedTuple

from skillsearch.errors import ParseError, SkillError
from skillsearch.files.openat import RACY_NS, is_racy
from skillsearch.files.paths import shown
from skillsearch.index.documents.document import Document
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.mcp_server.skill_uris import authorities, make_uri, skill_path, split_uri
from skillsearch.skills.findings import Finding, finding_of
from skillsearch.skills.metadata import MAX_COMPATIBILITY_CHARS, MAX_DESCRIPTION_CHARS, check_name
from skillsearch.skills.parser import decode_skill_md, read_sections
from skillsearch.skills.resources import content_hash, list_files, read_file, read_skill_md
from skillsearch.text.safe_text import all_visible, counted
from skillsearch.types.json_values import Json, object_of
from skillsearch.types.skills import SKILL_MD, Diagnostic, FileStat

MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024  # the largest skill that every host accepts
MAX_PAGE_FILES = 5_000  # files after which a page takes no more skills
_FILE_CHARS = 200  # of a frontmatter or a URI, which count as one file more

_LIMITS = {"description": MAX_DESCRIPTION_CHARS, "compatibility": MAX_COMPATIBILITY_CHARS}
_finding = partial(finding_of, "publication")

Frontmatter = Mapping[str, Json]


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
    resources: tuple[ManifestFile, ...]


class Published(NamedTuple):
    """A skill, the URI of its SKILL.md, and the path there, which may end with its added name.

    Its SKILL.md may link to a text in one of the `roots`.
    """

    uri: str
    path: tuple[str, ...]
    document: Document
    is_renamed: bool
    roots: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The skill folder."""
        return Path(self.document.path).parent


class _Read(NamedTuple):
    """A file as it was read in some state; only a SKILL.md has a frontmatter."""

    state: FileStat
    is_settled: bool
    digest: str
    size: int
    frontmatter: Frontmatter | Finding


class Looked(NamedTuple):
    """A skill that can be published: its SKILL.md, the frontmatter of that, and all its files."""

    skill_md: _Read
    frontmatter: Frontmatter
    files: Mapping[str, FileStat]


def read_published(skill: Published, path: str) -> tuple[bytes, os.stat_result | None]:
    """Read a file that `look` listed, SKILL.md with its stat; no error names a local path.

    A SkillError if it cannot be read.
    """
    if path != SKILL_MD:
        return read_file(skill.folder, path, limit=MAX_BYTES), None
    try:
        return read_skill_md(Path(skill.document.path), (skill.document.root, *skill.roots))
    except ParseError as exc:
        raise SkillError(f"The SKILL.md cannot be read ({exc.code}).") from exc


def _others(skill: Published) -> dict[str, FileStat] | Finding:
    """Return the state of each file except SKILL.md, or why they cannot be published."""
    try:
        paths, is_truncated = list_files(skill.folder, limit=MAX_FILES)
        states = {path: FileStat.of((skill.folder / path).lstat()) for path in paths}
    except (OSError, SkillError):
        return Finding("file-unreadable", "Its files cannot be read; check their permissions.")
    if len(paths) >= MAX_FILES:
        return _finding("too-many-files", MAX_FILES)
    if is_truncated:
        return _finding("files-incomplete")
    name = skill.path[-1]
    if skill.is_renamed and any(path.startswith(f"{name}/") for path in paths):
        return _finding("uri-taken", name)
    return states


def strict_frontmatter(data: bytes) -> Frontmatter | Finding:
    """Read the frontmatter as every host does, or return its first need of repair or problem."""
    text, odd = decode_skill_md(data)
    try:
        frontmatter, _, more = read_sections(text)
    except ParseError as error:
        return Finding("frontmatter-unreadable", str(error), error.line)
    for finding in (*odd, *more):
        if finding.code not in {"byte-order-mark", "placeholder"}:
            is_type = finding.code.endswith("-not-text")
            code = finding.code if is_type else "frontmatter-unreadable"
            return finding._replace(code=code, severity="warning")
    name = frontmatter.get("name", "")
    if problem := check_strict_name(name if isinstance(name, str) else ""):
        return problem
    for key in (key for key in _LIMITS if key in {"description", *frontmatter}):
        value, limit = frontmatter.get(key), _LIMITS[key]
        if not isinstance(value, str) or not value.strip():
            return _finding(f"{key}-not-text")
        if len(value) > limit:
            return _finding(f"{key}-too-long", len(value), limit)
    return frontmatter


def check_strict_name(name: str) -> Finding | None:
    """Return why some host would refuse a name, or None; the official tools accept only ASCII."""
    if problem := next(check_name(name, name or "the-name-of-the-folder"), None):
        return problem
    return None if name.isascii() else _finding("name-not-ascii", name)


class Publisher:
    """Publishes the skills of a library; to be used in the library's thread.

    It looks at the files for every answer, but reads none twice while its state stays the same. Its
    errors name no path of this machine.
    """

    def __init__(
        self,
        library: SkillLibrary,
        *,
        read: Callable[[Published, str], tuple[bytes, os.stat_result | None]] = read_published,
        racy_ns: int = RACY_NS,
        max_page_files: int = MAX_PAGE_FILES,
    ) -> None:
        self.library = library
        self._read = read
        self._racy_ns = racy_ns
        self._max_page_files = max_page_files
        self._files: dict[str, dict[str, _Read]] = {}
        """Files that were read, by the path of their SKILL.md, then by their own."""
        self._listed: Sequence[Document] | None = None
        self.refresh()

    def refresh(self) -> bool:
        """Give every skill that the library has now a place or a reason; return if any changed."""
        before, self._listed = self._listed, self.library.list(include_hidden=True)
        if self._listed is before:
            return False
        of_alias = authorities(document.alias for document in self._listed)
        roots = tuple(self.library.root_paths)
        skills: list[Published] = []
        self._refused: list[tuple[Document, Finding]] = []
        for item in self.library.shadowed():
            self._refused.append((item.document, _finding("shadowed", item.by.doc_id)))
        for document in self._listed:
            if finding := _check(document):
                self._refused.append((document, finding))
                continue
            alias = of_alias[document.alias]
            path, is_renamed = skill_path(alias, document.folder, document.name)
            uri = make_uri((*path, SKILL_MD))
            skills.append(Published(uri, path, document, is_renamed, roots))
        self._skills = sorted(skills, key=lambda skill: skill.uri)
        self._by_path = {skill.path: skill for skill in self._skills}
        self._depth = max(map(len, self._by_path), default=0)
        paths = [skill.document.path for skill in skills]
        self._files = {path: self._files[path] for path in paths if path in self._files}
        return self._listed != before

    @property
    def skills(self) -> Sequence[Published]:
        """The skills that have a URI, by it; `look` says of each whether its files can be had."""
        return self._skills

    def problems(self) -> tuple[Diagnostic, ...]:
        """Return why each other skill is not published, by path; a note if it should not be."""
        refused = list(self._refused)
        for skill in self._skills:
            if isinstance(finding := self.manifest_of(skill), Finding):
                refused.append((skill.document, finding))
        diagnostics = (finding.at(document.path) for document, finding in refused)
        return tuple(sorted(diagnostics, key=lambda diagnostic: diagnostic.path))

    def page(self, after: str | None, count: int) -> tuple[tuple[Manifest, ...], str | None]:
        """Return manifests of the next `count` skills by URI, and the URI to go on after, if any.

        The page begins after a URI, which need not exist; it is shorter if it has very many files.
        """
        skills = self._skills
        at = 0 if after is None else bisect_right(skills, after, key=lambda skill: skill.uri)
        end = min(at + count, len(skills))
        manifests: list[Manifest] = []
        files = 0
        while at < end and files < self._max_page_files:
            manifest = self.manifest_of(skills[at])
            if isinstance(manifest, Manifest):
                manifests.append(manifest)
                files += len(manifest.resources)
                texts = (str(manifest.frontmatter), *(file.uri for file in manifest.resources))
                files += sum(len(text) // _FILE_CHARS for text in texts)
            at += 1
        return tuple(manifests), skills[at - 1].uri if at < len(skills) else None

    def manifest(self, uri: str) -> Manifest:
        """Make the manifest of the skill whose SKILL.md has this untrusted URI.

        A SkillError if there is none, or it cannot be published.
        """
        *path, file = split_uri(uri) or ("",)
        skill = self._by_path.get(tuple(path)) if file == SKILL_MD else None
        if skill is None:
            raise SkillError(f"No skill is served at {shown(uri)}; list the skills.")
        manifest = self.manifest_of(skill)
        if isinstance(manifest, Finding):
            raise SkillError(f"No skill is served at {shown(uri)}: {manifest.message}")
        return manifest

    def read(self, uri: str) -> bytes:
        """Read a file of a published skill by its untrusted URI, or raise `SkillError`."""
        for skill, files, path in self._skills_around(uri):
            if path in files:
                return read_published(skill, path)[0]
        raise SkillError(f"No file is served at {shown(uri)}; list the skills.")

    def children(self, uri: str) -> list[tuple[str, str, int | None]]:
        """List URI, name and size (of files) of all directly in a folder, or raise `SkillError`."""
        for _, files, path in self._skills_around(uri):
            prefix = f"{path}/" if path else ""
            sizes: dict[str, int | None] = {}
            for file, state in files.items():
                if file.startswith(prefix):
                    name, slash, _ = file.removeprefix(prefix).partition("/")
                    sizes[name] = None if slash else state.size
            if sizes:
                base = split_uri(uri)
                return sorted((make_uri((*base, name)), name, sizes[name]) for name in sizes)
        raise SkillError(
            f"{shown(uri)} is not a directory of a served skill; list the resources to see them."
        )

    def look(self, skill: Published) -> Looked | Finding:
        """Read SKILL.md and list all files, it first, or return why it cannot be published."""
        try:
            state = FileStat.of(Path(skill.document.path).stat())
            skill_md = self._file(skill, SKILL_MD, state)
        except (OSError, SkillError):
            return Finding("file-unreadable", "Its SKILL.md cannot be read; check that it exists.")
        self._files.setdefault(skill.document.path, {})[SKILL_MD] = skill_md
        frontmatter = skill_md.frontmatter
        if isinstance(frontmatter, Finding):
            return frontmatter
        if frontmatter["name"] != skill.path[-1]:
            return _finding("skill-changed")
        others = _others(skill)
        if isinstance(others, Finding):
            return others
        files = {SKILL_MD: skill_md.state, **others}
        total = sum(stat.size for stat in files.values())
        if total > MAX_BYTES:
            return _finding("files-too-large", total, MAX_BYTES)
        return Looked(skill_md, frontmatter, files)

    def manifest_of(self, skill: Published) -> Manifest | Finding:
        """Make the manifest of a skill, or return why it cannot be published, as `look` does."""
        looked = self.look(skill)
        if isinstance(looked, Finding):
            return looked
        try:
            read = {
                path: looked.skill_md if path == SKILL_MD else self._file(skill, path, state)
                for path, state in looked.files.items()
            }
        except SkillError as error:
            return Finding("file-unreadable", str(error))
        self._files[skill.document.path] = read
        resources = tuple(
            ManifestFile(make_uri((*skill.path, *path.split("/"))), file.digest, file.size)
            for path, file in read.items()
        )
        return Manifest(skill.uri, object_of(all_visible(looked.frontmatter)), resources)

    def _file(self, skill: Published, path: str, state: FileStat) -> _Read:
        """Read and hash a file, unless it cannot have changed since it was read."""
        before = self._files.get(skill.document.path, {}).get(path)
        if before and before.is_settled and before.state == state:
            return before
        times, now = (state.mtime_ns, state.ctime_ns), time.time_ns()
        is_settled = not any(is_racy(at, now, self._racy_ns) for at in times)
        data, status = self._read(skill, path)
        if status is not None:
            is_settled = is_settled and FileStat.of(status) == state
            state = FileStat.of(status)
        frontmatter = strict_frontmatter(data) if path == SKILL_MD else {}
        return _Read(state, is_settled, f"sha256:{content_hash(data)}", len(data), frontmatter)

    def _skills_around(self, uri: str) -> Iterator[tuple[Published, Mapping[str, FileStat], str]]:
        """Yield the published skills that a URI may lie in, innermost first, and the path there."""
        parts = split_uri(uri)
        for length in range(min(len(parts), self._depth), 0, -1):
            skill = self._by_path.get(parts[:length])
            if skill and not isinstance(looked := self.look(skill), Finding):
                yield skill, looked.files, "/".join(parts[length:])


def describe(library: SkillLibrary) -> tuple[str, list[str]]:
    """Sum up which skills are published; also return those that could be, with the fix."""
    problems = Publisher(library).problems()
    total = len(library.list(include_hidden=True)) + len(library.shadowed())
    summary = f"published: {total - len(problems):,} of {counted(total, 'skill')}"
    if problems:
        counts = Counter(problem.code for problem in problems).most_common()
        summary += f"; not published: {', '.join(f'{code} {count:,}' for code, count in counts)}"
    unfit = [f"{d.path} ({d.message.rstrip('.')})" for d in problems if d.severity != "note"]
    return summary, unfit


def _check(document: Document) -> Finding | None:
    """Return why a skill may not be published, as far as the library knows."""
    if document.hidden:
        return _finding("hidden")
    if PurePath(document.path).name != SKILL_MD:
        return _finding("file-name-case")
    return check_strict_name(document.name)
