"""One search: the hits that answer a query, by its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.index.chunk_index import term_shares
from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.documents.names import other_handle, with_handles
from skillsearch.index.documents.relatives import family_of
from skillsearch.index.documents.selecting import selected
from skillsearch.index.search.calibration import Calibration, probability
from skillsearch.index.search.candidates import (
    Candidates,
    Judged,
    Nominator,
    Ranked,
    find_candidates,
)
from skillsearch.index.search.evidence import READER, UNVETTED, find_evidence
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.search.query import QueryForm
from skillsearch.index.search.ranker import explain, heads, judge, rank
from skillsearch.index.search.reading import NOT_READ, Reading, body_of, reordered
from skillsearch.index.storage.document_store import DocumentStore
from skillsearch.index.storage.numbering import NOTHING, Numbers
from skillsearch.types.answers import Hit, SearchResult, State
from skillsearch.types.skills import Root

# Least hits that are judged. The calibration was fitted on this number, and the score of a hit must
# not depend on `n`.
_LEAST_JUDGED = 10
_ROUNDING = 1e-6
"""A cosine of nothing alike is not zero: its last bits follow from what is multiplied with it."""


class Position(NamedTuple):
    """How a document, shown or not, compares with the best hit of a query.

    Attributes:
        hit: The document, or what stands for its family, as a hit with an explanation.
        best: The best hit, shown or not, with an explanation; None if none was judged.
        state: What the answer says of it.
        threshold: From which score on a hit fits.
        nominators: What made it a candidate; nothing did, if it is empty.
        is_judged: Whether it is among the first of the ranking, which alone may be hits.
        log_odds: What each piece of evidence adds to the log-odds of both, without a reader;
            `READER` is what that changed. The sums are the log-odds of their own scores.
    """

    hit: Hit
    best: Hit | None
    state: State
    threshold: float
    nominators: tuple[Nominator, ...]
    is_judged: bool
    log_odds: tuple[Mapping[str, float], Mapping[str, float]]


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
    doubted: Numbers = field(default_factory=lambda: NOTHING)
    roots: tuple[Path, ...] = ()

    @classmethod
    def of(
        cls, options: SearchOptions, opened: OpenedIndex, calibration: Calibration, reading: Reading
    ) -> Search:
        """Return a search of the skills that the options select."""
        roots, every = opened.settings.roots, opened.corpus.documents
        corpus = replace(opened.corpus, documents=selected(every, options.selected, roots))
        unvetted = [root.alias for root in roots if root.trust != "vetted"]
        # If nobody vouched for any root, none is worse than another.
        doubted = every.of_roots(unvetted if len(unvetted) < len(roots) else [])
        paths = tuple(root.path for root in roots)
        return cls(options, corpus, calibration, reading, doubted, paths)

    def results(
        self, queries: Sequence[str], forms: Sequence[QueryForm], left_out: Numbers = NOTHING
    ) -> list[SearchResult]:
        """Return the answer to each query, best first, ties by document id."""
        excluded = np.concatenate([self._excluded(), left_out])
        candidates = find_candidates(self.corpus, forms, self.options.n, excluded)
        hits = (self._answer(*pair, excluded) for pair in zip(forms, candidates, strict=True))
        result, pairs = self.options.result, zip(queries, hits, strict=True)
        return [result(query, self.calibration, answer) for query, answer in pairs]

    def _excluded(self) -> Numbers:
        documents = self.corpus.documents
        excluded = documents.numbers_of(self.options.exclude)
        if not self.options.include_hidden:
            excluded = np.concatenate([excluded, np.flatnonzero(documents.hidden)])
        return excluded

    def position_of(self, form: QueryForm, number: int) -> Position | None:
        """Return how a document stands for a query; None if it is left out, and its family.

        What nothing nominated, or is not among the first of the ranking, gets the score that it
        would have of its own, and its rank in the ranking. Only for hybrid options that explain.
        """
        excluded = self._excluded()
        leaders_of = self.corpus.documents.families.leaders_of
        n = self.options.n
        itself = np.array([number])
        (candidates,) = find_candidates(self.corpus, [form], n, excluded)
        ranked = heads(self.corpus, self._rank(candidates))
        judged, count = self._scored(form, ranked)
        row = self._row_of(ranked, number)
        among = ranked
        at = next((at for at, hit in enumerate(judged) if hit.row == row), None)
        if row is None:
            (candidates_with_it,) = find_candidates(self.corpus, [form], n, excluded, also=itself)
            among = heads(self.corpus, self._rank(candidates_with_it))
            if (row := self._row_of(among, number)) is None:
                return None
        own = self._unjudged(form, among, row) if at is None else judged[at]
        before = max(among.best.tolist().index(row), len(judged)) if at is None else at
        is_shown = at is not None and at < count
        threshold = self.options.cut(self.calibration)
        pools = candidates.pools
        names = np.concatenate([itself, leaders_of(itself)])
        return Position(
            hit=self._explained(before + 1, form, among, own),
            best=self._explained(1, form, ranked, judged[0]) if judged else None,
            state="none" if not is_shown else "fits" if own.score >= threshold else "perhaps",
            threshold=threshold,
            nominators=tuple(name for name, pool in pools.items() if np.isin(names, pool).any()),
            is_judged=at is not None,
            log_odds=(self._log_odds(own), self._log_odds(judged[0]) if judged else {}),
        )

    def _row_of(self, ranked: Ranked, number: int) -> int | None:
        """Return the row of a document, or of what is ranked for its family, if there is one."""
        leaders_of = self.corpus.documents.families.leaders_of
        are_its = leaders_of(ranked.documents) == leaders_of(np.array([number]))
        return next(iter(np.flatnonzero(are_its).tolist()), None)

    def _unjudged(self, form: QueryForm, ranked: Ranked, row: int) -> Judged:
        """Judge a row that is not among the first by its own evidence, as if it were."""
        first = [other for other in self._first_rows(ranked) if other != row]
        evidence = self._evidence(form, ranked, [*first, row])[row]
        score = probability(self.calibration.log_odds(evidence))
        return Judged(row, evidence, score, score)

    def _explained(self, rank: int, form: QueryForm, ranked: Ranked, judged: Judged) -> Hit:
        shown = self._shown(ranked.documents[[judged.row]], self._excluded())
        return self._hit(rank, form, ranked, judged, number=int(shown[0]), chunk="")

    def _log_odds(self, judged: Judged) -> Mapping[str, float]:
        cheap = {name: value for name, value in judged.evidence.items() if name != READER}
        parts = self.calibration.log_odds_parts(cheap)
        return parts | {READER: self.calibration.log_odds(judged.evidence) - sum(parts.values())}

    def _answer(
        self, form: QueryForm, candidates: Candidates, excluded: Numbers
    ) -> tuple[Hit, ...]:
        """Rank the candidates of a query; a family of near-copies gives one hit."""
        every = self._rank(candidates)
        ranked = heads(self.corpus, every)
        judged, count = self._scored(form, ranked)
        judged = judged[:count]
        shown = self._shown(ranked.documents[[hit.row for hit in judged]], excluded)
        chunks = self._chunks(form, shown)
        order = every.documents[every.best].tolist()
        ranks = dict(zip(order, range(len(order)), strict=True))
        triples = list(zip(judged, shown.tolist(), chunks, strict=True))
        hits = (self._hit(at, form, ranked, *each) for at, each in enumerate(triples, start=1))
        documents = self.corpus.documents
        families = (family_of(documents, number, excluded, ranks) for _, number, _ in triples)
        return tuple(map(Hit.with_family, hits, families))

    def _rank(self, candidates: Candidates) -> Ranked:
        system, calibration = self.options.system, self.calibration
        return rank(self.corpus, candidates, system, calibration, self.doubted)

    def _scored(self, form: QueryForm, ranked: Ranked) -> tuple[list[Judged], int]:
        """Return the judged hits of a ranking, best first, and how many of them are shown."""
        options, calibration = self.options, self.calibration
        if options.system == "hybrid":
            judged = self._judged(form, ranked)
        else:
            scores = ((row, float(ranked.scores[row])) for row in self._first_rows(ranked))
            judged = [Judged(row, {}, score, score) for row, score in scores]
        judged = [hit for hit in judged if hit.score > 0]
        bound = None
        if form.is_part and options.has_states and options.face != "prompt":
            # Whatever has a word that begins so may fit, however little that says.
            begun = ranked.feature("bm25_metadata") > 0
            bound = 0.0
            cut = options.cut(calibration)
            judged = [hit for hit in judged if begun[hit.row] or hit.score >= cut]
        return judged, options.count_shown([hit.score for hit in judged], calibration, bound)

    def _shown(self, numbers: Numbers, excluded: Numbers) -> Numbers:
        """Return the leader of each document's family, or the document if that is left out."""
        store = self.corpus.documents
        leaders = store.families.leaders_of(numbers)
        is_out = np.isin(leaders, np.concatenate([excluded, store.left_out]))
        return np.where(is_out, numbers, leaders)

    def _first_rows(self, ranked: Ranked) -> list[int]:
        are_like = (np.abs(ranked.features[ranked.best]) > _ROUNDING).any(axis=1)
        rows: list[int] = ranked.best[are_like].tolist()
        return rows[: max(self.options.n, _LEAST_JUDGED)]

    def _used_rows(self, ranked: Ranked) -> list[int]:
        """Return the rows of the skills that requests like this one led to, best first."""
        leaders_of = self.corpus.documents.families.leaders_of
        used = leaders_of(ranked.pools.get("usage", NOTHING))
        are_used = np.isin(leaders_of(ranked.documents[ranked.best]), used)
        rows: list[int] = ranked.best[are_used].tolist()
        return rows

    def _judged(self, form: QueryForm, ranked: Ranked) -> list[Judged]:
        """Judge the first hits of a ranking, the very first read if that may decide.

        Skills that usage alone brings in stand where their own score puts them.
        """
        calibration = self.calibration
        rows = self._first_rows(ranked)
        used = [row for row in self._used_rows(ranked) if row not in rows]
        evidence = self._evidence(form, ranked, [*rows, *used])
        judged = judge(list(evidence.values()), [*rows, *used], calibration)
        read = self.reading.read(self.corpus, form, ranked, judged, self.roots)
        for row, logit in read.items():
            evidence[row][READER] = logit
        rows = reordered(ranked, rows, read, calibration.reader)
        log_odds = {row: calibration.log_odds(values) for row, values in evidence.items()}
        for row in used:
            less_likely = (at for at, other in enumerate(rows) if log_odds[other] < log_odds[row])
            rows.insert(next(less_likely, len(rows)), row)
        return judge([evidence[row] for row in rows], rows, calibration)

    def _evidence(
        self, form: QueryForm, ranked: Ranked, rows: Sequence[int]
    ) -> dict[int, dict[str, float]]:
        evidence = dict(zip(rows, find_evidence(self.corpus, form, ranked, rows), strict=True))
        for row in np.array(rows)[np.isin(ranked.documents[rows], self.doubted)].tolist():
            evidence[row][UNVETTED] = 1.0
        return evidence

    def _hit(
        self, shown: int, form: QueryForm, ranked: Ranked, judged: Judged, number: int, chunk: str
    ) -> Hit:
        """Return the hit that shows a document, judged by the best ranked of its family."""
        why = None
        document = self.corpus.documents[number]
        if self.options.explain:
            body = body_of(self.corpus.documents[int(ranked.documents[judged.row])], self.roots)
            why = explain(self.corpus, form, ranked, judged, self.calibration, body)
        return Hit(
            shown,
            document.name,
            document.description,
            judged.score,
            document.path,
            document.root,
            document.doc_id,
            chunk=chunk,
            explain=why,
        )

    def _chunks(self, form: QueryForm, numbers: Numbers) -> list[str]:
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
    search: Search, queries: Sequence[str], forms: Sequence[QueryForm], roots: Sequence[Root]
) -> list[SearchResult]:
    """Search the vetted roots alone, so that no other keeps a skill out; count the hits of others.

    The halves are searched apart: to drop hits afterwards would be to let others crowd them out.
    """
    store = search.corpus.documents
    vetted = store.of_roots([root.alias for root in roots if root.trust == "vetted"])
    unvetted = store.of_roots([root.alias for root in roots if root.trust != "vetted"])
    ours = search.results(queries, forms, unvetted)
    if not len(unvetted):
        return ours
    theirs = search.results(queries, forms, vetted)
    pairs = zip(ours, theirs, strict=True)
    return [replace(own, unvetted=_count_new(store, own.hits, other.hits)) for own, other in pairs]


def _count_new(store: DocumentStore, vetted: Sequence[Hit], hits: Sequence[Hit]) -> int:
    """Count the hits that are not copies of vetted ones."""
    numbers = (store.numbers_of(hit.doc_id for hit in some) for some in (vetted, hits))
    ours, theirs = map(store.families.leaders_of, numbers)
    return int((~np.isin(theirs, ours)).sum())


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
    search = Search.of(options, opened, calibration, reading)
    roots, every = opened.settings.roots, opened.corpus.documents
    if options.vetted_only:
        results = vetted_results(search, queries, forms, roots)
    else:
        results = search.results(queries, forms)
    return [with_provenance(result, every, roots) for result in results]
