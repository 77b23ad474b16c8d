"""Judged collections → queries with their candidates, for `fit_fusion` to learn from.

Every collection is searched as it is and in variants (one line a skill, few skills), so that what
is learned does not depend on how long skills are or how many there are. In each, four kinds of
query are asked: judged ones; the same with the right skills and their copies hidden (dropped);
those of foreign collections; and names of skills, which people type too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from skillsearch.evaluation.judged_index import write_skills
from skillsearch.evaluation.types import Collection, JudgedQuery
from skillsearch.index.corpus import Corpus
from skillsearch.index.duplicates import copies
from skillsearch.index.query_form import QueryForm
from skillsearch.index.ranker import Candidates, find_candidates
from skillsearch.index.skill_index import SkillIndex

Item = TypeVar("Item")

FAMILIES = {"salesforce-variants": "salesforce", "metatool-multi": "metatool"}
"""Collections over the same documents: neither may see the other."""
RELATED = (
    {"one-liners", "metatool", "metatool-multi"},
    {"swe", "translated"},
)
"""Collections of one domain (everyday tools, software engineering): not foreign to each other."""
GENERAL = {"skill-evals"}
"""Collections whose documents come from everywhere: nothing is foreign to them."""

QUERIES = 400
"""Most queries taken of a collection, and a quarter of it for a variant."""
FOREIGN = 80
"""Queries taken of each foreign collection, and a quarter of it for a variant."""
HITS_WANTED = 12
"""As in `find_candidates`: gives some 50 candidates of each channel."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One query in one situation.

    Attributes:
        collection: Name of the collection searched.
        variant: Name of the variant of it.
        kind: ``judged``, ``dropped``, ``foreign`` or ``named``.
        source: Foreign collection that the query comes from, or empty.
        corpus: The parts of the index searched.
        query: The analysed query.
        candidates: What was found.
        relevant: Which candidates are relevant, bool.
        judged: How many documents are relevant, found or not.
    """

    collection: str
    variant: str
    kind: str
    source: str
    corpus: Corpus
    query: QueryForm
    candidates: Candidates
    relevant: NDArray[np.bool_]
    judged: int


def one_line(collection: Collection) -> Collection:
    """Leave of each skill the first sentence of its description."""
    documents = tuple(
        replace(d, description=_first_sentence(d.description or d.name), body="")
        for d in collection.documents
    )
    return replace(collection, name=f"{collection.name}-lines", documents=documents)


def _first_sentence(text: str) -> str:
    """Return the first sentence of a text, at most 160 characters."""
    return re.split(r"(?<=[.!?。！？])\s+|\n", text.strip())[0][:160]  # noqa: RUF001


def fewer(size: int) -> Callable[[Collection], Collection]:
    """Return a variant that keeps so many skills, half of them relevant to some query."""

    def cut(collection: Collection) -> Collection:
        random = np.random.default_rng(size)
        ids = [document.doc_id for document in collection.documents]
        gold = sorted({doc for grades in collection.qrels.values() for doc in grades})
        kept = set(random.permutation(gold)[: size // 2].tolist())
        rest = [doc_id for doc_id in ids if doc_id not in kept]
        kept.update(random.permutation(rest)[: max(size - len(kept), 0)].tolist())
        qrels = {
            query: found
            for query, grades in collection.qrels.items()
            if any((found := {d: g for d, g in grades.items() if d in kept}).values())
        }
        return replace(
            collection,
            name=f"{collection.name}-{size}",
            documents=tuple(d for d in collection.documents if d.doc_id in kept),
            queries=tuple(q for q in collection.queries if q.query_id in qrels),
            qrels=qrels,
        )

    return cut


@dataclass(frozen=True, slots=True)
class Variant:
    """A change of a collection.

    Attributes:
        weight: What its queries weigh in the fit of the confidence.
        change: Makes the variant.
    """

    weight: float
    change: Callable[[Collection], Collection]


VARIANTS: Mapping[str, Variant] = {
    "whole": Variant(2.0, lambda collection: collection),
    "lines": Variant(1.0, one_line),
    "60": Variant(0.5, fewer(60)),
    "150": Variant(0.5, fewer(150)),
    "lines-60": Variant(0.5, lambda collection: fewer(60)(one_line(collection))),
}


def family(collection: str) -> str:
    """Return the name that collections over the same documents share."""
    return FAMILIES.get(collection, collection)


def is_foreign(source: str, collection: str) -> bool:
    """Tell whether queries of one collection have no answer in another."""
    same = family(source) == family(collection)
    related = any({source, collection} <= group for group in RELATED)
    return not same and not related and collection not in GENERAL


class Sampler:
    """Turns collections into samples, each query embedded once."""

    def __init__(self, collections: Sequence[Collection], work: Path) -> None:
        """Take the collections and a folder for their indexes."""
        self._collections = {collection.name: collection for collection in collections}
        self._work = work
        self._forms: dict[str, QueryForm] = {}

    def samples(self) -> list[Sample]:
        """Search every variant of every collection with every kind of query."""
        return [
            sample
            for name in self._collections
            for variant in VARIANTS
            for sample in self._of_variant(name, variant)
            if len(sample.candidates.documents)
        ]

    def _of_variant(self, name: str, variant: str) -> list[Sample]:
        """Search one variant of a collection."""
        collection = VARIANTS[variant].change(self._collections[name])
        searched = _Searched(collection, variant, self._work)
        part = 1 if variant == "whole" else 4
        made = []
        for query in _spread(collection.queries, QUERIES // part):
            made += searched.judged(query, self._form(searched.index, query.text))
        for document in _spread(list(searched.index.documents()), QUERIES // part // 4):
            made.append(searched.named(document.name, self._form(searched.index, document.name)))
        for source, other in self._collections.items():
            if is_foreign(source, name):
                for query in _spread(other.queries, FOREIGN // part):
                    form = self._form(searched.index, query.text)
                    made.append(searched.sample("foreign", form, source=source))
        return [replace(sample, collection=name) for sample in made]

    def _form(self, index: SkillIndex, text: str) -> QueryForm:
        """Analyse a query once: all indexes have one embedder."""
        if text not in self._forms:
            self._forms[text] = index.analyse(text)
        return self._forms[text]


class _Searched:
    """One variant of a collection, indexed."""

    def __init__(self, collection: Collection, variant: str, work: Path) -> None:
        """Index the collection, unless that was done before."""
        folders = write_skills(collection, work)
        self.index = SkillIndex.from_roots(folders.roots, index_dir=folders.work / "index")
        self._collection = collection
        self._variant = variant
        self._numbers = {
            folders.ids[document.doc_id]: number
            for number, document in enumerate(self.index.documents())
        }

    def judged(self, query: JudgedQuery, form: QueryForm) -> list[Sample]:
        """Ask a judged query, and again with all that is right hidden."""
        grades = self._collection.qrels[query.query_id]
        relevant = self._numbers_of(doc_id for doc_id, grade in grades.items() if grade > 0)
        ignored = self._numbers_of(self._collection.ignored.get(query.query_id, ()))
        hidden = ignored | self._copies(relevant)
        return [
            self.sample("judged", form, relevant, ignored),
            self.sample("dropped", form, frozenset(), hidden),
        ]

    def named(self, name: str, form: QueryForm) -> Sample:
        """Ask for a name; all skills of that name are right."""
        return self.sample("named", form, frozenset(self.index.opened.corpus.documents.named(name)))

    def sample(
        self,
        kind: str,
        form: QueryForm,
        relevant: frozenset[int] = frozenset(),
        hidden: frozenset[int] = frozenset(),
        *,
        source: str = "",
    ) -> Sample:
        """Search one query."""
        corpus = self.index.opened.corpus
        found = find_candidates(corpus, form, HITS_WANTED, hidden)
        mask = np.isin(found.documents, sorted(relevant))
        count = len(relevant - hidden)
        return Sample("", self._variant, kind, source, corpus, form, found, mask, count)

    def _numbers_of(self, doc_ids: Iterable[str]) -> frozenset[int]:
        """Return the numbers of documents that were indexed."""
        return frozenset(self._numbers[one] for one in doc_ids if one in self._numbers)

    def _copies(self, numbers: frozenset[int]) -> frozenset[int]:
        """Return documents with all their copies."""
        return copies(self.index.opened.corpus, numbers)


def _spread(items: Sequence[Item], limit: int) -> list[Item]:
    """Take at most so many items, evenly spaced."""
    if len(items) <= limit:
        return list(items)
    return [items[place] for place in np.linspace(0, len(items) - 1, limit).astype(int)]
