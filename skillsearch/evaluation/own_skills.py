"""The user's own skills → a judged collection that nobody had to judge; pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Collection as AbstractCollection
from dataclasses import replace
from pathlib import PurePosixPath
from typing import NamedTuple, TypeAlias

from skillsearch.errors import EvaluationError
from skillsearch.evaluation.known_items import common_headings, known_item_queries
from skillsearch.evaluation.trigger_evals import EvalQuery, YamlLoader, read_trigger_evals
from skillsearch.evaluation.types import Collection, JudgedDocument, JudgedQuery
from skillsearch.types import Diagnostic, Skill

NAME = "own skills"
KINDS = ("trigger", "task", "example", "heading")
"""Where a query comes from; what tells most of real requests comes first."""

EvalFiles: TypeAlias = Callable[[Skill], Iterable[tuple[str, bytes]]]
"""A skill → the files below its folder that `is_eval_file` accepts: relative path and bytes."""

_MADE_FROM_FILES = frozenset({"trigger", "task"})
_MADE_FROM_TEXT = frozenset({"example", "heading"})


def own_collection(
    skills: Iterable[Skill],
    eval_files: EvalFiles,
    *,
    kinds: AbstractCollection[str] = KINDS,
    load_yaml: YamlLoader | None = None,
) -> tuple[Collection, tuple[Diagnostic, ...]]:
    """Make a judged collection of skills from their eval files and their own text.

    A query is right with every skill that claims it, and with all copies of it: skills of the same
    name with the same body or description. A query that is not for some skill is a negative only
    where no skill claims it.

    Args:
        skills: The skills, each `doc_id` once.
        eval_files: Gives the eval files of a skill. One that lies in the folder of a skill inside
            the skill counts for the inner one alone.
        kinds: Which of `KINDS` to make.
        load_yaml: Reads eval files in YAML; without it those are left out.

    Returns:
        The collection, its queries by kind and then by skill, and what was odd about eval files.

    Raises:
        EvaluationError: A kind is not known, or there is no query.
    """
    if unknown := sorted(set(kinds) - set(KINDS)):
        raise EvaluationError(
            f"There are no queries of kind {unknown[0]!r}; choose of: {', '.join(KINDS)}."
        )
    library = _Library(tuple(skills))
    if _MADE_FROM_FILES.intersection(kinds):
        library.add_eval_files(eval_files, load_yaml)
    if _MADE_FROM_TEXT.intersection(kinds):
        library.add_known_items()
    collection = library.collection(frozenset(kinds))
    if not collection.queries:
        raise EvaluationError(
            f"No query can be made from {len(library.skills)} skills and kinds"
            f" {', '.join(sorted(kinds)) or 'none'}: write evals/trigger-evals.json into a skill,"
            ' such as [{"query": "what a user says", "should_trigger": true}], or take more kinds.'
        )
    return collection, tuple(library.diagnostics)


def copies(documents: Iterable[JudgedDocument]) -> dict[str, tuple[str, ...]]:
    """Return the copies of each document: those of its name with its body or description.

    Args:
        documents: The documents; case and blanks make no difference.

    Returns:
        Id → ids of all its copies, itself among them; copies have the same tuple.
    """
    groups: dict[str, list[str]] = {}
    firsts: dict[tuple[str, str, str], str] = {}
    for document in documents:
        doc_id, name = document.doc_id, _fold(document.name)
        groups[doc_id] = [doc_id]
        for field, text in (("body", document.body), ("description", document.description)):
            if not (text := _fold(text)):
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

    def __init__(self, skills: tuple[Skill, ...]) -> None:
        self.skills = skills
        self.diagnostics: list[Diagnostic] = []
        self._claims: list[_Claim] = []
        self._not_for: list[_Claim] = []
        self._documents = tuple(map(_document, skills))
        self._copies = copies(self._documents)
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for skill in skills:
            self._by_name[skill.name.casefold()].append(skill.doc_id)

    def add_eval_files(self, eval_files: EvalFiles, load_yaml: YamlLoader | None) -> None:
        """Add what the eval files say."""
        folders = {skill.path.parent for skill in self.skills}
        for skill in self.skills:
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
            evals = read_trigger_evals(
                files, skill.name, known=self._by_name.keys(), load_yaml=load_yaml
            )
            self._claims += self._claimed(skill, evals.positives)
            self._not_for += self._claimed(skill, evals.not_for)
            self.diagnostics += (
                replace(found, path=str(folder / found.path)) for found in evals.diagnostics
            )

    def add_known_items(self) -> None:
        """Add the queries that the skills' own text gives."""
        common = common_headings(self.skills)
        for skill in self.skills:
            for query in known_item_queries(skill, common=common):
                self._claims.append(_Claim(query.kind, skill.doc_id, query.text, (skill.doc_id,)))

    def collection(self, kinds: AbstractCollection[str]) -> Collection:
        """Return the collection of the claims of some kinds."""
        wanted = [claim for kind in KINDS for claim in self._claims if claim.kind == kind in kinds]
        claimed = {_fold(claim.text) for claim in self._claims}
        denied = [claim for claim in self._not_for if _fold(claim.text) not in claimed]
        numbers: Counter[str] = Counter()
        queries = _merge(wanted, numbers)
        negatives = _merge([claim for claim in denied if claim.kind in kinds], numbers)
        qrels = {
            query.query_id: dict.fromkeys(
                (
                    copy
                    for claim in claims
                    for doc_id in claim.doc_ids
                    for copy in self._copies[doc_id]
                ),
                1,
            )
            for query, claims in queries.items()
        }
        return Collection(
            name=NAME,
            documents=self._documents,
            queries=tuple(queries),
            qrels=qrels,
            negatives=tuple(negatives),
            notes=tuple(_notes(queries, negatives, self._count_copies())),
        )

    def _claimed(self, skill: Skill, queries: Iterable[EvalQuery]) -> Iterator[_Claim]:
        """Yield queries of a skill's files as claims; its own name means the skill itself."""
        for query in queries:
            doc_ids = [
                doc_id
                for name in query.skills
                for doc_id in (
                    [skill.doc_id] if name == skill.name.casefold() else self._by_name[name]
                )
            ]
            yield _Claim(query.kind, skill.doc_id, query.text, doc_ids)

    def _count_copies(self) -> int:
        """Count the skills that are copies of an earlier one."""
        return len(self.skills) - len(set(self._copies.values()))


