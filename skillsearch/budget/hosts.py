"""What the hosts of skills would leave of a listing, by the rules that they cut it by.

The figures are those of 2026. Lengths are code points, where JavaScript hosts count an emoji as
two. Skills of the same name are taken as listed side by side, and skills that a host brings
itself are not known here: both leave less room, or more, than is counted.
"""

from __future__ import annotations

import html
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from skillsearch.budget.codex import ORDER as CODEX_ORDER
from skillsearch.budget.codex import deal, limit_of
from skillsearch.budget.sizes import ListedSkill
from skillsearch.types import JsonValue

Fate = Literal["whole", "shortened", "name only", "omitted", "hidden"]
FATES: tuple[Fate, ...] = get_args(Fate)
"""What becomes of a skill in a listing. shortened: a part of its description is there; hidden: the
host leaves it out because the skill asks for that."""

# Claude Code: skillListingBudgetFraction 0.01 of the window at 4 characters a token, and
# skillListingMaxDescChars, in the schema of its settings and code.claude.com/docs/en/skills.
CLAUDE_CODE_PERCENT = 1
CLAUDE_CODE_CHARS_PER_TOKEN = 4
CLAUDE_CODE_WINDOW = 200_000
"""Taken where the window is unknown."""
CLAUDE_CODE_ENTRY_CHARS = 1_536

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

_GIVEN_ORDER = "order of the roots, then name (really by use, most used first)"


@dataclass(frozen=True, slots=True)
class Listing:
    """What a host would show of the skills.

    Attributes:
        host: Its name.
        unit: What its budget counts: ``characters``, ``tokens``, or ``characters each`` for a
            limit on each description alone.
        limit: Its budget.
        needed: What the listing would take uncut; of ``characters each``, the longest.
        order: Which skills come first where not all fit.
        fates: The names of the skills by what becomes of them, in that order.
    """

    host: str
    unit: Literal["characters", "tokens", "characters each"]
    limit: int
    needed: int
    order: str
    fates: Mapping[Fate, tuple[str, ...]]

    @property
    def is_over(self) -> bool:
        """Whether some skills had to make room for others."""
        return self.unit != "characters each" and any(
            self.fates[fate] for fate in ("shortened", "name only", "omitted")
        )

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
    """Work out what a host would show.

    Args:
        host: One of `HOSTS`.
        skills: The skills, in order of precedence, then by name.
        window: The context window in tokens; None where it is unknown.

    Returns:
        The listing.
    """
    return HOSTS[host](skills, window)


def _fates(
    skills: Sequence[ListedSkill], fates: Sequence[Fate], hidden: Sequence[ListedSkill] = ()
) -> dict[Fate, tuple[str, ...]]:
    """Gather names by fate."""
    pairs = list(zip(skills, fates, strict=True))
    found = {fate: tuple(skill.name for skill, its in pairs if its == fate) for fate in FATES}
    return {**found, "hidden": tuple(skill.name for skill in hidden)}


def _fate(kept: int, length: int) -> Fate:
    """Say what it means to keep so many characters of a description."""
    if kept >= length:
        return "whole"
    return "shortened" if kept else "name only"


