"""A skill → pairs of a query and a document that it answers, imitating what real users type; pure.

A query never stands in its document. Every expression is bounded, so time is linear.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from skillsearch.text import markdown
from skillsearch.text.requests import blocks, plain, quoted, requests

WEIGHTS = {
    "request": 3.0,
    "clause": 2.0,
    "sentence": 1.5,
    "piece": 3.0,
    "task": 1.2,
    "script": 1.2,
    "keywords": 1.2,
    "headings": 0.4,
    "name": 0.4,
}
"""How often each kind of query is drawn, of those that a skill has."""
BODY_SHARE = 0.35  # share of the queries from metadata, paired with the head of the body
HEAD_CHARS = 1_200  # of a body, paired with a query: about what fits 256 tokens
PIECE_CHARS = (80, 600)
TASK_CHARS = 900
_MASKED = 0.5  # share of the queries from a body without the skill's name
_LEAST_LEFT = 30  # characters of metadata that must be left without the query to make a pair
_OPENINGS = tuple(
    "I need to |I want to |Help me |Can you help me with |How do I |How can I |Please |Could you |"
    "I'm trying to |We need to |I have to |What is the best way to |Can you |I'd like to |"
    "need help with |how to ".split("|")
)
_TASKS = (
    "# Task: {}\n\n",
    "Task: {}\n",
    "{}\n\n## Background\n\n",
    "{}\n\n",
    "User prompt: {}\n",
    "",
)
_STOP = frozenset(
    "a an the and or of to in on for with by from as at is are be this that it its use when using "
    "used skill skills user users you your via into any all not do can will should asks "
    "wants".split()
)
_WORD = re.compile(r"[\w+#.-]*\w[+#]*")
_CODE = re.compile(r"[{}<>=;\\|`$_\[\]]|://|[/\w]\.\w{1,4}\b(?!\s)|--\w|\w\(")
"""Signs that a text is code, a path or a value, which no user says."""
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
_SENTENCE = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+|(?<=[\u3002\uff01\uff1f])")
_LIST_MARK = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_MARKUP = re.compile(r"[*`#>|]{1,3}|-{3,}|\[([^\[\]\n]{0,200})\]\([^()\s]{0,500}\)")
_OPENING = re.compile(
    r"[rRuU]?(?P<quotes>\"\"\"|\'\'\')(?P<docstring>.*?)(?P=quotes)"
    r"|/\*(?P<block>.*?)\*/"
    r"|(?P<lines>(?:[ \t]*(?:#|//|--)[^\n]*(?:\n|\Z))+)",
    re.DOTALL,
)
"""A docstring, a block comment or line comments, at the start of the rest of a script."""
_COMMENT_MARK = re.compile(r"(?m)^[ \t]*(?:#+!?|/{2,}|-{2,}|\*+)")
_LEGAL = re.compile(r"(?i)copyright|spdx|licen[cs]e")
_OPENING_CHARS = 4_000  # of a script, searched for its description
_LEAST_WORDS = 3
_LEAST_PARAGRAPH = 40
_MOST_CHARS = 200  # of a request


@dataclass(frozen=True, slots=True)
class SkillText:
    """The texts of a skill as its embedder sees them; `about` is its metadata but for the name."""

    name: str
    about: str
    body: str
    scripts: tuple[str, ...] = ()

    def metadata(self, without: str = "") -> str:
        """Return the metadata as it is embedded, without a part of it."""
        return f"{self.name}: {self.about.replace(without, ' ') if without else self.about}"

    def head(self, without: str = "") -> str:
        """Return the head of the body, without a part of it."""
        body = self.body[: 2 * HEAD_CHARS]
        return (body.replace(without, " ") if without else body)[:HEAD_CHARS].strip()


@dataclass(frozen=True, slots=True)
class QueryPair:
    """A query as a user may type it, a document that it must find, and its kind in `WEIGHTS`."""

    query: str
    document: str
    kind: str


@dataclass(frozen=True, slots=True)
class MinedSkill:
    """A skill, and the texts to make queries of by kind."""

    text: SkillText
    sources: Mapping[str, tuple[str, ...]]

    @classmethod
    def mine(cls, text: SkillText) -> MinedSkill:
        """Collect texts to make queries of."""
        about, body = text.about, text.body
        texts_by_kind = {
            "request": stated_requests(about, body),
            "clause": clauses(f"{about}\n{body}"),
            "sentence": sentences(about),
            "piece": (part for part in paragraphs(body) if part[:60] not in about),
            "script": text.scripts,
            "headings": headings(body)[:12],
        }
        sources = {kind: tuple(dict.fromkeys(texts)) for kind, texts in texts_by_kind.items()}
        return cls(text, {kind: texts[:24] for kind, texts in sources.items() if texts})

    def draw(self, chance: random.Random) -> QueryPair | None:
        """Draw a pair; None if the skill has too little text. The state of `chance` decides."""
        kinds = [*self.sources, "name"]
        if "piece" in self.sources:
            kinds.append("task")
        if len(self.text.about) > 2 * _LEAST_LEFT:
            kinds.append("keywords")
        for _ in range(3):
            kind = chance.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
            pair = _DRAWN[kind](self, chance)
            if pair and len(pair.query) > 3 and len(pair.document) >= _LEAST_LEFT:
                return pair
        return None


def stated_requests(about: str, body: str) -> Iterator[str]:
    """Yield the requests that a skill quotes or lists, unless they are code."""
    for phrase in map(plain, (*quoted(about), *requests(blocks(body)))):
        if len(phrase) <= _MOST_CHARS and not _CODE.search(phrase) and _is_language(phrase):
            yield phrase


def clauses(text: str) -> Iterator[str]:
    """Yield what follows "use when" and the like, without who asks."""
    for match in _CLAUSE.finditer(text):
        clause = _SOMEONE.sub("", match.group(1), count=1).strip(" ,:;-")
        if _is_language(clause):
            yield clause


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that have at least four words."""
    for part in _SENTENCE.split(text):
        sentence = _unmarked(part)
        if len(sentence.split()) > _LEAST_WORDS or (not sentence.isascii() and len(sentence) > 11):
            yield sentence


