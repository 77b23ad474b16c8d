"""The evidence for the best candidate, piece by piece."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from skillsearch.embedders.embedding import HashingEmbedder, embed
from skillsearch.index.search.calibration import EVIDENCE, FEATURES
from skillsearch.index.search.query import QueryForm, QueryView, weigh_terms
from skillsearch.index.search.ranker import NOTHING, find_candidates, find_evidence
from skillsearch.text.tokenizer import terms

ONE_OF_FIVE = math.log(4.5 / 1.5) / math.log(5.5 / 0.5)
TWO_OF_FIVE = math.log(3.5 / 2.5) / math.log(5.5 / 0.5)
"""BM25Okapi's weight of a term in one or two of five documents, over an absent term's."""


@pytest.fixture
def corpus(index):
    """The parts of an index of five skills."""
    return index.opened.corpus


def form(text, trust=1.0):
    """Analyse a query as an index with one channel does, at a given trust in it."""
    vector = embed(HashingEmbedder(), [text])[0]
    return QueryForm(text, "", Counter(terms(text)), (QueryView(vector, trust),))


def gather(corpus, query, name):
    """Return a skill's evidence and its ranking features."""
    (number,) = corpus.documents.named(name)
    query = replace(query, weights=weigh_terms(corpus, query.counts))
    (found,) = find_candidates(corpus, [query], 5)
    row = found.features[found.documents.tolist().index(number)]
    return find_evidence(corpus, query, number, row), dict(zip(FEATURES, row, strict=True))


@pytest.mark.parametrize("trust", [0.0, 0.4, 1.0])
def test_every_piece_is_there_and_a_share(corpus, trust):
    """But for the size, which is a logarithm; for odd queries too."""
    for text in ("flatten PDF forms", "pdf-forms", "!?", "数据库 forms", "zzz " * 50):
        for document in corpus.documents:
            evidence, _ = gather(corpus, form(text, trust), document.name)
            assert set(evidence) == set(EVIDENCE)
            assert evidence.pop("corpus_size") == 4
            assert evidence["multilingual"] == evidence["bm25_full_multilingual"] == 0
            assert all(type(value) is float and 0 <= value <= 1 for value in evidence.values())


@pytest.mark.parametrize("name", ["bm25_full", "name", "cosine_metadata"])
def test_some_pieces_are_ranking_features(corpus, name):
    """As they are."""
    evidence, features = gather(corpus, form("pdf-forms"), "pdf-forms")
    assert evidence[name] == features[name] > 0


@pytest.mark.parametrize(
    ("query", "skill", "metadata", "full"),
    [
        ("flatten it", "pdf-forms", ONE_OF_FIVE, ONE_OF_FIVE),
        ("revoke it", "key-rotation", 0, ONE_OF_FIVE),
        ("zzz flatten cut", "pdf-forms", ONE_OF_FIVE, ONE_OF_FIVE),
        ("cut video", "pdf-forms", 0, 0),
        ("zzz", "pdf-forms", 0, 0),
        ("of the", "pdf-forms", 0, 0),
    ],
)
def test_the_rarest_term_by_hand(corpus, query, skill, metadata, full):
    """Its idf over the idf of an absent term, as a mean of metadata and full text."""
    evidence, _ = gather(corpus, form(query), skill)
    assert evidence["rarest_term"] == pytest.approx((metadata + full) / 2, abs=1e-6)


def test_of_several_terms_the_rarest_counts(root, build, add_skill):
    """Not the first, and not one that another skill has."""
    add_skill(root / "tea-timer", "tea-timer", "Time tea and cut clips.", "Two minutes.")
    corpus = build(root).opened.corpus
    for query, expected in (("cut", TWO_OF_FIVE), ("cut join", ONE_OF_FIVE), ("cut tea", None)):
        evidence, _ = gather(corpus, form(query), "video-trim")
        wanted = TWO_OF_FIVE if expected is None else expected
        assert evidence["rarest_term"] == pytest.approx(wanted, abs=1e-6)


def test_an_index_of_metadata_alone_has_its_rarest_term_there(root, build):
    """Counted once, as if both fields held it."""
    corpus = build(root, with_body=False).opened.corpus
    evidence, _ = gather(corpus, form("flatten it"), "pdf-forms")
    assert evidence["rarest_term"] == pytest.approx(ONE_OF_FIVE, abs=1e-6)


def test_evidence_counts_by_the_trust_in_query_and_skill(corpus):
    """Their product takes from what the embedder says, and what it takes is the distrust."""
    query = form("flatten PDF forms")
    (number,) = corpus.documents.named("pdf-forms")
    full, _ = gather(corpus, query, "pdf-forms")
    corpus.documents.trust = np.ones(5, np.float32)
    corpus.documents.trust[number] = 0.5
    part, _ = gather(corpus, form("flatten PDF forms", 0.5), "pdf-forms")
    assert (full["distrust"], part["distrust"]) == (0, 0.75)
    for name in ("rarest_term", "bm25_full", "cosine_metadata"):
        assert part[name] == pytest.approx(0.25 * full[name])


def test_where_the_embedder_is_trusted_the_metadata_does_not_speak_alone(corpus):
    """Known or not."""
    assert gather(corpus, form("flatten zzz"), "pdf-forms")[0]["bm25_known_alone"] == 0


@pytest.mark.parametrize("foreign", [0, 1, 3, 5])
def test_unknown_terms_count_by_the_share_of_foreign_skills(corpus, foreign):
    """BM25 of the metadata over the known part and that share of the unknown one."""
    corpus.documents.trust = np.array([0.0] * foreign + [1.0] * (5 - foreign), np.float32)
    query = form("flatten forms zzz", trust=0.0)
    (number,) = corpus.documents.named("pdf-forms")
    field = corpus.lexical[0]
    weights = field.weigh(query.counts)
    known, unknown = weights.known_score, weights.unknown_score
    assert known > 0 < unknown
    score = float(field.best(weights, 1, NOTHING).scores_of(np.array([number]))[0])
    evidence, features = gather(corpus, query, "pdf-forms")
    share = score / (known + foreign / 5 * unknown)
    assert evidence["bm25_known_alone"] == pytest.approx(share, rel=1e-5)
    assert features["bm25_metadata_alone"] == pytest.approx(score / (known + unknown), rel=1e-5)


def test_a_query_of_unknown_terms_alone_has_no_known_part(corpus):
    """And nothing is divided by it."""
    assert gather(corpus, form("zzz", trust=0.0), "pdf-forms")[0]["bm25_known_alone"] == 0
