"""Words by which skills, their folders and their fields are known, from ``words.txt``."""

from __future__ import annotations

from pathlib import Path

from skillsearch.text.tables import read_tables

WORDS = read_tables(Path(__file__).with_suffix(".txt"))
