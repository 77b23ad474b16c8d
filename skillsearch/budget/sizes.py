"""The sizes of one skill, as they were counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skillsearch.agents.prompt import PromptSkill, render_available, render_overview
from skillsearch.types import JsonValue


@dataclass(frozen=True, slots=True)
class Size:
    """How long texts are.

    Attributes:
        characters: Unicode code points.
        tokens: Tokens by the counter in use.
    """

    characters: int = 0
    tokens: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.characters + other.characters, self.tokens + other.tokens)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the JSON form."""
        return {"characters": self.characters, "tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class ListedSkill:
    """What hosts put into their listings.

    Attributes:
        name: The skill's name.
        description: The skill's description.
        when_to_use: Text of ``when_to_use``, or empty.
        hidden: True where the skill asks not to be offered to models.
        path: The SKILL.md file, absolute, with ``/`` between the parts.
        root: The root it was found under, likewise.
        short_path: As `path`, with ``~`` for the home folder.
    """

    name: str
    description: str
    when_to_use: str = ""
    hidden: bool = False
    path: str = ""
    root: str = ""
    short_path: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredSkill:
    """One skill and the size of each of its levels.

    Attributes:
        skill: What a listing says of it.
        overview: Its line in an overview; nothing for a hidden skill.
        xml: The same as XML with its location, as the specification's library writes it.
        body: The Markdown of its SKILL.md.
        documents: Its text documents together.
    """

    skill: ListedSkill
    overview: Size
    xml: Size
    body: Size
    documents: Size

    @property
    def everything(self) -> Size:
        """Body and documents."""
        return self.body + self.documents


Counter = Callable[[str], int]


def measure_text(text: str, count: Counter) -> Size:
    """Return the size of a text."""
    return Size(len(text), count(text))


def measure_skill(
    skill: ListedSkill, body: str, documents: Size, *, count: Counter
) -> MeasuredSkill:
    """Measure the levels of a skill.

    Args:
        skill: What a listing says of it.
        body: The Markdown of its SKILL.md.
        documents: The size of its documents, which are too large to be held together.
        count: Counts the tokens of a text.

    Returns:
        The sizes.
    """
    overview = xml = Size()
    if not skill.hidden:
        shown = [PromptSkill(skill.name, skill.description, skill.path)]
        overview = measure_text(_without_head(render_available(shown)), count)
        xml = measure_text(_without_head(render_overview(shown, "xml")).rpartition("\n")[0], count)
    return MeasuredSkill(skill, overview, xml, measure_text(body, count), documents)


def _without_head(listing: str) -> str:
    """Return a listing without the line above its skills."""
    return listing.partition("\n")[2]
