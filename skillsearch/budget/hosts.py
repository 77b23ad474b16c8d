"""How hosts shorten a listing of skills, each by its own rules.

The figures date from 2026. Lengths are code points, where JavaScript hosts count an emoji as
two. Skills of the same name are taken as listed side by side, and skills that a host brings itself
are unknown here: both make the room larger or smaller than assumed.
"""

from __future__ import annotations

import html
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from skillsearch.hosts.table import with_key
from skillsearch.types.json_values import JsonObject

Unit = Literal["characters", "tokens", "characters each"]
Fate = Literal["whole", "shortened", "name only", "omitted", "hidden"]
FATES: tuple[Fate, ...] = get_args(Fate)
"""The fates of a skill in a listing. shortened: part of its description is kept; hidden: the
host leaves it out because the skill asks for that."""

CLAUDE_CODE_ENTRY_CHARS = 1_536
"""skillListingMaxDescChars in the schema of its settings and code.claude.com/docs/en/skills."""

# OpenAI Codex: codex-rs/core-skills/src/render.rs.
CODEX_BYTES_PER_TOKEN = 4  # its estimate of tokens, rounded up line by line
CODEX_DESCRIPTION_CHARS = 1_024
CODEX_ELLIPSIS = "..."

# OpenClaw: DEFAULT_MAX_SKILLS_IN_PROMPT and the bounds of a shortened description, in
# src/skills/loading/skill-prompt-limits.ts and skill-contract.ts.
OPENCLAW_SKILLS = 150
OPENCLAW_SHORT = (4, 220)
OPENCLAW_FRAME = 370  # text around the listing
OPENCLAW_NOTE = 130
"""The note that it was cut, and the longer sentence of the compact form, at most."""
OPENCLAW_ENTRY = 65
"""Tags, blanks and line ends of a skill without description (97 with, its documentation says)."""
OPENCLAW_DESCRIPTION = 32  # tags, blanks and line end of a description


@dataclass(frozen=True, slots=True)
class ListedSkill:
    """A skill as hosts list it: texts on one line, POSIX paths, one with ``~``."""

    name: str
    description: str
    when_to_use: str = ""
    hidden: bool = False
    path: str = ""
    root: str = ""
    short_path: str = ""


