"""A skill → pairs of a query and a document that it answers, imitating what real users type; pure.

Real queries are short and sloppy, or long and full of what does not matter; the texts of skills are
neither. What a skill says of its requests is worth most, its sentences and parts of its body less;
a query never stands in the document that it is paired with.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from skillsearch.training import phrases
from skillsearch.training.phrases import SkillText

WEIGHTS = {
    "request": 3.0,
    "clause": 2.0,
    "sentence": 1.5,
    "piece": 3.0,
    "task": 1.2,
    "script": 1.2,
    "keywords": 1.2,
    "headings": 0.4,
    "name": 0.4,
}
"""How often each kind of query is drawn, among those that a skill has."""
BODY_SHARE = 0.35
"""Share of the queries from metadata, paired with the head of the body."""
HEAD_CHARS = 1_200
"""Of a body this much is paired: about what fits 256 tokens."""
PIECE_CHARS = (80, 600)
TASK_CHARS = 900
_MASKED = 0.5
"""Share of the queries from a body without the skill's name."""
_LEAST_LEFT = 30
"""Characters of metadata that must be left without the query, for the two to be a pair."""
_OPENINGS = tuple(
    "I need to |I want to |Help me |Can you help me with |How do I |How can I |Please |Could you |"
    "I'm trying to |We need to |I have to |What is the best way to |Can you |I'd like to |"
    "need help with |how to ".split("|")
)
_TASKS = (
    "# Task: {}\n\n",
    "Task: {}\n",
    "{}\n\n## Background\n\n",
    "{}\n\n",
    "User prompt: {}\n",
    "",
)
_STOP = frozenset(
    "a an the and or of to in on for with by from as at is are be this that it its use when using "
    "used skill skills user users you your via into any all not do can will should asks "
    "wants".split()
)
_WORD = re.compile(r"[\w+#.-]*\w[+#]*")


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and a document that it must find.

    Attributes:
        query: As a user may type it.
        document: The text of a field.
        kind: Where the query comes from, a key of `WEIGHTS`.
    """

    query: str
    document: str
    kind: str


@dataclass(frozen=True, slots=True)
class MinedSkill:
    """A skill, and what queries can be made of."""

    text: SkillText
    sources: dict[str, tuple[str, ...]]

    @classmethod
    def mine(cls, text: SkillText) -> MinedSkill:
        """Collect what queries can be made of."""
        about, body = text.about, text.body
        found = {
            "request": [*phrases.quoted(about), *phrases.said(body), *phrases.uses(body)],
            "clause": phrases.clauses(f"{about}\n{body}"),
            "sentence": phrases.sentences(about),
            "piece": (part for part in phrases.paragraphs(body) if part[:60] not in about),
            "script": text.scripts,
            "headings": phrases.headings(body)[:12],
        }
        sources = {kind: tuple(dict.fromkeys(texts)) for kind, texts in found.items()}
        return cls(text, {kind: texts[:24] for kind, texts in sources.items() if texts})

    def draw(self, chance: random.Random) -> Pair | None:
        """Draw a pair.

        Args:
            chance: Decides; the same state gives the same pair.

        Returns:
            The pair; None where the skill has too little text.
        """
        kinds = [*self.sources, "name"]
        if "piece" in self.sources:
            kinds.append("task")
        if len(self.text.about) > 2 * _LEAST_LEFT:
            kinds.append("keywords")
        for _ in range(3):
            kind = chance.choices(kinds, [WEIGHTS[one] for one in kinds])[0]
            pair = _DRAWN[kind](self, chance)
            if pair and len(pair.query) > 3 and len(pair.document) >= _LEAST_LEFT:
                return pair
        return None

    def metadata(self, without: str = "") -> str:
        """Return the metadata as it is embedded, without a part of it."""
        about = self.text.about
        if without:
            about = about.replace(without, " ")
        return f"{self.text.name}: {about}"

    def head(self, without: str = "") -> str:
        """Return the head of the body, without a part of it."""
        body = self.text.body[: 2 * HEAD_CHARS]
        return (body.replace(without, " ") if without else body)[:HEAD_CHARS].strip()


def _from_metadata(skill: MinedSkill, chance: random.Random, kind: str) -> Pair | None:
    """Pair something that is said of the skill with the rest of its metadata, or with its body."""
    source = chance.choice(skill.sources[kind])
    query = _asked(source, chance) if kind != "sentence" else _plainer(source, chance)
    left = len(skill.text.about.replace(source, ""))
    head = skill.head(source)
    if head and (left < _LEAST_LEFT or chance.random() < BODY_SHARE):
        return Pair(query, head, kind)
    return Pair(query, skill.metadata(source), kind) if left >= _LEAST_LEFT else None


def _request(skill: MinedSkill, chance: random.Random) -> Pair | None:
    return _from_metadata(skill, chance, "request")


def _clause(skill: MinedSkill, chance: random.Random) -> Pair | None:
    return _from_metadata(skill, chance, "clause")


def _sentence(skill: MinedSkill, chance: random.Random) -> Pair | None:
    return _from_metadata(skill, chance, "sentence")


def _piece(skill: MinedSkill, chance: random.Random) -> Pair | None:
    """Pair a piece of the body with the metadata."""
    parts = skill.sources["piece"]
    first = chance.randrange(len(parts))
    size = chance.randint(*PIECE_CHARS)
    piece = _masked(_upto(parts[first:], size), skill, chance)
    return Pair(_plainer(piece, chance), skill.metadata(), "piece")


def _task(skill: MinedSkill, chance: random.Random) -> Pair | None:
    """Pair a long task, put together from parts in any order, with the metadata."""
    parts = list(skill.sources["piece"])
    chance.shuffle(parts)
    titles = skill.sources.get("headings") or skill.sources.get("clause") or ("",)
    opening = chance.choice(_TASKS).format(chance.choice(titles))
    task = _masked(opening + _upto(parts, TASK_CHARS, "\n"), skill, chance)
    return Pair(task, skill.metadata(), "task")


def _script(skill: MinedSkill, chance: random.Random) -> Pair | None:
    """Pair what a script says of itself with the metadata."""
    said = _upto([chance.choice(skill.sources["script"])], chance.randint(*PIECE_CHARS))
    return Pair(_plainer(_masked(said, skill, chance), chance), skill.metadata(), "script")


def _headings(skill: MinedSkill, chance: random.Random) -> Pair | None:
    """Pair some headings of the body with the metadata."""
    titles = skill.sources["headings"]
    some = chance.sample(titles, min(len(titles), chance.randint(2, 5)))
    return Pair(_masked(", ".join(some), skill, chance), skill.metadata(), "headings")


def _keywords(skill: MinedSkill, chance: random.Random) -> Pair | None:
    """Pair a few words of the metadata, or of a piece, with the other field."""
    parts = skill.sources.get("piece")
    from_body = bool(parts) and chance.random() < 0.5
    source = chance.choice(parts) if parts and from_body else skill.text.about
    words = [word for word in _WORD.findall(source[:400]) if word.lower() not in _STOP]
    if len(words) < 3:
        return None
    begin = chance.randrange(max(1, len(words) - 8))
    window = words[begin : begin + 10]
    kept = sorted(chance.sample(range(len(window)), min(len(window), chance.randint(3, 6))))
    query = " ".join(window[place] for place in kept).lower()
    document = skill.metadata() if from_body or not skill.text.body else skill.head()
    return Pair(query, document, "keywords")


def _name(skill: MinedSkill, chance: random.Random) -> Pair | None:
    """Pair the name, as words, with what the skill says without it."""
    name = " ".join(re.split(r"[\s_-]+", skill.text.name)).strip()
    bare = phrases.without_name(skill.text.about, skill.text.name)
    if skill.text.body and chance.random() < BODY_SHARE:
        bare = phrases.without_name(skill.head(), skill.text.name)
    return Pair(name, bare, "name")


_DRAWN = {
    "request": _request,
    "clause": _clause,
    "sentence": _sentence,
    "piece": _piece,
    "task": _task,
    "script": _script,
    "headings": _headings,
    "keywords": _keywords,
    "name": _name,
}


def _upto(parts: Sequence[str], size: int, joint: str = " ") -> str:
    """Join parts, at least one, until they have some size, and cut there at a word."""
    text = parts[0]
    for part in parts[1:]:
        if len(text) >= size:
            break
        text += joint + part
    return text if len(text) <= size else text[:size].rsplit(" ", 1)[0]


def _masked(query: str, skill: MinedSkill, chance: random.Random) -> str:
    """Take the skill's name out of some queries."""
    return phrases.without_name(query, skill.text.name) if chance.random() < _MASKED else query


def _asked(request: str, chance: random.Random) -> str:
    """Word a request as users do: with an opening, in small letters, without a full stop."""
    if chance.random() < 0.3 and not request.endswith("?"):
        request = chance.choice(_OPENINGS) + request[:1].lower() + request[1:]
    return _plainer(request, chance)


def _plainer(text: str, chance: random.Random) -> str:
    """Write some texts in small letters, and some without what ends them."""
    if chance.random() < 0.25:
        text = text.lower()
    return text.rstrip(".!。") if chance.random() < 0.5 else text
