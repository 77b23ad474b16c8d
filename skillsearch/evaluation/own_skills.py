"""A user's own skills as a collection that nobody had to judge.

Its queries stand in the eval files of the skills, or are known items: taken from the text of a
skill, which is then the right answer. Known items use the skill's own words, so they are easier
than what users ask.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Collection as AbstractCollection
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

from skillsearch.errors import EvaluationError, SkillError
from skillsearch.evaluation.pools import copies
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.files.paths import printable
from skillsearch.index.documents.document import Document
from skillsearch.index.documents.shadowing import find_shadowed
from skillsearch.index.indexing.reading import read_for_index
from skillsearch.index.roots.request import resolve_roots
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.skills.discovery import discover
from skillsearch.skills.eval_files import is_eval_file, read_eval_files
from skillsearch.skills.resources import MAX_ENTRIES, list_files, read_file
from skillsearch.text import requests
from skillsearch.text.safe_text import counted
from skillsearch.text.tables import read_tables
from skillsearch.types.skills import Diagnostic, Skill

NAME = "own skills"
ReadEvalFiles: TypeAlias = Callable[[Skill], Iterable[tuple[str, bytes]]]
"""A skill → relative path and bytes of its eval files."""
KINDS = ("trigger", "task", "example", "heading")
"""Kinds of queries, those most like real requests first."""
MAX_PER_KIND = 5
"""Known items of one skill: a skill of a hundred headings must not outweigh ninety others."""

_FROM_FILES, _FROM_TEXT = frozenset(KINDS[:2]), frozenset(KINDS[2:])
_NOT_LISTED = (
    "Not all files were checked for evals: there are too many, or a name contains hidden "
    "characters. Move what is not part of the skill, and rename the rest."
)
_LEAST_WORDS, _MOST_WORDS = 3, 40
_CODE = re.compile(r"`|https?:|\]\(|[<>{}$\\=|]|\[[^\]]+\]|^/|\w/\w+/")
"""Signs of commands, paths and placeholders, which no user says."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_WORDS = read_tables(Path(__file__).with_name("words.txt"))
_EMPTY_WORDS = frozenset(_WORDS["headings"]["empty"])
"""Words of headings that name no subject."""


def read_skills(paths: Sequence[Path], problems: list[Diagnostic]) -> list[Skill]:
    """Return all skills below some folders, in order, that a search can find.

    Skills that cannot be read, or whose name means another one, are added to `problems`.
    """
    roots, _ = resolve_roots(paths)
    skills: dict[str, Skill] = {}
    for result in map(read_for_index, discover(roots).files):
        if result.skill:
            skills[result.skill.doc_id] = result.skill
        else:
            problems += (
                replace(diagnostic, path=printable(diagnostic.path))
                for diagnostic in result.diagnostics
            )
    documents = DocumentStore.build([Document.listed(skills[key]) for key in sorted(skills)])
    for shadowed in find_shadowed(documents, roots):
        message = f"Not evaluated: its name means {shadowed.by.doc_id}, so no search finds it."
        problems.append(Diagnostic("shadowed", "note", message, printable(shadowed.document.path)))
        del skills[shadowed.document.doc_id]
    return list(skills.values())


def read_evals(skill: Skill, problems: list[Diagnostic]) -> Iterator[tuple[str, bytes]]:
    """Yield relative path and bytes of each eval file of a skill; links are not followed."""
    folder = skill.path.parent
    try:
        files, is_cut = list_files(folder, limit=MAX_ENTRIES)
    except SkillError as exc:
        problems.append(_unreadable(exc, folder))
        return
    if is_cut:
        problems.append(Diagnostic("eval-not-listed", "note", _NOT_LISTED, printable(folder)))
    for file in filter(is_eval_file, files):
        try:
            yield file, read_file(folder, file)
        except SkillError as exc:
            problems.append(_unreadable(exc, folder / file))


def _unreadable(error: SkillError, path: Path) -> Diagnostic:
    return Diagnostic("eval-unreadable", "warning", str(error), printable(path))


def read_own_collection(
    roots: Sequence[Path], kinds: AbstractCollection[str] = KINDS
) -> tuple[Collection, tuple[Diagnostic, ...]]:
    """Make a judged collection of the skills in some folders, given in order of precedence.

    Documents have the ids that an index of the roots gives them. Also returned is what is wrong
    with skills and eval files.
    """
    problems: list[Diagnostic] = []
    skills = read_skills(roots, problems)
    evals = partial(read_evals, problems=problems)
    collection, diagnostics = own_collection(skills, evals, kinds=kinds)
    return collection, (*problems, *diagnostics)


