"""Skills as values: their folders, the content of their files, and the problems with these."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal, NamedTuple, Self, get_args

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.types.json_values import Json, Record

Trust = Literal["vetted", "project", "fetched"]
TRUSTS: tuple[Trust, ...] = get_args(Trust)
"""Who vouches for the skills of a root. vetted: the user, who named the folder or owns it; project:
nobody, it was found in a checkout; fetched: nobody, it came in an archive or from a URL."""

ExampleSource = Literal["user", "package", "skill"]
"""Who wrote an example request: the user, or a tool that the user let; we; the skill's author."""

OverviewFormat = Literal["xml", "markdown", "json"]
OVERVIEW_FORMATS: tuple[OverviewFormat, ...] = get_args(OverviewFormat)
"""Formats of an overview. xml is what the Agent Skills specification's own library writes."""

SKILL_MD = "SKILL.md"
SKILL_MD_NAMES = (SKILL_MD, SKILL_MD.lower())
"""The file that makes a folder a skill: as the specification names it, and as its library does."""

STRICT_METADATA = (
    *("description-missing", "description-not-text", "field-nested", "frontmatter-"),
    *("name-missing", "yaml-salvaged", "yaml-unquoted-colon"),
)
"""What the code of a diagnostic begins with if name or description cannot be read as written."""
STRICT = (*STRICT_METADATA, "description-", "name-")
"""The same, and if they are not as the specification has them."""
WITH_FRONTMATTER = ("frontmatter-missing",)
"""The same for a caller that only wants frontmatter, and has words of its own for what lacks it."""

MAX_NAME_CHARS = 64
"""Of a name, by the specification; messages quote no more of any."""
SHOWN_NAME_CHARS = 200
"""Of a name that is shown with others."""
LOADED_NAME_CHARS = 256
"""Of a name by which a skill is loaded: with its root, or a version."""

Severity = Literal["error", "warning", "note"]
"""error: the skill cannot be indexed; warning: indexed, but fix it; note: worth knowing."""


@dataclass(frozen=True, slots=True)
class Diagnostic(Record):
    """One thing that is wrong, or odd, about a skill, a folder or an index.

    Its code is a stable word such as ``yaml-invalid``; its message is one line: what is wrong, the
    value, and what to do. Lines count from 1.
    """

    code: str
    severity: Severity
    message: str
    path: str
    line: int | None = None


class Example(NamedTuple):
    """A request that a skill is for, as somebody would put it."""

    text: str
    source: ExampleSource


@dataclass(frozen=True, slots=True)
class SkillMetadata:
    """The frontmatter of a SKILL.md in regular form; texts are empty if it does not give them.

    Attributes:
        allowed_tools: Tool names that the skill asks for; data, never acted on.
        triggers: Phrases by which the author wants the skill to be found.
        hidden: Whether ``disable-model-invocation``, or ``internal`` in its metadata, asks hosts
            not to offer the skill.
        requires: Skills that this one needs, each a name or ``name@constraint`` (PEP 440).
        paths: Patterns of the files in a project that it is for; none for all.
        examples: Requests that it is for, in its own words (``representativeQueries``).
        frontmatter: Every key of the frontmatter as JSON values, known or not.
    """

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    version: str = ""
    tags: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    when_to_use: str = ""
    hidden: bool = False
    requires: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    frontmatter: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that holds skills, by its real path; its alias begins every `doc_id` below it.

    The `origin` is the archive or URL it was unpacked from, without secrets; empty for a folder.
    Its skills are seen from the folders `projects` and below, from everywhere if there are none,
    but not from those `hidden_from` and below.
    """

    path: Path
    alias: str
    trust: Trust = "vetted"
    origin: str = ""
    projects: tuple[str, ...] = ()
    hidden_from: tuple[str, ...] = ()


def is_skill_md(name: str) -> bool:
    """Return whether a file of this name, in any case, makes its folder a skill."""
    return len(name) == len(SKILL_MD) and name.lower() == SKILL_MD_NAMES[1]


def in_64_bits(time_ns: int) -> int:
    """Return a time within 64 bits: the years 1677 to 2262."""
    return max(-(1 << 63), min(time_ns, (1 << 63) - 1))


LAST_SECOND = 253_370_764_800.0
"""The latest time that has a date in all time zones; a broken clock can give a file a later one."""


class FileStat(NamedTuple):
    """Size in bytes, time of modification, inode and time of change of a file; times in ns.

    Programs can set back the time of modification, but not the time of change.
    """

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        """Take it from the result of a system call."""
        mtime_ns, ctime_ns = map(in_64_bits, (status.st_mtime_ns, status.st_ctime_ns))
        return cls(status.st_size, mtime_ns, status.st_ino, ctime_ns)


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A SKILL.md that discovery found, not yet read; its id is ``alias:folder``, below its root."""

    doc_id: str
    path: Path
    root: Root
    stat: FileStat


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill as read: its frontmatter in regular form, and the Markdown after it.

    The `doc_id` is stable and unique in a corpus; `path` is the SKILL.md file, `root` the folder it
    was found under, and `content_hash` the sha256 of the file's bytes. If the body is a stub that
    was read on into other files of the skill, `continuation` is what those say, else None. Its
    `lapses` are the codes of its diagnostics that `STRICT` means. The `examples` are those that an
    index may use; `evals_hash` is a digest of the eval files that some may come from.
    """

    doc_id: str
    metadata: SkillMetadata
    body: str
    path: Path
    root: Path
    content_hash: str
    continuation: str | None = None
    lapses: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    evals_hash: str = ""

    @property
    def name(self) -> str:
        """The skill's name."""
        return self.metadata.name

    @property
    def description(self) -> str:
        """The skill's description."""
        return self.metadata.description

    @property
    def text(self) -> str:
        """The body, and its continuation if it has one."""
        return f"{self.body}\n\n{self.continuation}" if self.continuation else self.body


@dataclass(frozen=True, slots=True)
class FileContent(Record):
    """A file of a skill, or one page of it: text, or base64 if the file is not UTF-8 text.

    Offsets count bytes; `next_offset` is None at the end of the file. Size and hash (sha256) are
    the whole file's; it is stale if the caller knew it by another hash.
    """

    path: str
    content: str
    encoding: Literal["text", "base64"]
    offset: int
    next_offset: int | None
    size: int
    content_hash: str
    stale: bool = False
