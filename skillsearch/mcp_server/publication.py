"""Which skills of a library are published, under which URIs, and why others are not (SEP-2640)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from skillsearch.errors import SkillError
from skillsearch.files.paths import shown
from skillsearch.index.documents import Document
from skillsearch.index.names import Shadowed
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

MAX_PAGE_FILES = 5_000
"""Files after which a page takes no more skills."""


class Child(NamedTuple):
    """A file or folder directly inside a folder of a published skill; a folder has no size."""

    name: str
    uri: str
    size: int | None


@dataclass(frozen=True, slots=True)
class _Catalogue:
    """One state of a library: the skills that may be published, by URI, and the others.

    ``depth`` is the length of the longest path.
    """

    listed: Sequence[Document]
    places: Sequence[Place]
    by_path: Mapping[tuple[str, ...], Place]
    depth: int
    refused: Sequence[tuple[Document, Finding]]


class Publisher:
    """Publishes the skills of a library; to be used in the library's thread.

    Which skills there are is what the library knew at the last `refresh`; their files are looked
    at for every answer.
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
        self._catalogue = self._read_catalogue()

    def refresh(self) -> bool:
        """Follow the library, which is not refreshed itself; return whether its skills changed."""
        before = self._catalogue.listed
        if self._library.list(include_hidden=True) is before:
            return False
        self._catalogue = self._read_catalogue()
        self._reader.forget_all_but({place.document.path for place in self._catalogue.places})
        return self._catalogue.listed != before

    def problems(self) -> tuple[Diagnostic, ...]:
        """Return why each of the other skills is not published, by path; looks at all files.

        A skill that should not be published has a note, one that could be has a warning.
        """
        catalogue = self._catalogue
        pairs = ((place.document, self._reader.manifest(place)) for place in catalogue.places)
        refused = [(document, found) for document, found in pairs if isinstance(found, Finding)]
        found = [finding.at(document.path) for document, finding in (*catalogue.refused, *refused)]
        return tuple(sorted(found, key=lambda diagnostic: diagnostic.path))

    def page(self, after: str | None, count: int) -> tuple[tuple[Manifest, ...], str | None]:
        """Return the manifests of published skills among the next `count` skills, by URI.

        The page begins after a URI, which need not exist any more; None begins with the first. It
        is shorter if its skills have very many files. The second value is the URI after which the
        next page begins, None at the end.
        """
        places = self._catalogue.places
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
        """Make the manifest of the skill whose SKILL.md has an untrusted URI.

        The `SkillError` for a URI that is not published names no path of this machine.
        """
        *path, file = split_uri(uri) or ("",)
        place = self._catalogue.by_path.get(tuple(path)) if file == SKILL_MD else None
        if place is None:
            raise SkillError(f"No skill is served at {shown(uri)}; list the skills.")
        manifest = self._reader.manifest(place)
        if isinstance(manifest, Finding):
            raise SkillError(f"No skill is served at {shown(uri)}: {manifest.message}")
        return manifest

    def read(self, uri: str) -> bytes:
        """Read a file of a published skill by its untrusted URI.

        The `SkillError` for a URI that is not published names no path of this machine.
        """
        for contents, path in self._skills_around(uri):
            if path in contents.files:
                return read_published(contents.place, path)[0]
        raise SkillError(f"No file is served at {shown(uri)}; list the skills.")

    def children(self, uri: str) -> tuple[Child, ...]:
        """List the files and folders directly in a folder of a published skill, by URI.

        The untrusted URI has no slash at its end. A folder without files does not count. The
        `SkillError` for a URI that is not published names no path of this machine.
        """
        for contents, path in self._skills_around(uri):
            prefix = f"{path}/" if path else ""
            sizes: dict[str, int | None] = {}
            for file, state in contents.files.items():
                if file.startswith(prefix):
                    name, slash, _ = file.removeprefix(prefix).partition("/")
                    sizes[name] = None if slash else state.size
            if sizes:
                base = split_uri(uri)
                children = [Child(name, make_uri((*base, name)), sizes[name]) for name in sizes]
                return tuple(sorted(children, key=lambda child: child.uri))
        raise SkillError(f"{shown(uri)} is not a directory of a served skill.")

    def _read_catalogue(self) -> _Catalogue:
        return _make_catalogue(self._library.list(include_hidden=True), self._library.shadowed())

    def _skills_around(self, uri: str) -> Iterator[tuple[Contents, str]]:
        """Yield the published skills that a URI may lie in, innermost first, and the path inside.

        Some files of a nested skill have a URI only in the outer one.
        """
        parts = split_uri(uri)
        catalogue = self._catalogue
        for length in range(min(len(parts), catalogue.depth), 0, -1):
            place = catalogue.by_path.get(parts[:length])
            contents = self._reader.look(place) if place else None
            if isinstance(contents, Contents):
                yield contents, "/".join(parts[length:])


def describe(library: SkillLibrary) -> tuple[str, list[str]]:
    """Sum up how many skills of a library are published, and how many are not, by reason.

    The second value names each skill that could be published: its path, and what to fix.
    """
    problems = Publisher(library).problems()
    total = len(library.list(include_hidden=True)) + len(library.shadowed())
    summary = f"{total - len(problems):,} of {total:,} skills are published"
    if problems:
        counts = Counter(problem.code for problem in problems).most_common()
        summary += f"; not published: {', '.join(f'{code} {count:,}' for code, count in counts)}"
    unfit = [f"{d.path} ({d.message.rstrip('.')})" for d in problems if d.severity != "note"]
    return summary, unfit


def _make_catalogue(listed: Sequence[Document], shadowed: Sequence[Shadowed]) -> _Catalogue:
    """Give each skill that may be published a place, and the others a reason."""
    of_alias = authorities(document.alias for document in listed)
    places: list[Place] = []
    refused = [(item.document, _shadowed(item)) for item in shadowed]
    for document in listed:
        finding = _check(document)
        if finding is not None:
            refused.append((document, finding))
            continue
        folder = document.doc_id.partition(":")[2]
        path, is_renamed = skill_path(of_alias[document.alias], folder, document.name)
        places.append(Place(make_uri((*path, SKILL_MD)), path, document, is_renamed))
    places.sort(key=lambda place: place.uri)
    by_path = {place.path: place for place in places}
    return _Catalogue(listed, places, by_path, max(map(len, by_path), default=0), refused)


def _shadowed(item: Shadowed) -> Finding:
    message = f"The skill {item.by.doc_id!r} of the same name comes first."
    return Finding("shadowed", message, None, "note")


def _check(document: Document) -> Finding | None:
    """Return why a skill may not be published, as far as the library knows."""
    if document.hidden:
        message = "It asks not to be offered to models (disable-model-invocation)."
        return Finding("hidden", message, None, "note")
    if PurePath(document.path).name != SKILL_MD:
        return Finding("file-name-case", f"Its file is not named {SKILL_MD!r}; rename it.")
    return check_strict_name(document.name)
