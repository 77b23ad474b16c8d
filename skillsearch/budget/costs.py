"""The cost of skills in a prompt, level by level, and whether the promised savings hold.

Skills are read one file at a time. The promises come from the skills architecture that this package
follows ("Token 优化总结").
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from pathlib import Path, PurePosixPath
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

from skillsearch.agents.prompt import CONCISE_CHARS, PromptSkill, render_available, render_overview
from skillsearch.budget.hosts import HOSTS, Fate, ListedSkill, Listing, list_in
from skillsearch.errors import SkillError
from skillsearch.files.openat import UNKNOWN_STAT
from skillsearch.hosts.table import title_of
from skillsearch.index.indexing.reading import read_for_index
from skillsearch.skills.discovery import discover, make_roots
from skillsearch.skills.resources import list_files, read_file
from skillsearch.text.safe_text import counted, one_line
from skillsearch.types.answers import Selection
from skillsearch.types.indexing import Progress
from skillsearch.types.json_values import JsonObject
from skillsearch.types.skills import Diagnostic, Root, Skill, SkillFile

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex

Counter = Callable[[str], int]  # counts the tokens of a text
DOCUMENT_SUFFIXES = frozenset({".md", ".txt"})
"""Files that an agent reads into its prompt; scripts are run, assets are copied."""


_CUTS: Mapping[Fate, str] = {
    "shortened": "shorten {}",
    "name only": "show {} by name alone",
    "omitted": "leave {} out",
}


@dataclass(frozen=True, slots=True)
class Size:
    """The length of a text in code points and in tokens."""

    characters: int = 0
    tokens: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.characters + other.characters, self.tokens + other.tokens)


class MeasuredSkill(NamedTuple):
    """A skill and the size of each level; a hidden one has no overview, cut or not, nor as XML."""

    skill: ListedSkill
    overview: Size
    summary: Size
    xml: Size
    body: Size
    documents: Size


@dataclass(frozen=True, slots=True)
class Level:
    """The cost of ``overview``, ``bodies`` or ``all`` of some skills, as share of the last.

    The median is over the skills that have the level, and the largest has most tokens.
    """

    name: str
    total: Size
    share: float | None
    median: Size
    largest: Size
    largest_skill: str


@dataclass(frozen=True, slots=True)
class SearchCost:
    """The cost of the overview of n average skills and one median body."""

    n: int
    listing: Size
    body: Size

    @property
    def total(self) -> Size:
        """Both together."""
        return self.listing + self.body


@dataclass(frozen=True, slots=True)
class CostClaim:
    """The lowest saving, or highest share, that was promised, and the measured one, if any."""

    name: str
    compares: str
    figure: Literal["saving", "share"]
    claimed: float
    measured: float | None

    @property
    def holds(self) -> bool | None:
        """Whether the promise is kept, in whole percent; None if nothing was measured."""
        if self.measured is None:
            return None
        measured = round(self.measured, 2)
        return measured >= self.claimed if self.figure == "saving" else measured <= self.claimed


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """The cost of skills in a prompt, with a context window in tokens, None if unknown."""

    skills: int
    hidden: int
    window: int | None
    levels: tuple[Level, ...]
    search: SearchCost
    claims: tuple[CostClaim, ...]
    listings: tuple[Listing, ...]

    def headline(self) -> str:
        """Return a sentence about what hosts would cut."""
        all_of_them = counted(self.skills, "skill")
        cuts = []
        for listing in self.listings:
            counts = {fate: len(listing.fates[fate]) for fate in _CUTS if listing.fates[fate]}
            if verbs := [_CUTS[fate].format(f"{count:,}") for fate, count in counts.items()]:
                cuts.append(f"{title_of(listing.host)} would {' and '.join(verbs)}")
        return f"Of {all_of_them}, {'; '.join(cuts)}." if cuts else f"No host cuts {all_of_them}."

    def to_dict(self) -> JsonObject:
        """Return the JSON form."""
        return {
            "skills": self.skills,
            "hidden": self.hidden,
            "context": self.window,
            "levels": {level.name: asdict(level) for level in self.levels},
            "search": {**asdict(self.search), "total": asdict(self.search.total)},
            "claims": [{**asdict(claim), "holds": claim.holds} for claim in self.claims],
            "hosts": [listing.to_dict() for listing in self.listings],
        }


def sources_of_roots(paths: Sequence[Path]) -> tuple[list[SkillFile], tuple[Diagnostic, ...]]:
    """Return the skills below folders, in the order of the folders, and what cannot be read."""
    roots, problems = make_roots(paths)
    discovery = discover(roots)
    errors = (
        diagnostic
        for diagnostic in (*problems, *discovery.diagnostics)
        if diagnostic.severity == "error"
    )
    return _by_root(discovery.files, roots), tuple(errors)


def sources_of_index(index: SkillIndex, selection: Selection = ()) -> list[SkillFile]:
    """Return the skills of an index in the order of its roots; their stat is unknown."""
    files = (
        SkillFile(doc.doc_id, Path(doc.path), Root(Path(doc.root), ""), UNKNOWN_STAT)
        for doc in index.documents(selection)
    )
    return _by_root(files, index.opened.settings.roots)


def _by_root(sources: Iterable[SkillFile], roots: Sequence[Root]) -> list[SkillFile]:
    order = {root.path: number for number, root in enumerate(roots)}
    return sorted(sources, key=lambda source: order.get(source.root.path, len(order)))


def measure(
    sources: Sequence[SkillFile], count: Counter, progress: Progress | None = None
) -> tuple[tuple[MeasuredSkill, ...], tuple[Diagnostic, ...]]:
    """Read and measure skills with their text documents; returns them by root and name.

    A document of a skill inside another counts for the inner one alone.
    """
    folders = frozenset(source.path.parent for source in sources)
    roots = list(dict.fromkeys(source.root.path for source in sources))
    measured: dict[tuple[int, str, str], MeasuredSkill] = {}
    problems: list[Diagnostic] = []
    for number, source in enumerate(sources):
        read = read_for_index(source)
        if read.skill is None:
            problems += read.diagnostics
        else:
            documents = _measure_documents(source.path.parent, folders, count, problems)
            key = (roots.index(source.root.path), read.skill.name.casefold(), source.doc_id)
            measured[key] = measure_skill(_listed(read.skill), read.skill.body, documents, count)
        if progress is not None:
            progress("read", number + 1, len(sources))
    return tuple(measured[key] for key in sorted(measured)), tuple(problems)


def listed_skills(sources: Sequence[SkillFile]) -> tuple[ListedSkill, ...]:
    """Read skills as hosts list them, by root and name; those that cannot be read are left out."""
    roots = list(dict.fromkeys(source.root.path for source in sources))
    skills = [read.skill for source in sources if (read := read_for_index(source)).skill]
    ordered = sorted(
        filter(None, skills),
        key=lambda skill: (roots.index(skill.root), skill.name.casefold(), skill.doc_id),
    )
    return tuple(map(_listed, ordered))


def _listed(skill: Skill) -> ListedSkill:
    path = short = skill.path.as_posix()
    with suppress(RuntimeError, ValueError):
        short = f"~/{skill.path.relative_to(Path.home()).as_posix()}"
    description = " ".join(skill.description.split())
    when = " ".join(skill.metadata.when_to_use.split())
    root, hidden = skill.root.as_posix(), skill.metadata.hidden
    return ListedSkill(skill.name, description, when, hidden, path, root, short)


def _measure_documents(
    folder: Path, folders: Collection[Path], count: Counter, problems: list[Diagnostic]
) -> Size:
    """Return the size of a skill's text documents; add those that cannot be read to `problems`."""

    def report(code: str, message: object, where: Path) -> None:
        problems.append(Diagnostic(code, "warning", str(message), str(where)))

    size = Size()
    try:
        files, is_truncated = list_files(folder)
    except SkillError as error:
        report("folder-unreadable", error, folder)
        return size
    if is_truncated:
        message = "The folder has more files than are listed; some documents are not counted."
        report("files-truncated", message, folder)
    for file in files:
        path = PurePosixPath(file)
        is_nested = any(folder / parent in folders for parent in path.parents if parent.name)
        if path.suffix.lower() in DOCUMENT_SUFFIXES and not is_nested:
            try:
                text = read_file(folder, file).decode("utf-8-sig", "replace")
                size += measure_text(text, count)
            except SkillError as error:
                report("document-unreadable", error, folder / file)
    return size


