"""Texts → queries: their language, their weighed terms and their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from skillsearch.embedders.embedding import embed
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.dense.query_embedder import QueryEmbedder
from skillsearch.index.search.pasted import instruction
from skillsearch.index.search.query import INSTRUCTION_SHARE, QueryForm, split_terms, weigh_terms
from skillsearch.index.storage.numbering import Floats
from skillsearch.text.languages import language_of


def analyse_queries(
    texts: Sequence[str], index: OpenedIndex, embedder: QueryEmbedder
) -> list[QueryForm]:
    """Split queries into terms and embed them together; fails as `QueryEmbedder.matching` does.

    An index without a model gives them no vectors.
    """
    with index.guard:
        forms = [_read(text, index) for text in texts]
    model = index.settings.model
    if not model.dimensions:
        return forms
    parts = (part for form in forms for part in (form.wanted, form.instruction))
    distinct = list(dict.fromkeys(filter(None, parts)))
    rows = embed(embedder.matching(model), distinct) if distinct else ()
    vectors = dict(zip(distinct, rows, strict=True))
    return [replace(form, vector=_vector(form, vectors)) for form in forms]


def _read(text: str, index: OpenedIndex) -> QueryForm:
    """Do all of the analysis that needs no embedder."""
    leading = instruction(text)
    language = (language_of(leading) if leading else "") or language_of(text)
    wanted, leading, counts, excluded = split_terms(text, leading, language)
    weights = weigh_terms(index.corpus, counts)
    vector = np.zeros(index.settings.model.dimensions, np.float32)
    return QueryForm(text, language, counts, vector, weights, excluded, leading, wanted)


def _vector(form: QueryForm, vectors: dict[str, Floats]) -> Floats:
    """Return the unit vector of a text, led by its instruction if it has one."""
    if not form.wanted:
        return form.vector
    vector = vectors[form.wanted]
    if not form.instruction:
        return vector
    mean = INSTRUCTION_SHARE * vectors[form.instruction] + (1.0 - INSTRUCTION_SHARE) * vector
    return (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)
