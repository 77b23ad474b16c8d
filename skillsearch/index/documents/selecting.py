"""What a selection, and the folder that a question comes from, leave of the documents of a corpus.

A root is the user's or a project's. A question from a folder sees the skills of the user, and of
the project roots around that folder; of both not those for other `paths` of the project.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache
from typing import TypeAlias, cast

import numpy as np

from skillsearch.errors import SelectionError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.files.paths import printable
from skillsearch.index.documents.document import Document
from skillsearch.index.documents.shadowing import shadowed_without
from skillsearch.index.roots.request import key_of
from skillsearch.index.roots.scope import (
    Viewpoint,
    folders_of,
    is_bounded,
    is_in_scope,
    without_scope,
)
from skillsearch.index.storage.document_store import DocumentStore, Label
from skillsearch.index.storage.numbering import Numbers, find_sorted, union, without
from skillsearch.text.safe_text import listed, one_line, visible
from skillsearch.text.tokenizer import normalized
from skillsearch.types.answers import SCOPE, SELECTING, Selection
from skillsearch.types.skills import WITH_FRONTMATTER, Diagnostic, Root

_SHOWN_TAGS, _SHOWN_CHARS = 20, 500
_MOST_WARNED = 10
# Kind, pattern, and the aliases of the roots whose skills pass untested.
_Test: TypeAlias = tuple[str, re.Pattern[str], set[str]]
_HYPHENS = str.maketrans("_ ", "--")
_GLOB = lazy_pattern(r"[*?\[{!]")

logger = logging.getLogger(__name__)


def selected(store: DocumentStore, selection: Selection, roots: Sequence[Root]) -> DocumentStore:
    """Return the documents that a selection leaves, as if all others had been deleted.

    The statistics stay those of all, and so does every feature of a skill. The answer is kept with
    the documents: finding it reads all names. A SelectionError if a root is missing, or all is.
    """
    if not selection or not len(store):
        return store
    # JSON gave lists.
    key = cast(Selection, tuple((kind, tuple(values), *more) for kind, values, *more in selection))
    if unknown := [kind for kind, *_ in key if kind not in (*SELECTING, SCOPE)]:
        raise SelectionError(f"{unknown[0]!r} selects nothing; use one of {', '.join(SELECTING)}.")
    return store.selections.of(key, lambda: _select(store, key, roots))


def _in_scope(
    store: DocumentStore, selection: Selection, roots: Sequence[Root]
) -> tuple[Numbers, list[Root]]:
    """Return the documents that the folders of a selection see, by number, and the hidden roots.

    Those of other roots are seen unless their paths match elsewhere alone.
    """
    numbers = without(np.arange(store.size), store.deleted)
    if not is_bounded(selection):
        return numbers, []
    views = list(map(Viewpoint.of, folders_of(selection)))
    hidden = [root for root in roots if not is_in_scope(root, views)]
    unseen = store.of_roots(root.alias for root in hidden)
    bounded = without(np.flatnonzero(store.bounded), union(unseen, store.deleted))
    places = [view.parts for view in views]
    is_elsewhere = [not _can_match(label.paths, places) for label in store.labels(bounded)]
    return without(numbers, union(unseen, bounded[np.array(is_elsewhere, bool)])), hidden


def _can_match(patterns: Sequence[str], places: Sequence[Sequence[str]]) -> bool:
    """Return whether a file below one of some folders of a project can match one of some globs."""
    for pattern in patterns:
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        fixed = list(itertools.takewhile(lambda part: not _GLOB.search(part), parts))
        if any(all(map(str.__eq__, fixed, folder)) for folder in places):
            return True
    return False


def _select(store: DocumentStore, selection: Selection, roots: Sequence[Root]) -> DocumentStore:
    numbers, hidden = _in_scope(store, selection, roots)
    if not (selection := without_scope(selection)) and len(numbers) == len(store):
        return store
    named: list[str] = []
    parts: tuple[list[_Test], list[_Test]] = ([], [])
    for kind, values, *folder in selection:
        inside = [root for root in roots if not folder or root.path.is_relative_to(folder[0])]
        outside = {root.alias for root in roots if root not in inside}
        if kind == "in_roots":
            aliases = [_alias(name, inside, must_exist=not folder) for name in values]
            of_roots = store.of_roots([*outside, *filter(None, aliases)])
            numbers = numbers[find_sorted(of_roots, numbers) >= 0]
            named += aliases
        else:
            parts[kind == "strict"].append((kind, _pattern(kind, values), outside))
    tests, strict = parts
    numbers = _passing(tests, store, numbers)
    if selection and not len(numbers):
        raise SelectionError(_nothing(store, selection, _projects_of(hidden, named)))
    fitting = _passing(strict, store, numbers)
    gone = without(numbers, fitting)
    skipped = tuple(map(_skipped, map(store.__getitem__, gone.tolist())))
    if ("strict", WITH_FRONTMATTER) not in selection:
        _warn_of(skipped)
    deleted = without(np.arange(store.size), fitting)
    return store.narrowed(deleted, shadowed_without(store, deleted, roots), skipped)


def _projects_of(roots: Sequence[Root], aliases: Sequence[str]) -> list[str]:
    """Return the projects of the roots that have one of some aliases."""
    named = (root for alias in aliases for root in roots if root.alias == alias)
    return list(itertools.chain.from_iterable(root.projects for root in named))


def _passing(tests: Sequence[_Test], store: DocumentStore, numbers: Numbers) -> Numbers:
    """Return the documents that pass all tests; nothing is read if there are none."""
    if not tests:
        return numbers
    return numbers[[_passes(tests, label) for label in store.labels(numbers)]]


def _skipped(document: Document) -> Diagnostic:
    lapses = ", ".join(document.lapses)
    message = f"The skill is left out, as strict asks: {lapses}. Correct that; see `validate`."
    return Diagnostic("strict-skipped", "warning", message, printable(document.path))


def _warn_of(skipped: Sequence[Diagnostic]) -> None:
    lines = [f"Skipped {skill.path}: {skill.message}" for skill in skipped[:_MOST_WARNED]]
    if more := len(skipped) - len(lines):
        lines.append(f"Skipped {more:,} more, as strict asks.")
    for line in lines:
        _warn_once(line)


@lru_cache
def _warn_once(text: str) -> None:
    """Warn, unless the index of the same skills, or a library, has just done so."""
    logger.warning("%s", text)


def _alias(name: str, roots: Sequence[Root], *, must_exist: bool) -> str:
    """Return the alias of the root that is named by it, by its path or by its URL; else nothing."""
    for root in roots:
        if name in (root.alias, root.origin, str(root.path)) or key_of(name) == str(root.path):
            return root.alias
    if not must_exist:
        return ""
    there_are = ", ".join(root.alias for root in roots)
    raise SelectionError(f"There is no root {one_line(name, 200)!r}; there are: {there_are}.")


def _pattern(kind: str, patterns: Sequence[str]) -> re.Pattern[str]:
    if kind == "strict":
        return re.compile("|".join(map(re.escape, patterns)))
    full = (each if ":" in each or kind == "tags" else f"*:{each}" for each in patterns)
    return re.compile("|".join(translate(_folded(pattern)) for pattern in full))


def _passes(tests: Sequence[_Test], label: Label) -> bool:
    alias = label.doc_id.partition(":")[0]
    names = [_folded(f"{alias}:{label.name}"), _folded(label.doc_id)]
    for kind, pattern, untested in tests:
        texts = {"tags": map(_folded, label.tags), "strict": label.lapses}.get(kind, names)
        is_wrong = kind in ("exclude", "strict")
        if alias not in untested and any(map(pattern.match, texts)) == is_wrong:
            return False
    return True


def _folded(text: str) -> str:
    """Return a text as `find` compares names: case, hyphens and hidden characters do not count."""
    return normalized(visible(text)).casefold().translate(_HYPHENS)


def _nothing(documents: DocumentStore, selection: Selection, elsewhere: Sequence[str]) -> str:
    tests = "; ".join(f"{kind}: {', '.join(values)}" for kind, values, *_ in selection)
    text = f"No skill is selected by {one_line(tests, _SHOWN_CHARS)}."
    if any(kind == "tags" for kind, *_ in selection):
        there = {one_line(tag) for document in documents for tag in document.tags}
        text += f" Tags there are: {listed(sorted(there), _SHOWN_TAGS) or 'none'}."
    if elsewhere:
        where = listed(dict.fromkeys(elsewhere), _MOST_WARNED)
        return f"{text} Its project is {where}: go there, or ask with --all-projects."
    return f"{text} Change the options, settings or profile that say so."
