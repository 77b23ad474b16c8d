"""A query as every channel sees it: its weighed terms, and its vector in each dense channel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.embedders.embedding import embed
from skillsearch.index.corpus import Corpus, OpenedIndex
from skillsearch.index.dense.channels import ChannelSettings, QueryEmbedders
from skillsearch.index.documents import is_english
from skillsearch.index.lexical.field import TermWeights
from skillsearch.index.lexical.postings import LEAST_PREFIX
from skillsearch.index.search.calibration import Calibration
from skillsearch.text.exclusions import split_request
from skillsearch.text.languages import language_name, language_of
from skillsearch.text.pasted import instruction
from skillsearch.text.scripts import readable, trust
from skillsearch.text.tokenizer import is_bigram, terms
from skillsearch.types import ChannelVote

if TYPE_CHECKING:
    from numpy.typing import NDArray

# From this probability of English on the first channel answers alone; at 1 minus this or less, the
# second.
SURE = 0.9
# From this share of skills in other languages on, the second channel always votes. At a tenth,
# requests in English lost up to 8 points of nDCG@10 to skills that they rarely ask for.
MIXED_SHARE = 0.3
# Terms of a query that may hold parts of words, at most, and how far such a part stands for them.
PARTIAL_TERMS, PARTIAL_WEIGHT = 16, 0.5


@dataclass(frozen=True, slots=True)
class QueryView:
    """The vector of a query in a dense channel, zero if none; `trust` is 0 without a vote."""

    vector: NDArray[np.float32]
    trust: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class QueryForm:
    """An analysed query: its language, how often each term occurs, the views of dense channels.

    `weights` are its terms as `weigh_terms` weighs them in the corpus that is searched; `excluded`
    has the terms of what the query says not to use, which are not among `counts`. If a second
    channel is asked, `alone` is the view of the first as if there were no second.
    """

    text: str
    language: str
    counts: Counter[str]
    views: tuple[QueryView, ...]
    weights: tuple[TermWeights, ...] = ()
    excluded: Counter[str] = field(default_factory=Counter)
    alone: QueryView | None = None

    @property
    def is_part(self) -> bool:
        """Whether all its terms are parts of words, which count less than they occur."""
        counts = list(self.counts.values())
        return bool(counts) and bool((self.weights[-1].repeats[: len(counts)] < counts).all())


def split_terms(text: str, language: str) -> tuple[str, Counter[str], Counter[str]]:
    """Return what a query asks for, its terms, and those of what it says not to use.

    What it says about a text that is pasted into it comes first, and once more in its place.
    """
    asked, unwanted = split_request(text)
    if said := instruction(asked):
        asked = f"{said}\n{asked}"
    counts = Counter(terms(asked, language))
    if not counts:
        return text, Counter(terms(text, language)), Counter()
    found = Counter(terms(unwanted, language)) if unwanted else Counter[str]()
    return asked, counts, Counter({one: n for one, n in found.items() if one not in counts})


def weigh_terms(corpus: Corpus, counts: Counter[str]) -> tuple[TermWeights, ...]:
    """Weigh the terms of a query in each lexical field.

    A term that no document has stands half for the words of metadata that it begins, if the query
    is no text.
    """
    weights = tuple(one.weigh(counts) for one in corpus.lexical)
    if len(counts) > PARTIAL_TERMS or weights[-1].unknown_score == 0:
        return weights
    parts: dict[str, float] = dict(counts)
    frequencies = weights[-1].document_frequencies.tolist()
    unknown = (term for term, count in zip(counts, frequencies, strict=True) if count <= 0)
    for term in unknown:
        is_part = len(term) >= LEAST_PREFIX and not is_bigram(term)
        if words := corpus.lexical[0].begun_by(term) if is_part else ():
            parts[term] *= 1 - PARTIAL_WEIGHT
            for word in words:
                share = counts[term] * PARTIAL_WEIGHT / len(words)
                parts[word] = parts.get(word, 0) + share
    return tuple(one.weigh(parts) for one in corpus.lexical) if parts != counts else weights


def shares_of_trust(
    corpus: Corpus, query: QueryForm, documents: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return how far the first channel, the second and neither can judge a query and documents.

    They sum to 1. A first channel that is asked alone judges all letters that it can read, whether
    there is a second or not; if that is asked too, only English.
    """
    store = corpus.documents
    share = sum((view.trust for view in query.views[1:]), 0.0)
    known = store.fluency if share else store.trust
    first = np.asarray(known[documents], np.float64) * query.views[0].trust
    second = share * (1.0 - first)
    return first, second, 1.0 - first - second


