"""The ``<chunk>`` markup of a body: parts that are loaded one by one; pure.

A tag is parsed as HTML, and is plain text if Markdown shows it as code: in a fence, in a code span
(https://spec.commonmark.org/0.31.2/#code-spans), or behind a backslash.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from html import unescape
from typing import NamedTuple

from skillsearch.errors import ChunkNotFoundError
from skillsearch.skills.frontmatter import Finding
from skillsearch.text.markdown import paragraphs
from skillsearch.text.safe_text import one_line
from skillsearch.types import Skill

MAX_ID_CHARS = 200
MAX_DESCRIPTION_CHARS = 1024
"""As of the description of a skill; more would only fill a prompt."""
_MAX_TAG_CHARS = 4_096
_MAX_FINDINGS = 50

_TOKEN = re.compile(
    r"(?:\\[\\`<])++|(?P<ticks>`++)|(?P<tag></?chunk(?=[\s/>]))", re.IGNORECASE | re.ASCII
)
_VALUE = r""""[^"]*+"|'[^']*+'|(?:[^\s"'=<>`/]|/(?!>))++"""
_ATTRIBUTE = re.compile(rf"""(?P<name>[^\s"'<>/=]++)(?:\s*+=\s*+(?P<value>{_VALUE}))?+""", re.ASCII)
# Outside quotes "<" ends an attempt, so of tags that are begun and never finished at most two can
# overlap, one in each kind of quotes: all attempts together take linear time.
_TAG = re.compile(
    r"</chunk(?:\s[^<>]*+)?+>"
    rf"""|<chunk(?P<attributes>(?:(?:\s++|(?<=["']))[^\s"'<>/=]++(?:\s*+=\s*+(?:{_VALUE}))?+)*+)"""
    r"\s*+(?P<slash>/?)>",
    re.IGNORECASE | re.ASCII,
)
_TICKS = re.compile("`+")
_STRAY_END = (
    "chunk-stray-end",
    "This '</chunk>' ends no chunk and stays text; remove it, or add the '<chunk>' before it.",
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a body that can be loaded separately.

    Attributes:
        id: Unique in the body, on one line.
        description: On one line; empty if the author gives none.
        content: Its Markdown, without the chunks inside it.
    """

    id: str
    description: str
    content: str


@dataclass(frozen=True, slots=True)
class ChunkedBody:
    """A body taken apart: its core outside all chunks, the chunks, and oddities by line."""

    core: str
    chunks: tuple[Chunk, ...] = ()
    findings: tuple[Finding, ...] = ()


def parse_chunks(body: str) -> ChunkedBody:
    """Take the chunks out of a body with Unix line ends, in linear time.

    No text is lost, whatever is wrong: a nested chunk becomes a chunk of its own, an unclosed one
    extends to the end, and a repeated id gets a number. A body without chunks is its own core.
    """
    folded = body.lower()
    if "<chunk" not in folded and "</chunk" not in folded:
        return ChunkedBody(body)
    cut = _cut(body)
    attributes = [_attributes(tag["attributes"]) for tag in cut.tags]
    wanted = [one_line(each.get("id", ""), MAX_ID_CHARS) for each in attributes]
    abouts = [one_line(each.get("description", ""), MAX_DESCRIPTION_CHARS) for each in attributes]
    chunks = tuple(map(Chunk, _unique_ids(wanted), abouts, cut.texts[1:]))
    problems = [(start, *_STRAY_END) for start in cut.strays]
    for number, chunk in enumerate(chunks):
        start, is_closed = cut.tags[number].start(), number + 1 not in cut.unclosed
        problems += [(start, *each) for each in _problems(chunk, wanted[number], is_closed)]
    return ChunkedBody(cut.texts[0] if chunks else body, chunks, _findings(body, problems))


def find_chunk(skill: Skill, chunk_id: str) -> Chunk:
    """Find a chunk of a skill by its id.

    Raises:
        ChunkNotFoundError: There is none; names the ids there are.
    """
    chunks = parse_chunks(skill.body).chunks
    for chunk in chunks:
        if chunk.id == chunk_id:
            return chunk
    raise ChunkNotFoundError(skill.name, chunk_id, tuple(chunk.id for chunk in chunks))


class _Cut(NamedTuple):
    """A body cut at its tags.

    Attributes:
        texts: Text outside all chunks, then the text of each chunk.
        tags: The opening tags.
        unclosed: Indexes into `texts` of chunks without a closing tag.
        strays: Offsets of closing tags that close nothing.
    """

    texts: list[str]
    tags: list[re.Match[str]]
    unclosed: AbstractSet[int]
    strays: list[int]


def _cut(body: str) -> _Cut:
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
        else:
            tags.append(tag)
            pieces.append([])
            if not tag["slash"]:
                inside.append(len(tags))
    pieces[inside[-1]].append(body[at:])
    return _Cut([_joined(each) for each in pieces], tags, set(inside[1:]), strays)


def _tags(body: str) -> Iterator[re.Match[str]]:
    """Yield the tags that are not shown as code, in order."""
    runs = defaultdict(list)
    for run in _TICKS.finditer(body):
        runs[len(run[0])].append(run.start())
    for at, end in paragraphs(body):
        while token := _TOKEN.search(body, at, end):
            at = token.end()
            if token["ticks"]:
                at = _span_end(runs[len(token["ticks"])], token, end)
            elif token["tag"]:
                limit = min(end, token.start() + _MAX_TAG_CHARS)
                if tag := _TAG.match(body, token.start(), limit):
                    at = tag.end()
                    yield tag


def _span_end(runs: Sequence[int], opening: re.Match[str], end: int) -> int:
    """Return where the code span ends that backticks open; if none closes it, where they end.

    It ends with the next run of as many backticks in the same paragraph.
    """
    place = bisect_left(runs, opening.end())
    is_closed = place < len(runs) and runs[place] < end
    return runs[place] + len(opening[0]) if is_closed else opening.end()


def _attributes(text: str) -> dict[str, str]:
    """Parse the attributes of a tag, names in lower case; the first of a repeated one counts."""
    found: dict[str, str] = {}
    for attribute in _ATTRIBUTE.finditer(text):
        value = attribute["value"] or ""
        bare = value[1:-1] if value[:1] in ('"', "'") else value
        found.setdefault(attribute["name"].lower(), unescape(bare))
    return found


def _unique_ids(wanted: Sequence[str]) -> list[str]:
    """Give each chunk an id: the first of equal ones keeps it, an empty one is numbered."""
    taken = set(wanted)
    seen: set[str] = set()
    suffixes: dict[str, int] = {}
    ids = []
    for ordinal, written in enumerate(wanted, start=1):
        base = name = written or f"chunk-{ordinal}"
        while name in (seen if name == written else taken):
            suffixes[base] = suffixes.get(base, 1) + 1
            name = f"{base}-{suffixes[base]}"
        taken.add(name)
        seen.add(name)
        ids.append(name)
    return ids


def _joined(pieces: Sequence[str]) -> str:
    """Join the text around removed chunks, with at most one blank line between."""
    texts: list[str] = []
    gap: list[str] = []
    for piece in pieces:
        text = piece.strip()
        if not text:
            gap.append(piece)
            continue
        begin = len(piece) - len(piece.lstrip())
        gap.append(piece[:begin])
        texts += [_one_blank_line("".join(gap)), text]
        gap = [piece[begin + len(text) :]]
    return "".join(texts[1:])


def _one_blank_line(gap: str) -> str:
    """Return white space with at most one blank line, keeping the indent of the line after it."""
    return "\n\n" + gap[gap.rfind("\n") + 1 :] if gap.count("\n") > 1 else gap


def _problems(chunk: Chunk, wanted: str, is_closed: bool) -> Iterator[tuple[str, str]]:
    """Yield code and message of each problem of a chunk."""
    if not wanted:
        yield "chunk-missing-id", f"The chunk has no id and is called {chunk.id!r}; give it one."
    elif chunk.id != wanted:
        yield (
            "chunk-duplicate-id",
            f"The chunk id {wanted!r} is taken; this chunk is called {chunk.id!r}, rename it.",
        )
    if not chunk.description:
        yield (
            "chunk-missing-description",
            f"The chunk {chunk.id!r} has no description; say what it holds, or nobody loads it.",
        )
    if not is_closed:
        yield (
            "chunk-unclosed",
            f"The chunk {chunk.id!r} is not closed and goes on to the end; add '</chunk>'.",
        )
    if not chunk.content:
        yield "chunk-empty", f"The chunk {chunk.id!r} holds no text; write some, or remove it."


def _findings(body: str, problems: list[tuple[int, str, str]]) -> tuple[Finding, ...]:
    """Turn problems at offsets into findings at lines, at most `_MAX_FINDINGS`."""
    problems.sort(key=lambda problem: problem[0])
    left_out = len(problems) - _MAX_FINDINGS
    findings = [
        Finding(code, message, body.count("\n", 0, start) + 1)
        for start, code, message in problems[:_MAX_FINDINGS]
    ]
    if left_out > 0:
        last = findings[-1]
        message = f"{last.message} {left_out:,} more problems with chunks are not listed."
        findings[-1] = last._replace(message=message)
    return tuple(findings)
