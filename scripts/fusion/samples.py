"""Judged collections → queries with their candidates, for `fit_fusion` to learn from.

Every collection is searched as it is and in variants (one line a skill, few skills), so that what
is learned does not depend on how long skills are or how many there are. In each, six kinds of query
are searched: judged ones; the same with the right skills and their copies hidden (dropped); twins,
changed as little as possible so that nothing fits; others that nothing fits; queries of foreign
collections; and names of skills, which people type too.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from json import loads
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from skillsearch.evaluation.collection import load_collection
from skillsearch.evaluation.judged_index import Embedders, write_skills
from skillsearch.evaluation.types import Collection, JudgedQuery
from skillsearch.index.corpus import Corpus
from skillsearch.index.documents.relatives import copies
from skillsearch.index.indexing.options import IndexOptions
from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.search.candidates import Candidates, Ranked, find_candidates
from skillsearch.index.search.evidence import EVIDENCE, find_evidence
from skillsearch.index.search.query import QueryForm
from skillsearch.index.skill_index import SkillIndex
from skillsearch.index.storage.cache import IndexFolder
from skillsearch.skills.example_requests import ExampleBook

Item = TypeVar("Item")

FAMILIES = {
    "salesforce-variants": "salesforce",
    "metatool-multi": "metatool",
    **{f"authors-{part}": "authors" for part in ("tasks", "zh", "ko", "ja")},
    **{f"requests-{part}": "requests" for part in (*map(str, range(7)), "agent", "languages")},
}
"""Collections over the same documents, or of the same making: neither may see the other."""
JUDGED = {"requests", "requests-hard", "requests-translated"}
"""Families of collections in which the neighbours of a right skill were judged too."""
RELATED = (
    {"one-liners", "metatool", "metatool-multi", "spanish", "russian", "chinese"},
    {"korean", "spanish", "russian", "chinese"},
    {"swe", "translated"},
)
"""Collections of one domain (everyday tools, everyday life, software engineering): not foreign to
each other."""
CROSS = "-cross"
"""Ends the name of queries in other languages over the documents of a collection."""
HALF = "-half"
"""Ends the name of a collection of which half of the skills have no examples."""
GENERAL = {
    "skill-evals",
    "authors",
    "requests",
    "requests-hard",
    "real-development",
    "example",
    "written",
}
"""Collections whose documents come from everywhere: nothing is foreign to them."""

QUERIES = 200
"""Most queries taken of a collection, and a quarter of it for a variant; a tenth of each foreign
collection."""
TWIN = "twin"
"""Kind of negatives that are a judged query changed as little as possible."""
NOTHING = "nothing"
"""Kind of negatives that no skill of the collection fits."""
HITS_WANTED = 12
"""As in `count_candidates`: gives some 50 candidates by words and by vectors each."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One query in one situation.

    Attributes:
        collection: Name of the collection searched.
        variant: Name of the variant of it.
        kind: ``judged``, ``dropped``, ``twin``, ``nothing``, ``foreign`` or ``named``.
        source: Foreign collection that the query comes from, or empty.
        corpus: The parts of the index searched.
        query: The analysed query.
        candidates: What the search gives.
        relevant: Which candidates are relevant, bool.
        judged: How many documents are relevant, among the candidates or not.
        judged_query: The judged query or twin, which has the kind of its original; else None.
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
    judged_query: JudgedQuery | None = None
    _evidence: dict[int, list[float]] = field(default_factory=dict)
    read: dict[int, float] = field(default_factory=dict)
    """What a reader said of the candidates in some rows, NaN for those that it cannot read."""

    def is_whole(self, kind: str) -> bool:
        """Return whether it is a query of a kind over a whole collection."""
        return self.kind == kind and self.variant == "whole"

    def evidence(self, rows: Sequence[int]) -> list[list[float]]:
        """Return the evidence for the candidates in some rows, but for their lead."""
        if new := [row for row in rows if row not in self._evidence]:
            candidates, size = self.candidates, len(self.candidates.documents)
            columns = (candidates.documents, candidates.features, candidates.lexical)
            ranked = Ranked(*columns, np.zeros(size), np.arange(size))
            values = find_evidence(self.corpus, self.query, ranked, new)
            self._evidence.update(
                (row, [pieces[name] for name in EVIDENCE])
                for row, pieces in zip(new, values, strict=True)
            )
        return [self._evidence[row] for row in rows]


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
        relevant = sorted({doc for grades in collection.qrels.values() for doc in grades})
        kept = set(random.permutation(relevant)[: size // 2].tolist())
        rest = [doc_id for doc_id in ids if doc_id not in kept]
        kept.update(random.permutation(rest)[: max(size - len(kept), 0)].tolist())
        qrels = {
            query: judged
            for query, grades in collection.qrels.items()
            if any((judged := {doc: g for doc, g in grades.items() if doc in kept}).values())
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
        weight: What its queries weigh in the fit of the score.
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
    plain = _plain(collection)
    return FAMILIES.get(plain, plain)


def _plain(collection: str) -> str:
    """Return the name of the collection that queries were made for."""
    return collection.removesuffix(CROSS).removesuffix(HALF)


def cross_language(folder: Path, collections: Iterable[Collection]) -> list[Collection]:
    """Load judged queries in other languages: whole collections, and queries over those given.

    Args:
        folder: A folder for each collection; one without a corpus.jsonl belongs to the collection
            of its name.
        collections: Those that queries may be about.

    Returns:
        The collections, sorted by folder; queries about a collection that is not given are left
        out.
    """
    by_name = {collection.name: collection for collection in collections}
    loaded = []
    for subfolder in sorted(path for path in folder.iterdir() if path.is_dir()):
        if (subfolder / "corpus.jsonl").is_file():
            loaded.append(load_collection(subfolder))
        elif subfolder.name in by_name:
            loaded.append(_queries_over(by_name[subfolder.name], subfolder))
    return loaded


def _queries_over(collection: Collection, folder: Path) -> Collection:
    """Ask a collection the queries of a folder instead of its own."""
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    queries = tuple(JudgedQuery(q["_id"], q["text"], language=q["lang"]) for q in map(loads, lines))
    qrels: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        qrels.setdefault(query, {})[document] = int(grade)
    name = f"{collection.name}{CROSS}"
    return replace(collection, name=name, queries=queries, qrels=qrels, ignored={}, negatives=())


def with_examples(collections: Iterable[Collection], file: Path) -> list[Collection]:
    """Give the skills of collections their examples, and in a second collection half of them.

    Args:
        collections: The collections; those without examples are left out.
        file: JSON lines with the ``collection``, the ``_id`` and the ``examples`` of a skill.
    """
    examples: dict[tuple[str, str], tuple[str, ...]] = {}
    lines = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    for record in map(loads, lines.splitlines()):
        examples[record["collection"], record["_id"]] = tuple(record["examples"])
    made = []
    for collection in collections:
        exampled = tuple(
            replace(skill, examples=examples.get((collection.name, skill.doc_id), ()))
            for skill in collection.documents
        )
        if any(skill.examples for skill in exampled):
            is_left = np.random.default_rng(0).random(len(exampled)) < 0.5
            half = tuple(
                skill if is_kept else replace(skill, examples=())
                for skill, is_kept in zip(exampled, is_left.tolist(), strict=True)
            )
            made.append(replace(collection, documents=exampled))
            made.append(replace(collection, name=f"{collection.name}{HALF}", documents=half))
    return made


def is_foreign(source: str, collection: str) -> bool:
    """Return whether queries of one collection have no answer in another."""
    first, second = _plain(source), _plain(collection)
    related = any({first, second} <= group for group in RELATED)
    return family(first) != family(second) and not related and family(second) not in GENERAL


class Sampler:
    """Turns collections into samples, each query embedded once."""

    def __init__(
        self,
        collections: Sequence[Collection],
        work: Path,
        queries: int = QUERIES,
    ) -> None:
        """Take the collections and how to search them.

        Args:
            collections: The collections.
            work: Folder for their indexes.
            queries: Most queries taken of a collection.
        """
        self._queries = queries
        self._collections = {collection.name: collection for collection in collections}
        self._work = work
        self._embedders = Embedders()

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
        searched = _Searched(collection, variant, self._index(collection))
        part = 1 if variant == "whole" else 4
        made = []
        for query in _spread(collection.queries, self._queries // part):
            made += searched.judged(query)
        twins = [query for query in collection.negatives if query.kind == TWIN]
        kinds = collection.kinds
        for query in _spread(twins, self._queries // part):
            twin = replace(query, kind=kinds.get(query.twin_of, ""))
            made.append(searched.sample(TWIN, query.text, judged_query=twin))
        nothing = [query for query in collection.negatives if query.kind == NOTHING]
        made += [
            searched.sample(NOTHING, query.text, judged_query=query)
            for query in _spread(nothing, self._queries // part)
        ]
        for document in _spread(list(searched.index.documents()), self._queries // part // 4):
            made.append(searched.named(document.name))
        for source, other in self._collections.items():
            if is_foreign(source, name):
                for query in _spread(other.queries, self._queries // 10 // part):
                    made.append(searched.sample("foreign", query.text, source=source))
        return [replace(sample, collection=name) for sample in made]

    def _index(self, collection: Collection) -> tuple[SkillIndex, Mapping[str, str]]:
        """Index a collection unless that was done before; map the index's ids to its own."""
        folders = write_skills(collection, self._work)
        end = HALF if collection.name.endswith(HALF) else "-examples" if folders.examples else ""
        index_dir = folders.work / f"index{end}"
        request = IndexRequest(folders.roots, "onnx", with_body=True)
        book = ExampleBook(None, packaged=False, own=False, extra=folders.examples)
        built, _ = SkillIndex.build(request, index_dir, IndexOptions(examples=book))
        embedder = self._embedders["onnx"]
        return SkillIndex(IndexFolder(built.folder), built.opened, embedder), folders.ids


class _Searched:
    """One variant of a collection, indexed."""

    def __init__(
        self, collection: Collection, variant: str, indexed: tuple[SkillIndex, Mapping[str, str]]
    ) -> None:
        """Take a collection and its index."""
        self.index, ids = indexed
        self._collection = collection
        self._variant = variant
        self._numbers = {
            ids[document.doc_id]: number for number, document in enumerate(self.index.documents())
        }

    def judged(self, query: JudgedQuery) -> list[Sample]:
        """Ask a judged query, and again with all that is right hidden."""
        grades = self._collection.qrels[query.query_id]
        relevant = self._numbers_of(doc_id for doc_id, grade in grades.items() if grade > 0)
        ignored = self._numbers_of(self._collection.ignored.get(query.query_id, ()))
        hidden = ignored | self._copies(relevant)
        return [
            self.sample("judged", query.text, relevant, ignored, judged_query=query),
            self.sample("dropped", query.text, frozenset(), hidden, judged_query=query),
        ]

    def named(self, name: str) -> Sample:
        """Ask for a name; all skills of that name are right."""
        return self.sample("named", name, frozenset(self.index.opened.corpus.documents.named(name)))

    def sample(
        self,
        kind: str,
        text: str,
        relevant: frozenset[int] = frozenset(),
        hidden: frozenset[int] = frozenset(),
        *,
        source: str = "",
        judged_query: JudgedQuery | None = None,
    ) -> Sample:
        """Search one query."""
        corpus, form = self.index.opened.corpus, self.index.analyse(text)
        excluded = np.array(sorted(hidden), np.int64)
        (candidates,) = find_candidates(corpus, [form], HITS_WANTED, excluded)
        mask = np.isin(candidates.documents, sorted(relevant))
        count = len(relevant - hidden)
        return Sample(
            "", self._variant, kind, source, corpus, form, candidates, mask, count, judged_query
        )

    def _numbers_of(self, doc_ids: Iterable[str]) -> frozenset[int]:
        """Return the numbers of documents that were indexed."""
        return frozenset(self._numbers[doc_id] for doc_id in doc_ids if doc_id in self._numbers)

    def _copies(self, numbers: frozenset[int]) -> frozenset[int]:
        """Return documents with all their copies."""
        return copies(self.index.opened.corpus.documents, numbers)


def _spread(items: Sequence[Item], limit: int) -> list[Item]:
    """Take at most so many items, evenly spaced."""
    if len(items) <= limit:
        return list(items)
    return [items[position] for position in np.linspace(0, len(items) - 1, limit).astype(int)]
