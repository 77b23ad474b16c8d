"""How OpenAI Codex fits skills into its listing (codex-rs/core-skills/src/render.rs).

A line is ``- name: description (file: path)``. Too many: descriptions are cut, all to the same
length but for the short ones; where not even the names fit, the last skills are omitted. Paths
are written below an alias of their root where that leaves more room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from skillsearch.budget.sizes import ListedSkill

WINDOW_PERCENT = 2
CHARS_WITHOUT_WINDOW = 8_000
BYTES_PER_TOKEN = 4
"""Its estimate of tokens, rounded up line by line."""
DESCRIPTION_CHARS = 1_024
ELLIPSIS = "..."
ORDER = "order of the roots, then name (really repository before user, then name)"

Unit = Literal["characters", "tokens"]


class _Measure(NamedTuple):
    """What a budget counts: how much a text weighs, and what a line of some weight costs."""

    weigh: Callable[[str], int]
    price: Callable[[int], int]


_MEASURES: dict[Unit, _Measure] = {
    "characters": _Measure(len, int),
    "tokens": _Measure(
        lambda text: len(text.encode("utf-8", "replace")),
        lambda weight: -(-weight // BYTES_PER_TOKEN),
    ),
}


class _Line(NamedTuple):
    """A skill's line: its weight and cost without description, and the description."""

    weight: int
    cost: int
    description: str


def limit_of(window: int | None) -> tuple[Unit, int]:
    """Return the budget for a context window, and what it counts.

    Args:
        window: Tokens of the context window; None where it is unknown.

    Returns:
        The unit and the number.
    """
    if window is None:
        return "characters", CHARS_WITHOUT_WINDOW
    return "tokens", max(1, window * WINDOW_PERCENT // 100)


def deal(skills: Sequence[ListedSkill], unit: Unit, limit: int) -> tuple[int, list[int | None]]:
    """Deal out the room of the listing.

    Args:
        skills: The skills; the last ones are omitted first.
        unit: What the limit counts.
        limit: The room.

    Returns:
        What the listing would take uncut, and how many characters of each description are kept,
        its ellipsis aside; None for an omitted skill.
    """
    measure = _MEASURES[unit]
    lines = [_line(skill, skill.path, measure) for skill in skills]
    needed = sum(_full_cost(line, measure) for line in lines)
    kept = _deal(lines, limit, measure)
    if needed > limit:
        table, aliased = _aliased(skills, measure)
        other = _deal(aliased, limit - table, measure) if table < limit else kept
        kept = max(kept, other, key=_merit)
    return needed, [
        chars if chars is None else _source_chars(chars, len(skill.description))
        for chars, skill in zip(kept, skills, strict=True)
    ]


def _merit(kept: Sequence[int | None]) -> tuple[int, int]:
    """Rank ways to deal: by skills that are listed, then by characters that are kept."""
    return sum(chars is not None for chars in kept), sum(chars or 0 for chars in kept)


def _source_chars(kept: int, length: int) -> int:
    """Return how many of the kept characters are the description's own."""
    return kept if length <= DESCRIPTION_CHARS else min(kept, DESCRIPTION_CHARS - len(ELLIPSIS))


def _line(skill: ListedSkill, path: str, measure: _Measure) -> _Line:
    """Return the line of a skill, with its line end."""
    description = skill.description
    if len(description) > DESCRIPTION_CHARS:
        description = description[: DESCRIPTION_CHARS - len(ELLIPSIS)] + ELLIPSIS
    weight = measure.weigh(f"- {skill.name}: (file: {path})\n")
    return _Line(weight, measure.price(weight), description)


def _full_cost(line: _Line, measure: _Measure) -> int:
    """Return the cost of a line with all of its description."""
    blank = 1 if line.description else 0
    return measure.price(line.weight + blank + measure.weigh(line.description))


def _aliased(skills: Sequence[ListedSkill], measure: _Measure) -> tuple[int, list[_Line]]:
    """Return the cost of a table of roots, and the lines with paths below its aliases."""
    aliases = {
        root: f"r{place}" for place, root in enumerate(dict.fromkeys(s.root for s in skills))
    }
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
    """Give each line one character more in turn; one that gets none now gets none later."""
    kept = [0] * len(lines)
    weights = [line.weight + 1 for line in lines]  # A description has a blank before it.
    costs = [line.cost for line in lines]
    waiting = [place for place, line in enumerate(lines) if line.description]
    while waiting:
        served = []
        for place in waiting:
            description = lines[place].description
            weight = weights[place] + measure.weigh(description[kept[place]])
            cost = measure.price(weight)
            if cost - costs[place] > spare:
                continue
            spare -= cost - costs[place]
            weights[place], costs[place] = weight, cost
            kept[place] += 1
            if kept[place] < len(description):
                served.append(place)
        waiting = served
    return kept