def _merge(claims: Iterable[_Claim], numbers: Counter[str]) -> dict[JudgedQuery, list[_Claim]]:
    """Return a query for each text, and all who claim it; ids go on from `numbers`."""
    by_text: dict[str, list[_Claim]] = defaultdict(list)
    for claim in claims:
        by_text[_fold(claim.text)].append(claim)
    queries = {}
    for same in by_text.values():
        source = f"{same[0].kind}:{same[0].source}"
        query = JudgedQuery(f"{source}#{numbers[source]}", same[0].text, same[0].kind)
        queries[query] = same
        numbers[source] += 1
    return queries


def _document(skill: Skill) -> JudgedDocument:
    """Return a skill as a document."""
    return JudgedDocument(skill.doc_id, skill.name, skill.description, skill.body)


def _notes(
    queries: Iterable[JudgedQuery], negatives: AbstractCollection[JudgedQuery], copied: int
) -> Iterator[str]:
    """Yield what a reader of the measures should know of the queries."""
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
            f"Negatives: {len(negatives)}. An eval file says that they are not for its skill, not"
            " that no skill fits. An answer by another skill may be right, so the real rate of"
            " false answers is at most the one reported."
        )
    if copied:
        yield f"Skills that are copies of others: {copied}; a query for one is right with each."


def _fold(text: str) -> str:
    """Return a text without case and without differences of blanks."""
    return " ".join(text.casefold().split())