_Merged: TypeAlias = dict[JudgedQuery, list[str]]
"""Queries with the ids of the documents claimed for them."""


class _Claim(NamedTuple):
    kind: str
    source: str
    text: str
    doc_ids: Sequence[str]
    is_wanted: bool | None = True


def own_collection(
    skills: Sequence[Skill], eval_files: ReadEvalFiles, *, kinds: AbstractCollection[str] = KINDS
) -> tuple[Collection, tuple[Diagnostic, ...]]:
    """Make a judged collection of skills from their eval files and their own text.

    A query is right with every skill that claims it, and with all copies of those. A query that is
    not for some skill is a negative only if no skill claims it. An eval file in the folder of a
    skill inside another one counts for the inner skill alone. Queries come by kind, then by skill.
    An EvaluationError if a kind is unknown, or no query can be made.
    """
    if unknown := sorted(set(kinds) - set(KINDS)):
        problem = f"There are no queries of kind {unknown[0]!r}"
        raise EvaluationError(f"{problem}; choose from: {', '.join(KINDS)}.")
    claims: list[_Claim] = []
    diagnostics: list[Diagnostic] = []
    if _FROM_FILES.intersection(kinds):
        claims, diagnostics = _from_files(skills, eval_files)
    if _FROM_TEXT.intersection(kinds):
        claims += _from_text(skills)
    claimed = {requests.fold_blanks(claim.text) for claim in claims if claim.is_wanted}
    chosen = [claim for kind in KINDS for claim in claims if claim.kind == kind in kinds]
    numbers: Counter[str] = Counter()
    queries = _merge((claim for claim in chosen if claim.is_wanted), numbers)
    denied = (claim for claim in chosen if requests.fold_blanks(claim.text) not in claimed)
    negatives = _merge(denied, numbers)
    if not queries:
        raise EvaluationError(
            f"No query can be made from {counted(len(skills), 'skill')} and kinds"
            f" {', '.join(sorted(kinds)) or 'none'}: write evals/trigger-evals.json into a skill,"
            ' such as [{"query": "what a user says", "should_trigger": true}], or choose more'
            " kinds."
        )
    return _judged(skills, queries, negatives), tuple(diagnostics)


def _judged(skills: Sequence[Skill], queries: _Merged, negatives: _Merged) -> Collection:
    documents = [
        JudgedDocument(skill.doc_id, skill.name, skill.description, skill.body) for skill in skills
    ]
    copied = copies(documents)
    qrels = {
        query.query_id: {copy: 1 for doc_id in doc_ids for copy in copied[doc_id]}
        for query, doc_ids in queries.items()
    }
    notes = _notes(queries, len(negatives), len(skills) - len(set(copied.values())))
    judged, denied = tuple(queries), tuple(negatives)
    return Collection(NAME, tuple(documents), judged, qrels, negatives=denied, notes=tuple(notes))


def _from_text(skills: Sequence[Skill]) -> Iterator[_Claim]:
    common = common_headings(skills)
    for skill in skills:
        for query in known_item_queries(skill, common):
            yield _Claim(query.kind, skill.doc_id, query.text, [skill.doc_id])


def _from_files(
    skills: Sequence[Skill], eval_files: ReadEvalFiles
) -> tuple[list[_Claim], list[Diagnostic]]:
    """Return the positive and negative queries of eval files, and problems with these files."""
    claims: list[_Claim] = []
    diagnostics: list[Diagnostic] = []
    by_name: dict[str, list[str]] = defaultdict(list)
    for skill in skills:
        by_name[skill.name.casefold()].append(skill.doc_id)
    folders = {skill.path.parent for skill in skills}
    for skill in skills:
        folder = skill.path.parent
        files = []
        for file, data in eval_files(skill):
            inner = (folder / parent for parent in PurePosixPath(file).parents if parent.name)
            if folders.isdisjoint(inner):
                files.append((file, data))
        queries, odd = read_eval_files(files, skill.name, skills=by_name.keys())
        # Its own name means the skill itself, not others of that name.
        ids_by_name = by_name | {skill.name.casefold(): [skill.doc_id]}
        for text, kind, is_wanted, names in queries:
            doc_ids = [doc_id for name in names for doc_id in ids_by_name[name]]
            claims.append(_Claim(kind, skill.doc_id, text, doc_ids, is_wanted))
        diagnostics += (replace(problem, path=str(folder / problem.path)) for problem in odd)
    return claims, diagnostics


