"""Value types shared by all layers: frozen, cheap to import, at most able to say what they hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, field, replace
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypeAlias,
    get_args,
    overload,
)

from skillsearch.records import dataclass

if TYPE_CHECKING:
    import os

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"
"""A JSON value: a text, a number, a truth value, null, or lists and string-keyed maps of them."""

JsonObject: TypeAlias = dict[str, Json]
"""A JSON object."""

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the stage (``read``, ``embed`` or ``search``), how many are done, of how many."""

System = Literal["hybrid", "bm25", "dense", "rrf"]
SYSTEMS: tuple[System, ...] = get_args(System)
"""Ways to rank. hybrid: calibrated fusion of all features; bm25: words alone; dense: vectors alone;
rrf: both by reciprocal rank. Only hybrid's scores are probabilities."""

State = Literal["fits", "perhaps", "none"]
"""What an answer says: some skill fits; none surely does, but one may; none does."""

Face = Literal["list", "prompt", "terminal", "page"]
FACES: tuple[Face, ...] = get_args(Face)
"""Who is shown an answer, which decides how unlikely a skill that may fit can be. list: a program,
or a model that asked; prompt: a model that did not; terminal, page: a person."""

Trust = Literal["vetted", "project", "fetched"]
TRUSTS: tuple[Trust, ...] = get_args(Trust)
"""Who vouches for the skills of a root. vetted: the user, who named the folder or owns it; project:
nobody, it was found in a checkout; fetched: nobody, it came in an archive or from a URL."""

ExampleSource = Literal["user", "package", "skill"]
"""Who wrote an example request: the user, or a tool that the user let; we; the skill's author."""

SELECTING = ("include", "exclude", "tags", "in_roots", "strict")
Selection: TypeAlias = tuple[tuple[str, tuple[str, ...]] | tuple[str, tuple[str, ...], str], ...]
"""Which skills to search, all that pass each test: one of `SELECTING`, and the values it takes.
include, exclude: patterns (``*``, ``?``, ``[a-z]``), one or none of which stands for the skill's
name or its folder below the root, with the root's alias and a colon before it or without; tags: it
has one of them; in_roots: it is in one of them, named by alias, path or URL; strict: it has no
`Skill.lapses` that begin so, as in `STRICT`. A third item is a folder: skills of roots outside it
pass that test. Beside these, `SCOPE` takes the folders that a question comes from: it leaves out
the skills of projects that hold none of them, unless `EVERYWHERE` is its third item."""
SCOPE = "scope"
EVERYWHERE = "everywhere"

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
"""Of a name that is shown beside others."""
LOADED_NAME_CHARS = 256
"""Of a name by which a skill is loaded: with its root, or a version."""

Severity = Literal["error", "warning", "note"]
"""error: the skill cannot be indexed; warning: indexed, but fix it; note: worth knowing."""


class Record:
    """A dataclass with slots that has a JSON form."""

    __slots__: tuple[str, ...] = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    OPTIONAL: ClassVar[tuple[str, ...]] = ()
    KEYS: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """The JSON keys of fields that have another name."""

    def to_dict(self) -> JsonObject:
        """Return the JSON form; optional fields that have their default are left out."""
        # `asdict` takes far longer, and large corpora have thousands of diagnostics.
        values = {name: getattr(self, name) for name in self.__slots__}
        for name in self.OPTIONAL:
            if values[name] == self.__dataclass_fields__[name].default:
                del values[name]
        return {self.KEYS.get(name, name): _json_form(value) for name, value in values.items()}


def _json_form(value: Any) -> Json:
    if isinstance(value, tuple):
        return [_json_form(item) for item in value]
    return value.to_dict() if isinstance(value, Record) else value


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


@dataclass(frozen=True, slots=True)
class Explanation(Record):
    """Why a hit has its score.

    Attributes:
        features: Value of each ranking feature, 0..1, and the log-odds of a reader, if it was read.
        contributions: What each feature adds to the sum that ranks the hit.
        log_odds: What each piece of evidence for this hit adds, and the intercept.
        own_score: The score by this evidence alone; the log-odds of a hybrid one are the sum of
            `log_odds`.
        cut_by: Name of the hit before it that scores less, to whose score this one's was cut down;
            empty if the score is its own.
        matched_terms: Query terms that occur in the skill, by field, as indexed.
        section: Heading of the best matching section of the body, or empty.
        snippet: The first lines of that section, or empty.
        example: The example request that has most of the query's words, or empty.
    """

    features: Mapping[str, float]
    contributions: Mapping[str, float]
    log_odds: Mapping[str, float]
    own_score: float
    matched_terms: Mapping[str, tuple[str, ...]]
    section: str = ""
    snippet: str = ""
    cut_by: str = ""
    example: str = ""

    @property
    def summary(self) -> list[tuple[str, str]]:
        """Labelled texts: terms, the best section, features and evidence by what they add."""
        added, odds = (
            sorted(parts.items(), key=itemgetter(1), reverse=True)
            for parts in (self.contributions, self.log_odds)
        )
        values = self.features
        reasons = [
            f"{name} {values[name]:.2f} adds {part:.2f}"
            if name in values
            else f"{name} {part:+.2f}"
            for name, part in added
            if part
        ]
        evidence = [f"{name} {part:+.2f}" for name, part in odds if round(part, 2)]
        if self.cut_by:
            evidence.append(f"own score {self.own_score:.3f}, cut down to that of {self.cut_by}")
        fields = self.matched_terms.items()
        lines = [(f"in {field}", ", ".join(terms)) for field, terms in fields if terms]
        if self.example:
            lines.append(("example", self.example))
        if self.section or self.snippet:
            lines.append(("section", f"{self.section or '(top)'}: {self.snippet}"))
        lines.append(("why", ", ".join(reasons)))
        if evidence:
            lines.append(("log-odds", ", ".join(evidence)))
        return lines


