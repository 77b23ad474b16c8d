"""JSON with comments and trailing commas, as settings of editors and hosts are written; linear."""

from __future__ import annotations

import json
import re
from collections import Counter

from skillsearch.errors import UnusableError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.types.json_values import Json, JsonObject

# What is not closed runs to the end of its line, or of the text, so that no search starts anew.
_TOKEN = lazy_pattern(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"?|//[^\r\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_LAST_COMMA = lazy_pattern(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"?|,(?=\s*+[\]}])', re.DOTALL)


def parse_jsonc(text: str) -> JsonObject:
    """Return the object in a text, empty for an empty text, or raise a `ValueError`.

    An `UnusableError` for repeated keys and too deep nesting.
    """
    plain = without_last_commas(without_comments(text))
    try:
        data = json.loads(plain, object_pairs_hook=_unique) if plain.strip() else {}
    except RecursionError as exc:
        raise UnusableError("it is nested too deeply") from exc
    if not isinstance(data, dict):
        raise UnusableError("it holds no object")
    return data


def without_comments(text: str) -> str:
    """Return JSON with blanks in place of comments; one that is not closed stays."""

    def blank(token: re.Match[str]) -> str:
        is_open = token[0].startswith("/*") and (len(token[0]) < 4 or not token[0].endswith("*/"))
        return token[0] if token[0][0] == '"' or is_open else " " * len(token[0])

    return _TOKEN.sub(blank, text)


def without_last_commas(bare: str) -> str:
    """Return JSON without comments, with blanks in place of commas behind the last value."""
    return _LAST_COMMA.sub(lambda token: " " if token[0] == "," else token[0], bare)


def _unique(pairs: list[tuple[str, Json]]) -> JsonObject:
    if len(counts := Counter(name for name, _ in pairs)) < len(pairs):
        raise UnusableError(f"the key {counts.most_common(1)[0][0]!r} stands twice")
    return dict(pairs)