_Kept: TypeAlias = list[int | None]
"""How many characters of each description are kept; None for an omitted skill."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The listing of a host: names of skills by fate, in order.

    `needed` is the size of the uncut listing, or of the longest description if each has a limit.
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

    def to_dict(self) -> JsonObject:
        """Return the JSON form: counts of all fates, names of all but ``whole``."""
        names = {fate.replace(" ", "_"): list(self.fates[fate]) for fate in FATES}
        counts = {fate: len(listed) for fate, listed in names.items()}
        record: JsonObject = {**asdict(self), "counts": counts, **names}
        del record["fates"], record["whole"]
        return record


class Fitted(NamedTuple):
    """Skills in the order in which a host lists them, each with how many characters it keeps.

    That is of the description, and None for an omitted skill. Those `hidden` stand apart.
    """

    unit: Unit
    limit: int
    needed: int
    rows: tuple[tuple[ListedSkill, int | None], ...]
    hidden: tuple[ListedSkill, ...]


def fit_in(host: str, skills: Sequence[ListedSkill], window: int | None) -> Fitted:
    """Work out how one of `HOSTS` cuts skills by precedence, in a window of tokens or None."""
    rule = HOSTS[host]
    hidden, offered = [], []
    for skill in skills:
        if rule.hides and skill.hidden:
            hidden.append(skill)
        elif rule.with_when:
            text = " - ".join(filter(None, (skill.description, skill.when_to_use)))
            offered.append(replace(skill, description=text))
        else:
            offered.append(skill)
    if rule.by_name:
        offered.sort(key=lambda skill: skill.name.casefold())
    unit, limit = rule.budget(window)
    needed, lengths = rule.fit(offered, unit, limit)
    rows = tuple(zip(offered, lengths, strict=True))
    return Fitted(unit, limit, needed, rows, tuple(hidden))


def fate_of(skill: ListedSkill, kept: int | None) -> Fate:
    """Return what is left of a skill that a host does not hide."""
    if kept is None:
        return "omitted"
    if kept >= len(skill.description):
        return "whole"
    return "shortened" if kept else "name only"


def list_in(host: str, skills: Sequence[ListedSkill], window: int | None) -> Listing:
    """Work out what one of `HOSTS` shows of skills by precedence, in a window of tokens or None."""
    fitted = fit_in(host, skills, window)
    fates: dict[Fate, list[str]] = {fate: [] for fate in FATES}
    fates["hidden"] = [skill.name for skill in fitted.hidden]
    for skill, kept in fitted.rows:
        fates[fate_of(skill, kept)].append(skill.name)
    names = {fate: tuple(listed) for fate, listed in fates.items()}
    unit, limit, needed = fitted[:3]
    return Listing(host, unit, limit, needed, HOSTS[host].order, names)


def _fit_names_first(skills: Sequence[ListedSkill], _: Unit, limit: int) -> tuple[int, _Kept]:
    """List lines ``- name: text``; if too long, all names, and descriptions while they fit."""
    lengths: _Kept = [min(len(skill.description), CLAUDE_CODE_ENTRY_CHARS) for skill in skills]
    costs = [(chars or 0) + len(": ") for chars in lengths]
    names = sum(len(f"- {skill.name}\n") for skill in skills) - bool(skills)
    needed = names + sum(costs)
    remaining = needed if needed <= limit else max(0, limit - names)
    for number, cost in enumerate(costs):
        if cost > remaining:
            lengths[number] = 0
        else:
            remaining -= cost
    return needed, lengths


def _fit_xml(skills: Sequence[ListedSkill], _: Unit, limit: int) -> tuple[int, _Kept]:
    """List the first 150 as XML; if too long, cut all descriptions alike, then the last skills."""
    texts = [skill.description for skill in skills]
    bare = [OPENCLAW_ENTRY + _xml_length(skill.name + skill.short_path) for skill in skills]
    described = [OPENCLAW_DESCRIPTION + _xml_length(text) for text in texts]
    needed = OPENCLAW_FRAME + sum(bare) + sum(described)
    shown = min(OPENCLAW_SKILLS, len(texts))
    note = OPENCLAW_NOTE if shown < len(texts) else 0
    lengths: _Kept = [len(text) for text in texts[:shown]]
    if OPENCLAW_FRAME + note + sum(bare[:shown]) + sum(described[:shown]) > limit:
        room = limit - OPENCLAW_FRAME - OPENCLAW_NOTE
        while sum(bare[:shown]) > room:
            shown -= 1
        lengths = _cut_alike(texts[:shown], room - sum(bare[:shown]))
    return needed, [*lengths, *[None] * (len(texts) - shown)]


def _cut_alike(texts: Sequence[str], room: int) -> _Kept:
    """Cut XML descriptions to the greatest length for which there is room, or leave them out."""
    least, most = OPENCLAW_SHORT

    def length_at(chars: int) -> int:
        cut = (text if len(text) <= chars else text[: chars - 3].rstrip() + "..." for text in texts)
        return sum(OPENCLAW_DESCRIPTION + _xml_length(text) for text in cut)

    chars = least + bisect_right(range(least, most + 1), room, key=length_at) - 1
    return [min(len(text), chars) if chars >= least else 0 for text in texts]


def _xml_length(text: str) -> int:
    return len(html.escape(text))


def _cap(skills: Sequence[ListedSkill], _: Unit, limit: int) -> tuple[int, _Kept]:
    """List all skills, cutting only long descriptions."""
    lengths = [len(skill.description) for skill in skills]
    return max(lengths, default=0), [min(length, limit) for length in lengths]


class _Line(NamedTuple):
    """A line of Codex's listing: weight and cost without the description, cost with all of it."""

    weight: int
    cost: int
    full_cost: int
    description: str


