"""What a way of offering skills puts before a model, and how good and how costly that is; pure.

``end_to_end.py`` measures with it, and ``pages.py`` makes the table.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NotRequired, TypedDict

import markdown_tables
from benchmark.rows import Machine

from skillsearch.agents.prompt import PromptSkill, render_overview
from skillsearch.budget.hosts import FATES, Fate, ListedSkill, fate_of, fit_in
from skillsearch.hosts.table import title_of, with_key

ORACLE, HOOK, SEARCH, AGENT = "perfect choice", "hook", "MCP search", "MCP search, agent's words"
ALIAS = "r0"
"""The alias of the only root in Codex's listing."""
NOT_STANDING: tuple[Fate, ...] = ("omitted", "hidden")

Counter = Callable[[str], int]
Choices = dict[str, int]
"""What a model chose, as `turns.model` counts it; no page shows it."""


class Time(TypedDict):
    """Milliseconds of a request."""

    cpu_ms: float
    wall_ms: float


class Nothing(TypedDict):
    """Means over requests that nothing fits, and for what share no skill stands there."""

    tokens: float
    skills: float
    none: float


class Fitting(TypedDict):
    """Means over requests that some skill fits, and the share of each fate of the right one."""

    tokens: float
    right: dict[Fate, float]
    wrong: float


class WayRow(Fitting):
    """What a way of offering skills shows, by requests, and what it costs."""

    nothing: NotRequired[dict[str, Nothing]]
    model: NotRequired[dict[str, Choices]]
    time: NotRequired[Time]


class LibraryRow(TypedDict):
    """The ways of offering the skills of a library, and on how many requests they were tried."""

    skills: int
    judged: int
    tasks: int
    agent: int
    nothing: dict[str, int]
    ways: dict[str, WayRow]


class Report(TypedDict):
    """The result file."""

    machine: Machine
    counted_by: str
    window: int
    timed: int
    libraries: list[LibraryRow]
    load: NotRequired[list[float]]


class Task(NamedTuple):
    """A request, with the names of the skills that are right for it and of all that help.

    A request that nothing fits has neither.
    """

    text: str
    right: frozenset[str] = frozenset()
    helps: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Shown:
    """What stands before the model: text about skills, tokens in all, and what is left of each."""

    text: str
    tokens: int
    fates: Mapping[str, Fate] = field(default_factory=dict)

    def standing(self) -> frozenset[str]:
        """Return the names of the skills that stand there, be it by name alone."""
        return frozenset(name for name, fate in self.fates.items() if fate not in NOT_STANDING)

    def fate_of(self, names: frozenset[str]) -> Fate:
        """Return what is left of that of some skills of which most is left."""
        fates = (self.fates.get(name, "omitted") for name in names)
        return min(fates, key=FATES.index, default="omitted")


def listing(host: str, skills: Sequence[ListedSkill], window: int, count: Counter) -> Shown:
    """Return the listing of a host, without the sentences around it.

    Of Hermes and Deep Agents only the rule is known, so their entries are plain lines.
    """
    fitted = fit_in(host, skills, window)
    fates = {skill.name: fate_of(skill, kept) for skill, kept in fitted.rows}
    fates |= {skill.name: "hidden" for skill in fitted.hidden}
    kept = [(skill, skill.description[:chars]) for skill, chars in fitted.rows if chars is not None]
    rule = with_key("listing")[host]["listing"]["rule"]
    is_cut = any(fate != "whole" for fate in fates.values())
    text = _FORMS.get(rule, _plain)(kept, is_cut)
    return Shown(text, count(text), fates)


_Rows = Sequence[tuple[ListedSkill, str]]


def _plain(rows: _Rows, _: bool) -> str:
    return "\n".join(line_of(skill.name, text) for skill, text in rows)


def _lines(rows: _Rows, is_cut: bool) -> str:
    """Write lines of Codex, which writes paths below an alias of their root once it has to cut."""
    lines = []
    if is_cut and rows:
        lines = ["### Skill roots", f"- `{ALIAS}` = `{rows[0][0].root}`"]
    for skill, text in rows:
        path = ALIAS + skill.path.removeprefix(skill.root) if is_cut else skill.path
        lines.append(f"- {skill.name}: {text}{' ' if text else ''}(file: {path})")
    return "\n".join(lines)


