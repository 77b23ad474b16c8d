"""What the hosts of skills leave of a listing, by the rules they cut it by.

The figures are those of 2026. Lengths are code points, where JavaScript hosts count an emoji as
two. Skills of the same name are taken as listed side by side, and skills that a host brings itself
are unknown here: both make the room larger or smaller than assumed.
"""

from __future__ import annotations

import html
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from skillsearch.types import JsonValue

Unit = Literal["characters", "tokens", "characters each"]
Fate = Literal["whole", "shortened", "name only", "omitted", "hidden"]
FATES: tuple[Fate, ...] = get_args(Fate)
"""What becomes of a skill in a listing. shortened: part of its description is kept; hidden: the
host leaves it out because the skill asks for that."""

# Claude Code: skillListingBudgetFraction 0.01 of the window at 4 characters a token, and
# skillListingMaxDescChars, in the schema of its settings and code.claude.com/docs/en/skills.
CLAUDE_CODE_PERCENT = 1
CLAUDE_CODE_CHARS_PER_TOKEN = 4
CLAUDE_CODE_WINDOW = 200_000
"""Assumed if the window is unknown."""
CLAUDE_CODE_ENTRY_CHARS = 1_536

# OpenAI Codex: codex-rs/core-skills/src/render.rs.
CODEX_PERCENT = 2
CODEX_CHARS = 8_000
"""The budget if the window is unknown."""
CODEX_BYTES_PER_TOKEN = 4
"""Its estimate of tokens, rounded up line by line."""
CODEX_DESCRIPTION_CHARS = 1_024
CODEX_ELLIPSIS = "..."

# OpenClaw: DEFAULT_MAX_SKILLS_IN_PROMPT, DEFAULT_MAX_SKILLS_PROMPT_CHARS and the bounds of a
# shortened description, in src/skills/loading/skill-prompt-limits.ts and skill-contract.ts.
OPENCLAW_SKILLS = 150
OPENCLAW_CHARS = 18_000
OPENCLAW_SHORT = (4, 220)
OPENCLAW_FRAME = 370
"""Text around the listing."""
OPENCLAW_NOTE = 130
"""The note that it was cut, and the longer sentence of the compact form, at most."""
OPENCLAW_ENTRY = 65
"""Tags, blanks and line ends of a skill without description (97 with, its documentation says)."""
OPENCLAW_DESCRIPTION = 32
"""Tags, blanks and line end of a description."""

# Hermes: tools/skills_tool.py of hermes_agent 0.19; deepagents: middleware/skills.py of 0.7.32.
DESCRIPTION_CHARS = 1_024


@dataclass(frozen=True, slots=True)
class ListedSkill:
    """What hosts put into their listings; every text is on one line.

    ``path`` is the SKILL.md file and ``root`` the root it was found under, both absolute, with
    ``/`` as separator; ``short_path`` has ``~`` for the home folder.
    """

    name: str
    description: str
    when_to_use: str = ""
    hidden: bool = False
    path: str = ""
    root: str = ""
    short_path: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a host would show of some skills.

    Attributes:
        unit: What its budget counts; ``characters each`` is a limit on every single description.
        limit: Its budget.
        needed: The size of the uncut listing; in ``characters each``, of the longest description.
        order: Which skills come first if not all fit, in words.
        fates: Names of the skills by fate, in that order.
    """

    host: str
    unit: Unit
    limit: int
    needed: int
    order: str
    fates: Mapping[Fate, tuple[str, ...]]

    @property
    def is_over(self) -> bool:
        """Whether some skills had to make room for others."""
        cut: tuple[Fate, ...] = ("shortened", "name only", "omitted")
        return self.unit != "characters each" and any(self.fates[fate] for fate in cut)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form: counts of all fates, names of all but ``whole``."""
        names = {fate.replace(" ", "_"): list(self.fates[fate]) for fate in FATES}
        return {
            "host": self.host,
            "unit": self.unit,
            "limit": self.limit,
            "needed": self.needed,
            "order": self.order,
            "counts": {fate: len(found) for fate, found in names.items()},
            **{fate: found for fate, found in names.items() if fate != "whole"},
        }


def list_in(host: str, skills: Sequence[ListedSkill], window: int | None) -> Listing:
    """Work out what one of `HOSTS` would show of skills in order of precedence, then by name.

    The context window is in tokens, None if unknown.
    """
    order, cut, hides, by_name = HOSTS[host]
    offered = [skill for skill in skills if not (hides and skill.hidden)]
    if by_name:
        offered.sort(key=lambda skill: skill.name.casefold())
    unit, limit, needed, fates = cut(offered, window)
    pairs = list(zip(offered, fates, strict=True))
    names = {fate: tuple(skill.name for skill, its in pairs if its == fate) for fate in FATES}
    names["hidden"] = tuple(skill.name for skill in skills if hides and skill.hidden)
    return Listing(host, unit, limit, needed, order, names)


class _Cut(NamedTuple):
    """The budget of a host, the size of the uncut listing, and the fate of each skill."""

    unit: Unit
    limit: int
    needed: int
    fates: Sequence[Fate]


