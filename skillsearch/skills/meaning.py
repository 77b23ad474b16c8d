"""What the author of a frontmatter meant, where YAML reads something else without a word.

What is certain is mended and reported; what is not is reported alone. Text in double quotes means
what it says, and only fields that are searched are looked at.
"""

from __future__ import annotations

import html
import json
import re
from typing import TypeAlias

from skillsearch.skills.frontmatter import (
    Fields,
    Finding,
    Loaded,
    entries,
    usual_type,
    well_formed,
)
from skillsearch.skills.metadata import TAG_KEYS, TRIGGER_KEYS, as_text, plain_key
from skillsearch.types import JsonValue

_NAMING_KEYS = ("name", "description")
_TEXT_KEYS = frozenset((*_NAMING_KEYS, "whentouse", *TAG_KEYS, *TRIGGER_KEYS))
_SHOWN_CHARS = 60
_SLUG = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")

_ITEM = re.compile(r"(?m)^[ \t]*-(?:[ \t]+|$)(.*)")
_COMMENT = re.compile(r"#(?<![^ \t]#).*")
_HASH_WORD = re.compile(r"#(?:\S|[ \t]*\d)")
"""A channel, a hashtag, a heading or a number; most comments begin with one and a blank."""
_REMARK = re.compile(r"(?i)#+(?:(?:todo|fixme|xxx|note):|noqa|nosec)")
_COMMENTED_OUT = re.compile(r"#\s*(?:-\s|[\w-]+:(?!\S))")

_ESCAPES = (
    (re.compile(r"(?:\\u[0-9a-fA-F]{4})+"), lambda found: json.loads(f'"{found[0]}"')),
    (re.compile(r"""\\(["'_])"""), r"\1"),
    (re.compile(r"(?<=\S)\\n(?=(?:\\n|[ ]){0,9}(?:[^\W\da-z_]|[-*•#\[{]|\d+[.)]|$))"), "\n"),
    (re.compile("&(?:amp|apos|quot|#39);"), lambda found: html.unescape(found[0])),
)
r"""Escapes that are left over; ``\n`` between sentences, not in ``C:\new``."""

_SLOT = re.compile(r"\{(?<!\$\{)\{\s*[\w.]+\s*(?:\|[^{}]*)?\}\}|<%.{1,200}?%>|\$\{input:\w+\}")
_PLACEHOLDER = re.compile(
    r"(?is)\s*(?:\[?(?-i:TODO|TBD|FIXME)(?:[]:].*)?|\[[^][,]*\]|<[^<>]*>|\$\{?\w+\}?)\s*"
    r"|(?:(?:an?|your|the)\s)?(?:(?:brief|short|clear|one-line|skill)\s)?description"
    r"(?:\s(?:of what|here|goes).*)?\W*|(?:your|my)[- ]skill(?:[- ]name)?|skill[- ]name"
)

_SOUND_KEY = r"""(["']?)([a-z-]+)\1[ \t]*:(?!\S)"""
_KEY_AS_READ = re.compile(
    rf"""(?m)^(?!{_SOUND_KEY})([ \t]*)["'“”*_`]*"""
    r"""((?i:name|description)|version|license|metadata|allowed-tools|tags)["'“”*_`]*"""
    r"""[ \t]*[:\uff1a\ufe55]\**[ \t]*(?=(.*))"""
)
_KEY_WITH_VALUE = re.compile(r"(?:name|description)[ \t]*[:\uff1a\ufe55][ \t]*[^\s|>]")
_BODY = re.compile("(?m)^(?:#|```)")

_Surprise: TypeAlias = tuple[JsonValue, str, str] | None
"""The value that was meant, and the code and message of a finding."""


def mend_fields(fields: Fields, text: str, *, first_line: int = 1) -> Loaded:
    """Return the fields that were read from a text as its author meant them, with findings."""
    mended, findings = dict(fields), []
    last = {key: (number, lines) for key, number, lines in entries(text)}
    for key, (number, lines) in last.items():
        plain = plain_key(key)
        if key in fields and plain in _TEXT_KEYS:
            written = "\n".join(lines).partition(":")[2].strip()
            mended[key], problems = _mend(plain, fields[key], written)
            findings += [problem._replace(line=first_line + number) for problem in problems]
    return mended, tuple(findings)