def report_budget(
    skills: Sequence[MeasuredSkill], *, n: int, window: int | None, hosts: Iterable[str] = HOSTS
) -> BudgetReport:
    """Work out the budget of skills by precedence and name, for searches of n hits."""
    listed = [skill.skill for skill in skills]
    return BudgetReport(
        skills=len(skills),
        hidden=sum(skill.hidden for skill in listed),
        window=window,
        levels=measure_levels(skills),
        search=measure_search(skills, n),
        claims=check_claims(skills, n),
        listings=tuple(list_in(host, listed, window) for host in dict.fromkeys(hosts)),
    )


def measure_text(text: str, count: Counter) -> Size:
    """Return the size of a text."""
    return Size(len(text), count(text))


def measure_skill(skill: ListedSkill, body: str, documents: Size, count: Counter) -> MeasuredSkill:
    """Measure the levels of a skill whose documents, too large to be held, are measured already."""
    overview = summary = xml = Size()
    if not skill.hidden:
        shown = [PromptSkill(skill.name, skill.description, skill.path)]
        # A line above the skills, and in XML one below them, are not theirs.
        overview = measure_text(render_available(shown).partition("\n")[2], count)
        cut = [PromptSkill(skill.name, one_line(skill.description, CONCISE_CHARS))]
        summary = measure_text(render_available(cut).partition("\n")[2], count)
        inner = render_overview(shown, "xml").partition("\n")[2].rpartition("\n")[0]
        xml = measure_text(inner, count)
    return MeasuredSkill(skill, overview, summary, xml, measure_text(body, count), documents)


