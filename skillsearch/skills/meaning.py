"""Repairs frontmatter that YAML silently reads otherwise than its author meant.

Certain cases are repaired and reported, others only reported. Text in double quotes means
what it says, and only fields that are searched are looked at.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from functools import partial
from itertools import chain

from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.skills.findings import Finding, finding_of
from skillsearch.skills.frontmatter import Fields, Loaded, entries, usual_type, well_formed
from skillsearch.skills.metadata import NESTING_KEYS, TAG_KEYS, TRIGGER_KEYS, as_text, plain_key
from skillsearch.types.json_values import Json

_NAMING_KEYS = ("name", "description")
_PHRASE_KEYS = (*TAG_KEYS, *TRIGGER_KEYS)
_NESTING_KEYS = (*NESTING_KEYS, *_PHRASE_KEYS)
_TEXT_KEYS = (*_NAMING_KEYS, "whentouse", *_PHRASE_KEYS)
_ALONE: dict[str, bool | None] = {**dict.fromkeys(_PHRASE_KEYS), "description": True, "": True}
"""Whether a comment that stands alone behind a key is text; None if that cannot be known."""
_BEHIND_TEXT: dict[str, bool | None] = dict.fromkeys((*_NAMING_KEYS, "whentouse"))
"""The same behind a text."""
_SHOWN_CHARS = 60
_finding = partial(finding_of, "meaning")
_SLUG = lazy_pattern(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")

_ITEM = lazy_pattern(r"(?m)^([ \t]*)-(?!\S)")
_COMMENT = lazy_pattern(r"#(?<![^ \t]#).*")
_HASH_WORD = lazy_pattern(r"(?i)(?!#+(?:(?:todo|fixme|xxx|note):|noqa|nosec))#(?:\S|[ \t]*\d)")
"""A channel, a hashtag, a heading or a number; most comments begin with one and a blank."""
_COMMENTED_OUT = lazy_pattern(r"#\s*(?:-\s|[\w-]+:(?!\S))")

_CODE_SPAN = lazy_pattern(r"(`[^`]*`)")
"""Quoted text is neither an escape nor a placeholder."""
_ESCAPES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"(?:\\u[0-9a-fA-F]{4})+", lambda escape: json.loads(f'"{escape[0]}"')),
    (r"\\U000[0-9a-fA-F]{5}", lambda escape: chr(int(escape[0][2:], 16))),
    (r"""\\(["'_])""", r"\1"),
    (r"(?<!\s)\\n(?=(?:\\n|[ ]){0,9}(?:[^\W\da-z_]|[-*•#]|\d+[.)]|$))", "\n"),
)
r"""Escapes that are left over; ``\n`` between sentences, not in ``C:\new``."""

_SLOT = lazy_pattern(r"\{(?<!\$\{)\{\s*[\w.]+\s*(?:\|[^{}]*)?\}\}|<%.{1,200}?%>|\$\{input:\w+\}")
_PLACEHOLDER = lazy_pattern(
    r"(?is)\s*(?:\[?(?-i:TODO|TBD|FIXME)(?:[]:].*)?|\[[^][,]*\]|<[^<>]*>|\$?\{\w+\}|\$\w+"
    r"|(__|%|@@)\w+\1|x{3,10}|n/a|[.…]+|placeholder|lorem ipsum\b.*|(?:insert|enter|add)\s.*\shere"
    r"|(?:replace with )?(?:(?:an?|your|the) )?(?:(?:brief|short|clear|concise|one-line|skill) )*"
    r"description(?:\s(?:of (?:what (?:this|the|it|your)|(?:the|this|your) skill)\b|here|goes).*)?"
    r"|(?:describe )?what (?:this|the|your) skill (?:does|is for)(?: and when .*)?"
    r"|(?:your|my)[-_ ]skill(?:[-_ ]name)?|skill[-_ ]name|template-skill)[.…\s]*"
)

_BLANKS = r"[ \t\xa0\u3000]*"
_MARKS = r"""["'“”*_`\u200b\u2060\ufeff]*"""
_SOUND_KEY = r"""(["']?)([a-z-]+)\1[ \t]*:(?![^ \t\n])"""
_KEY_AS_READ = lazy_pattern(
    rf"""(?m)^(?!{_SOUND_KEY})([ \t]*){_MARKS}"""
    rf"""((?i:name|description)|version|license|metadata|allowed-tools|tags){_MARKS}"""
    rf"""{_BLANKS}[:\uff1a\ufe55]\**{_BLANKS}(?=(.*))"""
)
_KEY_WITH_VALUE = lazy_pattern(r"(?:name|description)[ \t]*[:\uff1a\ufe55][ \t]*[^\s|>]")
_BODY = lazy_pattern("(?m)^(?:#|```)")


def mend_fields(fields: Fields, text: str, *, first_line: int = 1, level: int = 0) -> Loaded:
    """Return the fields that were read from a text as its author meant them, with findings.

    `level` is how many mappings they lie in; those are looked at that metadata is read from.
    """
    mended = dict(fields)
    findings: list[Finding] = []
    last = {key: (number, lines) for key, number, lines in entries(textwrap.dedent(text))}
    for key, (number, lines) in last.items():
        plain, value, line = plain_key(key), fields.get(key), first_line + number
        is_nesting = level == 1 or plain in (_PHRASE_KEYS if level else _NESTING_KEYS)
        if isinstance(value, dict) and is_nesting and not lines[0].partition(":")[2].strip():
            inner = "\n".join(lines[1:])
            mended[key], problems = mend_fields(value, inner, first_line=line + 1, level=level + 1)
            findings += problems
        elif key in fields and plain in (_TEXT_KEYS if level < 2 else _PHRASE_KEYS):
            mended[key], odd = _mend(plain, value, "\n".join(lines).partition(":")[2])
            findings += [problem._replace(line=line) for problem in odd]
    return mended, tuple(findings)


