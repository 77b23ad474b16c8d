"""The ``<chunk>`` markup of a body: parts that are loaded one by one; pure.

A tag is parsed as HTML, and is plain text if Markdown shows it as code: in a fence, in a code span
(https://spec.commonmark.org/0.31.2/#code-spans), or behind a backslash.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import NamedTuple

from skillsearch.errors import ChunkNotFoundError
from skillsearch.skills.findings import Finding, finding_of
from skillsearch.skills.metadata import MAX_DESCRIPTION_CHARS
from skillsearch.text.markdown import paragraphs
from skillsearch.text.safe_text import counted, one_line
from skillsearch.types.skills import Skill

MAX_ID_CHARS = 200
_MAX_TAG_CHARS = 4_096
_MAX_FINDINGS = 50

_TOKEN = re.compile(
    r"(?:\\[\\`<])+|(?P<ticks>`++)|(?P<tag></?chunk(?=[\s/>]))", re.IGNORECASE | re.ASCII
)
# Python 3.11.0 to 3.11.4 match a possessive group wrongly, so only classes of characters have one.
_VALUE = r""""[^"]*+"|'[^']*+'|(?:[^\s"'=<>`/]|/(?!>))+"""
_ATTRIBUTE = re.compile(rf"""(?P<name>[^\s"'<>/=]++)(?:\s*+=\s*+(?P<value>{_VALUE}))?""", re.ASCII)
# Outside quotes "<" ends an attempt, so of tags that are begun and never finished at most two can
# overlap, one in each kind of quotes: all attempts together take linear time.
_TAG = re.compile(
    r"</chunk(?:\s[^<>]*+)?>"
    rf"""|<chunk(?P<attributes>(?:(?:\s++|(?<=["']))[^\s"'<>/=]++(?:\s*+=\s*+(?:{_VALUE}))?)*)"""
    r"\s*+(?P<slash>/?)>",
    re.IGNORECASE | re.ASCII,
)
_TICKS = re.compile("`+")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a body, without the chunks inside it; id and description are one line each."""

    id: str
    description: str
    content: str


class ChunkedBody(NamedTuple):
    """A body taken apart: its core outside all chunks, the chunks, and oddities by line."""

    core: str
    chunks: tuple[Chunk, ...] = ()
    findings: tuple[Finding, ...] = ()


def parse_chunks(body: str) -> ChunkedBody:
    """Take the chunks out of a body with Unix line ends, in linear time.

    No text is lost, whatever is wrong: a nested chunk becomes a separate chunk, an unclosed one
    extends to the end, and a repeated id gets a number. A body without chunks is its own core.
    """
    if "<chunk" not in body.lower().replace("</", "<"):
        return ChunkedBody(body)
    texts, tags, unclosed, strays = _cut(body)
    attributes = [_attributes(tag["attributes"]) for tag in tags]
    wanted = [one_line(each.get("id", ""), MAX_ID_CHARS) for each in attributes]
    abouts = [one_line(each.get("description", ""), MAX_DESCRIPTION_CHARS) for each in attributes]
    chunks = tuple(map(Chunk, _unique_ids(wanted), abouts, texts[1:]))
    problems = [(start, finding_of("chunks", "chunk-stray-end")) for start in strays]
    for number, (chunk, tag, name) in enumerate(zip(chunks, tags, wanted, strict=True), start=1):
        faults = {
            "chunk-missing-id": not name,
            "chunk-duplicate-id": chunk.id != (name or chunk.id),
            "chunk-missing-description": not chunk.description,
            "chunk-unclosed": number in unclosed,
            "chunk-empty": not chunk.content,
        }
        for code in filter(faults.get, faults):
            problems.append((tag.start(), finding_of("chunks", code, chunk.id, name)))
    problems.sort(key=lambda problem: problem[0])
    if left_out := len(problems[_MAX_FINDINGS:]):
        start, last = problems[_MAX_FINDINGS - 1]
        more = f"{last.message} Not listed: {counted(left_out, 'more problem')} with chunks."
        problems[_MAX_FINDINGS - 1 :] = [(start, last._replace(message=more))]
    findings = [odd._replace(line=body.count("\n", 0, at) + 1) for at, odd in problems]
    return ChunkedBody(texts[0] if chunks else body, chunks, tuple(findings))


def find_chunk(skill: Skill, chunk_id: str) -> Chunk:
    """Find a chunk of a skill by its id, or raise `ChunkNotFoundError` with the ids there are."""
    chunks = {chunk.id: chunk for chunk in parse_chunks(skill.body).chunks}
    if chunk_id not in chunks:
        raise ChunkNotFoundError(skill.name, chunk_id, tuple(chunks))
    return chunks[chunk_id]


def _cut(body: str) -> tuple[list[str], list[re.Match[str]], set[int], list[int]]:
    """Return texts (outside, then of each chunk), opening tags, unclosed texts, and stray ends."""
    pieces: list[list[str]] = [[]]
    tags: list[re.Match[str]] = []
    strays = []
    inside, at = [0], 0
    for tag in _tags(body):
        is_end = tag["attributes"] is None
        if is_end and len(inside) == 1:
            strays.append(tag.start())
            continue
        pieces[inside[-1]].append(body[at : tag.start()])
        at = tag.end()
        if is_end:
            inside.pop()
            continue
        tags.append(tag)
        pieces.append([])
        if not tag["slash"]:
            inside.append(len(tags))
    pieces[inside[-1]].append(body[at:])
    return [_joined(each) for each in pieces], tags, set(inside[1:]), strays


def _tags(body: str) -> Iterator[re.Match[str]]:
    """Yield the tags that are not shown as code, in order."""
    runs = defaultdict(list)
    for run in _TICKS.finditer(body):
        runs[len(run[0])].append(run.start())
    for at, end in paragraphs(body):
        while token := _TOKEN.search(body, at, end):
            at = token.end()
            if ticks := token["ticks"]:
                # The next run of as many backticks in the paragraph ends the code span.
                closing = runs[len(ticks)]
                next_run = bisect_left(closing, at)
                if next_run < len(closing) and closing[next_run] < end:
                    at = closing[next_run] + len(ticks)
            elif token["tag"]:
                limit = min(end, token.start() + _MAX_TAG_CHARS)
                if tag := _TAG.match(body, token.start(), limit):
                    at = tag.end()
                    yield tag


def _attributes(text: str) -> dict[str, str]:
    """Parse the attributes of a tag, names in lower case; the first of a repeated one counts."""
    attributes: dict[str, str] = {}
    for attribute in _ATTRIBUTE.finditer(text):
        value = attribute["value"] or ""
        bare = value[1:-1] if value[:1] in ('"', "'") else value
        attributes.setdefault(attribute["name"].lower(), unescape(bare))
    return attributes


def _unique_ids(wanted: Sequence[str]) -> list[str]:
    """Give each chunk an id: the first of equal ones keeps it, an empty one is numbered."""
    taken = set(wanted)
    suffixes = Counter[str]()
    ids: dict[str, None] = {}
    for ordinal, written in enumerate(wanted, start=1):
        base = name = written or f"chunk-{ordinal}"
        while name in (ids if name == written else taken):
            suffixes[base] += 1
            name = f"{base}-{suffixes[base] + 1}"
        taken.add(name)
        ids[name] = None
    return list(ids)


def _joined(pieces: Sequence[str]) -> str:
    """Join the text around removed chunks, with at most one blank line between, and indents."""
    texts: list[str] = []
    gap = ""
    for piece in pieces:
        text = piece.strip()
        if not text:
            gap += piece
            continue
        begin = len(piece) - len(piece.lstrip())
        gap += piece[:begin]
        texts += ["\n\n" + gap[gap.rfind("\n") + 1 :] if gap.count("\n") > 1 else gap, text]
        gap = piece[begin + len(text) :]
    return "".join(texts[1:])
