"""Texts → queries as every channel sees them: which language, how far to trust which channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from skillsearch.embedders.embedding import embed
from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.dense.channels import ChannelSettings, QueryEmbedders
from skillsearch.index.documents import is_english
from skillsearch.index.search.calibration import Calibration
from skillsearch.index.search.query import (
    INSTRUCTION_SHARE,
    QueryForm,
    QueryView,
    split_terms,
    weigh_terms,
)
from skillsearch.text.languages import language_name, language_of
from skillsearch.text.pasted import instruction
from skillsearch.text.scripts import readable, trust
from skillsearch.types import ChannelVote

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

# From this probability of English on the first channel answers alone; at 1 minus this or less, the
# second.
SURE = 0.9
# From this share of skills in other languages on, the second channel always votes. At a tenth,
# requests in English lost up to 8 points of nDCG@10 to skills that they rarely ask for.
MIXED_SHARE = 0.3


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
        parts = (part for view in views for part in (view.text, view.instruction) if part)
        distinct = list(dict.fromkeys(parts))
        if distinct:
            embedder = embedders.matching(channels, number)
            if embedder is None:
                # Without its vote the other channel is trusted differently.
                return analyse_queries(texts, index, calibration, embedders)
            vectors = dict(zip(distinct, embed(embedder, distinct, role="query"), strict=True))
            for view in views:
                view.vector[:] = vectors[view.text]
                if view.instruction:
                    view.vector[:] = _led(view.vector, by=vectors[view.instruction])
    return forms


def _read(text: str, index: OpenedIndex, calibration: Calibration, usable: int) -> QueryForm:
    """Do all of the analysis that needs no embedder, for the first channels of an index."""
    leading = instruction(text)
    language = (language_of(leading) if leading else "") or language_of(text)
    wanted, leading, counts, excluded = split_terms(text, leading, language)
    weights = weigh_terms(index.corpus, counts)
    channels = index.settings.channels[:usable]

    def view(channel: ChannelSettings, share: float) -> QueryView:
        seen, led = (
            readable(part, channel.scripts) if share and part else "" for part in (wanted, leading)
        )
        return QueryView(np.zeros(channel.dimensions, np.float32), share, seen, led)

    alone = view(channels[0], trust(wanted, channels[0].scripts))
    if usable == 1:
        return QueryForm(text, language, counts, (alone,), weights, excluded, instruction=leading)
    features = language_features(text, language, weights[-1].overlap)
    both = trusts(calibration.p_english(features), index.corpus.documents.other_share)
    views = tuple(map(view, channels, both))
    other = alone if both[1] else None
    return QueryForm(text, language, counts, views, weights, excluded, other, leading)


def _led(vector: Vector, by: Vector) -> Vector:
    """Return the unit vector of a text that an instruction leads."""
    mean = INSTRUCTION_SHARE * by + (1.0 - INSTRUCTION_SHARE) * vector
    led: Vector = (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)
    return led


def channel_votes(query: QueryForm, index: OpenedIndex) -> tuple[ChannelVote, ...]:
    """Say how far each channel is trusted with a query, and why; BM25 first, missing ones last."""
    channels = index.settings.channels
    overlap = query.weights[-1].overlap
    in_index = f"{overlap * 100:.0f} % of its terms are in the index"
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
        reasons = [f"{'' if first else 'not asked: '}{_seen(query, overlap)}; {in_index}", other]
    votes = [ChannelVote("bm25", 1.0, f"always asked; {in_index}")]
    for channel, view, reason in zip(channels, query.views, reasons, strict=False):
        votes.append(ChannelVote(channel.model, view.trust, reason))
    missing = "not asked: it cannot be used here; skillsearch doctor says why"
    votes += [ChannelVote(each.model, 0.0, missing) for each in channels[len(votes) - 1 :]]
    return tuple(votes)


def _why_alone(scripts: frozenset[str] | None, trust: float) -> str:
    if scripts is None:
        return "it reads every script"
    letters = f"it reads {', '.join(sorted(scripts))} letters"
    if trust == 0.0:
        return f"not asked: {letters}, and the query has none"
    return f"{letters}, and less than half of the query's are" if trust < 1.0 else letters


def _seen(query: QueryForm, overlap: float) -> str:
    if query.language:
        return f"the words and letters are {language_name(query.language)}"
    letters = language_features(query.text, "", overlap)["other_letters"]
    share = f", {letters * 100:.0f} % of its letters are not ASCII" if letters else ""
    return f"its language cannot be told{share}"
