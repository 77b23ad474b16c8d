"""Which skills of a library an MCP server publishes, where, and why not the others (SEP-2640)."""

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
from skillsearch.index.precedence import Shadowed
from skillsearch.library.manifest import (
    SKILL_MD,
    Contents,
    Manifest,
    ManifestReader,
    Place,
    read_published,
)
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.library.skill_uris import authorities, make_uri, skill_path, split_uri
from skillsearch.skills.frontmatter import Finding
from skillsearch.skills.strict_frontmatter import check_strict_name
from skillsearch.types import Diagnostic

_MAX_PAGE_FILES = 5_000
"""Files after which a page takes no further skill."""


class Child(NamedTuple):
    """A file or folder directly inside a folder of a published skill.

    Attributes:
        name: Its name.
        uri: Its URI.
        size: Bytes; None for a folder.
    """

    name: str
    uri: str
    size: int | None


@dataclass(frozen=True, slots=True)
class _Catalogue:
    """One state of a library: the skills that may be published, by URI, and the others.

    ``depth`` is the number of parts of the longest path.
    """

    listed: Sequence[Document]
    places: Sequence[Place]
    by_path: Mapping[tuple[str, ...], Place]
    depth: int
    refused: Sequence[tuple[Document, Finding]]


class Publisher:
    """Publishes the skills of a library.

    Which skills there are is as the library knew it at the last `refresh`; their files are looked
    at for every answer. It belongs to the thread of its library.
    """

    def __init__(self, library: SkillLibrary) -> None:
        """Take a library, which is not asked before the publisher is."""
        self._library = library
        self._reader = ManifestReader()
        self._made: _Catalogue | None = None

    def refresh(self) -> bool:
        """Follow the library, which this does not refresh.

        Returns:
            True where its skills are others than at the last look.
        """
        before = self._made
        listed = self._library.list(include_hidden=True)
        if before is not None and before.listed is listed:
            return False
        self._made = _make_catalogue(listed, self._library.shadowed())
        self._reader.forget_all_but({place.document.path for place in self._made.places})
        return before is not None and before.listed != listed

    def published(self) -> tuple[Document, ...]:
        """Return the skills that are published, by URI; looks at all their files."""
        pairs = ((place, self._reader.manifest(place)) for place in self._catalogue.places)
        return tuple(place.document for place, found in pairs if isinstance(found, Manifest))

    def problems(self) -> tuple[Diagnostic, ...]:
        """Say why each of the other skills is not, by path; looks at all files.

        Returns:
            One diagnostic for each: a note for a skill that is not to be published, a warning for
            one that could be.
        """
        catalogue = self._catalogue
        pairs = ((place.document, self._reader.manifest(place)) for place in catalogue.places)
        refused = [(document, found) for document, found in pairs if isinstance(found, Finding)]
        found = [finding.at(document.path) for document, finding in (*catalogue.refused, *refused)]
        return tuple(sorted(found, key=lambda diagnostic: diagnostic.path))

    def page(self, after: str | None, count: int) -> tuple[tuple[Manifest, ...], str | None]:
        """Look at the next skills, and make the manifests of those that are published.

        Args:
            after: URI behind which the page begins, whether it still exists or not; None for the
                first page.
            count: Skills to look at; fewer where they have very many files.

        Returns:
            The manifests by URI, and the URI behind which the next page begins; None at the end.
        """
        places = self._catalogue.places
        at = 0 if after is None else bisect_right(places, after, key=lambda place: place.uri)
        end = min(at + count, len(places))
        manifests: list[Manifest] = []
        files = 0
        while at < end and files < _MAX_PAGE_FILES:
            manifest = self._reader.manifest(places[at])
            if isinstance(manifest, Manifest):
                manifests.append(manifest)
                files += len(manifest.resources)
            at += 1
        return tuple(manifests), places[at - 1].uri if at < len(places) else None

    def manifest(self, uri: str) -> Manifest:
        """Make the manifest of one skill.

        Args:
            uri: URI of its SKILL.md, not trusted.

        Returns:
            The manifest as of now.

        Raises:
            SkillError: When no skill is published there; names no path of this machine.
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
        """Read a file of a published skill.

        Args:
            uri: URI of the file, not trusted.

        Returns:
            Its bytes as they are now.

        Raises:
            SkillError: When no file is published there, or it cannot be read; names no path of
                this machine.
        """
        for contents, path in self._skills_around(uri):
            if path in contents.files:
                return read_published(contents.place, path)
        raise SkillError(f"No file is served at {shown(uri)}; list the skills.")

    def children(self, uri: str) -> tuple[Child, ...]:
        """List a folder of a published skill; one that holds no file does not count.

        Args:
            uri: URI of the folder, without a slash at its end, not trusted.

        Returns:
            The files and folders directly in it, by URI.

        Raises:
            SkillError: When there is no such folder; names no path of this machine.
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
        raise SkillError(f"{shown(uri)} is not a directory of a skill that is served.")

    @property
    def _catalogue(self) -> _Catalogue:
        """The catalogue of the last refresh, made now where there was none."""
        if self._made is None:
            self._made = _make_catalogue(
                self._library.list(include_hidden=True), self._library.shadowed()
            )
        return self._made

    def _skills_around(self, uri: str) -> Iterator[tuple[Contents, str]]:
        """Yield the published skills that a URI may lie in, the innermost first.

        With each comes the path inside it. Of a skill inside a skill, some files have a URI only
        in the outer one.
        """
        parts = split_uri(uri)
        catalogue = self._catalogue
        for length in range(min(len(parts), catalogue.depth), 0, -1):
            place = catalogue.by_path.get(parts[:length])
            contents = self._reader.look(place) if place else None
            if isinstance(contents, Contents):
                yield contents, "/".join(parts[length:])


def describe(library: SkillLibrary) -> tuple[str, list[str]]:
    """Sum up which skills of a library are published.

    Args:
        library: The library.

    Returns:
        How many are published, and how many are not for which reason; and of those that could be
        the path, what is wrong and what to do.
    """
    problems = Publisher(library).problems()
    total = len(library.list(include_hidden=True)) + len(library.shadowed())
    told = f"{total - len(problems):,} of {total:,} skills are published"
    if problems:
        counts = Counter(problem.code for problem in problems).most_common()
        told += f"; not published: {', '.join(f'{code} {count:,}' for code, count in counts)}"
    wrong = [f"{d.path} ({d.message.rstrip('.')})" for d in problems if d.severity != "note"]
    return told, wrong


def _make_catalogue(listed: Sequence[Document], shadowed: Sequence[Shadowed]) -> _Catalogue:
    """Give each skill that may be published a place, and say why the others may not be."""
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
    """Return why a skill that no name means is not published."""
    message = f"The skill {item.by.doc_id!r} of the same name comes before it."
    return Finding("shadowed", message, None, "note")


def _check(document: Document) -> Finding | None:
    """Return why a skill may not be published, as far as its document tells."""
    if document.hidden:
        message = "It asks not to be offered to models (disable-model-invocation)."
        return Finding("hidden", message, None, "note")
    if PurePath(document.path).name != SKILL_MD:
        return Finding("file-name-case", f"Its file is not named {SKILL_MD!r}; rename it.")
    return check_strict_name(document.name)