def headings(body: str) -> list[str]:
    """Return the headings of a body."""
    return [_unmarked(heading) for heading, _ in markdown.sections(body) if heading]


def paragraphs(body: str) -> list[str]:
    """Return the paragraphs of a body as plain text, without code."""
    texts = (_unmarked(body[begin:end]) for begin, end in markdown.paragraphs(body))
    return [text for text in texts if len(text) >= _LEAST_PARAGRAPH]


def opening(script: str) -> str:
    """Return what a script says first, but for directives and licences; empty if nothing."""
    rest = re.sub(r"\A\ufeff?#![^\n]*\n", "", script[:_OPENING_CHARS]).lstrip()
    while match := _OPENING.match(rest):
        text = _unmarked(_COMMENT_MARK.sub("", match[str(match.lastgroup)]))
        if _is_language(text) and not _LEGAL.search(text):
            return text
        rest = rest[match.end() :].lstrip()
    return ""


def without_name(text: str, name: str) -> str:
    """Return a text without a skill's name, however it is joined: ``pdf-tools``, ``PDF Tools``."""
    words = re.findall(r"\w+", name.replace("_", " "))
    if not words or len(name) > 80:
        return text
    spelled = re.compile(r"(?i)(?<!\w)" + r"[\s_-]{0,2}".join(map(re.escape, words)) + r"(?!\w)")
    return " ".join(spelled.sub(" ", text).split())


def _from_metadata(skill: MinedSkill, chance: random.Random, kind: str) -> QueryPair | None:
    """Pair a statement about the skill with the rest of its metadata, or with its body."""
    query = source = chance.choice(skill.sources[kind])
    if kind != "sentence" and chance.random() < 0.3 and not source.endswith("?"):
        query = chance.choice(_OPENINGS) + source[:1].lower() + source[1:]
    query = _plainer(query, chance)
    remaining = len(skill.text.about.replace(source, ""))
    head = skill.text.head(source)
    if head and (remaining < _LEAST_LEFT or chance.random() < BODY_SHARE):
        return QueryPair(query, head, kind)
    return QueryPair(query, skill.text.metadata(source), kind) if remaining >= _LEAST_LEFT else None


