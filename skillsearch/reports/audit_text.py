"""Signs in the text of a skill that it targets the search or the agent; pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence, Set

from skillsearch.reports.lures import find_lures
from skillsearch.skills.findings import Finding
from skillsearch.text.instructions import find_commands, find_commands_in_comments
from skillsearch.text.languages import language_of
from skillsearch.text.lookalikes import look, lookalikes
from skillsearch.text.prose import keyword_stretch, prose, repetition
from skillsearch.text.safe_text import hidden_runs, one_line
from skillsearch.types.skills import Severity, Skill

# In 0.6 % of real skills the metadata has a longer stretch of keywords, in .03 % a paragraph of the
# body; AUC of 40 keywords added to a description .99, of 100 in a body .9997.
KEYWORDS = 50
# No real metadata has a share above .194; with six words five times over, 92 % have more than this,
# AUC .997.
REPEATED = 0.25
# One or two hidden characters hold no text; real skills have single ones.
_LEAST_RUN = 3
# So many can hold one even if they stand apart.
_LEAST_SCATTERED = 16
_QUOTED_CHARS = 100
_TAGS = range(0xE0000, 0xE0080)
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ZERO_WIDTH = frozenset("\u180e\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff")
_SELECTORS = frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
_RIGHT_TO_LEFT = ("ar", "fa", "he", "ur")
# Languages without blanks, in which U+200B stands between words.
_UNSPACED = ("km", "lo", "my", "th")


def audit_text(skill: Skill, source: str) -> Iterator[Finding]:
    """Yield hidden text, stuffed keywords, and orders to the agent in a skill.

    The source is its whole file.
    """
    about = skill.metadata
    if odd := lookalikes(skill.name):
        chars = ", ".join(f"U+{ord(char):04X} {unicodedata.name(char, '')}" for char in odd)
        message = f"The name passes for {look(skill.name)!r} by {chars}"
        yield Finding("lookalike-name", f"{message}; write it in letters of one script.")
    yield from find_lures(source)
    sentences = f"{about.description}\n{about.when_to_use}".strip()
    words = "\n".join((*about.triggers, *about.tags))
    metadata = f"{skill.name}\n{sentences}\n{words}"
    for message, severity in _find_hidden(f"{metadata}\n{skill.body}"):
        yield Finding("hidden-text", f"{message}; remove it.", None, severity)
    for phrase, severity in find_commands_in_comments(skill.body):
        message = f"An HTML comment, which nobody reads, says {_quote(phrase)}; remove it."
        yield Finding("hidden-text", message, None, severity)
    for name, texts in {
        "description": [sentences],
        "metadata": [words],
        "body": prose(skill.body),
    }.items():
        count, stretch = max(map(keyword_stretch, texts), default=(0, ""))
        if count >= KEYWORDS:
            message = f"The {name} strings keywords together: {_quote(stretch)}; write sentences."
            yield Finding("stuffing", message)
    if (share := repetition(f"{sentences}\n{words}")) >= REPEATED:
        message = f"Of the phrases of the metadata, {share:.0%} are repeats; say each once."
        yield Finding("stuffing", message)
    for phrase, severity in find_commands(metadata):
        message = f"The metadata tells the agent {_quote(phrase)}"
        message = f"{message}; say what the skill does and when to use it."
        yield Finding("instructs-agent", message, None, severity)


def _find_hidden(text: str) -> Iterator[tuple[str, Severity]]:
    runs = list(hidden_runs(text))
    if not runs:
        return
    language, hidden = language_of(text), "".join(runs)
    tags = "".join(chr(ord(char) & 0x7F) for char in hidden if ord(char) in _TAGS)
    selectors = max(_counts(runs, _SELECTORS))
    bidi = next((char for char in hidden if char in _BIDI), "")
    invisible = _ZERO_WIDTH - ({"\u200b"} if language in _UNSPACED else set())
    blanks = _counts(runs, invisible)
    if tags:
        yield f"A text of tag characters, which nobody sees, says {_quote(tags)}", "error"
    if selectors >= _LEAST_RUN:
        yield f"A run of {selectors} variation selectors can hold a text that nobody sees", "error"
    if bidi and language not in _RIGHT_TO_LEFT:
        yield f"U+{ord(bidi):04X} shows a text in another order than the agent reads it", "warning"
    if max(blanks) >= _LEAST_RUN or sum(blanks) >= _LEAST_SCATTERED:
        count = sum(blanks)
        yield f"{count} zero-width characters can hold a text that nobody sees", "warning"


def _counts(runs: Sequence[str], chars: Set[str]) -> list[int]:
    """Return how many of some characters each run has."""
    return [sum(char in chars for char in run) for run in runs]


def _quote(text: str) -> str:
    return repr(one_line(text, _QUOTED_CHARS))
