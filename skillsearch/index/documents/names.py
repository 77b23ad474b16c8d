"""Finds documents by name, and the skills that other skills of the same name shadow."""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from skillsearch.errors import AmbiguousNameError, SkillNotFoundError, VersionNotFoundError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.index.documents.document import Document, name_hash
from skillsearch.index.documents.relatives import are_alike, are_kin
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.index.storage.numbering import Numbers, find_sorted, repeats, union, without
from skillsearch.skills.folders import remoteness
from skillsearch.skills.versions import release_order, satisfies, split_requirement
from skillsearch.text.near import near
from skillsearch.text.safe_text import listed, one_line
from skillsearch.types.answers import Family, Hit, Relative
from skillsearch.types.skills import LOADED_NAME_CHARS, MAX_NAME_CHARS, Diagnostic, Root, Skill

_NEAREST_NAMES, _COMPARED_NAMES, _COMPARED_CHARS = 5, 100, 200
"""Names that are suggested, and that are compared letter by letter; characters of one."""
_SHOWN_VERSIONS, _SHOWN_VERSION_CHARS = 10, 40
_MOST_LISTED = 5
# Namesakes of one root that another is compared with.
_MOST_COMPARED = 32
# Names whose meaning is remembered.
_MOST_MEANINGS = 10_000
# What stands around a name that is quoted, and before one that is mentioned or a command.
_QUOTES, _MARKS = " \t\r\n\"'`", "@$#/\\"
_SKILL_MD = lazy_pattern(r"(?:^|/)SKILL\.md$", re.IGNORECASE)


def find_by_name(
    name: str, documents: DocumentStore, roots: Sequence[str], *, suggest: bool = True
) -> Document:
    """Find the document that a name means; of several, the `preferred` one.

    It is a name in any case, ``root:name``, or the id of a document; each also with a version
    constraint, such as ``pdf@>=1.2``, unless a skill has just that name. Where none of these is
    there, it is read as `freely` does. Without `suggest` an error lists no similar names: finding
    them reads all documents.

    Raises SkillNotFoundError, VersionNotFoundError (with the versions), VersionConstraintError if
    the constraint cannot be read, or AmbiguousNameError if versions do not tell several apart.
    """
    named, wanted, constraint = _meant(name, documents), name, ""
    if not named and "@" in name.lstrip("@ "):
        wanted, constraint = split_requirement(name)
        named = _meant(wanted, documents)
    named = named or _read_freely(wanted, documents)
    if not named:
        raise SkillNotFoundError(name, near_to(wanted, documents)[1] if suggest else ())
    if constraint:
        fitting = [document for document in named if satisfies(document.version, constraint)]
        if not fitting:
            versions = (one_line(document.version, _SHOWN_VERSION_CHARS) for document in named)
            raise VersionNotFoundError(name, tuple(dict.fromkeys(versions))[:_SHOWN_VERSIONS])
        named = fitting
    if len(best := preferred(named, roots)) > 1:
        raise AmbiguousNameError(name, tuple(document.doc_id for document in best))
    return best[0]


def preferred(documents: Sequence[Document], roots: Sequence[str]) -> list[Document]:
    """Return the documents of the first root with any that no kin of theirs supersedes.

    So a version that a stranger writes hides nothing: of namesakes with other content, all stay.
    """
    return _preferred(documents, roots)[0]


def _preferred(
    documents: Sequence[Document], roots: Sequence[str]
) -> tuple[list[Document], dict[str, Document]]:
    """Return the `preferred` documents, and what supersedes others of their root, by their ids.

    That is kin which lies nearer to the live skills, or as near and is newer.
    """
    if len(best := _of_first_root(documents, roots)) == 1:
        return best, {}
    remote = {document.doc_id: remoteness(document.folder) for document in best}
    release = {document.doc_id: release_order(document.version) or () for document in best}
    newest = sorted(best, key=lambda document: release[document.doc_id], reverse=True)
    leading: list[Document] = []
    superseded: dict[str, Document] = {}
    for document in sorted(newest, key=lambda document: remote[document.doc_id]):
        own = document.doc_id
        for other in leading[:_MOST_COMPARED]:
            is_newer = release[own] and release[other.doc_id] > release[own]
            if (is_newer or remote[other.doc_id] < remote[own]) and are_kin(other, document):
                superseded[own] = other
                break
        else:
            leading.append(document)
    return [document for document in best if document.doc_id not in superseded], superseded


def _of_first_root(documents: Sequence[Document], roots: Sequence[str]) -> list[Document]:
    order = {root: rank for rank, root in enumerate(roots)}
    ranks = [order.get(document.root, len(order)) for document in documents]
    first = min(ranks)
    return [document for document, rank in zip(documents, ranks, strict=True) if rank == first]


def _meant(name: str, documents: DocumentStore) -> list[Document]:
    """Return the document of an id, which no skill may take as a name, else all of a name."""
    alias, colon, rest = name.partition(":")
    if (number := documents.number_of(name) if colon else None) is not None:
        return [documents[number]]
    if (named := [documents[number] for number in documents.named(name)]) or not colon:
        return named
    same_name = (documents[number] for number in documents.named(rest))
    return [document for document in same_name if document.alias == alias]