def _mend(key: str, value: Json, written: str) -> tuple[Json, list[Finding]]:
    """Return the value that was meant, and its oddities; an item of a list has no key."""
    if isinstance(value, list) and len(items := _items(written)) == len(value):
        pairs = [_mend("", item, text) for item, text in zip(value, items, strict=True)]
        return [item for item, _ in pairs], list(chain.from_iterable(some for _, some in pairs))
    written, problems = written.strip(), []
    plain = _COMMENT.split(written, 1)[0].rstrip()
    if key in _NAMING_KEYS and (kind := _type_beside_text(value, plain)):
        value = plain
        message = f"The {key} {plain[:_SHOWN_CHARS]!r} is not text in YAML but a {kind}; quote it."
        problems.append(Finding(f"{key}-not-text", message))
    value, odd = _with_comment(key, value, written)
    problems += odd
    if isinstance(value, str) and written[:1] != '"' and (text := unescape(value)) != value:
        value = text
        problems.append(_finding("yaml-escape", key))
    if key in _NAMING_KEYS and (placeholder := _placeholder(value)):
        problems.append(_finding("placeholder", key, placeholder[:_SHOWN_CHARS]))
    return value, problems


def _with_comment(key: str, value: Json, written: str) -> tuple[Json, list[Finding]]:
    """Return the value with what YAML takes for a comment, if that is a part of it."""
    text, comment = as_text(value), _COMMENT.search(written)
    # In quotes, or in an entry that was read as text, a comment sign is text.
    if not comment or text.split() != written[: comment.start()].split():
        return value, []
    is_text = _is_text(comment[0], written[: comment.start()], key)
    if is_text is False:
        return value, []
    reading = "was read as" if is_text else "may be"
    whole = f"{text} {comment[0]}".strip() if is_text else value
    return whole, [_finding("yaml-comment", comment[0][:_SHOWN_CHARS], reading)]


def _items(written: str) -> list[str]:
    """Return the text behind each dash of a list, with the lines that continue it."""
    first = _ITEM.search(written)
    return re.split(rf"(?m)^{first[1]}-(?:[ \t]+|$)", written)[1:] if first else []


def _type_beside_text(value: Json, plain: str) -> str:
    """Return the type that YAML reads from a plain value; empty if it is text."""
    if isinstance(value, (list, dict)) and plain[:1] + plain[-1:] in {"[]", "{}"}:
        return "list or mapping"
    plain_type = usual_type(plain)
    return "" if plain_type in {"str", "null"} else plain_type


def _placeholder(value: Json) -> str:
    """Return the placeholder that was left in a name or a description; empty if there is none."""
    text = _CODE_SPAN.sub("", value) if isinstance(value, str) else ""
    match = _PLACEHOLDER.fullmatch(text) or _SLOT.search(text)
    return match[0] if match and text.strip() else ""


def _is_text(comment: str, before: str, key: str) -> bool | None:
    """Return whether the comment behind a text is a part of it; None if that cannot be known."""
    text = before.rstrip()
    gap = before[len(text) :]
    is_word, is_below = _HASH_WORD.match(comment), "\n" in gap
    if is_below and _COMMENTED_OUT.match(comment):
        return False
    if not text:
        return _ALONE.get(key, False) if is_word else False
    if key == "name" and _SLUG.fullmatch(text):
        return None if is_word else False
    if _is_open(text) or (is_word and (is_below or gap == " ")):
        return True
    return _BEHIND_TEXT.get(key, False)


def _is_open(text: str) -> bool:
    """Return whether a quotation or a bracket begins in a text and does not end there."""
    return any(text.count(mark) % 2 for mark in '"`') or text.count("(") > text.count(")")


def unescape(text: str) -> str:
    """Return a text with its escapes read, but for those that may be meant."""
    if "\\" not in text:
        return text
    parts = _CODE_SPAN.split(text)
    for pattern, replacement in _ESCAPES:
        parts[::2] = [re.sub(pattern, replacement, part) for part in parts[::2]]
    return well_formed("".join(parts))


def regular_keys(text: str, *, first_line: int = 1) -> tuple[str, list[Finding]]:
    """Return a frontmatter in which the usual keys are keys, with a finding for each repair.

    A line that only a person reads as a key becomes one if no other line has that key. Such lines
    have no blank after the colon, a full-width colon, capitals or Markdown marks, or are indented
    below the value of another key.
    """
    findings = []
    keys = {key for _, key in re.findall(f"(?m)^{_SOUND_KEY}", text)}

    def repair(line: re.Match[str]) -> str:
        _, _, indent, key, value = line.groups()
        key, start = key.lower(), line.start()
        above = text[text.rfind("\n", 0, max(start - 1, 0)) + 1 : start]
        is_named = key == "description" or (key == "name" and _SLUG.fullmatch(value.strip()))
        if key in keys or (indent and not (is_named and _KEY_WITH_VALUE.match(above))):
            return line[0]
        keys.add(key)
        findings.append(_finding("yaml-key", key, line=first_line + text.count("\n", 0, start)))
        return f"{key}: "

    end = body.start() if (body := _BODY.search(text)) else len(text)
    return _KEY_AS_READ.sub(repair, text[:end]) + text[end:], findings