class _Codex(NamedTuple):
    unit: Unit

    def weigh(self, text: str) -> int:
        return len(text.encode("utf-8", "replace")) if self.unit == "tokens" else len(text)

    def price(self, weight: int) -> int:
        return -(-weight // CODEX_BYTES_PER_TOKEN) if self.unit == "tokens" else weight

    def line(self, skill: ListedSkill, path: str) -> _Line:
        text = skill.description
        if len(text) > CODEX_DESCRIPTION_CHARS:
            text = text[: CODEX_DESCRIPTION_CHARS - len(CODEX_ELLIPSIS)] + CODEX_ELLIPSIS
        weight = self.weigh(f"- {skill.name}: (file: {path})\n")
        full = weight + self.weigh(f" {text}" if text else "")
        return _Line(weight, self.price(weight), self.price(full), text)

    def deal(self, lines: Sequence[_Line], limit: int) -> _Kept:
        """Return how many characters of each description are kept, None for an omitted line."""
        if sum(line.full_cost for line in lines) <= limit:
            return [len(line.description) for line in lines]
        spare = limit - sum(line.cost for line in lines)
        if spare >= 0:
            return [*self.deal_evenly(lines, spare)]
        lengths: _Kept = [None] * len(lines)
        for number, line in enumerate(lines):
            if line.cost <= limit:
                lengths[number] = 0
                limit = limit - line.cost
        return lengths

    def deal_evenly(self, lines: Sequence[_Line], spare: int) -> list[int]:
        """Give each line one more character in turn; a line that gets none now gets none later."""
        lengths = [0] * len(lines)
        weights = [line.weight + 1 for line in lines]  # the blank before a description
        costs = [line.cost for line in lines]
        waiting = list(range(len(lines)))
        while waiting:
            served = []
            for number in waiting:
                char = lines[number].description[lengths[number] :][:1]
                weight = weights[number] + self.weigh(char)
                cost = self.price(weight)
                if char and cost - costs[number] <= spare:
                    spare -= cost - costs[number]
                    weights[number], costs[number] = weight, cost
                    lengths[number] += 1
                    served.append(number)
            waiting = served
        return lengths


def codex_kept(skills: Sequence[ListedSkill], unit: Unit, limit: int) -> tuple[int, _Kept]:
    """Fit skills into Codex's listing of lines ``- name: description (file: path)``.

    If they are too long, all descriptions are cut to the same length but for the short ones; if
    even the names do not fit, the last skills are omitted. Paths are written below an alias of
    their root if that leaves more room. The size returned is of the uncut listing.
    """
    codex = _Codex(unit)
    lines = [codex.line(skill, skill.path) for skill in skills]
    needed = sum(line.full_cost for line in lines)
    lengths = codex.deal(lines, limit)
    if needed > limit:
        roots = dict.fromkeys(skill.root for skill in skills)
        aliases = {root: f"r{number}" for number, root in enumerate(roots)}
        rows = [f"- `{alias}` = `{root}`\n" for root, alias in aliases.items()]
        table = codex.price(codex.weigh("### Skill roots\n" + "".join(rows)))
        short = []
        for skill in skills:
            path = aliases[skill.root] + skill.path.removeprefix(skill.root)
            short.append(codex.line(skill, path))
        other = codex.deal(short, limit - table) if table < limit else lengths
        # More skills listed count first, then more characters kept.
        ways = lengths, other
        lengths = max(
            ways, key=lambda kept: (len(kept) - kept.count(None), sum(filter(None, kept)))
        )
    longest = CODEX_DESCRIPTION_CHARS - len(CODEX_ELLIPSIS)
    for number, (chars, skill) in enumerate(zip(lengths, skills, strict=True)):
        if chars is not None and len(skill.description) > CODEX_DESCRIPTION_CHARS:
            lengths[number] = min(chars, longest)
    return needed, lengths


@dataclass(frozen=True, slots=True)
class Host:
    """How a host lists skills: their order, and the part of each that fits into a budget.

    The budget is `limit` or, if the window is known, `of_window` hundredths for each of its tokens.
    A host may omit skills that ask for that, sort by name, and put ``when_to_use`` behind the
    description.
    """

    order: str
    fit: Callable[[Sequence[ListedSkill], Unit, int], tuple[int, _Kept]]
    limit: tuple[Unit, int]
    of_window: tuple[Unit, int] | None = None
    hides: bool = False
    by_name: bool = False
    with_when: bool = False

    def budget(self, window: int | None) -> tuple[Unit, int]:
        """Return what the budget counts, and the budget, for a context window in tokens."""
        if window is None or self.of_window is None:
            return self.limit
        unit, hundredths = self.of_window
        return unit, max(1, window * hundredths // 100)


_RULES = {"names first": _fit_names_first, "lines": codex_kept, "xml": _fit_xml, "each": _cap}


def _host(listing: Mapping[str, Any]) -> Host:
    """Return how a host lists skills, by its row of the table."""
    more: dict[str, Any] = {key: value for key, value in listing.items() if key != "rule"}
    more |= {key: tuple(value) for key, value in more.items() if isinstance(value, list)}
    return Host(fit=_RULES[listing["rule"]], **more)


HOSTS = {name: _host(row["listing"]) for name, row in with_key("listing").items()}
"""The hosts whose limits are known."""
