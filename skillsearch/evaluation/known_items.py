"""A skill's own text → queries that it should be found by; pure.

Known-item queries have one right answer that nobody had to judge: the skill they were taken from.
They use its words, so they are easier than what users ask.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple

from skillsearch.evaluation.types import JudgedQuery
from skillsearch.text.markdown import lines
from skillsearch.types import Skill

MAX_PER_KIND = 5
"""Queries of one skill: one skill of a hundred headings must not outweigh ninety others."""

_LEAST_WORDS, _MOST_WORDS = 3, 40
_MAX_BODY_CHARS = 1 << 20
_MAX_LINE_CHARS = 1_000
_CLAUSE_CHARS = 300
"""How far before a quoted phrase a word can stand that negates it."""

_HEADING = re.compile(r"(?P<level>#{1,6})[ \t]+(?P<text>.*)")
_ITEM = re.compile(r"\s*(?:[-*+•]|[0-9]{1,3}[.)])\s+(?P<text>.*)")
_LEAD = re.compile(r"[^|>]{1,150}[:\uff1a]\W*|\*\*[^*]{1,150}\*\*")
"""A line that says what the list below it holds."""
_QUOTED = re.compile(
    """"([^"\n]{1,300})"|“([^”\n]{1,300})”|„([^“”\n]{1,300})[“”]|«([^»\n]{1,300})»"""
    r"""|「([^」\n]{1,300})」|『([^』\n]{1,300})』|\u2018([^\u2019\n]{1,300})\u2019(?!\w)"""
    r"""|(?<!\w)'((?:[^'\n]|(?<=\w)'(?=\w)){1,300})'(?!\w)"""
)
_SENTENCE_END = re.compile(r"[.!?;](?=\s)|[。\uff01\uff1f\uff1b\n]")
_NEGATED = re.compile(
    r"\b(?:not|never|avoid|except|instead|nicht|kein\w*|statt|jamais|ne pas|nunca|evit[ae]r?"
    r"|no usar|não|не|нельзя)\b|n['\u2019]t\b|\banti\b|不要|不用|不适|不適|不是|避免|勿|而非"
    r"|しない|ません|ではなく|使わない|않|마세요|아닌",
    re.IGNORECASE,
)
_REQUESTS = re.compile(
    r"\bwhen (?:to|you|(?:the )?users?|someone)\b|\bwhen$"
    r"|\buse (?:this|cases?|for)\b|\btriggers?\b|\btrigger(?:ed|ing)? (?:by|on|phrases?)\b"
    r"|\b(?:example|sample) (?:prompts?|requests?|questions?|quer(?:y|ies)|phrases?|tasks?)\b"
    r"|\bprompts?$|\buser (?:says?|asks?|wants?|requests?)\b|\bwann\b|\bauslöser\b|\bquand\b"
    r"|\bdéclencheurs?\b|\bcu[aá]ndo\b|\bquando\b|何时|何時|什么时候|场景|場景|触发|觸發"
    r"|适用|適用|いつ|トリガー|場面|언제|트리거",
    re.IGNORECASE,
)
"""In the line above a list: its items are what users want."""
_EXAMPLES = re.compile(
    r"\bexamples?\b|\busage\b|\bbeispiele?\b|\bexemples?\b|\bejemplos?\b|\bexemplos?\b"
    r"|示例|例子|用法|範例|使用例|使い方|예시|예제|사용법|사용 예",
    re.IGNORECASE,
)
"""In the line above a list or paragraph: what stands in quotes is what users say."""
_SOMEONE_ASKS = re.compile(
    r"(?:(?:use )?(?:when|if) )?(?:the |a )?(?:users?|you|someone) (?:explicitly )?"
    r"(?:asks?|wants?|needs?|says?|requests?)(?: you| me)?(?: (?:to|for|about|help with))? ",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\s*(?:[→—\u2013:\uff1a(\uff08]| -+ |=>|->)")
"""Where an item turns from the request to what is done about it."""
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_MARKS = re.compile(r"\*{1,3}|(?<!\w)_{1,3}|_{1,3}(?!\w)")
_NUMBERING = re.compile(
    r"^(?:[^\W\d]+ #?[0-9]+[.0-9]*[a-z]? ?[.):\uff1a\u2013—-]\s*|#?[0-9]+[.0-9]*[a-z]?[.):]?\s+"
    r"|第?[0-9一二三四五六七八九十]+[步章节節]?[、.:\uff1a]\s*)",
    re.IGNORECASE,
)
_ENDS = re.compile(r"^[^\w`/<\[{(\"'“「『«„]+|[\s.,;:\uff1a。、…—\u2013-]+$")
_CODE = re.compile(r"`|https?:|\]\(|[<>{}$\\=|]|\[[^\]]+\]|^/|\w/\w+/")
"""Signs of commands, paths, and gaps to be filled in: no words of a user."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_WORD = re.compile(r"[^\W_]+")
_EMPTY_WORDS = frozenset(
    """
    a about after all an and any are as at be because before best by can checklist common concepts
    core do does done example examples first for format from full get getting guide guidelines how
    if important in input instructions into is issues it its key more must new no not note notes of
    on optional or output overview pattern patterns phase practices principles process quick
    reference references related required resources rule rules setup should skill skills start step
    steps task tasks than that the their them then these they this tips to tool tools
    troubleshooting until up usage use used using vs via what when where which why with without
    work workflow workflows you your
    """.split()
)
"""Words that say nothing of the subject of a heading."""


class _Block(NamedTuple):
    """A line of a body, or a list item with the lines that go on with it."""

    kind: Literal["heading", "lead", "item", "text"]
    text: str
    level: int = 0


def known_item_queries(
    skill: Skill, *, common: AbstractSet[str] = frozenset()
) -> tuple[JudgedQuery, ...]:
    """Make queries from the text of a skill.

    Of kind ``example`` are phrases in quotes in the description, and in the body requests and
    quoted phrases below a line like "When to use" or "Examples". Of kind ``heading`` are headings
    that name a subject. Fenced code is passed over, as are uses that the text says are none of
    the skill's, and every text that holds the skill's name.

    Args:
        skill: The skill.
        common: `common_headings` of all skills.

    Returns:
        At most `MAX_PER_KIND` of each kind, in the order of the text, examples first.
    """
    blocks = list(_blocks(skill.body))
    said = [skill.description, skill.metadata.when_to_use, *skill.metadata.triggers]
    examples = [*(phrase for text in said for phrase in _quoted(text)), *_body_examples(blocks)]
    headings = [
        text for text in _headings(blocks) if _is_telling(text) and _fold(text) not in common
    ]
    seen: set[str] = set()
    return (
        *_queries(skill, "example", examples, seen),
        *_queries(skill, "heading", headings, seen),
    )


def common_headings(skills: Iterable[Skill]) -> frozenset[str]:
    """Return the headings that stand in several bodies, and so tell no skill from another.

    Args:
        skills: All skills; copies with the same body count once.

    Returns:
        The headings, folded as `known_item_queries` compares them.
    """
    bodies = {skill.body for skill in skills}
    counts = Counter(
        heading for body in bodies for heading in {_fold(text) for text in _headings(_blocks(body))}
    )
    return frozenset(heading for heading, count in counts.items() if count > 1)


def _blocks(body: str) -> Iterator[_Block]:
    """Yield what stands outside fenced code."""
    item: list[str] = []
    # A blank line ends the last item.
    for line in (*_unfenced_lines(body), ""):
        heading, listed = _HEADING.match(line), _ITEM.match(line)
        if item and line[:1] in (" ", "\t") and line.strip() and not heading and not listed:
            item.append(line.strip())
            continue
        if item:
            yield _Block("item", " ".join(item))
            item = []
        if heading:
            yield _Block("heading", heading["text"].strip(" #"), len(heading["level"]))
        elif listed:
            item = [listed["text"].strip()]
        elif line.strip():
            is_lead = _LEAD.fullmatch(line.strip())
            yield _Block("lead" if is_lead else "text", line.strip())


def _unfenced_lines(body: str) -> Iterator[str]:
    """Yield the lines of a body, those of fenced code empty."""
    for line in lines(body[:_MAX_BODY_CHARS]):
        yield "" if line.is_fenced else line.text[:_MAX_LINE_CHARS]


def _headings(blocks: Iterable[_Block]) -> Iterator[str]:
    """Yield the headings of sections, without their numbers; deeper ones are details."""
    for block in blocks:
        if block.kind == "heading" and block.level in (2, 3):
            yield _plain(_NUMBERING.sub("", _plain(block.text), count=1))


def _body_examples(blocks: Iterable[_Block]) -> Iterator[str]:
    """Yield what the body gives as requests of users, as written."""
    takes: Literal["", "quoted", "requests"] = ""
    for kind, text, _ in blocks:
        if kind in ("heading", "lead"):
            takes = _taken_below(_plain(text))
        quoted = list(_quoted(text)) if takes and kind != "heading" else []
        yield from quoted
        if takes == "requests" and kind == "item" and not quoted and not _NEGATED.search(text):
            request = _ASIDE.split(_SOMEONE_ASKS.sub("", _plain(text), count=1), maxsplit=1)[0]
            yield request if "`" not in text else ""


def _taken_below(line: str) -> Literal["", "quoted", "requests"]:
    """Say which examples a line introduces."""
    if _NEGATED.search(line):
        return ""
    if _REQUESTS.search(line):
        return "requests"
    return "quoted" if _EXAMPLES.search(line) else ""


def _quoted(text: str) -> Iterator[str]:
    """Yield the phrases in quotes that are not said to be none of the skill's uses."""
    masked = _QUOTED.sub(lambda found: "x" * len(found[0]), text)
    for found in _QUOTED.finditer(text):
        before = masked[max(0, found.start() - _CLAUSE_CHARS) : found.start()]
        if not _NEGATED.search(_SENTENCE_END.split(before)[-1]):
            yield next(filter(None, found.groups()))


def _queries(
    skill: Skill, kind: str, texts: Iterable[str], seen: set[str]
) -> Iterator[JudgedQuery]:
    """Yield a query for each text that can be one, and note what was seen."""
    number = 0
    name = _fold(skill.name)
    for text in map(_plain, texts):
        folded = _fold(text)
        is_usable = _LEAST_WORDS <= _size(text) <= _MOST_WORDS and not _CODE.search(text)
        if folded in seen or not is_usable or _holds(folded, name):
            continue
        seen.add(folded)
        yield JudgedQuery(f"{kind}:{skill.doc_id}#{number}", text, kind)
        number += 1
        if number == MAX_PER_KIND:
            return


def _plain(text: str) -> str:
    """Return a text without emphasis, links, and marks at its ends."""
    words = _MARKS.sub("", _LINK.sub(r"\1", text)).split()
    return _ENDS.sub("", " ".join(words))


def _is_telling(heading: str) -> bool:
    """Say whether a heading has enough words that name a subject."""
    words = [word for word in _fold(heading).split() if word not in _EMPTY_WORDS]
    return _size(" ".join(words)) >= _LEAST_WORDS


def _size(text: str) -> int:
    """Count words; in scripts without blanks, two letters are one."""
    spaced, unspaced = _UNSPACED.subn(" ", text)
    return len(_WORD.findall(spaced)) + unspaced // 2


def _fold(text: str) -> str:
    """Return the words of a text, lower case, with single blanks."""
    return " ".join(_WORD.findall(text.casefold()))


def _holds(text: str, name: str) -> bool:
    """Say whether folded words are among others; where words have no blanks, anywhere."""
    if _UNSPACED.search(name):
        return name in text
    return f" {name} " in f" {text} "
