"""Which skills of a library are published, under which URIs, and why others are not (SEP-2640)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

from skillsearch.errors import SkillError
from skillsearch.files.paths import shown
from skillsearch.index.documents import Document
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.mcp_server.manifest import (
    SKILL_MD,
    Contents,
    Manifest,
    ManifestReader,
    Place,
    check_strict_name,
    read_published,
)
from skillsearch.mcp_server.skill_uris import authorities, make_uri, skill_path, split_uri
from skillsearch.skills.frontmatter import Finding
from skillsearch.types import Diagnostic

MAX_PAGE_FILES = 5_000  # files after which a page takes no more skills


class Child(NamedTuple):
    """A file or folder directly inside a folder of a published skill; a folder has no size."""

    name: str
    uri: str
    size: int | None


class Publisher:
    """Publishes the skills of a library; to be used in the library's thread.

    It looks at the files for every answer, and its errors name no path of this machine.
    """

    def __init__(
        self,
        library: SkillLibrary,
        *,
        reader: ManifestReader | None = None,
        max_page_files: int = MAX_PAGE_FILES,
    ) -> None:
        self._library = library
        self._reader = reader or ManifestReader()
        self._max_page_files = max_page_files
        self._listed: Sequence[Document] | None = None
        self.refresh()

    def refresh(self) -> bool:
        """Give every skill that the library has now a place or a reason; return if any changed."""
        before, self._listed = self._listed, self._library.list(include_hidden=True)
        if self._listed is before:
            return False
        of_alias = authorities(document.alias for document in self._listed)
        places: list[Place] = []
        self._refused: list[tuple[Document, Finding]] = []
        for item in self._library.shadowed():
            message = f"The skill {item.by.doc_id!r} of the same name comes first."
            self._refused.append((item.document, Finding("shadowed", message, None, "note")))
        for document in self._listed:
            if finding := _check(document):
                self._refused.append((document, finding))
                continue
            folder = document.doc_id.partition(":")[2]
            path, is_renamed = skill_path(of_alias[document.alias], folder, document.name)
            places.append(Place(make_uri((*path, SKILL_MD)), path, document, is_renamed))
        self._places = sorted(places, key=lambda place: place.uri)
        self._by_path = {place.path: place for place in self._places}
        self._depth = max(map(len, self._by_path), default=0)
        self._reader.forget_all_but({place.document.path for place in places})
        return self._listed != before

    def problems(self) -> tuple[Diagnostic, ...]:
        """Return why each other skill is not published, by path; a note if it should not be."""
        pairs = ((place.document, self._reader.manifest(place)) for place in self._places)
        refused = [(document, found) for document, found in pairs if isinstance(found, Finding)]
        found = [finding.at(document.path) for document, finding in (*self._refused, *refused)]
        return tuple(sorted(found, key=lambda diagnostic: diagnostic.path))

    def page(self, after: str | None, count: int) -> tuple[tuple[Manifest, ...], str | None]:
        """Return the manifests of the next `count` skills by URI, and the URI to go on after.

        The page begins after a URI, which need not exist; it is shorter if it has very many files.
        The second value is None at the end.
        """
        places = self._places
        at = 0 if after is None else bisect_right(places, after, key=lambda place: place.uri)
        end = min(at + count, len(places))
        manifests: list[Manifest] = []
        files = 0
        while at < end and files < self._max_page_files:
            manifest = self._reader.manifest(places[at])
            if isinstance(manifest, Manifest):
                manifests.append(manifest)
                files += len(manifest.resources)
            at += 1
        return tuple(manifests), places[at - 1].uri if at < len(places) else None

    def manifest(self, uri: str) -> Manifest:
        """Make the manifest of the skill whose SKILL.md has an untrusted URI, or raise an error."""
        *path, file = split_uri(uri) or ("",)
        place = self._by_path.get(tuple(path)) if file == SKILL_MD else None
        if place is None:
            raise SkillError(f"No skill is served at {shown(uri)}; list the skills.")
        manifest = self._reader.manifest(place)
        if isinstance(manifest, Finding):
            raise SkillError(f"No skill is served at {shown(uri)}: {manifest.message}")
        return manifest

    def read(self, uri: str) -> bytes:
        """Read a file of a published skill by its untrusted URI, or raise `SkillError`."""
        for contents, path in self._skills_around(uri):
            if path in contents.files:
                return read_published(contents.place, path)[0]
        raise SkillError(f"No file is served at {shown(uri)}; list the skills.")

    def children(self, uri: str) -> tuple[Child, ...]:
        """List what is directly in a folder of a published skill, by URI, or raise `SkillError`."""
        for contents, path in self._skills_around(uri):
            prefix = f"{path}/" if path else ""
            sizes: dict[str, int | None] = {}
            for file, state in contents.files.items():
                if file.startswith(prefix):
                    name, slash, _ = file.removeprefix(prefix).partition("/")
                    sizes[name] = None if slash else state.stat.size
            if sizes:
                base = split_uri(uri)
                children = [Child(name, make_uri((*base, name)), sizes[name]) for name in sizes]
                return tuple(sorted(children, key=lambda child: child.uri))
        raise SkillError(f"{shown(uri)} is not a directory of a served skill.")

    def _skills_around(self, uri: str) -> Iterator[tuple[Contents, str]]:
        """Yield the published skills that a URI may lie in, innermost first, and the path there."""
        parts = split_uri(uri)
        for length in range(min(len(parts), self._depth), 0, -1):
            place = self._by_path.get(parts[:length])
            contents = self._reader.look(place) if place else None
            if isinstance(contents, Contents):
                yield contents, "/".join(parts[length:])


def describe(library: SkillLibrary) -> tuple[str, list[str]]:
    """Sum up which skills are published; also return those that could be, and what to fix."""
    problems = Publisher(library).problems()
    total = len(library.list(include_hidden=True)) + len(library.shadowed())
    summary = f"{total - len(problems):,} of {total:,} skills are published"
    if problems:
        counts = Counter(problem.code for problem in problems).most_common()
        summary += f"; not published: {', '.join(f'{code} {count:,}' for code, count in counts)}"
    unfit = [f"{d.path} ({d.message.rstrip('.')})" for d in problems if d.severity != "note"]
    return summary, unfit


def _check(document: Document) -> Finding | None:
    """Return why a skill may not be published, as far as the library knows."""
    if document.hidden:
        message = "It asks not to be offered to models (disable-model-invocation)."
        return Finding("hidden", message, None, "note")
    if PurePath(document.path).name != SKILL_MD:
        return Finding("file-name-case", f"Its file is not named {SKILL_MD!r}; rename it.")
    return check_strict_name(document.name)
