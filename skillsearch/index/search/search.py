"""One search: the hits that answer a query, by its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.index.chunk_index import term_shares
from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.names import other_handle, with_handles
from skillsearch.index.relatives import family_of
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.candidates import Candidates, Judged, Ranked, find_candidates
from skillsearch.index.search.evidence import READER, UNVETTED, find_evidence
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.search.query import QueryForm
from skillsearch.index.search.ranker import explain, heads, judge, rank
from skillsearch.index.search.reading import NOT_READ, Reading, body_of, reordered
from skillsearch.index.selecting import selected
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.index.storage.numbering import NOTHING
from skillsearch.records import dataclass
from skillsearch.types import Hit, Root, SearchResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Evidence = Mapping[str, float]

# Least hits that are judged. The confidence was fitted on so many, and the score of a hit must not
# depend on `n`.
_LEAST_JUDGED = 10


@dataclass(frozen=True, slots=True)
class Search:
    """The state that the queries of a batch share.

    The `doubted` documents, ascending, are of roots that nobody vouched for, beside others.
    A SKILL.md may link to a text in any of the `roots`.
    """

    options: SearchOptions
    corpus: Corpus
    calibration: Calibration
    reading: Reading = NOT_READ
    doubted: NDArray[np.int64] = field(default_factory=lambda: NOTHING)
    roots: tuple[Path, ...] = ()

    def hits(
        self, forms: Sequence[QueryForm], left_out: NDArray[np.int64] = NOTHING
    ) -> list[tuple[Hit, ...]]:
        """Return what each query is shown, best first, ties by document id."""
        documents = self.corpus.documents
        named = map(documents.number_of, self.options.exclude)
        excluded = np.array([number for number in named if number is not None], np.int64)
        excluded = np.concatenate([excluded, left_out])
        if not self.options.include_hidden:
            excluded = np.concatenate([excluded, np.flatnonzero(documents.hidden)])
        candidates = find_candidates(self.corpus, forms, self.options.n, excluded)
        return [self._answer(*pair, excluded) for pair in zip(forms, candidates, strict=True)]

    def _answer(
        self, form: QueryForm, candidates: Candidates, excluded: NDArray[np.int64]
    ) -> tuple[Hit, ...]:
        """Rank the candidates of a query; a family of near-copies gives one hit."""
        options, calibration = self.options, self.calibration
        every = rank(self.corpus, candidates, options.system, calibration, self.doubted)
        ranked = heads(self.corpus, every)
        if options.system == "hybrid":
            judged = self._judged(form, ranked)
        else:
            scores = ((row, float(ranked.scores[row])) for row in self._first_rows(ranked))
            judged = [Judged(row, {}, score, score) for row, score in scores]
        judged, bound = [hit for hit in judged if hit.score > 0], None
        if form.is_part and options.has_states and options.face != "prompt":
            # Whatever has a word that begins so may fit, however little that says.
            begun, bound = ranked.feature("bm25_metadata") > 0, 0.0
            cut = options.cut(calibration)
            judged = [hit for hit in judged if begun[hit.row] or hit.score >= cut]
        judged = judged[: options.count_shown([hit.score for hit in judged], calibration, bound)]
        shown = self._shown(ranked.documents[[hit.row for hit in judged]], excluded)
        chunks = self._chunks(form, shown)
        order = every.documents[every.best].tolist()
        ranks = dict(zip(order, range(len(order)), strict=True))
        triples = zip(judged, shown.tolist(), chunks, strict=True)
        return tuple(
            self._hit(rank_shown, form, ranked, hit, number, chunk).with_family(
                family_of(self.corpus.documents, number, excluded, ranks)
            )
            for rank_shown, (hit, number, chunk) in enumerate(triples, start=1)
        )

    def _shown(self, numbers: NDArray[np.int64], excluded: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what stands for the family of each document, or itself if that is left out."""
        store = self.corpus.documents
        leaders = store.families.leaders_of(numbers)
        is_out = np.isin(leaders, np.concatenate([excluded, store.left_out]))
        return np.where(is_out, numbers, leaders)

    def _first_rows(self, ranked: Ranked) -> list[int]:
        rows: list[int] = ranked.best[ranked.features[ranked.best].any(axis=1)].tolist()
        return rows[: max(self.options.n, _LEAST_JUDGED)]

    def _judged(self, form: QueryForm, ranked: Ranked) -> list[Judged]:
        """Judge the first hits of a ranking, the very first read if that may decide."""
        calibration, rows = self.calibration, self._first_rows(ranked)
        evidence = dict(zip(rows, find_evidence(self.corpus, form, ranked, rows), strict=True))
        for row in np.array(rows)[np.isin(ranked.documents[rows], self.doubted)].tolist():
            evidence[row][UNVETTED] = 1.0
        judged = judge(list(evidence.values()), rows, calibration)
        read = self.reading.read(self.corpus, form, ranked, judged, self.roots)
        for row, logit in read.items():
            evidence[row][READER] = logit
        rows = reordered(ranked, rows, read, calibration.reader)
        return judge([evidence[row] for row in rows], rows, calibration)

    def _hit(
        self, shown: int, form: QueryForm, ranked: Ranked, judged: Judged, number: int, chunk: str
    ) -> Hit:
        """Return the hit that shows a document, judged by the best ranked of its family."""
        corpus, why = self.corpus, None
        document = corpus.documents[number]
        if self.options.explain:
            body = body_of(corpus.documents[int(ranked.documents[judged.row])], self.roots)
            why = explain(corpus, form, ranked, judged, self.calibration, body)
        return Hit(
            rank=shown,
            name=document.name,
            description=document.description,
            score=judged.score,
            path=document.path,
            root=document.root,
            doc_id=document.doc_id,
            chunk=chunk,
            explain=why,
        )

    def _chunks(self, form: QueryForm, numbers: NDArray[np.int64]) -> list[str]:
        """Return the id of the chunk of each document that fits the query best, or nothing."""
        corpus = self.corpus
        if len(corpus.lexical) == 1:
            return [""] * len(numbers)
        shares = term_shares(corpus.lexical[1], form.weights[1])
        ids = []
        for number in numbers.tolist():
            chunks, local = corpus.chunks_of(number)
            best = chunks.best(form.vector, shares, local) if chunks else None
            ids.append("" if best is None else corpus.documents[number].chunks[best][0])
        return ids