def _xml(rows: _Rows, _: bool) -> str:
    shown = [PromptSkill(skill.name, text, skill.short_path) for skill, text in rows]
    return render_overview(shown)


_FORMS = {"lines": _lines, "xml": _xml}


def line_of(name: str, description: str) -> str:
    """Return the shortest entry of a skill."""
    return f"- {name}: {description}" if description else f"- {name}"


def oracle(task: Task, descriptions: Mapping[str, str], count: Counter) -> Shown:
    """Return what perfect choice shows: the shortest entry of a right skill, or nothing."""
    lines = [(line_of(name, descriptions[name]), name) for name in sorted(task.right)]
    if not lines:
        return Shown("", 0)
    text, name = min(lines, key=lambda pair: len(pair[0]))
    return Shown(text, count(text), {name: "whole"})


def tally(pairs: Sequence[tuple[Task, Shown]]) -> Fitting:
    """Return means over requests that some skill fits, and the share of each fate of the right one.

    Wrong ones are skills that stand there and do not help; what helps in part is neither.
    """
    fates = [shown.fate_of(task.right) for task, shown in pairs]
    return {
        "tokens": statistics.mean(shown.tokens for _, shown in pairs),
        "right": {fate: fates.count(fate) / len(fates) for fate in FATES},
        "wrong": statistics.mean(len(shown.standing() - task.helps) for task, shown in pairs),
    }


def tally_nothing(answers: Sequence[Shown]) -> Nothing:
    """Return means over requests that nothing fits, and for what share no skill stands there."""
    skills = [len(shown.standing()) for shown in answers]
    return {
        "tokens": statistics.mean(shown.tokens for shown in answers),
        "skills": statistics.mean(skills),
        "none": skills.count(0) / len(skills),
    }


HEADS = (
    "skills",
    "way",
    "tokens",
    "right: whole",
    "shortened",
    "name alone",
    "absent",
    "wrong",
    "nothing fits: tokens",
    "nothing fits: skills",
    "twins: skills",
)
TIME = "CPU, wall"


def table(report: Report) -> str:
    """Return the table of a report, a row for each way in each library."""
    return "\n".join(_rows(report))


def _rows(report: Report) -> Iterator[str]:
    load = report.get("load")
    heads = (*HEADS, TIME) if load else HEADS
    yield from markdown_tables.table(heads)
    for library in report["libraries"]:
        alike: dict[tuple[str, ...], list[str]] = {}
        for name, way in library["ways"].items():
            alike.setdefault(_cells(way), []).append(_title(name))
        for cells, titles in alike.items():
            row = (f"{library['skills']:,}", ", ".join(titles), *cells[: len(heads) - 2])
            yield markdown_tables.line(row)
    machine = report["machine"]
    conditions = (
        f"Measured on {machine['date']} at `{machine['commit']}`, on {machine['cpus']} cores where"
        f" `import numpy` takes {machine['import_numpy_cpu_s']:.2f} CPU seconds"
    )
    if load:
        loads = " to ".join(dict.fromkeys(f"{average:.1f}" for average in load))
        conditions += f". The machine's load was {loads}. Each time is the median of"
        conditions += f" {report['timed']} requests"
    yield ""
    yield f"{conditions}."


def _title(name: str) -> str:
    return f"listing of {title_of(name)}" if name in with_key("listing") else name


def _cells(way: WayRow) -> tuple[str, ...]:
    right, nothing = way["right"], way.get("nothing", {})
    absent = sum(right[fate] for fate in NOT_STANDING)
    shares = (right["whole"], right["shortened"], right["name only"], absent)
    ordinary, twins = nothing.get("ordinary"), nothing.get("twins")
    time = way.get("time")
    return (
        f"{way['tokens']:,.0f}",
        *(f"{share:.0%}" if share else "" for share in shares),
        f"{way['wrong']:,.1f}",
        f"{ordinary['tokens']:,.0f}" if ordinary else "",
        f"{ordinary['skills']:,.1f}" if ordinary else "",
        f"{twins['skills']:,.1f}" if twins else "",
        f"{time['cpu_ms']:.0f}, {time['wall_ms']:.0f} ms" if time else "",
    )
