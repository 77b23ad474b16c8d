"""Which channels have a vote in a query, how far each is trusted, and why, in words."""

from __future__ import annotations

from skillsearch.index.corpus import OpenedIndex
from skillsearch.index.dense.channels import ChannelSettings
from skillsearch.index.search.fluency import query_clues
from skillsearch.index.search.query_form import QueryForm
from skillsearch.text.languages import language_name
from skillsearch.types import ChannelVote


def channel_votes(query: QueryForm, index: OpenedIndex) -> tuple[ChannelVote, ...]:
    """Say of every channel how far it is trusted with a query.

    Args:
        query: The analysed query.
        index: The opened index.

    Returns:
        BM25, then the dense channels in their order, those that cannot be asked at the end.
    """
    channels = index.settings.channels
    corpus = index.corpus
    lexical = corpus.lexical_full or corpus.lexical_metadata
    overlap = lexical.overlap(lexical.weigh(query.counts))
    known = f"{_percent(overlap)} of its terms are in the index"
    first = query.views[0].trust
    if len(query.views) == 1:
        reasons = [_why_alone(channels[0], first)]
    else:
        share = corpus.documents.other_share
        second = query.views[1].trust
        reasons = [
            _why_first(query, first, overlap, known),
            _why_second(channels[0].model, first, second, share),
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
    """Say why the first of two dense channels is trusted so far."""
    clues = query_clues(query.text, query.language, overlap)
    if query.language:
        seen = f"the words and letters are {language_name(query.language)}"
    else:
        seen = "its language cannot be told"
        if clues["other_letters"]:
            seen += f", {_percent(clues['other_letters'])} of its letters are not ASCII"
    return f"{'' if trust else 'not asked: '}{seen}; {known}"


def _why_second(first_model: str, first: float, trust: float, share: float) -> str:
    """Say why the second dense channel is asked or not."""
    if trust == 0.0:
        return f"not asked: {first_model} knows the language of the query and of most skills"
    if first == 1.0:
        return f"{_percent(share)} of the skills are in other languages, so both are asked"
    return "it knows every language"


def _percent(share: float) -> str:
    """Write a share as the README does."""
    return f"{share * 100:.0f} %"
