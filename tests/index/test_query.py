"""A query as it is searched for: its terms and its vector."""

from collections import Counter

import numpy as np
import pytest

from skillsearch.embedders.embedding import EmbeddedText, HashingEmbedder, embed
from skillsearch.errors import EmbedderError
from skillsearch.index.dense.query_embedder import QueryEmbedder
from skillsearch.index.search.analysis import analyse_queries
from skillsearch.index.search.query import INSTRUCTION_SHARE
from skillsearch.text.tokenizer import terms

PASTED = (
    "Please turn this mail into tasks:\n\nFrom: Ann\nSubject: move\n\n"
    "Hello all, on Monday we pack, on Tuesday the van comes, and on Friday we hand over the keys.\n"
    "Regards, Ann"
)


def test_a_query_is_analysed_as_documents_are(index):
    text = "Fill in the forms, all forms!"
    form = index.analyse(text)
    assert (form.text, form.language) == (text, "en")
    assert form.counts == Counter(terms("fill forms forms"))
    np.testing.assert_array_equal(form.vector, embed(HashingEmbedder(), [text])[0])
    assert form.has_vector


def test_what_is_excluded_is_not_embedded(index):
    form = index.analyse("set up the deps with uv instead of pip")
    assert form.excluded.things == ({"pip"},)
    assert "pip" not in form.wanted
    np.testing.assert_array_equal(form.vector, embed(HashingEmbedder(), [form.wanted])[0])


def test_an_instruction_leads_the_vector_of_what_is_pasted(index):
    form = index.analyse(PASTED)
    assert form.instruction.startswith("Please turn")
    whole, instruction = embed(HashingEmbedder(), [form.wanted, form.instruction])
    mean = INSTRUCTION_SHARE * instruction + (1 - INSTRUCTION_SHARE) * whole
    np.testing.assert_allclose(form.vector, mean / np.linalg.norm(mean), atol=1e-6)


def test_queries_are_embedded_together_and_each_text_once(index):
    heard = []

    class Listening(HashingEmbedder):
        def embed_stream(self, texts):
            heard.append(list(texts))
            for position, _ in enumerate(texts):
                yield EmbeddedText(position, np.full(512, 1 / np.sqrt(512), np.float32), False)

    forms = analyse_queries(["forms", "tea", "forms"], index.opened, QueryEmbedder(Listening()))
    assert heard == [["forms", "tea"]]
    assert all(form.has_vector for form in forms)


def test_another_embedder_than_the_index_was_made_with_is_refused(index):
    with pytest.raises(EmbedderError, match="has changed since the index was built"):
        analyse_queries(["forms"], index.opened, QueryEmbedder(HashingEmbedder(64)))


def test_a_query_without_a_word_has_no_vector(index):
    form = index.analyse("!?")
    assert not form.has_vector
    assert not form.counts
