"""The languages of queries and documents, by their tags or else their texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from skillsearch.evaluation.types import JudgedQuery
from skillsearch.text.languages import language_of

_TAG = re.compile(r"([a-z]{2,3})(?:[-_].*)?", re.IGNORECASE | re.DOTALL)
_LEAST_SHARE = 0.02  # a language that no tag names is believed from this share of the texts on


def query_languages(queries: Iterable[JudgedQuery]) -> dict[str, str]:
    """Return a language such as ``zh`` for each query id, by tag or else text; empty if unknown."""
    return languages_of({query.query_id: (query.language, query.text) for query in queries})


def languages_of(texts: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return the languages of texts, each given with its tag or an empty one."""
    matches = {key: _TAG.fullmatch(tag.strip()) for key, (tag, _) in texts.items()}
    tags = {key: match[1].lower() if match else "" for key, match in matches.items()}
    tagged = {key: "" if tag == "und" else tag for key, tag in tags.items()}
    guessed = {key: language_of(text) for key, (_, text) in texts.items() if not tagged[key]}
    counts = Counter(guessed.values())
    misread = {name for name, count in counts.items() if count < _LEAST_SHARE * len(texts)}
    return tagged | {key: "" if name in misread else name for key, name in guessed.items()}
