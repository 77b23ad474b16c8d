"""Which dense channels have a say in a query: how well the first one knows its language.

The model of the first channel knows English, and Latin letters of any language; the second knows
every language, but English less well. Where both vote, each judges the skills that it knows.
"""

from __future__ import annotations

from skillsearch.index.documents import is_english

SURE = 0.9
"""From this fluency on the first channel answers alone, and from 1 minus this down the second."""
MIXED_SHARE = 0.3
"""Where this share of the skills is in other languages, the second channel always has a say. At a
tenth, requests in English lost up to 8 points of nDCG@10 to skills that they rarely ask for."""


def query_clues(text: str, language: str, overlap: float) -> dict[str, float]:
    """Return the clues to whether a query is in the first channel's language.

    Args:
        text: The query.
        language: What it seems to be written in, empty where that cannot be told.
        overlap: Share of the weight of its terms that the corpus knows.

    Returns:
        Value of each of `calibration.CLUES`, 0 to 1.
    """
    letters = sum(map(str.isalpha, text))
    other = sum(char.isalpha() and not char.isascii() for char in text)
    return {
        "english": float(language == "en"),
        "other_language": float(not is_english(language)),
        "other_letters": other / letters if letters else 0.0,
        "overlap": overlap,
    }


def trusts(fluency: float, other_share: float) -> tuple[float, float]:
    """Return how far each of two channels is trusted with a query, 0 where it is not asked.

    Args:
        fluency: How likely the first channel knows the language of the query.
        other_share: Share of the documents in languages that it does not know.

    Returns:
        The trust in the first channel, and 1 or 0 for the second, which is trusted with whatever
        the first does not know.
    """
    first = 1.0 if fluency >= SURE else 0.0 if fluency <= 1.0 - SURE else fluency
    return first, float(first < 1.0 or other_share >= MIXED_SHARE)