def language_features(text: str, language: str, overlap: float) -> dict[str, float]:
    """Return each of `LANGUAGE_FEATURES`, given the language, if it is known, and the overlap."""
    letters = sum(map(str.isalpha, text))
    other = sum(char.isalpha() and not char.isascii() for char in text)
    return {
        "english": float(language == "en"),
        "other_language": float(not is_english(language)),
        "other_letters": other / letters if letters else 0.0,
        "overlap": overlap,
    }


def trusts(p_english: float, other_share: float) -> tuple[float, float]:
    """Return how far each of two channels is trusted with a query, 0 if it is not asked.

    The second knows every language, but English less well. `other_share` of the documents are in
    languages that the first does not know.
    """
    first = 1.0 if p_english >= SURE else 0.0 if p_english <= 1.0 - SURE else p_english
    return first, float(first < 1.0 or other_share >= MIXED_SHARE)


def analyse_queries(
    texts: Sequence[str], index: OpenedIndex, calibration: Calibration, embedders: QueryEmbedders
) -> list[QueryForm]:
    """Split queries into terms and embed them, all texts of a channel together.

    A second channel that cannot be asked has no vote; an EmbedderError if the first cannot.
    """
    channels = index.settings.channels
    usable = embedders.count_usable(channels)
    with index.guard:
        forms = [_read(text, index, calibration, usable) for text in texts]
    for number in range(usable):
        each = [(form.views[number], form.alone if number == 0 else None) for form in forms]
        views = [view for some in each for view in some if view and view.text]
        asked = list(dict.fromkeys(view.text for view in views))
        if asked:
            embedder = embedders.matching(channels, number)
            if embedder is None:
                # Without its vote the other channel is trusted differently.
                return analyse_queries(texts, index, calibration, embedders)
            vectors = dict(zip(asked, embed(embedder, asked, role="query"), strict=True))
            for view in views:
                view.vector[:] = vectors[view.text]
    return forms


def _read(text: str, index: OpenedIndex, calibration: Calibration, usable: int) -> QueryForm:
    """Do all of the analysis that needs no embedder, for the first channels of an index."""
    language = language_of(text)
    asked, counts, excluded = split_terms(text, language)
    weights = weigh_terms(index.corpus, counts)
    channels = index.settings.channels[:usable]

    def view(channel: ChannelSettings, share: float) -> QueryView:
        seen = readable(asked, channel.scripts) if share else ""
        return QueryView(np.zeros(channel.dimensions, np.float32), share, seen)

    alone = view(channels[0], trust(asked, channels[0].scripts))
    if usable == 1:
        return QueryForm(text, language, counts, (alone,), weights, excluded)
    features = language_features(text, language, weights[-1].overlap)
    found = trusts(calibration.p_english(features), index.corpus.documents.other_share)
    views = tuple(map(view, channels, found))
    return QueryForm(text, language, counts, views, weights, excluded, alone if found[1] else None)


def channel_votes(query: QueryForm, index: OpenedIndex) -> tuple[ChannelVote, ...]:
    """Say how far each channel is trusted with a query, and why; BM25 first, missing ones last."""
    channels = index.settings.channels
    overlap = query.weights[-1].overlap
    known = f"{overlap * 100:.0f} % of its terms are in the index"
    first = query.views[0].trust
    if len(query.views) == 1:
        reasons = [_why_alone(channels[0].scripts, first)]
    else:
        other, model = "it knows every language", channels[0].model
        if query.views[1].trust == 0.0:
            other = f"not asked: {model} knows the language of the query and of most skills"
        elif first == 1.0:
            share = index.corpus.documents.other_share
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
