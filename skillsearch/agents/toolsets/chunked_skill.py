"""A skill taken apart into core and chunks, and how a system prompt shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from skillsearch.skills.chunks import Chunk, parse_chunks
from skillsearch.text.safe_text import one_line, visible
from skillsearch.types import Skill as ParsedSkill
from skillsearch.types import SkillMetadata

SkillChunk: TypeAlias = Chunk

_LIST_HEAD = "[Available Chunks]"
_OUR_LINE = re.compile(
    rf"^([^\S\n]*+)(?=(?P<list>{re.escape(_LIST_HEAD)}(?![(\[:]))|##(?!#)(?P<title>[^\n]*+))",
    re.IGNORECASE | re.MULTILINE,
)
"""Begins a line such as `render_skills` writes itself; a Markdown link is none."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as it was at one look.

    Attributes:
        metadata: What its frontmatter says, every key of it in `SkillMetadata.frontmatter`.
        core_content: Its body without the chunks.
        chunks: The chunks by id, in the order in which they begin.
        active_chunks: Ids of the chunks that were handed out.
    """

    metadata: SkillMetadata
    core_content: str
    chunks: Mapping[str, SkillChunk]
    active_chunks: frozenset[str] = frozenset()

    @property
    def available_chunks(self) -> tuple[SkillChunk, ...]:
        """The chunks that were not handed out yet."""
        return tuple(c for c in self.chunks.values() if c.id not in self.active_chunks)


def take_apart(skill: ParsedSkill) -> Skill:
    """Separate the core of a skill from its chunks, none of which is active."""
    body = parse_chunks(skill.body)
    chunks = MappingProxyType({chunk.id: chunk for chunk in body.chunks})
    return Skill(skill.metadata, body.core, chunks)


def render_skills(skills: Mapping[str, Skill]) -> str:
    r"""Render the skills that may be offered to models.

    In a core, hidden characters are left out, and a line that would pass for the head of a list
    of chunks, or for the heading of another of these skills, gets a backslash before it:
    ``\## other-skill``. All other headings stay, so a core can still make up a skill.

    Args:
        skills: The skills by the names to call them by, each on one line.

    Returns:
        For each skill its heading, its core, and the chunks that are not active; a blank line
        between skills.
    """
    titles = frozenset(map(_folded, skills))
    return "\n\n".join(
        _section(name, skill, titles) for name, skill in skills.items() if not skill.metadata.hidden
    )


def _section(name: str, skill: Skill, titles: frozenset[str]) -> str:
    """Render a skill among others of these titles."""
    own = _folded(name)

    def mark(line: re.Match[str]) -> str:
        title = _folded(line["title"] or "")
        is_ours = line["list"] or (title in titles and title != own)
        return f"{line[1]}\\" if is_ours else line[1]

    core = _OUR_LINE.sub(mark, visible(skill.core_content)).strip("\n")
    lines = [f"## {name}", core] if core else [f"## {name}"]
    if available := skill.available_chunks:
        lines.append(_LIST_HEAD)
        lines += [f"- {': '.join(filter(None, (c.id, c.description)))}" for c in available]
    return "\n".join(lines)


def _folded(title: str) -> str:
    """Return the words of a heading, whatever their case and emphasis."""
    return one_line(title).strip("#*_`~ ").casefold()
