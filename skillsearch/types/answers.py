"""Answers as values: hits, why they have their scores, near-copies; and what may be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Literal, NamedTuple, TypeAlias, get_args, overload

from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.types.json_values import Record
from skillsearch.types.skills import Trust

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
        parts = (self.contributions, self.log_odds)
        added, odds = (sorted(some.items(), key=itemgetter(1), reverse=True) for some in parts)
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


class QueryAnswer(NamedTuple):
    """What the user is told about one query.

    Attributes:
        result: The skills that fit, and those that may.
        nearest: Names of skills that the query may misspell, if none fits.
        notes: What the user should know about the index.
    """

    result: SearchResult
    nearest: tuple[str, ...]
    notes: tuple[str, ...]
