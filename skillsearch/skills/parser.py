"""The bytes of a SKILL.md → a `Skill`: lenient, pure, and every repair reported.

Frontmatter that is not YAML is read entry by entry, so that its readable part survives.
"""

from __future__ import annotations

import codecs
import json
import re
import textwrap
from collections.abc import Collection, Sequence, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

from skillsearch.errors import ParseError
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.skills import frontmatter as front
from skillsearch.skills.chunks import parse_chunks
from skillsearch.skills.findings import Finding, finding_of
from skillsearch.skills.frontmatter import Fields, Loaded, Sections
from skillsearch.skills.meaning import mend_fields, regular_keys
from skillsearch.skills.metadata import CONTROL_CHARACTERS, opening_of, regular_metadata
from skillsearch.skills.resources import content_hash, read_skill_md
from skillsearch.text.encodings import decode
from skillsearch.types.json_values import Json
from skillsearch.types.skills import STRICT, Diagnostic, Skill

_BEGIN = "begin it with a '---' line, name and description, and another '---' line."
_finding = partial(finding_of, "parser")
_MAX_LEVELS = 4
_MAX_PREAMBLE_CHARS = 2_000
_OFFSET_START = lazy_pattern(
    r"^(?:---[ \t]*\n)?(?=(?:name|description)[ \t]*:[ \t]*\S)", re.MULTILINE
)
_FENCED = lazy_pattern(
    r"\s*+(`{3,}|~{3,})[^`\n]*\n(?=\s*+(?:---[ \t]*\n|(?:name|description)[ \t]*:[ \t]*\S))"
)
_TOML = lazy_pattern(r"(?s)\s*+\+\+\+[ \t]*\n(.*?\n)\+\+\+[ \t]*(?:\n|\Z)")
_NO_BODY = {
    r"\s*(?:<!doctype|<html)\b": "is a web page",
    r"[^\0\ufffd]*[\0\ufffd]": "is not text",
    r"\s*\d{3}:? Not Found\s*\Z": "holds an error of a server",
    r"version https://git-lfs\.": "stands for one that Git LFS keeps (git lfs pull)",
}
_TAB_INDENT = lazy_pattern(r"^ *\t[ \t]*", re.MULTILINE)
_BLOCK_INDICATOR = lazy_pattern(r"[|>][-+0-9]{0,3}(?:[ \t]+#.*)?")
_MISUSED_INDICATOR = lazy_pattern(r"[|>][-+\d]{0,2}(?:[ \t]+(?![\d=#])|(?=[^\W\d]))(?!.*\|$)")
_INDENTED_FIELDS = lazy_pattern(r"(?s)(?: |- )(?:.*\n)?[- ]*(?:name|description)[ \t]*:")
_ANCHOR = lazy_pattern(r"(?<![^\s\[{,])&(\w+)")
_ALIAS = lazy_pattern(r"(?<![^\s\[{,])\*(\w+)")
_ANCHORED = lazy_pattern(r"[^:]*:[ \t]+&(\w+)[ \t]+(?=[^\s*])")
"""An anchor on the line of its value."""
_Read: TypeAlias = tuple[Fields, str, tuple[Finding, ...]]


def parse_skill(
    data: bytes, *, doc_id: str, path: Path, root: Path
) -> tuple[Skill, tuple[Diagnostic, ...]]:
    """Parse a SKILL.md, repairing it where possible; linear in the size of `data`.

    A file whose description a person can read becomes a skill; every repair and guess comes back as
    a diagnostic. The folder of `path` names the skill if the frontmatter does not, and the first
    paragraph describes it. Without frontmatter or either description, or with YAML that was written
    to do harm, `ParseError` is raised.
    """
    text, findings = decode_skill_md(data)
    frontmatter, body, repairs = read_sections(text)
    metadata, oddities = regular_metadata(frontmatter, path.parent.name or root.name, body)
    if any(finding.code == "frontmatter-missing" for finding in repairs):
        oddities = ()  # they all follow from that
    findings += [*repairs, *oddities]
    codes = (finding.code for finding in findings if finding.severity != "note")
    lapses = tuple(dict.fromkeys(code for code in codes if code.startswith(STRICT)))
    digest = content_hash(data)
    skill = Skill(doc_id, metadata, body.strip(), path, root, digest, lapses=lapses)
    if chunk_findings := parse_chunks(skill.body).findings:
        before = front.unix_lines(text).count("\n") - body.lstrip().count("\n")
        findings += [odd._replace(line=before + (odd.line or 1)) for odd in chunk_findings]
    return skill, tuple(finding.at(str(path)) for finding in findings)


