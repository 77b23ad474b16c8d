"""Why a hit has its score, and which channels voted: features, terms, the section that fits."""

from __future__ import annotations

from collections.abc import Mapping

from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.dense.channels import ChannelSettings
from skillsearch.index.search.calibration import FEATURES, Calibration
from skillsearch.index.search.query import QueryForm, language_features
from skillsearch.index.search.ranker import Candidates, Scored
from skillsearch.text.languages import language_name
from skillsearch.text.markdown import sections
from skillsearch.text.tokenizer import document_terms
from skillsearch.types import ChannelVote, Explanation

_SNIPPET_CHARS = 240


def explain(
    corpus: Corpus,
    query: QueryForm,
    candidates: Candidates,
    scored: Scored,
    row: int,
    calibration: Calibration,
    body: str,
) -> Explanation:
    """Explain the score of the candidate in one row; `body` is its body, empty if unreadable."""
    document = int(candidates.documents[row])
    language = corpus.documents[document].language
    heading, snippet = best_section(body, query.weights[-1].known_idf(), language)
    return Explanation(
        features=dict(zip(FEATURES, candidates.features[row].tolist(), strict=True)),
        contributions=dict(zip(FEATURES, scored.contributions[row].tolist(), strict=True)),
        confidence=calibration.confidence(scored.evidence),
        behind=calibration.slope_for(scored.evidence) * float(scored.gaps[row]),
        matched_terms=_matched_terms(corpus, query, document),
        section=heading,
        snippet=snippet,
    )


def _matched_terms(corpus: Corpus, query: QueryForm, document: int) -> dict[str, tuple[str, ...]]:
    """Return the query terms that a document has in its metadata, and those only in its body."""
    metadata = corpus.lexical_metadata.held_terms(query.weights[0], document)
    matched = {"metadata": tuple(metadata)}
    if corpus.lexical_full is not None:
        full = corpus.lexical_full.held_terms(query.weights[-1], document)
        matched["body"] = tuple(term for term in full if term not in metadata)
    return matched


def best_section(body: str, idf: Mapping[str, float], language: str = "") -> tuple[str, str]:
    """Return the heading and first words of the Markdown section whose query terms weigh most.

    `idf` has the weight of each query term, `language` is the document's. The first such section on
    a tie; both empty if no term occurs.
    """
    best, best_weight = ("", ""), 0.0
    for heading, text in sections(body):
        found = set(document_terms(f"{heading}\n{text}", language))
        weight = sum(weight for term, weight in idf.items() if term in found)
        if weight > best_weight:
            best, best_weight = (heading, _snippet(text)), weight
    return best


def _snippet(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SNIPPET_CHARS else line[: _SNIPPET_CHARS - 1].rstrip() + "…"


def channel_votes(query: QueryForm, index: OpenedIndex) -> tuple[ChannelVote, ...]:
    """Say how far each channel is trusted with a query, and why.

    BM25 comes first, then the dense channels, those that cannot be asked at the end.
    """
    channels = index.settings.channels
    overlap = query.weights[-1].overlap
    known = f"{_percent(overlap)} of its terms are in the index"
    first = query.views[0].trust
    if len(query.views) == 1:
        reasons = [_why_alone(channels[0], first)]
    else:
        share = index.corpus.documents.other_share
        reasons = [
            _why_first(query, first, overlap, known),
            _why_second(channels[0].model, first, query.views[1].trust, share),
        ]
    votes = [ChannelVote("bm25", 1.0, f"always asked; {known}")]
    for channel, view, reason in zip(channels, query.views, reasons, strict=False):
        votes.append(ChannelVote(channel.model, view.trust, reason))
    missing = "not asked: it cannot be used here; skillsearch doctor says why"
    votes += [ChannelVote(each.model, 0.0, missing) for each in channels[len(votes) - 1 :]]
    return tuple(votes)


def _why_alone(channel: ChannelSettings, trust: float) -> str:
    """Say why the only dense channel is trusted so far: by the letters of the query alone."""
    if channel.scripts is None:
        return "it reads every script"
    scripts = ", ".join(sorted(channel.scripts))
    if trust == 0.0:
        return f"not asked: it reads {scripts} letters, and the query has none"
    few = ", and less than half of the query's are" if trust < 1.0 else ""
    return f"it reads {scripts} letters{few}"


def _why_first(query: QueryForm, trust: float, overlap: float, known: str) -> str:
    if query.language:
        seen = f"the words and letters are {language_name(query.language)}"
    else:
        seen = "its language cannot be told"
        features = language_features(query.text, query.language, overlap)
        if features["other_letters"]:
            seen += f", {_percent(features['other_letters'])} of its letters are not ASCII"
    return f"{'' if trust else 'not asked: '}{seen}; {known}"


def _why_second(first_model: str, first: float, trust: float, share: float) -> str:
    if trust == 0.0:
        return f"not asked: {first_model} knows the language of the query and of most skills"
    if first == 1.0:
        return f"{_percent(share)} of the skills are in other languages, so both are asked"
    return "it knows every language"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