def _claude_code(skills: Sequence[ListedSkill], window: int | None) -> Listing:
    """List lines ``- name: text``; too many: all names, and descriptions while they fit."""
    tokens = CLAUDE_CODE_WINDOW if window is None else window
    limit = max(1, tokens * CLAUDE_CODE_CHARS_PER_TOKEN * CLAUDE_CODE_PERCENT // 100)
    offered = [skill for skill in skills if not skill.hidden]
    lengths = [
        len(" - ".join(filter(None, (skill.description, skill.when_to_use)))) for skill in offered
    ]
    costs = [min(length, CLAUDE_CODE_ENTRY_CHARS) + len(": ") for length in lengths]
    names = sum(len(f"- {skill.name}\n") for skill in offered) - bool(offered)
    needed = names + sum(costs)
    left = max(0, limit - names)
    fates: list[Fate] = []
    for length, cost in zip(lengths, costs, strict=True):
        fits = needed <= limit or cost <= left
        left -= cost if fits else 0
        fates.append(_fate(min(length, CLAUDE_CODE_ENTRY_CHARS), length) if fits else "name only")
    hidden = [skill for skill in skills if skill.hidden]
    return Listing(
        "claude-code",
        "characters",
        limit,
        needed,
        _GIVEN_ORDER,
        _fates(offered, fates, hidden),
    )


def _codex(skills: Sequence[ListedSkill], window: int | None) -> Listing:
    """List by the rules of `skillsearch.budget.codex`."""
    unit, limit = limit_of(window)
    needed, kept = deal(skills, unit, limit)
    fates: list[Fate] = [
        "omitted" if chars is None else _fate(chars, len(skill.description))
        for skill, chars in zip(skills, kept, strict=True)
    ]
    return Listing("codex", unit, limit, needed, CODEX_ORDER, _fates(skills, fates))


def _openclaw(skills: Sequence[ListedSkill], window: int | None) -> Listing:
    """List the first 150 as XML; too long: all descriptions cut alike, then the last skills."""
    ordered = sorted(
        (skill for skill in skills if not skill.hidden), key=lambda skill: skill.name.casefold()
    )
    texts = [skill.description for skill in ordered]
    bare = [
        OPENCLAW_ENTRY + _xml_length(skill.name) + _xml_length(skill.short_path)
        for skill in ordered
    ]
    full = [
        size + OPENCLAW_DESCRIPTION + _xml_length(text)
        for size, text in zip(bare, texts, strict=True)
    ]
    kept = _openclaw_kept(bare, full, texts)
    fates: list[Fate] = [
        "omitted" if chars is None else _fate(chars, len(text))
        for chars, text in zip(kept, texts, strict=True)
    ]
    hidden = [skill for skill in skills if skill.hidden]
    return Listing(
        "openclaw",
        "characters",
        OPENCLAW_CHARS,
        OPENCLAW_FRAME + sum(full),
        f"name; at most {OPENCLAW_SKILLS} skills",
        _fates(ordered, fates, hidden),
    )


def _openclaw_kept(
    bare: Sequence[int], full: Sequence[int], texts: Sequence[str]
) -> list[int | None]:
    """Return how much of each description is kept, None for an omitted skill."""
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
        """Return what the descriptions take when each is cut to so many characters."""
        return sum(OPENCLAW_DESCRIPTION + _xml_length(_cut(text, chars)) for text in texts[:shown])

    chars = least + bisect_right(range(least, most + 1), left, key=length_at) - 1
    kept = [len(text) if len(text) <= chars else chars for text in texts[:shown]]
    return [*(kept if chars >= least else [0] * shown), *[None] * (len(texts) - shown)]


def _cut(text: str, chars: int) -> str:
    """Return a description as the compact form has it."""
    return text if len(text) <= chars else text[: chars - 3].rstrip() + "..."


def _xml_length(text: str) -> int:
    """Return the length of a text in XML."""
    return len(html.escape(text))


def _capped(host: str) -> Callable[[Sequence[ListedSkill], int | None], Listing]:
    """Return the rule of a host that cuts each description and has no budget for all."""

    def list_all(skills: Sequence[ListedSkill], window: int | None) -> Listing:
        """List all skills, whatever the window."""
        lengths = [len(skill.description) for skill in skills]
        fates = [_fate(min(length, DESCRIPTION_CHARS), length) for length in lengths]
        return Listing(
            host,
            "characters each",
            DESCRIPTION_CHARS,
            max(lengths, default=0),
            "all are listed",
            _fates(skills, fates),
        )

    return list_all


HOSTS: dict[str, Callable[[Sequence[ListedSkill], int | None], Listing]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "openclaw": _openclaw,
    "hermes": _capped("hermes"),
    "deepagents": _capped("deepagents"),
}
"""The hosts whose limits are known, and the rule of each."""
