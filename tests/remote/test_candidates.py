"""Tests of the corpus that the candidates of a query make; no server is asked."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

import skillsearch
from skillsearch.embedders.embedding import HashingEmbedder, embed
from skillsearch.errors import CacheError
from skillsearch.index.corpus import IndexSettings
from skillsearch.index.dense.query_embedder import ModelSettings
from skillsearch.index.documents.document import field_texts
from skillsearch.index.storage.numbering import NOTHING
from skillsearch.remote.generations import FieldTotals, Head
from skillsearch.remote.row_writer import Histograms, TermTallies
from skillsearch.remote.rows import (
    LEXICAL,
    Addition,
    CountedTerms,
    RemoteGeneration,
    pack,
    row_of,
)
from skillsearch.remote.view import RemoteView
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.parser import parse_skill
from skillsearch.text.tokenizer import term_hash, terms

EXAMPLES = Path(skillsearch.__file__).parent / "examples"
QUERY = "a pod of kubernetes restarts, fill in the form"


@pytest.fixture(scope="module")
def examples():
    roots, _ = make_roots([EXAMPLES])
    skills = []
    for file in discover(roots).files:
        data = file.path.read_bytes()
        skill, _ = parse_skill(data, doc_id=file.doc_id, path=file.path, root=file.root.path)
        skills.append((field_texts(skill), data))
    return skills


@pytest.fixture(scope="module")
def rows(examples):
    embedder = HashingEmbedder()
    made = []
    for texts, data in examples:
        vectors = {bytes.fromhex(texts.document.key): embed(embedder, [texts.metadata])[0]}
        made.append(row_of(Addition(texts, data), vectors, since=1, with_body=True))
    return made


@pytest.fixture(scope="module")
def head(examples):
    settings = IndexSettings((), ModelSettings.of("hashing", HashingEmbedder()), True, (1, 1))
    tallies, histograms = TermTallies(), Histograms()
    lengths = [0, 0]
    for texts, _ in examples:
        counted = CountedTerms.of(texts.metadata_terms, texts.full_terms)
        tallies.add(counted, 1)
        lengths = [length + more for length, more in zip(lengths, counted.lengths, strict=True)]
    _, total = tallies.total()
    histograms.change(np.zeros_like(total), total)
    totals = {
        field: FieldTotals(length, histograms.average_idf(field, len(examples)))
        for field, length in zip(LEXICAL, lengths, strict=True)
    }
    return Head(1, 1, settings, len(examples), 0, 0, totals)


@pytest.fixture(scope="module")
def frequencies(examples):
    """Count in how many examples each term of the query is."""
    return {
        term_hash(term): (
            sum(term in texts.metadata_terms for texts, _ in examples),
            sum(term in texts.full_terms for texts, _ in examples),
        )
        for term in terms(QUERY, "en")
    }


@pytest.fixture(scope="module")
def make_corpus(head, frequencies):
    view = RemoteView(None, RemoteGeneration("skills", 1), head, frequencies)
    return lambda rows: view.index_of(rows).corpus


@pytest.mark.parametrize("field", [0, 1])
def test_some_documents_score_as_among_all(examples, rows, make_corpus, field):
    texts = [(texts.metadata_terms, texts.full_terms)[field] for texts, _ in examples]
    query = terms(QUERY, "en")
    wanted = BM25Okapi(texts).get_scores(query)
    chosen = [2, 5, 11, 17]
    corpus = make_corpus([rows[number] for number in reversed(chosen)])
    lexical = corpus.lexical[field]
    matches = lexical.best(lexical.weigh(Counter(query)), 1, NOTHING)
    scores = matches.scores_of(np.arange(len(chosen)))
    assert scores.tolist() == pytest.approx(wanted[chosen], abs=1e-5)


def test_the_documents_are_known_by_what_holds_for_all(rows, head, make_corpus):
    """Their number; those that documents go by are of what is here."""
    corpus = make_corpus(rows[:4])
    store = corpus.documents
    assert (len(store), store.size) == (head.documents, 4)
    assert [document.doc_id for document in store] == sorted(document.doc_id for document in store)


def test_no_candidates_know_the_terms_of_the_query_all_the_same(make_corpus, frequencies):
    """The score that a query can attain depends on all documents."""
    nothing = make_corpus([]).lexical[1]
    weights = nothing.weigh(Counter(["kubernet"]))
    assert weights.document_frequencies.tolist() == [frequencies[term_hash("kubernet")][1]]
    assert nothing.best(weights, 1, NOTHING).documents.tolist() == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("record", []),
        ("record", pack(b"[1, 2]")),
        ("counts", pack(b"short")),
        ("chunks", pack(b"\x01\x00\x00\x00\xff\xff\xff\xff")),
        ("chunks", pack(b"\x01\x00\x00\x00\x00\x02\x00\x00" + b"\0" * 1028)),
        ("dense_metadata", [0.0] * 511),
        ("dense_metadata", [float("nan")] * 512),
        ("dense_examples", [float("nan")] * 512),
    ],
)
def test_a_damaged_row_is_told_and_not_searched(rows, make_corpus, field, value):
    with pytest.raises(CacheError):
        make_corpus([rows[0], {**rows[1], field: value}])