def freely(name: str) -> tuple[str, tuple[str, ...], str]:
    """Return plugin, folders and name of a skill as hosts and people write it.

    That is ``plugin:name``, ``/name``, ``@name`` or a path, with SKILL.md or without.
    """
    plain = name.strip(_QUOTES).lstrip(_MARKS).replace("\\", "/").rstrip("/")
    plain = _SKILL_MD.sub("", plain)
    plugin, _, path = plain.rpartition(":")
    folders = [part for part in path.split("/") if part not in {"", ".", "~"}] or [""]
    return plugin, tuple(folders[:-1]), folders[-1]


def _read_freely(name: str, documents: DocumentStore) -> list[Document]:
    """Return what a name means that is written `freely`; nothing if that may be several skills.

    A root or folder in the name must match; a plugin need not.
    """
    plugin, folders, last = freely(name)
    if plugin and documents.of_roots([plugin]).size:
        return []
    named = []
    for document in (documents[number] for number in documents.named(last)):
        above = [part.casefold() for part in Path(document.path).parent.parent.parts]
        if not folders or above[-len(folders) :] == [part.casefold() for part in folders]:
            named.append(document)
    if not plugin or len(named) == 1:
        return named
    wanted = name_hash(plugin)
    return [each for each in named if wanted in map(name_hash, Path(each.path).parent.parts)]


def near_to(name: str, documents: Iterable[Document]) -> tuple[Sequence[Document], tuple[str, ...]]:
    """Return the documents in a folder of an unknown name, and up to five names that it may mean.

    First those of the former, since a folder is what a user sees on the disk.
    """
    inside, names = [], []
    for document in documents:
        names.append(document.name)
        if is_in_folder(document, name):
            inside.append(document)
    return inside, tuple(
        dict.fromkeys(
            itertools.chain((document.name for document in inside), nearest_names(name, names))
        )
    )[:_NEAREST_NAMES]


def is_in_folder(document: Document, name: str) -> bool:
    """Return whether a skill lies in a folder of that name, ignoring case."""
    return document.path.casefold().endswith(f"/{name.casefold()}/skill.md")


def nearest_names(name: str, names: Iterable[str], *, by_words: bool = True) -> tuple[str, ...]:
    """Return up to five names that a name may mean, as `near` says."""
    folded = {other.casefold(): other for other in names}
    wanted = name[:_COMPARED_CHARS].casefold()
    pairs = _pairs(wanted)

    def likeness(other: str) -> float:
        # The share of common letter pairs (Dice) is far cheaper than difflib's ratio.
        theirs = _pairs(other)
        return len(pairs & theirs) / (len(pairs) + len(theirs))

    similar = heapq.nlargest(_COMPARED_NAMES, folded, key=likeness)
    close = near(wanted, similar, _NEAREST_NAMES, by_words=by_words)
    return tuple(folded[other] for other in close)


def _pairs(text: str) -> set[tuple[str, str]]:
    return set(itertools.pairwise(f"^{text[:_COMPARED_CHARS]}$"))