def read_skill(
    path: Path,
    *,
    doc_id: str,
    root: Path,
    cached: Skill | None = None,
    roots: Collection[Path | str] = (),
) -> Skill:
    """Read a skill, or return the `cached` one if its bytes are the same; raises `ParseError`.

    A stub is not read on. A link may lead into the `root`, or into one of the `roots`.
    """
    data, _ = read_skill_md(path, (root, *roots))
    if cached and (cached.doc_id, cached.content_hash) == (doc_id, content_hash(data)):
        return cached
    return parse_skill(data, doc_id=doc_id, path=path, root=root)[0]


def read_skill_text(path: Path, roots: Collection[Path | str] = ()) -> tuple[str, str]:
    """Return the text and the content hash of a SKILL.md; `ParseError` if it cannot be read."""
    data, _ = read_skill_md(path, roots)
    return decode_skill_md(data)[0], content_hash(data)


def decode_skill_md(data: bytes) -> tuple[str, list[Finding]]:
    """Decode a SKILL.md in any encoding, without its byte order mark, and report oddities."""
    if data.startswith(codecs.BOM_UTF8):
        text, findings = decode_skill_md(data[len(codecs.BOM_UTF8) :])
        return text, [_finding("byte-order-mark", line=1), *findings]
    text, encoding = decode(data)
    if not encoding:
        return text, []
    line = 1
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
    return text, [_finding("not-utf8", encoding, line=line)]


def read_sections(text: str) -> _Read:
    """Return the values of the frontmatter, the body as it stands, and the repairs."""
    written = front.unix_lines(text)
    text = _without_fence(written)
    sections = front.split_frontmatter(text)
    is_offset = text != written or sections.frontmatter is None or sections.first_line > 2
    if sections.frontmatter is None:
        sections = _find_offset_frontmatter(text) or sections
    frontmatter, first_line = sections.frontmatter, sections.first_line
    if frontmatter is None:
        return _read_toml(text) or _read_bare(text)
    findings = []
    if control := CONTROL_CHARACTERS.search(frontmatter):
        line = first_line + frontmatter.count("\n", 0, control.start())
        findings.append(_finding("control-characters", control[0], line=line))
        frontmatter = CONTROL_CHARACTERS.sub(" ", frontmatter)
    if is_offset:
        findings.append(_finding("frontmatter-offset", line=1))
    if not sections.closed:
        findings.append(_finding("frontmatter-unclosed", line=first_line))
    body = sections.body
    frontmatter, misread = regular_keys(frontmatter, first_line=first_line)
    try:
        values, repairs = front.load_yaml(frontmatter, first_line=first_line)
    except ParseError as error:
        values, body, repairs = _repair(frontmatter, sections, error)
    values, mended = mend_fields(values, frontmatter, first_line=first_line)
    return values, body, (*findings, *misread, *repairs, *mended)