def _fate(kept: int | None, length: int) -> Fate:
    """Return the fate of a skill by the kept characters of its description; None if omitted."""
    if kept is None:
        return "omitted"
    if kept >= length:
        return "whole"
    return "shortened" if kept else "name only"


def _claude_code(skills: Sequence[ListedSkill], window: int | None) -> _Cut:
    """List lines ``- name: text``; if too long, all names, and descriptions while they fit."""
    tokens = CLAUDE_CODE_WINDOW if window is None else window
    limit = max(1, tokens * CLAUDE_CODE_CHARS_PER_TOKEN * CLAUDE_CODE_PERCENT // 100)
    lengths = [
        len(" - ".join(filter(None, (skill.description, skill.when_to_use)))) for skill in skills
    ]
    costs = [min(length, CLAUDE_CODE_ENTRY_CHARS) + len(": ") for length in lengths]
    names = sum(len(f"- {skill.name}\n") for skill in skills) - bool(skills)
    needed = names + sum(costs)
    left = max(0, limit - names)
    fates: list[Fate] = []
    for length, cost in zip(lengths, costs, strict=True):
        fits = needed <= limit or cost <= left
        left -= cost if fits else 0
        fates.append(_fate(min(length, CLAUDE_CODE_ENTRY_CHARS), length) if fits else "name only")
    return _Cut("characters", limit, needed, fates)


def _openclaw(skills: Sequence[ListedSkill], window: int | None) -> _Cut:
    """List the first 150 as XML; if too long, cut all descriptions alike, then the last skills."""
    texts = [skill.description for skill in skills]
    bare = [
        OPENCLAW_ENTRY + _xml_length(skill.name) + _xml_length(skill.short_path) for skill in skills
    ]
    full = [
        size + OPENCLAW_DESCRIPTION + _xml_length(text)
        for size, text in zip(bare, texts, strict=True)
    ]
    kept = _openclaw_kept(bare, full, texts)
    fates = [_fate(chars, len(text)) for chars, text in zip(kept, texts, strict=True)]
    return _Cut("characters", OPENCLAW_CHARS, OPENCLAW_FRAME + sum(full), fates)


def _openclaw_kept(
    bare: Sequence[int], full: Sequence[int], texts: Sequence[str]
) -> list[int | None]:
    """Return how many characters of each description are kept, None for an omitted skill."""
    shown = min(OPENCLAW_SKILLS, len(texts))
    note = OPENCLAW_NOTE if shown < len(texts) else 0
    if OPENCLAW_FRAME + note + sum(full[:shown]) <= OPENCLAW_CHARS:
        return [len(text) for text in texts[:shown]] + [None] * (len(texts) - shown)
    room = OPENCLAW_CHARS - OPENCLAW_FRAME - OPENCLAW_NOTE
    while sum(bare[:shown]) > room:
        shown -= 1
    left = room - sum(bare[:shown])
    least, most = OPENCLAW_SHORT

    def length_at(chars: int) -> int:
        cut = (
            text if len(text) <= chars else text[: chars - 3].rstrip() + "..."
            for text in texts[:shown]
        )
        return sum(OPENCLAW_DESCRIPTION + _xml_length(text) for text in cut)

    chars = least + bisect_right(range(least, most + 1), left, key=length_at) - 1
    kept = [min(len(text), chars) for text in texts[:shown]] if chars >= least else [0] * shown
    return [*kept, *[None] * (len(texts) - shown)]


def _xml_length(text: str) -> int:
    return len(html.escape(text))


def _capped(skills: Sequence[ListedSkill], window: int | None) -> _Cut:
    """List all skills, cutting only long descriptions."""
    lengths = [len(skill.description) for skill in skills]
    fates = [_fate(min(length, DESCRIPTION_CHARS), length) for length in lengths]
    return _Cut("characters each", DESCRIPTION_CHARS, max(lengths, default=0), fates)


def _codex(skills: Sequence[ListedSkill], window: int | None) -> _Cut:
    unit, limit = codex_budget(window)
    needed, kept = codex_kept(skills, unit, limit)
    fates = [
        _fate(chars, len(skill.description)) for skill, chars in zip(skills, kept, strict=True)
    ]
    return _Cut(unit, limit, needed, fates)


def codex_budget(window: int | None) -> tuple[Unit, int]:
    """Return what Codex's budget counts, and the budget, for a context window in tokens."""
    if window is None:
        return "characters", CODEX_CHARS
    return "tokens", max(1, window * CODEX_PERCENT // 100)


class _Measure:
    """What a text weighs, and what a line of some weight costs of the budget."""

    def __init__(self, unit: Unit) -> None:
        self._in_tokens = unit == "tokens"

    def weigh(self, text: str) -> int:
        return len(text.encode("utf-8", "replace")) if self._in_tokens else len(text)

    def price(self, weight: int) -> int:
        return -(-weight // CODEX_BYTES_PER_TOKEN) if self._in_tokens else weight


class _Line(NamedTuple):
    """A line of Codex's listing; weight and cost are those without the description."""

    weight: int
    cost: int
    description: str


def codex_kept(
    skills: Sequence[ListedSkill], unit: Unit, limit: int
) -> tuple[int, list[int | None]]:
    """Fit skills into Codex's listing of lines ``- name: description (file: path)``.

    If they are too long, all descriptions are cut to the same length but for the short ones; if
    even the names do not fit, the last skills are omitted. Paths are written below an alias of
    their root if that leaves more room.

    Returns the size of the uncut listing, and how many characters of each description are kept,
    without the ellipsis; None for an omitted skill.
    """
    measure = _Measure(unit)
    lines = [_line(skill, skill.path, measure) for skill in skills]
    needed = sum(_full_cost(line, measure) for line in lines)
    kept = _deal(lines, limit, measure)
    if needed > limit:
        table, aliased = _aliased(skills, measure)
        other = _deal(aliased, limit - table, measure) if table < limit else kept
        kept = max(kept, other, key=_merit)
    longest = CODEX_DESCRIPTION_CHARS - len(CODEX_ELLIPSIS)
    return needed, [
        min(chars, longest)
        if chars is not None and len(skill.description) > CODEX_DESCRIPTION_CHARS
        else chars
        for chars, skill in zip(kept, skills, strict=True)
    ]


def _merit(kept: Sequence[int | None]) -> tuple[int, int]:
    """Prefer more skills listed, then more characters kept."""
    return sum(chars is not None for chars in kept), sum(chars or 0 for chars in kept)


def _line(skill: ListedSkill, path: str, measure: _Measure) -> _Line:
    description = skill.description
    if len(description) > CODEX_DESCRIPTION_CHARS:
        description = description[: CODEX_DESCRIPTION_CHARS - len(CODEX_ELLIPSIS)] + CODEX_ELLIPSIS
    weight = measure.weigh(f"- {skill.name}: (file: {path})\n")
    return _Line(weight, measure.price(weight), description)


def _full_cost(line: _Line, measure: _Measure) -> int:
    """Return the cost of a line with its whole description, which has a blank before it."""
    blank = 1 if line.description else 0
    return measure.price(line.weight + blank + measure.weigh(line.description))


def _aliased(skills: Sequence[ListedSkill], measure: _Measure) -> tuple[int, list[_Line]]:
    """Return the cost of a table of root aliases, and the lines with paths below them."""
    roots = dict.fromkeys(skill.root for skill in skills)
    aliases = {root: f"r{number}" for number, root in enumerate(roots)}
    rows = [f"- `{alias}` = `{root}`\n" for root, alias in aliases.items()]
    table = measure.price(measure.weigh("### Skill roots\n" + "".join(rows)))
    lines = [
        _line(skill, aliases[skill.root] + skill.path.removeprefix(skill.root), measure)
        for skill in skills
    ]
    return table, lines


def _deal(lines: Sequence[_Line], limit: int, measure: _Measure) -> list[int | None]:
    """Return how many characters of each description are kept, None for an omitted line."""
    if sum(_full_cost(line, measure) for line in lines) <= limit:
        return [len(line.description) for line in lines]
    spare = limit - sum(line.cost for line in lines)
    if spare >= 0:
        return list(_deal_evenly(lines, spare, measure))
    kept: list[int | None] = []
    for line in lines:
        fits = line.cost <= limit
        limit -= line.cost if fits else 0
        kept.append(0 if fits else None)
    return kept


def _deal_evenly(lines: Sequence[_Line], spare: int, measure: _Measure) -> list[int]:
    """Give each line one more character in turn; a line that gets none now gets none later."""
    kept = [0] * len(lines)
    weights = [line.weight + 1 for line in lines]  # the blank before a description
    costs = [line.cost for line in lines]
    waiting = [number for number, line in enumerate(lines) if line.description]
    while waiting:
        served = []
        for number in waiting:
            description = lines[number].description
            weight = weights[number] + measure.weigh(description[kept[number]])
            cost = measure.price(weight)
            if cost - costs[number] > spare:
                continue
            spare -= cost - costs[number]
            weights[number], costs[number] = weight, cost
            kept[number] += 1
            if kept[number] < len(description):
                served.append(number)
        waiting = served
    return kept


class Host(NamedTuple):
    """How a host lists skills: their order in words, and what its rule makes of them.

    ``hides`` says whether it leaves out skills that ask for that.
    """

    order: str
    cut: Callable[[Sequence[ListedSkill], int | None], _Cut]
    hides: bool = False
    by_name: bool = False


_BY_USE = "order of the roots, then name (really by use, most used first)"
_BY_PLACE = "order of the roots, then name (really repository before user, then name)"
HOSTS = {
    "claude-code": Host(_BY_USE, _claude_code, hides=True),
    "codex": Host(_BY_PLACE, _codex),
    "openclaw": Host(
        f"name; at most {OPENCLAW_SKILLS} skills", _openclaw, hides=True, by_name=True
    ),
    "hermes": Host("all are listed", _capped),
    "deepagents": Host("all are listed", _capped),
}
"""The hosts whose limits are known."""
