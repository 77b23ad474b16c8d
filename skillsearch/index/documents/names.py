"""Finds documents by name, and the shortest name that means one document alone."""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from skillsearch.errors import AmbiguousNameError, SkillNotFoundError, VersionNotFoundError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.index.documents.document import Document, name_hash
from skillsearch.index.documents.relatives import are_kin
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.skills.folders import remoteness
from skillsearch.skills.versions import release_order, satisfies, split_requirement
from skillsearch.text.near import near
from skillsearch.text.safe_text import one_line
from skillsearch.types.answers import Family, Hit, Relative
from skillsearch.types.skills import LOADED_NAME_CHARS, Skill

_NEAREST_NAMES, _COMPARED_NAMES, _COMPARED_CHARS = 5, 100, 200
"""Names that are suggested, and that are compared letter by letter; characters of one."""
_SHOWN_VERSIONS, _SHOWN_VERSION_CHARS = 10, 40
MOST_COMPARED = 32
"""Namesakes of one root that another is compared with."""
# What stands around a name that is quoted, and before one that is mentioned or a command.
_QUOTES, _MARKS = " \t\r\n\"'`", "@$#/\\"
_SKILL_MD = lazy_pattern(r"(?:^|/)SKILL\.md$", re.IGNORECASE)


def find_by_name(
    name: str, documents: DocumentStore, roots: Sequence[str], *, suggest: bool = True
) -> Document:
    """Find the document that a name means; of several, the `preferred` one.

    It is a name in any case, ``root:name``, or the id of a document; each also with a version
    constraint, such as ``pdf@>=1.2``, unless a skill has just that name. Where none of these is
    there, it is read as `split_written_name` does. Without `suggest` an error lists no similar
    names: finding them reads all documents.

    Raises SkillNotFoundError, VersionNotFoundError (with the versions), VersionConstraintError if
    the constraint cannot be read, or AmbiguousNameError if versions do not tell several apart.
    """
    named, wanted, constraint = _documents_named(name, documents), name, ""
    if not named and "@" in name.lstrip("@ "):
        wanted, constraint = split_requirement(name)
        named = _documents_named(wanted, documents)
    named = named or _documents_written_as(wanted, documents)
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
    return prefer(documents, roots)[0]


def prefer(
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
        for other in leading[:MOST_COMPARED]:
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


def _documents_named(name: str, documents: DocumentStore) -> list[Document]:
    """Return the document of an id, which no skill may take as a name, else all of a name."""
    alias, colon, rest = name.partition(":")
    if (number := documents.number_of(name) if colon else None) is not None:
        return [documents[number]]
    if (named := [documents[number] for number in documents.named(name)]) or not colon:
        return named
    same_name = (documents[number] for number in documents.named(rest))
    return [document for document in same_name if document.alias == alias]


def split_written_name(name: str) -> tuple[str, tuple[str, ...], str]:
    """Return plugin, folders and name of a skill as hosts and people write it.

    That is ``plugin:name``, ``/name``, ``@name`` or a path, with SKILL.md or without.
    """
    plain = name.strip(_QUOTES).lstrip(_MARKS).replace("\\", "/").rstrip("/")
    plain = _SKILL_MD.sub("", plain)
    plugin, _, path = plain.rpartition(":")
    folders = [part for part in path.split("/") if part not in {"", ".", "~"}] or [""]
    return plugin, tuple(folders[:-1]), folders[-1]


def _documents_written_as(name: str, documents: DocumentStore) -> list[Document]:
    """Return what a name as people write it means; nothing if that may be several skills.

    A root or folder in the name must match; a plugin need not.
    """
    plugin, folders, last = split_written_name(name)
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
    """Return the id of the skill that a name means alone, else nothing.

    It is remembered: it takes time if many skills have the name, and each in an answer needs it.
    """

    def find() -> str:
        with suppress(LookupError, ValueError):
            return find_by_name(name, documents, roots, suggest=False).doc_id
        return ""

    return documents.meanings.of((name, *roots), find)


def other_handle(skill: Hit | Relative, documents: DocumentStore, roots: Sequence[str]) -> str:
    """Return the handle of a skill if its name does not mean it alone, else nothing."""
    handle = handle_of(skill, documents, roots)
    return "" if handle == one_line(skill.name) else handle


def with_handles(family: Family, documents: DocumentStore, roots: Sequence[str]) -> Family:
    """Return a family whose members have the handles that they need."""
    handles = ((each, other_handle(each, documents, roots)) for each in family.members)
    return replace(family, members=tuple(replace(each, handle=name) for each, name in handles))
