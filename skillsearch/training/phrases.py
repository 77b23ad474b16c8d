"""What a skill says of the requests it is for: quoted phrases, "use when" clauses, its parts; pure.

Every expression is bounded, so that time is linear in a hostile text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from skillsearch.text import markdown

_QUOTED = re.compile(
    r'"([^"\n]{6,200})"|“([^“”\n]{6,200})”|«([^«»\n]{6,200})»|「([^「」\n]{3,80})」'
)
_CODE = re.compile(r"[{}<>=;\\|`$_\[\]]|://|[/\w]\.\w{1,4}\b(?!\s)|--\w|\w\(")
"""Signs that a quoted text is code, a path or a value, and nothing that a user says."""
_ASKING = re.compile(
    r"(?i)\b(?:use(?:d|ful)? (?:this(?: skill)? )?(?:when(?:ever)?|if|for|to)\b"
    r"|(?:when|whenever|if) (?:the |a )?users?\b"
    r"|trigger(?:s|ed)?(?: (?:on|when|by|phrases?|with|words?))?\b"
    r"|invoke (?:when|with|this)\b|activat\w{1,6} (?:when|on|for)\b"
    r"|(?:say|says|asks?|asked|mentions?|requests?|wants?)\b)[ :,-]{0,3}"
)
_CLAUSE = re.compile(
    r"(?i)\b(?:use(?: this(?: skill)?)? when(?:ever)?|when(?:ever)? (?:the |a )?user)\b"
    r"([^.\n]{12,300})"
)
_SOMEONE = re.compile(
    r"(?i)^[\s:,-]*(?:(?:the |a )?users?|you|someone|asked|agents?|working|task)?[\s:]*"
    r"(?:(?:explicitly |also |is |are )?(?:asks?|wants?|needs?|says?|mentions?|requests?|requires?"
    r"|trying|looking|asking|wanting|needing|involves?|about)\s+"
    r"(?:you |for help |about |for |to |with )*)?"
)
_EXAMPLES = re.compile(r"(?i)example|usage|prompt|when")
"""Headings of sections in which all that is quoted is taken for a request."""
_USES = re.compile(
    r"(?i)\bwhen to (?:use|apply|activate|invoke)|use cases?|triggers?\b"
    r"|example (?:prompt|quer|request|usage)|\bactivat"
)
_SENTENCE = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+|(?<=[\u3002\uff01\uff1f])")
_LIST_MARK = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_MARKUP = re.compile(r"[*`#>|]{1,3}|-{3,}|\[([^\[\]\n]{0,200})\]\([^()\s]{0,500}\)")
_OPENING = re.compile(
    r"[rRuU]?(?P<quotes>\"\"\"|\'\'\')(?P<docstring>.*?)(?P=quotes)"
    r"|/\*(?P<block>.*?)\*/"
    r"|(?P<lines>(?:[ \t]*(?:#|//|--)[^\n]*(?:\n|\Z))+)",
    re.DOTALL,
)
"""A docstring, a block of comment or lines of it, at the beginning of what is left of a script."""
_COMMENT_MARK = re.compile(r"(?m)^[ \t]*(?:#+!?|/{2,}|-{2,}|\*+)")
_LEGAL = re.compile(r"(?i)copyright|spdx|licen[cs]e")
_OPENING_CHARS = 4_000
"""Of a script so much is looked at."""
_LEAST_WORDS = 3
_LEAST_PARAGRAPH = 40


@dataclass(frozen=True, slots=True)
class SkillText:
    """The texts of a skill, as its embedder sees them.

    Attributes:
        name: Its name.
        about: The rest of its metadata.
        body: Its body, possibly empty.
        scripts: What its scripts say of themselves.
    """

    name: str
    about: str
    body: str
    scripts: tuple[str, ...] = ()


def quoted(text: str) -> Iterator[str]:
    """Yield the quoted phrases of a text that a user could have said, in their order."""
    for found in _QUOTED.finditer(text):
        phrase = next(part for part in found.groups() if part).strip()
        if not _CODE.search(phrase) and _is_language(phrase):
            yield phrase


def said(body: str) -> Iterator[str]:
    """Yield what a body quotes on lines that speak of a user's requests."""
    in_requests = False
    for line in markdown.lines(body):
        if line.is_fenced:
            continue
        if line.text.startswith("#"):
            in_requests = bool(_ASKING.search(line.text) or _EXAMPLES.search(line.text))
        if in_requests or _ASKING.search(line.text):
            yield from quoted(line.text)


def clauses(text: str) -> Iterator[str]:
    """Yield what follows "use when" and its like, as a request: without who asks."""
    for found in _CLAUSE.finditer(text):
        clause = _SOMEONE.sub("", found.group(1), count=1).strip(" ,:;-")
        if _is_language(clause):
            yield clause


def uses(body: str) -> Iterator[str]:
    """Yield the list items of a body below headings such as "When to use", "Example prompts"."""
    for heading, text in markdown.sections(body):
        if not _USES.search(heading):
            continue
        for line in markdown.lines(text):
            item = _LIST_MARK.sub("", line.text)
            if not line.is_fenced and item != line.text:
                request = _SOMEONE.sub("", plain(item), count=1).strip(" ,:;-\"'.“”")
                if len(request) <= 200 and _is_language(request):
                    yield request


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that have at least four words."""
    for part in _SENTENCE.split(text):
        sentence = plain(part)
        if len(sentence.split()) > _LEAST_WORDS or (not sentence.isascii() and len(sentence) > 11):
            yield sentence


def headings(body: str) -> list[str]:
    """Return the headings of a body."""
    return [plain(heading) for heading, _ in markdown.sections(body) if heading]


def paragraphs(body: str) -> list[str]:
    """Return the paragraphs of a body as plain text, code aside."""
    found = (plain(body[begin:end]) for begin, end in markdown.paragraphs(body))
    return [text for text in found if len(text) >= _LEAST_PARAGRAPH]


def opening(script: str) -> str:
    """Return what a script says of itself before its code, as plain text; empty if nothing.

    That is a docstring or a comment; lines for the system and notices of a licence are no such.
    """
    left = re.sub(r"\A\ufeff?#![^\n]*\n", "", script[:_OPENING_CHARS]).lstrip()
    while found := _OPENING.match(left):
        said = next(
            found[name] for name in ("docstring", "block", "lines") if found[name] is not None
        )
        text = plain(_COMMENT_MARK.sub("", said))
        if _is_language(text) and not _LEGAL.search(text):
            return text
        left = left[found.end() :].lstrip()
    return ""


def plain(text: str) -> str:
    """Return Markdown as one line without its marks."""
    lines = (_LIST_MARK.sub("", line) for line in text.split("\n"))
    return " ".join(_MARKUP.sub(lambda found: found.group(1) or "", " ".join(lines)).split())


def without_name(text: str, name: str) -> str:
    """Return a text without a skill's name, however it is joined: ``pdf-tools``, ``PDF Tools``."""
    words = re.findall(r"\w+", name.replace("_", " "))
    if not words or len(name) > 80:
        return text
    spelled = re.compile(r"(?i)(?<!\w)" + r"[\s_-]{0,2}".join(map(re.escape, words)) + r"(?!\w)")
    return " ".join(spelled.sub(" ", text).split())


def _is_language(phrase: str) -> bool:
    """Tell words from code and from numbers."""
    letters = sum(char.isalpha() or char == " " for char in phrase)
    enough = len(phrase.split()) >= _LEAST_WORDS or (not phrase.isascii() and len(phrase) >= 6)
    return enough and letters >= 0.8 * len(phrase)