def _without_fence(text: str) -> str:
    """Return a text without a code fence around it or its frontmatter; lines keep their places."""
    if not (opening := _FENCED.match(text)):
        return text
    start = opening.end()
    before = "\n" * text.count("\n", 0, start)
    fences = list(re.finditer(rf"(?m)^ {{0,3}}{opening[1]}+(.*)$", text[start:]))
    closing = next((fence for fence in fences if not fence[1].strip()), None)
    if closing is None:
        return before + text[start:]
    inner, after = text[start:][: closing.start()], text[start:][closing.end() :]
    rules = list(re.finditer(r"(?m)^---[ \t]*$", inner))
    if len(rules) > 1 and not inner[rules[1].end() :].strip():
        return before + inner + after
    end = front.end_of_keys(inner, rules[0].end() + 1 if rules else 0)
    if len(rules) < 2 and end == len(inner):
        return f"{before if rules else before[:-1] + '---' + before[-1:]}{inner}---{after}"
    last = fences[-1]
    is_whole = len(fences) % 2 and not text[start + last.end() :].strip() and not last[1].strip()
    return before + (text[start:][: last.start()] if is_whole else text[start:])


def _read_toml(text: str) -> _Read | None:
    """Read frontmatter in TOML, between ``+++`` lines; None if there is none."""
    if not (match := _TOML.match(text)) or len(match[1]) > front.MAX_FRONTMATTER_BYTES:
        return None
    import tomllib

    try:
        values = json.loads(json.dumps(tomllib.loads(match[1]), default=str))
    except (ValueError, RecursionError):
        return None
    return values, text[match.end() :], (_finding("frontmatter-toml", line=1),)


def _read_bare(text: str) -> _Read:
    """Read a file without frontmatter as a body, or raise `ParseError` if it cannot be one."""
    faults = (what for start, what in _NO_BODY.items() if re.match(start, text, re.IGNORECASE))
    fault = next(faults, "" if opening_of(text) else "has no paragraph")
    if fault:
        message = f"The file does not start with frontmatter and {fault}; {_BEGIN}"
        raise ParseError(message, code="frontmatter-missing", line=1)
    return {}, text, (_finding("frontmatter-missing", line=1),)


def _find_offset_frontmatter(text: str) -> Sections | None:
    """Find frontmatter behind other text, not in a code fence, or without its first line."""
    match = _OFFSET_START.search(text, 0, _MAX_PREAMBLE_CHARS)
    if match is None or "```" in text[: match.start()]:
        return None
    preamble = text[: match.start()]
    opening = "" if match[0] else "---\n"
    sections = front.split_frontmatter(opening + text[match.start() :])
    lines = preamble.count("\n") - opening.count("\n")
    first, second = sections.first_line + lines, sections.body_line + lines
    return sections._replace(body=preamble + sections.body, first_line=first, body_line=second)


def _repair(frontmatter: str, sections: Sections, error: ParseError) -> _Read:
    """Read frontmatter that `load_yaml` refused with `error`, if that is safe.

    A horizontal rule in the body may have been taken for the closing line. Then a heading or a code
    fence below the description ends the keys, and the rest belongs to the body.
    """
    body = sections.body
    findings: list[Finding] = []
    end = front.end_of_keys(frontmatter)
    is_markdown = frontmatter.startswith(("#", "```"), end)
    if is_markdown and "description" in frontmatter[:end] and end <= front.MAX_FRONTMATTER_BYTES:
        body = f"{frontmatter[end:]}---\n{body}"
        frontmatter = frontmatter[:end]
        findings.append(_finding("frontmatter-unclosed", line=sections.first_line))
    elif error.code in front.HARMFUL_CODES:
        raise error
    values, more = repair_mapping(frontmatter, first_line=sections.first_line)
    if not values:
        raise error
    if not more and not findings:
        findings.append(_finding("yaml-salvaged", error, line=error.line))
    return values, body, (*findings, *more)