def _from_body(skill: MinedSkill, chance: random.Random, kind: str) -> QueryPair | None:
    """Pair parts of the body, or the description of a script, with the metadata."""
    sources = skill.sources
    if kind == "piece":
        first = chance.randrange(len(sources["piece"]))
        text = _upto(sources["piece"][first:], chance.randint(*PIECE_CHARS))
    elif kind == "script":
        text = chance.choice(sources["script"])
        text = _upto([text], chance.randint(*PIECE_CHARS))
    elif kind == "headings":
        titles = sources["headings"]
        text = ", ".join(chance.sample(titles, min(len(titles), chance.randint(2, 5))))
    else:  # a long task, made of parts in any order
        parts = list(sources["piece"])
        chance.shuffle(parts)
        titles = sources.get("headings") or sources.get("clause") or ("",)
        text = chance.choice(_TASKS).format(chance.choice(titles))
        text += _upto(parts, TASK_CHARS, "\n")
    if chance.random() < _MASKED:
        text = without_name(text, skill.text.name)
    query = _plainer(text, chance) if kind in ("piece", "script") else text
    return QueryPair(query, skill.text.metadata(), kind)


def _keywords(skill: MinedSkill, chance: random.Random) -> QueryPair | None:
    """Pair a few words of the metadata, or of a piece, with the other field."""
    parts = skill.sources.get("piece")
    from_body = bool(parts) and chance.random() < 0.5
    source = chance.choice(parts) if parts and from_body else skill.text.about
    words = [word for word in _WORD.findall(source[:400]) if word.lower() not in _STOP]
    if len(words) < 3:
        return None
    begin = chance.randrange(max(1, len(words) - 8))
    window = words[begin : begin + 10]
    numbers = sorted(chance.sample(range(len(window)), min(len(window), chance.randint(3, 6))))
    query = " ".join(window[number] for number in numbers).lower()
    document = skill.text.metadata() if from_body or not skill.text.body else skill.text.head()
    return QueryPair(query, document, "keywords")


def _name(skill: MinedSkill, chance: random.Random) -> QueryPair | None:
    """Pair the name, as words, with the metadata or body without it."""
    name = " ".join(re.split(r"[\s_-]+", skill.text.name)).strip()
    bare = without_name(skill.text.about, skill.text.name)
    if skill.text.body and chance.random() < BODY_SHARE:
        bare = without_name(skill.text.head(), skill.text.name)
    return QueryPair(name, bare, "name")


_DRAWN: Mapping[str, Callable[[MinedSkill, random.Random], QueryPair | None]] = {
    **{kind: partial(_from_metadata, kind=kind) for kind in ("request", "clause", "sentence")},
    **{kind: partial(_from_body, kind=kind) for kind in ("piece", "task", "script", "headings")},
    "keywords": _keywords,
    "name": _name,
}


def _upto(parts: Sequence[str], size: int, joint: str = " ") -> str:
    """Join parts, at least one, up to a size, and cut there at a word."""
    text = parts[0]
    for part in parts[1:]:
        if len(text) >= size:
            break
        text += joint + part
    return text if len(text) <= size else text[:size].rsplit(" ", 1)[0]


def _plainer(text: str, chance: random.Random) -> str:
    """Write some texts in lower case, and some without the final full stop."""
    if chance.random() < 0.25:
        text = text.lower()
    return text.rstrip(".!。") if chance.random() < 0.5 else text


def _unmarked(text: str) -> str:
    """Return Markdown as one line without its marks."""
    lines = (_LIST_MARK.sub("", line) for line in text.split("\n"))
    return " ".join(_MARKUP.sub(lambda match: match.group(1) or "", " ".join(lines)).split())


def _is_language(phrase: str) -> bool:
    """Return whether a phrase is words, not code or numbers."""
    letters = sum(char.isalpha() or char == " " for char in phrase)
    enough = len(phrase.split()) >= _LEAST_WORDS or (not phrase.isascii() and len(phrase) >= 6)
    return enough and letters >= 0.8 * len(phrase)