def vetted_results(
    search: Search,
    queries: Sequence[str],
    forms: Sequence[QueryForm],
    roots: Sequence[Root],
) -> list[SearchResult]:
    """Search the vetted roots alone, so that no other keeps a skill out; count the hits of others.

    The halves are searched apart: to drop hits afterwards would be to let others crowd them out.
    """
    store = search.corpus.documents
    vetted, unvetted = (
        store.of_roots([root.alias for root in roots if (root.trust == "vetted") == is_vetted])
        for is_vetted in (True, False)
    )
    ours = _results(search, queries, search.hits(forms, unvetted))
    if not len(unvetted):
        return ours
    theirs = _results(search, queries, search.hits(forms, vetted))
    return [
        replace(own, unvetted=_count_new(search, own.hits, other.hits))
        for own, other in zip(ours, theirs, strict=True)
    ]


def _results(
    search: Search, queries: Sequence[str], hits: Sequence[Sequence[Hit]]
) -> list[SearchResult]:
    result = search.options.result
    pairs = zip(queries, hits, strict=True)
    return [result(query, search.calibration, some) for query, some in pairs]


def _count_new(search: Search, vetted: Sequence[Hit], hits: Sequence[Hit]) -> int:
    """Count the hits that are not copies of vetted ones."""
    store = search.corpus.documents
    numbers = [store.number_of(hit.doc_id) for hit in (*vetted, *hits)]
    families = store.families.leaders_of(np.array([-1 if n is None else n for n in numbers]))
    return int((~np.isin(families[len(vetted) :], families[: len(vetted)])).sum())


def with_provenance(
    result: SearchResult, documents: DocumentStore, roots: Sequence[Root]
) -> SearchResult:
    """Return a result whose hits have the trust of their roots, and handles that load them."""
    by_path = {str(root.path): root for root in roots}
    paths = list(by_path)

    def completed(hit: Hit) -> Hit:
        root, handle = by_path[hit.root], other_handle(hit, documents, paths)
        family = hit.family and with_handles(hit.family, documents, paths)
        return replace(hit, family=family, handle=handle, trust=root.trust, origin=root.origin)

    hits, perhaps = (tuple(map(completed, some)) for some in (result.hits, result.perhaps))
    return replace(result, hits=hits, perhaps=perhaps)


def answer(
    queries: Sequence[str],
    options: SearchOptions,
    opened: OpenedIndex,
    forms: Sequence[QueryForm],
    calibration: Calibration,
    reading: Reading = NOT_READ,
) -> list[SearchResult]:
    """Answer queries by their options; an index without skills has no forms."""
    if not forms:
        return [options.result(query, calibration) for query in queries]
    roots, every = opened.settings.roots, opened.corpus.documents
    corpus = replace(opened.corpus, documents=selected(every, options.selected, roots))
    unvetted = [root.alias for root in roots if root.trust != "vetted"]
    # If nobody vouched for any root, none is worse than another.
    doubted = every.of_roots(unvetted if len(unvetted) < len(roots) else [])
    paths = tuple(root.path for root in roots)
    search = Search(options, corpus, calibration, reading, doubted, paths)
    if options.vetted_only:
        results = vetted_results(search, queries, forms, roots)
    else:
        results = _results(search, queries, search.hits(forms))
    return [with_provenance(result, every, roots) for result in results]