def repair_mapping(
    text: str, *, first_line: int = 1, level: int = 0, anchors: Set[str] | None = None
) -> Loaded:
    """Read ``key: value`` lines one entry at a time; an entry that is not YAML becomes text.

    Returns the mapping, empty if there is no key, and a finding for each entry read as text. Lines
    above the first key are skipped; every other is read once per nesting level. An entry with an
    anchor or alias is left out: `anchors` are the names of the whole text. A text that was written
    to cost time raises `ParseError`.
    """
    if anchors is None:
        anchors = set(_ANCHOR.findall(text)) & set(_ALIAS.findall(text))
    text = textwrap.dedent(_TAB_INDENT.sub(lambda tabs: tabs[0].expandtabs(2), text))
    if not level and _INDENTED_FIELDS.match(text):  # those of a list, or a first line too deep
        text = textwrap.dedent(re.sub("(?m)^- ", "  ", text)).lstrip(" ")
    values: Fields = {}
    findings: list[Finding] = []
    for key, start, lines in front.entries(text):
        fields, problems = _read_entry(key, lines, first_line + start, level, anchors)
        if key in values:
            findings.append(front.twice(key, first_line + start))
        values |= fields
        findings += problems
    return values, tuple(findings)


def _read_entry(
    key: str, lines: list[str], first_line: int, level: int, anchors: Set[str]
) -> Loaded:
    """Return a top-level key as YAML if it parses, otherwise as text with a finding."""
    if (mark := _ANCHORED.match(lines[0])) and mark[1] in anchors:
        lines = [lines[0][: mark.start(1) - 1] + lines[0][mark.end() :], *lines[1:]]
    try:
        return front.load_yaml("\n".join(lines), first_line=first_line)
    except ParseError as error:
        if error.code in front.HARMFUL_CODES:
            raise
    head = lines[0].partition(":")[2].strip()
    tail = textwrap.dedent("\n".join(lines[1:]))
    if not head and level < _MAX_LEVELS and front.KEY_LINE.match(tail.lstrip()):
        below = {"first_line": first_line + 1, "level": level + 1}
        inner, findings = repair_mapping(tail, anchors=anchors, **below)
        return {key: inner}, findings
    written = "\n".join(lines)
    if anchors & {*_ANCHOR.findall(written), *_ALIAS.findall(written)}:
        return {}, (_finding("yaml-anchor", key, line=first_line),)
    value, code, cause = _salvage(head, tail, lines[1:])
    message = f"The value of {key!r} {cause}; it was read as text, put it in quotes."
    return {key: value}, (Finding(code, message, first_line),)


def _salvage(head: str, tail: str, lines: Sequence[str]) -> tuple[Json, str, str]:
    """Read a value that is not YAML as text; return it, and the code and cause of its finding.

    Args:
        head: What stands behind the colon.
        tail: The dedented lines below.
        lines: The same lines as they are.
    """
    code, cause = "yaml-salvaged", "is not YAML"
    if indicator := _MISUSED_INDICATOR.match(head):
        head, cause = head[indicator.end() :], f"has text after the mark {indicator[0].strip()!r}"
    if ": " in f"{head} ":
        code, cause = "yaml-unquoted-colon", "holds an unquoted colon"
    if _BLOCK_INDICATOR.fullmatch(head):
        return tail.strip(), code, cause
    texts = [line.strip() for line in (head, *lines) if line.strip()]
    if texts and all(text.startswith("- ") for text in texts):
        return [_unquote(text[2:].strip()) for text in texts], code, cause
    return _unquote(" ".join(texts)), code, cause


def _unquote(text: str) -> str:
    """Strip quotes that were meant to enclose the whole text."""
    quote = text[:1]
    if quote not in {'"', "'"}:
        return text
    with suppress(ValueError):  # a pair of surrogates is a character in JSON, not in YAML
        return front.well_formed(str(json.loads(text, strict=False)))
    inner = text[1:-1] if len(text) > 1 and text.endswith(quote) else text[1:]
    following = inner.find(quote)
    if following > 0 and not inner[following - 1].isspace() and inner[following - 1] != "\\":
        return text
    return inner.replace('\\"', '"').replace("\\n", "\n") if quote == '"' else inner
