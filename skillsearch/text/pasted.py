"""What a request says to do, apart from the text that is pasted into it; pure.

"Summarise this source: ..." asks for a summary, whatever the source is about. Precise rather than
complete: a long task told in sentences has no pasted text. Every expression is bounded.
"""

from __future__ import annotations

from skillsearch.patterns import lazy_pattern
from skillsearch.text import markdown
from skillsearch.text.languages import FUNCTION_WORDS

_LEAST_PASTED = 25
"""Words that what is pasted has at least; a shorter list after a colon belongs to the request."""
_MOST_SAID = 40
"""Words that the instruction has at most."""
_LEAST_SAID = 2
_MOST_OF_ORDER = 12
"""Before a colon."""
_SHARE = 0.5
"""Of the words of a request, the instruction has at most so many."""
_MOST_CHARS = 100_000
_COLON = lazy_pattern(r"[:\uff1a](?=\s|[\"'“「])")
_BLANK_LINE = lazy_pattern(r"\n\s{0,9}\n")
_SENTENCE_END = lazy_pattern(r"[.!?](?=\s)|[。\uff01\uff1f]")
_LAST_LINE = lazy_pattern(r"\n\s{0,9}\n(?P<last>[^\n]{1,400})\s{0,9}\Z")


def instruction(text: str) -> str:
    """Return what a request says about the text that is pasted into it; empty without such a text.

    It is what stands outside fenced code, else before a colon or a blank line that a much longer
    text follows, or in the last line behind one.
    """
    size = _count(text)
    if len(text) > _MOST_CHARS or size < _LEAST_PASTED + _LEAST_SAID:
        return ""
    for said in (_outside_code(text), _before(text), _behind(text)):
        words = _count(said)
        if _LEAST_SAID <= words <= min(_MOST_SAID, _SHARE * size) and size - words >= _LEAST_PASTED:
            return said
    return ""


def _outside_code(text: str) -> str:
    lines = list(markdown.lines(text))
    if not any(line.is_fenced for line in lines):
        return ""
    return "\n".join(line.text for line in lines if not line.is_fenced).strip()


def _before(text: str) -> str:
    """Return the order before the first colon or blank line: one sentence, at most two there."""
    colon, blank = _COLON.search(text), _BLANK_LINE.search(text)
    if blank and not (colon and colon.start() < blank.start()):
        head = text[: blank.start()].strip()
        return head if len(_SENTENCE_END.findall(head)) <= 2 else ""
    head = text[: colon.start()].strip() if colon else ""
    is_order = head.partition(" ")[0].casefold() not in FUNCTION_WORDS["en"]
    is_short = _count(head) <= _MOST_OF_ORDER and not _SENTENCE_END.search(head)
    return head if is_order and is_short else ""


def _behind(text: str) -> str:
    match = _LAST_LINE.search(text)
    return match["last"].strip() if match else ""


def _count(text: str) -> int:
    """Count words; two letters of a script without blanks count as one."""
    dense = sum(char >= "\u2e80" for char in text)
    return len(text.split()) + dense // 2
