"""Words and letters that distinguish languages and scripts, from `language_words.txt`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def _tables() -> dict[str, dict[str, list[str]]]:
    """Return the tables of the file: title → key → values."""
    tables: dict[str, dict[str, list[str]]] = {}
    rows: dict[str, list[str]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n"):
        if line.startswith("["):
            rows = tables[line.strip("[]")] = {}
        elif line and not line.startswith("#"):
            key, *rows[key] = line.split()
    return tables


_TABLES = _tables()
FUNCTION_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(words) for language, words in _TABLES["function words"].items()
}
REQUEST_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(words) for language, words in _TABLES["request words"].items()
}
TELLING_LETTERS = {language: row[0] for language, row in _TABLES["telling letters"].items()}
TELLING_ENDINGS = {language: tuple(row) for language, row in _TABLES["telling endings"].items()}
LANGUAGE_NAMES = {language: row[0] for language, row in _TABLES["names"].items()}
SCRIPTS = _TABLES["scripts"]
"""For each script: letters that make about one word, its main language, and its blocks."""