def _merge(claims: Iterable[_Claim], numbers: Counter[str]) -> _Merged:
    """Return a query for each text with the ids claimed for it; its id continues `numbers`."""
    queries: dict[str, JudgedQuery] = {}
    claimed: _Merged = {}
    for claim in claims:
        text, source = requests.fold_blanks(claim.text), f"{claim.kind}:{claim.source}"
        if text not in queries:
            query_id = f"{source}#{numbers[source]}"
            queries[text] = JudgedQuery(query_id, claim.text, claim.kind)
            numbers[source] += 1
        claimed.setdefault(queries[text], []).extend(claim.doc_ids)
    return claimed


def _notes(queries: Iterable[JudgedQuery], negatives: int, copied: int) -> Iterator[str]:
    counts = Counter(query.kind for query in queries)
    listed = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
    yield f"Nobody but the authors of the skills judged these queries: {listed}."
    if counts["trigger"] or counts["task"]:
        yield (
            "Trigger and task queries stand in eval files of the skills. Tasks were written for a"
            " skill already chosen, so some name no subject."
        )
    if counts["example"] or counts["heading"]:
        yield (
            "Example and heading queries are known-item queries: words of the skill itself, so"
            " easier than what users ask; other skills that fit count as wrong."
        )
    if negatives:
        yield (
            f"Negatives: {negatives}. An eval file says that they are not for its skill, not"
            " that no skill fits. An answer by another skill may be right, so the real rate of"
            " false answers is at most the one reported."
        )
    if copied:
        yield f"Skills that are copies of others: {copied}; a query for one is right with each."


def known_item_queries(skill: Skill, common: AbstractSet[str] = frozenset()) -> list[JudgedQuery]:
    """Make queries from the text of a skill, at most `MAX_PER_KIND` of each kind.

    An ``example`` is a request that the skill quotes or lists, a ``heading`` names a subject, and
    is not among the `common_headings`. A text that contains the skill's name is not a query.
    """
    body = list(requests.blocks(skill.body))
    stated = (skill.description, skill.metadata.when_to_use, *skill.metadata.triggers)
    texts = {
        "example": [
            *(phrase for text in stated for phrase in requests.quoted(text)),
            *requests.requests(body),
        ],
        "heading": [text for text in requests.section_headings(body) if _is_telling(text, common)],
    }
    name = requests.fold_words(skill.name)
    # In scripts without blanks a name may stand anywhere in a text, in others between blanks.
    blank = "" if _UNSPACED.search(name) else " "
    seen: set[str] = set()
    queries: list[JudgedQuery] = []
    for kind, candidates in texts.items():
        usable: dict[str, str] = {}
        for text in map(requests.plain, candidates):
            folded = requests.fold_words(text)
            has_name = f"{blank}{name}{blank}" in f"{blank}{folded}{blank}"
            is_usable = _LEAST_WORDS <= _count_words(text) <= _MOST_WORDS and not _CODE.search(text)
            if is_usable and not has_name and folded not in seen:
                usable.setdefault(folded, text)
        for number, (folded, text) in enumerate(islice(usable.items(), MAX_PER_KIND)):
            seen.add(folded)
            queries.append(JudgedQuery(f"{kind}:{skill.doc_id}#{number}", text, kind))
    return queries


def _is_telling(heading: str, common: AbstractSet[str]) -> bool:
    folded = requests.fold_words(heading)
    telling = " ".join(word for word in folded.split() if word not in _EMPTY_WORDS)
    return _count_words(telling) >= _LEAST_WORDS and folded not in common


def common_headings(skills: Iterable[Skill]) -> frozenset[str]:
    """Return the headings, folded, that several different bodies have."""
    bodies = {skill.body for skill in skills}
    groups = (requests.section_headings(requests.blocks(body)) for body in bodies)
    counts = Counter(chain(*(set(map(requests.fold_words, headings)) for headings in groups)))
    return frozenset(heading for heading, count in counts.items() if count > 1)


def _count_words(text: str) -> int:
    """Count words; in scripts without blanks, two letters are one."""
    spaced, unspaced = _UNSPACED.subn(" ", text)
    return len(requests.words(spaced)) + unspaced // 2
