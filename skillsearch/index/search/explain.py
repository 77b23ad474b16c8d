"""Why a hit has its score: features, terms, and the section of the body that fits best."""

from __future__ import annotations

from skillsearch.index.corpus import Corpus
from skillsearch.index.lexical.field import LexicalField
from skillsearch.index.search.calibration import FEATURES, Calibration
from skillsearch.index.search.query_form import QueryForm
from skillsearch.index.search.ranker import Candidates, best_evidence
from skillsearch.text.markdown import sections
from skillsearch.text.tokenizer import document_terms
from skillsearch.types import Explanation

_SNIPPET_CHARS = 240


def explain(
    corpus: Corpus,
    query: QueryForm,
    candidates: Candidates,
    row: int,
    calibration: Calibration,
    body: str,
) -> Explanation:
    """Explain the score of one candidate.

    Args:
        corpus: The opened index.
        query: The analysed query.
        candidates: All candidates of the query.
        row: Which of them it is.
        calibration: What weighs features and evidence.
        body: Its body as it is now; empty where it cannot be read.

    Returns:
        The explanation.
    """
    document = int(candidates.documents[row])
    contributions = calibration.contributions(candidates.features)
    sums = contributions.sum(axis=1)
    best, evidence = best_evidence(corpus, query, candidates, sums)
    heading, snippet = best_section(
        body,
        query,
        corpus.lexical_full or corpus.lexical_metadata,
        corpus.documents[document].language,
    )
    return Explanation(
        features=dict(zip(FEATURES, candidates.features[row].tolist(), strict=True)),
        contributions=dict(zip(FEATURES, contributions[row].tolist(), strict=True)),
        confidence=calibration.confidence(evidence),
        behind=calibration.lag_behind(evidence) * float(sums[best] - sums[row]),
        matched_terms=_matched_terms(corpus, query, document),
        section=heading,
        snippet=snippet,
    )


def _matched_terms(corpus: Corpus, query: QueryForm, document: int) -> dict[str, tuple[str, ...]]:
    """Return the query terms that a document has in its metadata, and those only in its body."""
    matched = {
        "metadata": tuple(t for t in query.counts if corpus.lexical_metadata.holds(t, document))
    }
    if corpus.lexical_full is not None:
        full = corpus.lexical_full
        in_full = (term for term in query.counts if full.holds(term, document))
        matched["body"] = tuple(term for term in in_full if term not in matched["metadata"])
    return matched


def best_section(
    body: str, query: QueryForm, field: LexicalField, language: str = ""
) -> tuple[str, str]:
    """Find the section whose distinct terms of the query weigh most.

    Args:
        body: Markdown.
        query: The analysed query.
        field: Gives the weight (idf) of each term.
        language: What the document is written in.

    Returns:
        The section's heading and the beginning of its text, the first such section on a tie; both
        empty where no term occurs.
    """
    weights = field.idf_of(query.counts)
    best, best_weight = ("", ""), 0.0
    for heading, text in sections(body):
        found = set(document_terms(f"{heading}\n{text}", language))
        weight = sum(weight for term, weight in weights.items() if term in found)
        if weight > best_weight:
            best, best_weight = (heading, _snippet(text)), weight
    return best


def _snippet(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _SNIPPET_CHARS else line[: _SNIPPET_CHARS - 1].rstrip() + "…"
