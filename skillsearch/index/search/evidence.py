"""What speaks for and against the best candidate of a query: the evidence for confidence in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skillsearch.index.corpus import Corpus
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.search.calibration import EVIDENCE, FEATURES, size_evidence
from skillsearch.index.search.query_form import QueryForm, shares_of_trust

if TYPE_CHECKING:
    from numpy.typing import NDArray


def find_evidence(
    corpus: Corpus, query: QueryForm, document: int, features: NDArray[np.float64]
) -> dict[str, float]:
    """Gather the evidence for one document; see `calibration.EVIDENCE` for what each piece is.

    Args:
        corpus: The opened index.
        query: The analysed query.
        document: Number of the document.
        features: Its ranking features, shape (features,).

    Returns:
        Value of each piece of evidence.
    """
    named = dict(zip(FEATURES, features.tolist(), strict=True))
    shares = shares_of_trust(corpus, query, np.array([document]))
    first, second, neither = (float(share[0]) for share in shares)
    evidence = {name: named[name] for name in EVIDENCE if name in named}
    return evidence | {
        "bm25_known_alone": named["bm25_metadata_alone"] * _known_factor(corpus, query, neither),
        "rarest_term": first * _rarest_term(corpus, query, document),
        "corpus_size": size_evidence(corpus.documents.searched_size),
        "distrust": neither,
        "multilingual": second,
    }


def _known_factor(corpus: Corpus, query: QueryForm, distrust: float) -> float:
    """Return what a share grows by where unknown terms count less.

    They count by how much of the corpus is in scripts that the embedder cannot read.
    """
    if distrust <= 0.0:
        return 1.0
    field = corpus.lexical_metadata
    known, unknown = field.attainable_parts(field.weigh(query.counts))
    if known <= 0:
        return 1.0
    foreign = 1.0 - corpus.documents.mean_trust
    return (known + unknown) / (known + foreign * unknown)


def _rarest_term(corpus: Corpus, query: QueryForm, document: int) -> float:
    """Return how rare the rarest query term in a document is, 0 to 1, mean over the fields."""
    fields = [corpus.lexical_metadata, corpus.lexical_full or corpus.lexical_metadata]
    return sum(_rarest_in(field, query, document) for field in fields) / len(fields)


def _rarest_in(field: LexicalField, query: QueryForm, document: int) -> float:
    """Return the highest idf of the query terms in a document over that of an unknown term."""
    return field.rarest_held(field.weigh(query.counts), document) / field.rarest_idf
