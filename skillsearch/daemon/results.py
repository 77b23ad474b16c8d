"""What a search of the daemon found, as the value that a search of our own would have given."""

from __future__ import annotations

from collections.abc import Mapping

from skillsearch.errors import DaemonError
from skillsearch.types import ChannelVote, Explanation, Hit, JsonValue, SearchResult


def read_search(answer: Mapping[str, JsonValue]) -> tuple[SearchResult, tuple[str, ...]]:
    """Read the answer to ``search``.

    Args:
        answer: As `skillsearch.daemon.answers` gave it.

    Returns:
        The result, whose JSON form is the daemon's; and what is to be told to the user.

    Raises:
        DaemonError: When it has another form.
    """
    try:
        record = dict(answer["result"])
        hits = tuple(_hit(hit) for hit in record.pop("hits"))
        votes = tuple(ChannelVote(**vote) for vote in record.pop("channels", ()))
        result = SearchResult(hits=hits, channels=votes, **record)
        return result, tuple(str(note) for note in answer["notes"])
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise DaemonError(f"The daemon's answer has an unknown form: {exc}") from exc


def _hit(record: Mapping[str, JsonValue]) -> Hit:
    """Read one hit."""
    values = dict(record)
    values["duplicates"] = tuple(values["duplicates"])
    if "explain" in values:
        values["explain"] = _explanation(values["explain"])
    return Hit(**values)


def _explanation(record: Mapping[str, JsonValue]) -> Explanation:
    """Read why a hit has its score."""
    terms = {field: tuple(terms) for field, terms in record["matched_terms"].items()}
    return Explanation(**{**record, "matched_terms": terms})