def skill_of(document: Document, roots: Collection[Path | str] = ()) -> Skill:
    """Read a document's skill as it is on disk now; raises ParseError if it is not one any more.

    Its SKILL.md may link into its root, or into one of the `roots`.
    """
    # A search reads no skill unless it explains: the parser and its YAML are imported only here.
    from skillsearch.skills.parser import read_skill

    path, root = Path(document.path), Path(document.root)
    return read_skill(path, doc_id=document.doc_id, root=root, roots=roots)


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A skill that a plain name does not mean, its number, and the one that it means instead."""

    document: Document
    by: Document
    number: int


def find_shadowed(documents: DocumentStore, roots: Sequence[Root]) -> tuple[Shadowed, ...]:
    """Find the skills that others of the same name take precedence over, by id.

    One of a project and one of the user or another project are both found, unless one is a copy.
    """
    shadowed = _shadowed(_namesakes(documents, documents.living), roots)
    return tuple(sorted(shadowed, key=lambda each: each.document.doc_id))


def _shadowed(groups: Iterable[dict[int, Document]], roots: Sequence[Root]) -> Iterator[Shadowed]:
    paths, projects = [str(root.path) for root in roots], _projects(roots)
    for namesakes in groups:
        first = preferred(list(namesakes.values()), paths)
        scopes: dict[tuple[str, ...], dict[int, Document]] = {}
        for number, document in namesakes.items():
            scopes.setdefault(projects.get(document.root, ()), {})[number] = document
        for some in scopes.values():
            best, by = _preferred(list(some.values()), paths)
            for document in best if best[0].root != first[0].root else ():
                copies = (other for other in first[:_MOST_COMPARED] if are_alike(other, document))
                if copied := next(copies, None):
                    by[document.doc_id] = copied
            meant = {document.doc_id for document in best}.difference(by)
            for number, document in some.items():
                if document.doc_id not in meant:
                    yield Shadowed(document, by.get(document.doc_id, best[0]), number)


def _projects(roots: Sequence[Root]) -> dict[str, tuple[str, ...]]:
    return {str(root.path): root.projects for root in roots}


def name_problems(documents: DocumentStore, roots: Sequence[Root]) -> Iterator[Diagnostic]:
    """Tell each name that stands twice in a root: as a warning if it means none of its skills.

    And each that stands for skills of the user and of a project.
    """
    paths, projects = [str(root.path) for root in roots], _projects(roots)
    gone = set(shadowed_numbers(documents, roots).tolist())
    for namesakes in _namesakes(documents, documents.living):
        best = preferred(list(namesakes.values()), paths)
        first = one_line(best[0].doc_id)
        for number, document in namesakes.items():
            around = projects.get(document.root, ()), projects.get(best[0].root, ())
            if number not in gone and around[0] != around[1] and not all(around):
                name = one_line(document.name, MAX_NAME_CHARS)
                message = f"The name {name!r} means {first}, where both are seen;"
                more = f"this one is loaded as {one_line(handle_of(document, documents, paths))}."
                yield Diagnostic("name-of-project", "note", f"{message} {more}", document.path)
        if len(same := [each for each in namesakes.values() if each.root == best[0].root]) > 1:
            name = one_line(same[0].name, MAX_NAME_CHARS)
            meant = {document.doc_id for document in best}
            same.sort(key=lambda each: each.doc_id not in meant)
            ids = listed((one_line(each.doc_id) for each in same), _MOST_LISTED)
            message = f"{len(same)} skills of this root are named {name!r}: {ids}."
            if len(best) > 1:
                more = "Each is found, and loaded by its id alone; rename all but one."
                yield Diagnostic("name-ambiguous", "warning", f"{message} {more}", same[1].path)
            else:
                more = f"They are kin: the name means {first}, the others by id."
                yield Diagnostic("name-twice", "note", f"{message} {more}", same[1].path)


def _namesakes(documents: DocumentStore, numbers: Numbers) -> Iterator[dict[int, Document]]:
    """Yield documents that share a name, by number; only these are read."""
    for places in repeats(documents.names[numbers]):
        yield {number: documents[number] for number in numbers[places].tolist()}


def handle_of(
    skill: Document | Hit | Relative | Skill, documents: DocumentStore, roots: Sequence[str]
) -> str:
    """Return the shortest name that identifies this skill only, on one line.

    It is its name, else ``root:name``, else its id.
    """
    name, alias = one_line(skill.name, LOADED_NAME_CHARS), skill.doc_id.partition(":")[0]
    handles = (name, f"{alias}:{name}")
    means = (handle for handle in handles if _id_meant(handle, documents, roots) == skill.doc_id)
    return next(means, one_line(skill.doc_id))


def _id_meant(name: str, documents: DocumentStore, roots: Sequence[str]) -> str:
    """Return the id of the skill that a name means alone, else nothing; remembered, up to a point.

    It takes time if many skills have the name, and each of them in an answer needs it.
    """
    key = (name, *roots)
    if key not in documents.meanings:
        if len(documents.meanings) >= _MOST_MEANINGS:
            documents.meanings.clear()
        documents.meanings[key] = ""
        with suppress(LookupError, ValueError):
            documents.meanings[key] = find_by_name(name, documents, roots, suggest=False).doc_id
    return documents.meanings[key]


def other_handle(skill: Hit | Relative, documents: DocumentStore, roots: Sequence[str]) -> str:
    """Return the handle of a skill if its name does not mean it alone, else nothing."""
    handle = handle_of(skill, documents, roots)
    return "" if handle == one_line(skill.name) else handle


def with_handles(family: Family, documents: DocumentStore, roots: Sequence[str]) -> Family:
    """Return a family whose members have the handles that they need."""
    handles = ((each, other_handle(each, documents, roots)) for each in family.members)
    return replace(family, members=tuple(replace(each, handle=name) for each, name in handles))


def shadowed_numbers(documents: DocumentStore, roots: Sequence[Root]) -> Numbers:
    """Return the numbers of what `find_shadowed` finds, int64, ascending.

    No more documents are held than share one name.
    """
    return _numbers(_shadowed(_namesakes(documents, documents.living), roots))


def shadowed_without(documents: DocumentStore, deleted: Numbers, roots: Sequence[Root]) -> Numbers:
    """Return `shadowed_numbers` of documents of which more are deleted, given those of all.

    Only those are compared again that had a namesake among the documents that were left out.
    """
    gone = without(deleted, documents.deleted)
    living = without(documents.living, gone)
    lost = np.sort(documents.names[gone])
    again = living[find_sorted(lost, documents.names[living]) >= 0]
    rest = without(documents.shadowed, union(gone, again))
    return union(rest, _numbers(_shadowed(_namesakes(documents, again), roots)))


def _numbers(shadowed: Iterable[Shadowed]) -> Numbers:
    return np.array(sorted(each.number for each in shadowed), np.int64)