MOST_NAMED = 10  # members of a family that are named on a line


@dataclass(frozen=True, slots=True)
class Relative(Record):
    """A near-copy of a skill; it differs in some of ``name``, ``description`` and ``body``.

    The `handle` is as in `Hit`.
    """

    OPTIONAL = ("handle",)

    name: str
    path: str
    root: str
    differs: tuple[str, ...]
    doc_id: str
    handle: str = ""

    @property
    def shown(self) -> str:
        """The name that means it and no other skill."""
        return self.handle or self.name


@dataclass(frozen=True, slots=True)
class Family(Record):
    """The near-copies of a skill, without itself: how many, and the first of them.

    The `roots` are those of the skill and of all its near-copies. With a request, the best fitting
    come first.
    """

    size: int
    roots: int
    members: tuple[Relative, ...]

    @property
    def names(self) -> str:
        """The names of the first members, and in what they differ."""
        return self.names_by(lambda near: near.shown)

    def names_by(self, shown: Callable[[Relative], str]) -> str:
        """Return the names of the first members as a function shows them, and how they differ."""
        first = self.members[:MOST_NAMED]
        names = [f"{shown(near)} ({', '.join(near.differs) or 'the same'})" for near in first]
        more = self.size - len(names)
        return ", ".join([*names, f"{more:,} more"] if more else names)

    def __str__(self) -> str:
        copies = "1 near-copy" if self.size == 1 else f"{self.size:,} near-copies"
        return f"{copies}, a family across {self.roots} roots" if self.roots > 1 else copies


@dataclass(frozen=True, slots=True)
class Hit(Record):
    """One skill found by a query, its rank counted from 1, its score a probability of relevance.

    It stands for its `family`, if it has near-copies, and the score is that of the best of them in
    its root; the `duplicates` are the paths of those listed there. `chunk` is the id of the chunk
    of the skill that fits the query best, or empty. Trust and origin are its root's. The `handle`
    names it alone: ``root:name``, or its id, if another skill has its name, else empty.
    """

    OPTIONAL = ("explain", "chunk", "family", "origin", "handle")

    rank: int
    name: str
    description: str
    score: float
    path: str
    root: str
    doc_id: str
    duplicates: tuple[str, ...] = ()
    explain: Explanation | None = None
    chunk: str = ""
    family: Family | None = None
    trust: Trust = "vetted"
    origin: str = ""
    handle: str = ""

    def with_family(self, family: Family | None) -> Hit:
        """Return the same hit in another family."""
        paths = tuple(member.path for member in family.members) if family else ()
        return replace(self, family=family, duplicates=paths)


@dataclass(frozen=True, slots=True)
class SearchResult(Record, Sequence[Hit]):
    """The answer to one query: a sequence of its hits, best first, false if there are none.

    The hits *fit*: they reached the threshold. Those in `perhaps` did not, but may fit: read their
    descriptions before use. They are the nearest, and their ranks go on; `shown` has both. It
    abstained if there is no hit. It has `words_only` while the index is still being built;
    `unvetted` hits, up to as many as were asked for, were left out if only skills of vetted roots
    were.
    """

    OPTIONAL = ("words_only", "unvetted")

    query: str
    threshold: float
    hits: tuple[Hit, ...]
    abstained: bool
    seconds: float
    perhaps: tuple[Hit, ...] = ()
    words_only: bool = False
    unvetted: int = 0

    @property
    def state(self) -> State:
        """What the answer says as a whole."""
        return "fits" if self.hits else "perhaps" if self.perhaps else "none"

    @property
    def shown(self) -> tuple[Hit, ...]:
        """What fits, then what may, best first."""
        return self.hits + self.perhaps

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...

    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """Progress of an index: files read, and texts embedded; totals are 0 or a guess at first."""

    read: int = 0
    files: int = 0
    embedded: int = 0
    texts: int = 0
    seconds_left: float | None = None

    @property
    def share(self) -> float:
        """Share of the texts that are embedded, 0 to 1."""
        return self.embedded / self.texts if self.texts else 0.0

    @property
    def when(self) -> str:
        """When to search again, in words."""
        if self.seconds_left is None:
            return "in a minute"
        seconds = math.ceil(self.seconds_left) or 1
        return f"in about {seconds} s" if seconds < 120 else f"in about {seconds // 60} min"


@dataclass(frozen=True, slots=True)
class IndexReport(Record):
    """Result of one run of indexing.

    Attributes:
        indexed: Skills in the index now.
        embedded: Texts that had to be embedded; some of them `truncated` at the token limit.
        reused: Skills taken unchanged from the previous index.
        removed: Skills of the previous index that are gone.
        skipped: SKILL.md files that could not be indexed.
        diagnostics: Everything worth reporting, by path.
        generation: Name of the index generation that holds the result.
        healed: Files of the index that were damaged and rebuilt, by name.
        left: How many skills left the index with each root that it holds no longer, by path.
    """

    indexed: int
    embedded: int
    reused: int
    removed: int
    skipped: int
    truncated: int
    diagnostics: tuple[Diagnostic, ...]
    generation: str
    seconds: float
    healed: tuple[str, ...] = ()
    left: Mapping[str, int] = field(default_factory=dict)
