"""Why a hit has its score, and which channels voted: features, terms, the section that fits."""

from __future__ import annotations

from collections.abc import Mapping

from skillsearch.index.corpus import Corpus, OpenedIndex
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
    metadata = corpus.lexical[0].held_terms(query.weights[0], document)
    matched = {"metadata": tuple(metadata)}
    if len(corpus.lexical) > 1:  # The terms that are in the body alone.
        full = corpus.lexical[1].held_terms(query.weights[-1], document)
        matched["body"] = tuple(term for term in full if term not in metadata)
    return Explanation(
        features=dict(zip(FEATURES, candidates.features[row].tolist(), strict=True)),
        contributions=dict(zip(FEATURES, scored.contributions[row].tolist(), strict=True)),
        confidence=calibration.confidence(scored.evidence),
        behind=calibration.slope_for(scored.evidence) * float(scored.gaps[row]),
        matched_terms=matched,
        section=heading,
        snippet=snippet,
    )


def best_section(body: str, idf: Mapping[str, float], language: str = "") -> tuple[str, str]:
    """Return heading and first words of the section whose query terms weigh most, if any."""
    best, best_weight = ("", ""), 0.0
    for heading, text in sections(body):
        found = set(document_terms(f"{heading}\n{text}", language))
        weight = sum(weight for term, weight in idf.items() if term in found)
        if weight > best_weight:
            best, best_weight = (heading, text), weight
    heading, line = best[0], " ".join(best[1].split())
    is_short = len(line) <= _SNIPPET_CHARS
    return heading, line if is_short else line[: _SNIPPET_CHARS - 1].rstrip() + "…"


def channel_votes(query: QueryForm, index: OpenedIndex) -> tuple[ChannelVote, ...]:
    """Say how far each channel is trusted with a query, and why; BM25 first, missing ones last."""
    channels = index.settings.channels
    overlap = query.weights[-1].overlap
    known = f"{overlap * 100:.0f} % of its terms are in the index"
    first = query.views[0].trust
    if len(query.views) == 1:
        reasons = [_why_alone(channels[0].scripts, first)]
    else:
        second, share = query.views[1].trust, index.corpus.documents.other_share
        other = "it knows every language"
        if second == 0.0:
            other = (
                f"not asked: {channels[0].model} knows the language of the query and of most skills"
            )
        elif first == 1.0:
            other = f"{share * 100:.0f} % of the skills are in other languages, so both are asked"
        reasons = [f"{'' if first else 'not asked: '}{_seen(query, overlap)}; {known}", other]
    votes = [ChannelVote("bm25", 1.0, f"always asked; {known}")]
    for channel, view, reason in zip(channels, query.views, reasons, strict=False):
        votes.append(ChannelVote(channel.model, view.trust, reason))
    missing = "not asked: it cannot be used here; skillsearch doctor says why"
    votes += [ChannelVote(each.model, 0.0, missing) for each in channels[len(votes) - 1 :]]
    return tuple(votes)


def _why_alone(known: frozenset[str] | None, trust: float) -> str:
    if known is None:
        return "it reads every script"
    scripts = ", ".join(sorted(known))
    if trust == 0.0:
        return f"not asked: it reads {scripts} letters, and the query has none"
    few = ", and less than half of the query's are" if trust < 1.0 else ""
    return f"it reads {scripts} letters{few}"


def _seen(query: QueryForm, overlap: float) -> str:
    if query.language:
        return f"the words and letters are {language_name(query.language)}"
    letters = language_features(query.text, "", overlap)["other_letters"]
    share = f", {letters * 100:.0f} % of its letters are not ASCII" if letters else ""
    return f"its language cannot be told{share}"