def _mend(key: str, value: JsonValue, written: str) -> tuple[JsonValue, list[Finding]]:
    """Return the value that was meant, and what is odd about it; an item of a list has no key."""
    if isinstance(value, list) and len(items := _ITEM.findall(written)) == len(value):
        pairs = [_mend("", item, text) for item, text in zip(value, items, strict=True)]
        return [item for item, _ in pairs], [finding for _, some in pairs for finding in some]
    findings = []
    checks = (_retype, _rejoin, _unescape, _find_placeholder)
    for check in checks if key in _NAMING_KEYS else (_rejoin, _unescape):
        if surprise := check(key, value, written):
            value, code, message = surprise
            findings.append(Finding(code, message))
    return value, findings


def _retype(key: str, value: JsonValue, written: str) -> _Surprise:
    """Keep a name or a description as written that YAML takes for something else than text."""
    text = _COMMENT.split(written, 1)[0].rstrip()
    is_list = isinstance(value, (list, dict)) and text[:1] + text[-1:] in {"[]", "{}"}
    kind = "list or mapping" if is_list else usual_type(text)
    if kind in {"str", "null"}:
        return None
    message = f"The {key} {text[:_SHOWN_CHARS]!r} is no text for YAML but a {kind}; quote it."
    return text, f"{key}-not-text", message


def _rejoin(key: str, value: JsonValue, written: str) -> _Surprise:
    """Join a plain value with what YAML takes for a comment, if that is text."""
    text, comment = as_text(value), _COMMENT.search(written)
    before = written[: comment.start()] if comment else ""
    # In quotes, or in an entry that was read as text, this is no comment.
    if not comment or text.split() != before.split():
        return None
    is_text = _is_text(comment[0], before[len(before.rstrip()) :], text, key)
    if is_text is False:
        return None
    shown, reading = comment[0][:_SHOWN_CHARS], "was read as" if is_text else "may be"
    message = f"YAML takes {shown!r} for a comment; it {reading} text, put the value in quotes."
    return f"{text} {comment[0]}".strip() if is_text else value, "yaml-comment", message


def _is_text(comment: str, gap: str, text: str, key: str) -> bool | None:
    """Return whether the comment behind a text is a part of it; None if that cannot be known."""
    is_word, is_below = _HASH_WORD.match(comment) and not _REMARK.match(comment), "\n" in gap
    if is_below and _COMMENTED_OUT.match(comment):
        return False
    if not text:  # beside another key, it may say what to write there
        return bool(is_word) and key in {"description", ""}
    if key == "name" and _SLUG.fullmatch(text):
        return None if is_word else False
    is_open = any(text.count(mark) % 2 for mark in '"`') or text.count("(") > text.count(")")
    if is_open or (is_word and (is_below or gap == " ")):
        return True
    return None if key in {*_NAMING_KEYS, "whentouse"} else False


def _unescape(key: str, value: JsonValue, written: str) -> _Surprise:
    """Read escapes that are left over where YAML knows none."""
    if not isinstance(value, str) or written.startswith('"') or (text := unescape(value)) == value:
        return None
    message = f"YAML reads escapes in double quotes alone; write the characters in {key!r}."
    return text, "yaml-escape", message


def unescape(text: str) -> str:
    """Return a text with its escapes read, but for those that may be meant."""
    for pattern, replacement in _ESCAPES if "\\" in text or "&" in text else ():
        text = pattern.sub(replacement, text)
    return well_formed(text)


def _find_placeholder(key: str, value: JsonValue, _written: str) -> _Surprise:
    """Report a name or a description that nobody has filled in."""
    text = value if isinstance(value, str) else ""
    if not (found := _PLACEHOLDER.fullmatch(text) or _SLOT.search(text)):
        return None
    message = f"The {key} holds the placeholder {found[0][:_SHOWN_CHARS]!r}; fill it in."
    return value, "placeholder", message


def regular_keys(text: str, *, first_line: int = 1) -> tuple[str, list[Finding]]:
    """Return a frontmatter in which the usual keys are keys, with a finding for each repair.

    A line that a person reads as a key, and YAML does not, is one if no other line has that key: it
    has no blank after the colon, a full-width colon, capitals or Markdown marks, or is indented
    below the value of another key.
    """
    if not _KEY_AS_READ.search(text):
        return text, []
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
        message = f"Not all readers see the key {key!r} in this line; begin it with '{key}: '."
        findings.append(Finding("yaml-key", message, first_line + text.count("\n", 0, start)))
        return f"{key}: "

    end = body.start() if (body := _BODY.search(text)) else len(text)
    return _KEY_AS_READ.sub(repair, text[:end]) + text[end:], findings
