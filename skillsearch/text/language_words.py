"""Words and letters that distinguish languages and scripts, from `language_words.txt`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from skillsearch.text.tables import read_tables

_TABLES = read_tables(Path(__file__).with_suffix(".txt"))
FUNCTION_WORDS: Mapping[str, frozenset[str]]
REQUEST_WORDS: Mapping[str, frozenset[str]]
FUNCTION_WORDS, REQUEST_WORDS = (
    {language: frozenset(words) for language, words in _TABLES[title].items()}
    for title in ("function words", "request words")
)
TELLING_LETTERS = {language: row[0] for language, row in _TABLES["telling letters"].items()}
TELLING_ENDINGS = {language: tuple(row) for language, row in _TABLES["telling endings"].items()}
LANGUAGE_NAMES = {language: row[0] for language, row in _TABLES["names"].items()}
SCRIPTS = _TABLES["scripts"]
"""For each script: letters that make about one word, its main language, and its blocks."""
