"""The languages of the skills in an index, which of them no dense channel knows, and what helps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from skillsearch.index.dense.channels import (
    LEAST_SHARE,
    OTHER_LANGUAGE_SEEN,
    expects_others,
)
from skillsearch.index.documents import KNOWN, Document, is_english
from skillsearch.index.skill_index import SkillIndex
from skillsearch.text.languages import language_name, language_of

UNKNOWN = "unknown"
"""Stands for languages that could not be detected."""


def count_languages(documents: Iterable[Document]) -> dict[str, int]:
    """Count skills by language code, most frequent first, ties by code."""
    counts = Counter(document.language or UNKNOWN for document in documents)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def unread_languages(index: SkillIndex) -> dict[str, int]:
    """Count only the skills in languages that no dense channel knows."""
    if knows_every_language(index):
        return {}
    documents = index.opened.corpus.documents
    unread = documents.living[documents.fluency[documents.living] < KNOWN]
    return count_languages(documents[number] for number in unread.tolist())


def in_words(counts: Mapping[str, int]) -> str:
    """Write counts by language, as in ``en 950, zh 40``."""
    return ", ".join(f"{language} {count:,}" for language, count in counts.items())


def knows_every_language(index: SkillIndex) -> bool:
    """Return whether a dense channel knows every language."""
    return any(channel.scripts is None for channel in index.opened.settings.channels)


def advice(index: SkillIndex) -> str:
    """Return which skills no dense channel can read and what helps; empty if nothing is amiss."""
    unread = unread_languages(index)
    if not unread or index.opened.settings.languages == "english":
        return ""
    count = sum(unread.values())
    is_sure = index.opened.settings.languages == "all" or expects_others(index.folder)
    remedy = _remedy(is_expected=is_sure or count >= LEAST_SHARE * len(index))
    skills = "1 skill is" if count == 1 else f"{count:,} skills are"
    return (
        f"{skills} in languages that the embedder does not know ({in_words(unread)}), and found "
        f"by little more than shared words. To search by meaning: {remedy}"
    )


def expect_language(index: SkillIndex, query: str) -> bool:
    """Record in the index folder that a query in a language was asked that no channel knows.

    From then on ``auto`` expects such queries, and whoever brings the index up to date adds a
    channel. Returns whether this was the first such query.
    """
    if not lacks_language(index, query):
        return False
    try:
        (index.folder / OTHER_LANGUAGE_SEEN).touch(exist_ok=False)
    except OSError:  # It was recorded before, or cannot be.
        return False
    return True


def lacks_language(index: SkillIndex, query: str) -> bool:
    """Return whether an index could have a channel that knows the language of a query."""
    settings = index.opened.settings
    if settings.languages == "english" or knows_every_language(index):
        return False
    return not is_english(language_of(query))


def notice_for(index: SkillIndex, query: str) -> str:
    """Say what an index lacks for the language of a query, and what helps."""
    language = language_of(query)
    return (
        f"note: the embedder of this index does not know {language_name(language)}, so "
        "skills are found by little more than shared words. "
        f"To search by meaning: {_remedy(is_expected=True)} (told once)"
    )


def _remedy(*, is_expected: bool) -> str:
    return f"skillsearch index{'' if is_expected else ' --languages all'}"
