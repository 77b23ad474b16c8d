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
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

from skillsearch.errors import EvaluationError, ParseError, SkillError
from skillsearch.evaluation.eval_files import EvalQuery, is_eval_file, read_eval_files
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.files.paths import printable
from skillsearch.index.documents import Document
from skillsearch.index.names import find_shadowed
from skillsearch.index.request import resolve_roots
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.skills.discovery import discover
from skillsearch.skills.listing import list_files
from skillsearch.skills.parser import parse_skill
from skillsearch.skills.resources import read_file, read_skill_md
from skillsearch.text.requests import (
    blocks,
    fold_blanks,
    fold_words,
    plain,
    quoted,
    requests,
    section_headings,
    words,
)
from skillsearch.types import Diagnostic, Severity, Skill

NAME = "own skills"
EvalFiles: TypeAlias = Callable[[Skill], Iterable[tuple[str, bytes]]]
"""A skill → relative path and bytes of its eval files."""
KINDS = ("trigger", "task", "example", "heading")
"""Kinds of queries, those most like real requests first."""
MAX_PER_KIND = 5
"""Known items of one skill: a skill of a hundred headings must not outweigh ninety others."""

_FROM_FILES, _FROM_TEXT = frozenset(KINDS[:2]), frozenset(KINDS[2:])
_MAX_LISTED = 20_000
"""Files of a skill folder that are considered; it may contain all other skills."""
_LEAST_WORDS, _MOST_WORDS = 3, 40
_CODE = re.compile(r"`|https?:|\]\(|[<>{}$\\=|]|\[[^\]]+\]|^/|\w/\w+/")
"""Signs of commands, paths and placeholders, which no user says."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_EMPTY_WORDS = frozenset(
    """
    a about after all an and any are as at be because before best by can checklist common concepts
    core do does done example examples first for format from full get getting guide guidelines how
    if important in input instructions into is issues it its key more must new no not note notes of
    on optional or output overview pattern patterns phase practices principles process quick
    reference references related required resources rule rules setup should skill skills start step
    steps task tasks than that the their them then these they this tips to tool tools
    troubleshooting until up usage use used using vs via what when where which why with without
    work workflow workflows you your
    """.split()
)
"""Words of headings that name no subject."""


class OwnFiles:
    """Reads the files of skills, and collects what is wrong with them."""

    def __init__(self) -> None:
        """Start without diagnostics."""
        self.diagnostics: list[Diagnostic] = []

    def read_skills(self, paths: Sequence[Path]) -> list[Skill]:
        """Return all skills below some folders, in order, that a search can find.

        Skills whose name means another one are left out and reported.
        """
        roots, _ = resolve_roots(paths)
        skills: list[Skill] = []
        for file in discover(roots).files:
            try:
                data, _ = read_skill_md(file.path)
                skills.append(
                    parse_skill(data, doc_id=file.doc_id, path=file.path, root=file.root.path)[0]
                )
            except ParseError as exc:
                self._report(exc.code, "error", str(exc), file.path, exc.line)
        documents = sorted(map(Document.listed, skills), key=lambda document: document.doc_id)
        shadowed = set()
        for one in find_shadowed(DocumentStore.build(documents), [str(r.path) for r in roots]):
            message = f"Not evaluated: its name means {one.by.doc_id}, so no search finds it."
            self._report("shadowed", "note", message, one.document.path)
            shadowed.add(one.document.doc_id)
        return [skill for skill in skills if skill.doc_id not in shadowed]

    def eval_files(self, skill: Skill) -> Iterator[tuple[str, bytes]]:
        """Yield relative path and bytes of each eval file of a skill; links are not followed."""
        folder = skill.path.parent
        try:
            files, is_cut = list_files(folder, limit=_MAX_LISTED)
        except SkillError as exc:
            self._report("eval-unreadable", "warning", str(exc), folder)
            return
        if is_cut:
            message = (
                "Not all files were checked for evals: there are too many, or a name contains "
                "hidden characters. Move what is not part of the skill, and rename the rest."
            )
            self._report("eval-not-listed", "note", message, folder)
        for file in filter(is_eval_file, files):
            try:
                yield file, read_file(folder, file)
            except SkillError as exc:
                self._report("eval-unreadable", "warning", str(exc), folder / file)

    def _report(
        self, code: str, severity: Severity, message: str, path: Path | str, line: int | None = None
    ) -> None:
        self.diagnostics.append(Diagnostic(code, severity, message, printable(str(path)), line))


def read_own_collection(
    roots: Sequence[Path], kinds: AbstractCollection[str] = KINDS
) -> tuple[Collection, tuple[Diagnostic, ...]]:
    """Make a judged collection of the skills in some folders, given in order of precedence.

    Documents have the ids that an index of the roots gives them. Also returned is what is wrong
    with skills and eval files. Raises RootError if a folder cannot be read, and EvaluationError if
    no query can be made.
    """
    own = OwnFiles()
    collection, diagnostics = own_collection(own.read_skills(roots), own.eval_files, kinds=kinds)
    return collection, (*own.diagnostics, *diagnostics)


def own_collection(
    skills: Sequence[Skill], eval_files: EvalFiles, *, kinds: AbstractCollection[str] = KINDS
) -> tuple[Collection, tuple[Diagnostic, ...]]:
    """Make a judged collection of skills from their eval files and their own text.

    A query is right with every skill that claims it, and with all copies of those. A query that is
    not for some skill is a negative only if no skill claims it. An eval file in the folder of a
    skill inside another one counts for the inner skill alone. Returns the collection, its queries
    by kind and then by skill, and what was odd about eval files. Raises EvaluationError if a kind
    is not one of `KINDS`, or there is no query.
    """
    if unknown := sorted(set(kinds) - set(KINDS)):
        raise EvaluationError(
            f"There are no queries of kind {unknown[0]!r}; choose from: {', '.join(KINDS)}."
        )
    library = _Library(skills)
    if _FROM_FILES.intersection(kinds):
        library.add_eval_files(eval_files)
    if _FROM_TEXT.intersection(kinds):
        library.add_known_items()
    collection = library.collection(frozenset(kinds))
    if not collection.queries:
        raise EvaluationError(
            f"No query can be made from {len(skills)} skills and kinds"
            f" {', '.join(sorted(kinds)) or 'none'}: write evals/trigger-evals.json into a skill,"
            ' such as [{"query": "what a user says", "should_trigger": true}], or choose more'
            " kinds."
        )
    return collection, tuple(library.diagnostics)


def known_item_queries(
    skill: Skill, *, common: AbstractSet[str] = frozenset()
) -> tuple[JudgedQuery, ...]:
    """Make queries from the text of a skill, at most `MAX_PER_KIND` of each kind.

    Of kind ``example`` are requests that the skill quotes or lists, of kind ``heading`` headings
    that name a subject and are not among the `common_headings`. A text that contains the skill's
    name is not a query.
    """
    body = list(blocks(skill.body))
    said = (skill.description, skill.metadata.when_to_use, *skill.metadata.triggers)
    examples = [*(phrase for text in said for phrase in quoted(text)), *requests(body)]
    headings = [
        text
        for text in section_headings(body)
        if _names_a_subject(text) and fold_words(text) not in common
    ]
    seen: set[str] = set()
    return (
        *_known_items(skill, "example", examples, seen),
        *_known_items(skill, "heading", headings, seen),
    )


def common_headings(skills: Iterable[Skill]) -> frozenset[str]:
    """Return the headings, folded, that several different bodies have."""
    bodies = {skill.body for skill in skills}
    headings = ({fold_words(text) for text in section_headings(blocks(body))} for body in bodies)
    counts = Counter(heading for found in headings for heading in found)
    return frozenset(heading for heading, count in counts.items() if count > 1)


def copies(documents: Iterable[JudgedDocument]) -> dict[str, tuple[str, ...]]:
    """Return the ids of all copies of each document, itself among them.

    Copies have the same name, and the same body or description, but for case and blanks. They
    share one tuple.
    """
    groups: dict[str, list[str]] = {}
    firsts: dict[tuple[str, str, str], str] = {}
    for document in documents:
        doc_id, name = document.doc_id, fold_blanks(document.name)
        groups[doc_id] = [doc_id]
        for field, text in (("body", document.body), ("description", document.description)):
            if not (text := fold_blanks(text)):
                continue
            group = groups[doc_id]
            other = groups[firsts.setdefault((name, field, text), doc_id)]
            if other is not group:
                other += group
                groups |= dict.fromkeys(group, other)
    return {doc_id: tuple(group) for doc_id, group in groups.items()}


class _Claim(NamedTuple):
    """A text that is for skills, or is not for them."""

    kind: str
    source: str
    text: str
    doc_ids: Sequence[str]


class _Library:
    """The skills, and what is claimed for them so far."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._skills = skills
        self._claims: list[_Claim] = []
        self._not_for: list[_Claim] = []
        self._documents = tuple(
            JudgedDocument(one.doc_id, one.name, one.description, one.body) for one in skills
        )
        self._copies = copies(self._documents)
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for skill in skills:
            self._by_name[skill.name.casefold()].append(skill.doc_id)

    def add_eval_files(self, eval_files: EvalFiles) -> None:
        """Add what the eval files say."""
        folders = {skill.path.parent for skill in self._skills}
        for skill in self._skills:
            folder = skill.path.parent
            files = [
                (file, data)
                for file, data in eval_files(skill)
                if not any(
                    folder / inner in folders for inner in PurePosixPath(file).parents if inner.name
                )
            ]
            if not files:
                continue
            evals = read_eval_files(files, skill.name, known=self._by_name.keys())
            self._claims += self._claimed(skill, evals.positives)
            self._not_for += self._claimed(skill, evals.not_for)
            self.diagnostics += (
                replace(found, path=str(folder / found.path)) for found in evals.diagnostics
            )

    def add_known_items(self) -> None:
        """Add the queries from the skills' own text."""
        common = common_headings(self._skills)
        for skill in self._skills:
            for query in known_item_queries(skill, common=common):
                self._claims.append(_Claim(query.kind, skill.doc_id, query.text, (skill.doc_id,)))

    def collection(self, kinds: AbstractCollection[str]) -> Collection:
        """Return the collection of the claims of some kinds."""
        wanted = [claim for kind in KINDS for claim in self._claims if claim.kind == kind in kinds]
        claimed = {fold_blanks(claim.text) for claim in self._claims}
        denied = [one for one in self._not_for if fold_blanks(one.text) not in claimed]
        numbers: Counter[str] = Counter()
        queries = _merge(wanted, numbers)
        negatives = _merge([claim for claim in denied if claim.kind in kinds], numbers)
        copied = len(self._skills) - len(set(self._copies.values()))
        return Collection(
            name=NAME,
            documents=self._documents,
            queries=tuple(queries),
            qrels={query.query_id: self._grades(claims) for query, claims in queries.items()},
            negatives=tuple(negatives),
            notes=tuple(_notes(queries, len(negatives), copied)),
        )

    def _claimed(self, skill: Skill, queries: Iterable[EvalQuery]) -> Iterator[_Claim]:
        """Yield queries of a skill's files as claims; its own name means the skill itself."""
        own = skill.name.casefold()
        for query in queries:
            ids = ([skill.doc_id] if name == own else self._by_name[name] for name in query.skills)
            yield _Claim(query.kind, skill.doc_id, query.text, [one for of in ids for one in of])

    def _grades(self, claims: Iterable[_Claim]) -> dict[str, int]:
        claimed = (doc_id for claim in claims for doc_id in claim.doc_ids)
        return dict.fromkeys((copy for doc_id in claimed for copy in self._copies[doc_id]), 1)