def measure_levels(skills: Sequence[MeasuredSkill]) -> tuple[Level, Level, Level]:
    """Add up the levels of all skills.

    ``overview`` is name and description of each skill that is not hidden, a line each; ``bodies``
    every SKILL.md without its frontmatter; ``all`` bodies and text documents, as scripts and assets
    are not read into a prompt.
    """
    whole = [(skill.body + skill.documents, skill.skill.name) for skill in skills]
    total = sum(size.tokens for size, _ in whole)
    offered = [(skill.overview, skill.skill.name) for skill in skills if not skill.skill.hidden]
    bodies = [(skill.body, skill.skill.name) for skill in skills]
    return (
        _level("overview", offered, total),
        _level("bodies", bodies, total),
        _level("all", whole, total),
    )


def _level(name: str, sizes: Sequence[tuple[Size, str]], everything: int) -> Level:
    total = sum((size for size, _ in sizes), Size())
    share = total.tokens / everything if everything else None
    if not sizes:
        return Level(name, total, share, median=Size(), largest=Size(), largest_skill="")
    lengths = zip(*(astuple(size) for size, _ in sizes), strict=True)
    middle = Size(*(round(median(values)) for values in lengths))
    return Level(name, total, share, middle, *max(sizes, key=lambda pair: pair[0].tokens))


def measure_search(skills: Sequence[MeasuredSkill], n: int) -> SearchCost:
    """Work out the cost of a search; of fewer than n offered skills it lists all."""
    overview, bodies, _ = measure_levels(skills)
    offered = sum(not skill.skill.hidden for skill in skills)
    part = min(n, offered) / offered if offered else 0.0
    listing = Size(round(overview.total.characters * part), round(overview.total.tokens * part))
    return SearchCost(n, listing, bodies.median)


def check_claims(skills: Sequence[MeasuredSkill], n: int) -> tuple[CostClaim, ...]:
    """Compare the promised savings with the user's own skills, for searches of n hits.

    Two promises need a reading: "full skill content" is the bodies, as the promise knows no
    documents; "a compact summary" is the overview in plain lines, long descriptions cut, compared
    with XML, as the promise names no other form.
    """
    overview, bodies, everything = (level.total.tokens for level in measure_levels(skills))
    search = measure_search(skills, n)
    summary = sum(skill.summary.tokens for skill in skills)
    xml = sum(skill.xml.tokens for skill in skills)
    one_body = overview + search.body.tokens
    hits = f"overview of {counted(n, 'hit')}, not of all"
    share = overview / bodies if bodies else None
    return (
        _saving("metadata", "overview, not all bodies and documents", 0.9, overview, everything),
        CostClaim("start", "overview, as share of all bodies", "share", 0.2, share),
        _saving(
            "on demand", "overview and one body (median), not all bodies", 0.8, one_body, bodies
        ),
        _saving("relevant", hits, 0.7, search.listing.tokens, overview),
        _saving("format", "summary in plain lines, not XML with locations", 0.5, summary, xml),
    )


def _saving(name: str, compares: str, claimed: float, used: int, whole: int) -> CostClaim:
    return CostClaim(name, compares, "saving", claimed, 1 - used / whole if whole else None)
