"""The tokens of a pair; the packaged reader: what it tells apart, and when a search asks it."""

import numpy as np
import pytest

from skillsearch.evaluation.assess import auroc
from skillsearch.evaluation.collection import EXAMPLE, load_collection
from skillsearch.index.roots.root_change import EXAMPLES
from skillsearch.index.search.evidence import READER
from skillsearch.index.search.passages import PASSAGE_CHARS, passage_text
from skillsearch.index.search.reading import READ_MOST
from skillsearch.index.skill_index import SkillIndex
from skillsearch.readers.loading import PACKAGED_SPEC, load_reader
from skillsearch.readers.mapped_reader import NEITHER, REQUEST, SKILL, encode_pair

QUERY = "why does my pod keep restarting"


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    return SkillIndex.from_roots(EXAMPLES, index_dir=folder)


def read_by(hit):
    """Return the log-odds that a reader gave a hit, None if it was not read."""
    return hit.explain.features.get(READER)


@pytest.mark.slow
def test_right_skills_stand_above_wrong_ones_of_any_request():
    collection, reader = load_collection(EXAMPLE), load_reader(PACKAGED_SPEC)
    passages = {
        skill.doc_id: passage_text(skill.name, skill.description, skill.body[:PASSAGE_CHARS])
        for skill in collection.documents
    }
    queries = [query for query in collection.queries if query.language == "en"][:40:3]
    right, wrong = [], []
    for number, query in enumerate(queries):
        fits = [doc for doc, grade in collection.qrels[query.query_id].items() if grade > 0]
        others = [doc for doc in passages if doc not in fits][number % 7 :: 7]
        logits = reader.read(query.text, [passages[doc] for doc in (*fits, *others)])
        right += logits[: len(fits)].tolist()
        wrong += logits[len(fits) :].tolist()
    assert auroc(right, wrong) > 0.95


def test_a_search_in_doubt_is_read_unless_it_is_off(examples):
    plain, read, clear = (
        examples.search(query, explain=True, threshold=0.0, reader=reader)
        for query, reader in ((QUERY, "off"), (QUERY, "always"), ("git-bisect-regression", "auto"))
    )
    assert [read_by(hit) for hit in (*plain, *clear)] == [None] * (len(plain) + len(clear))
    assert read[0].name == "kubernetes-crashloop"
    assert read_by(read[0]) > max(read_by(hit) for hit in read[1:READ_MOST])
    assert read[0].score >= plain[0].score
    assert [hit.score for hit in read] != [hit.score for hit in plain]


def test_what_is_read_scores_the_same_beside_other_skills(examples):
    (batch,) = examples.search_many([QUERY], reader="always", threshold=0.0)
    alone = examples.search(QUERY, reader="always", threshold=0.0)
    assert [(hit.name, hit.score) for hit in batch] == [(hit.name, hit.score) for hit in alone]


def test_a_request_in_another_language_is_read_too(examples):
    query = "Warum startet mein Pod in Kubernetes immer wieder neu?"
    first, *_ = examples.search(query, explain=True, reader="always", threshold=0.0)
    assert first.name == "kubernetes-crashloop"
    assert read_by(first) > 0


def test_logits_are_finite_for_any_text():
    reader = load_reader(PACKAGED_SPEC)
    texts = ["", " ", "\udc80", "a " * 5_000, "\u4e2d\u6587", "x" * 10_000]
    for request in ("tea", "?", "word " * 4_000):
        assert np.isfinite(reader.read(request, texts)).all()


class Letters:
    """A tokenizer that has a token for each letter."""

    def encode(self, text, most):
        """Return so many tokens at most, and whether that was all."""
        return [ord(letter) for letter in text][:most], len(text) <= most


@pytest.mark.parametrize(("query", "skill"), [("ab", "xyz"), ("", ""), ("a" * 99, "x" * 99)])
def test_a_pair_has_a_token_on_all_sides_and_the_request_is_half_at_most(query, skill):
    pair = encode_pair(Letters(), query, skill, 20)
    first, second = query[:10], skill[: 17 - len(query[:10])]
    parts = [[NEITHER], [REQUEST] * len(first), [NEITHER], [SKILL] * len(second), [NEITHER]]
    assert pair.parts == [part for run in parts for part in run]
    own = [token for token, part in zip(pair.ids, pair.parts, strict=True) if part != NEITHER]
    assert own == [ord(letter) for letter in first + second]
    assert len(pair.ids) == len(pair.parts) <= 20
