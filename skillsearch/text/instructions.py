"""Phrases by which a skill commands the agent instead of saying what it does; pure.

Precise rather than complete. Every expression is bounded, so time is linear even in a hostile text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.text import markdown
from skillsearch.text.safe_text import visible
from skillsearch.text.tables import as_expression, read_tables
from skillsearch.text.tokenizer import normalized
from skillsearch.types.skills import Severity

_TABLES = read_tables(Path(__file__).with_name("instruction_words.txt"))
_SPACELESS = ("ja", "ko", "zh")
_SEVERITIES: dict[str, Severity] = {
    "override": "error",
    "rivals": "warning",
    "always": "warning",
    "everything": "warning",
    "orders": "note",
}
_IN_COMMENTS: dict[str, Severity] = {
    "override": "error",
    "rivals": "warning",
    "comments": "warning",
}
_UNLESS_LIMITED = ("always", "everything")
_REACH = 200
"""Characters of a sentence, before and after a phrase, that may say when it holds."""


def _rule(title: str) -> re.Pattern[str]:
    rows = _TABLES[title]
    spaced = [phrase for code, row in rows.items() if code not in _SPACELESS for phrase in row]
    spaceless = [phrase for code in _SPACELESS for phrase in rows.get(code, ())]
    either = rf"(?<!\w)(?:{as_expression(spaced)})(?!\w)"
    if spaceless:
        either += f"|(?:{as_expression(spaceless)})"
    return re.compile(either)


_RULES = {title: _rule(title) for title in _SEVERITIES | _IN_COMMENTS}
_CONDITION = _rule("conditions")
_ENDS = lazy_pattern(r"[.!?;](?=\s|$)|[\n。\uff01\uff1f\uff1b]")
_COMMENTS_CHARS = 1 << 16
_QUOTES = frozenset("\"'`“”\u2018\u2019«»「」『』")


class CommandPhrase(NamedTuple):
    """A phrase that commands the agent, in lower case."""

    phrase: str
    severity: Severity


def find_commands(text: str) -> Iterator[CommandPhrase]:
    """Yield a phrase of each severity that occurs.

    What only says to use the skill is a note if the sentence says when; so is a quotation, which a
    skill about such phrases needs.
    """
    seen = normalized(visible(text)).lower()
    first: dict[Severity, CommandPhrase] = {}
    for title, severity in _SEVERITIES.items():
        commands = [
            CommandPhrase(phrase[0], "note" if _is_harmless(seen, phrase, title) else severity)
            for phrase in _RULES[title].finditer(seen)
        ]
        for command in sorted(commands, key=lambda command: command.severity == "note")[:1]:
            first.setdefault(command.severity, command)
    yield from first.values()


def find_commands_in_comments(body: str) -> Iterator[CommandPhrase]:
    """Yield the first phrase of each kind in the HTML comments of a Markdown text."""
    lines = markdown.lines(body) if "<!--" in body else ()
    shown = "\n".join("" if line.is_fenced else line.text for line in lines)
    comments = "\n".join(part.partition("-->")[0] for part in shown.split("<!--")[1:])
    seen = normalized(visible(comments[:_COMMENTS_CHARS])).lower()
    for title, severity in _IN_COMMENTS.items():
        if phrase := _RULES[title].search(seen):
            yield CommandPhrase(phrase[0], severity)


def _is_harmless(text: str, phrase: re.Match[str], title: str) -> bool:
    begin, end = phrase.span()
    if begin and text[begin - 1] in _QUOTES:
        return True
    if title not in _UNLESS_LIMITED:
        return False
    *_, before = _ENDS.split(text[max(0, begin - _REACH) : begin])
    after = _ENDS.split(text[end : end + _REACH])[0]
    return any(map(_CONDITION.search, (before, after)))