def _merge(claims: Iterable[_Claim], numbers: Counter[str]) -> dict[JudgedQuery, list[_Claim]]:
    """Return a query for each text with all claims to it; ids continue from `numbers`."""
    by_text: dict[str, list[_Claim]] = defaultdict(list)
    for claim in claims:
        by_text[fold_blanks(claim.text)].append(claim)
    queries = {}
    for same in by_text.values():
        source = f"{same[0].kind}:{same[0].source}"
        query = JudgedQuery(f"{source}#{numbers[source]}", same[0].text, same[0].kind)
        queries[query] = same
        numbers[source] += 1
    return queries


def _notes(queries: Iterable[JudgedQuery], negatives: int, copied: int) -> Iterator[str]:
    """Yield what a reader of the measures should know about the queries."""
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


def _known_items(
    skill: Skill, kind: str, texts: Iterable[str], seen: set[str]
) -> Iterator[JudgedQuery]:
    """Yield a query for each text that can be one and was not seen before."""
    number, name = 0, fold_words(skill.name)
    for text in map(plain, texts):
        folded = fold_words(text)
        is_usable = _LEAST_WORDS <= _count_words(text) <= _MOST_WORDS and not _CODE.search(text)
        if folded in seen or not is_usable or _holds(folded, name):
            continue
        seen.add(folded)
        yield JudgedQuery(f"{kind}:{skill.doc_id}#{number}", text, kind)
        number += 1
        if number == MAX_PER_KIND:
            return


def _names_a_subject(heading: str) -> bool:
    telling = [word for word in fold_words(heading).split() if word not in _EMPTY_WORDS]
    return _count_words(" ".join(telling)) >= _LEAST_WORDS


def _count_words(text: str) -> int:
    """Count words; in scripts without blanks, two letters are one."""
    spaced, unspaced = _UNSPACED.subn(" ", text)
    return len(words(spaced)) + unspaced // 2


def _holds(text: str, name: str) -> bool:
    """Return whether folded words contain others; in scripts without blanks, anywhere."""
    return name in text if _UNSPACED.search(name) else f" {name} " in f" {text} "
