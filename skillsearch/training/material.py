"""What a tuning has to learn from, and what it is measured by: kept apart from the beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from skillsearch.errors import TrainingError
from skillsearch.evaluation.types import Collection
from skillsearch.text.scripts import readable
from skillsearch.training.held_out import HeldQuery, hold_out
from skillsearch.training.judged_queries import ChosenSkills
from skillsearch.training.measuring import as_collection
from skillsearch.training.phrases import SkillText
from skillsearch.training.plan import JudgedPair, distinct_skills, has_texts

_Asked: TypeAlias = Sequence[tuple[str, tuple[int, ...]]]
"""Queries, each with the rows of the skills that are right for it."""

LEAST_SKILLS = 50
"""With fewer, most skills of a batch have nothing in common, and telling them apart teaches
nothing; and the few queries that can be held out tell no gain from chance."""
LEAST_TEXTS = 200
"""Different texts to make queries of, four for each of so few skills."""
LEAST_QUERIES = 16
"""Requests held out; half of them choose, half of them measure."""
_HELD_SHARE, _MOST_HELD = 0.4, 400
"""Skills of which a request is held out: one half to stop and to choose by, one to measure by."""
_MEASURED_AT = 4_000
"""Skills among which a query looks for its own in the end; of more, others are left out."""


@dataclass(frozen=True, slots=True)
class Material:
    """Texts to learn from and to measure by.

    Attributes:
        skills: Skills that differ, without the requests held out.
        judged: Judged queries to learn from.
        watched: Requests held out, to stop and to choose by.
        asked: Requests held out, to measure by.
        kept_back: Judged queries to measure by, with the rows that are right for them.
    """

    skills: tuple[SkillText, ...]
    judged: tuple[JudgedPair, ...]
    watched: tuple[HeldQuery, ...]
    asked: tuple[HeldQuery, ...]
    kept_back: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def gather(
        cls,
        texts: Sequence[SkillText],
        chosen: Sequence[ChosenSkills],
        scripts: frozenset[str] | None,
        seed: int,
    ) -> Material:
        """Divide what there is.

        Args:
            texts: The texts of all skills.
            chosen: Judged queries, with the places of skills among those.
            scripts: Scripts that the embedder reads, None for all.
            seed: Of what is held out.

        Returns:
            The material.

        Raises:
            TrainingError: When there is too little of it.
        """
        skills, rows = distinct_skills(texts, scripts)
        held = hold_out(skills, min(_MOST_HELD, int(_HELD_SHARE * len(skills))), seed)
        if (
            len(skills) < LEAST_SKILLS
            or len(held.queries) < LEAST_QUERIES
            or not has_texts(held.skills, LEAST_TEXTS)
        ):
            raise TrainingError(
                f"{len(skills):,} skills that differ and have a description are too little to "
                f"learn from, or say too little of what they are for: at least {LEAST_SKILLS} are "
                f"needed, with {LEAST_TEXTS} sentences or paragraphs to make queries of. Keep the "
                "model that you have, or name more folders of skills."
            )
        middle = len(held.queries) // 2
        judged = [(one, _rows_of(one, rows)) for one in chosen]
        return cls(
            skills=held.skills,
            judged=tuple(
                JudgedPair(readable(one.query, scripts), row)
                for one, right in judged
                if not one.is_measured
                for row in right
            ),
            watched=held.queries[:middle],
            asked=held.queries[middle:],
            kept_back=tuple(
                (one.query, right) for one, right in judged if one.is_measured and right
            ),
        )

    def collections(self) -> dict[str, Collection]:
        """Return what is measured in the end: ``held_out``, and ``judged`` where there is any."""
        held: _Asked = [(query.text, (query.row,)) for query in self.asked]
        given: dict[str, _Asked] = {"held_out": held, "judged": self.kept_back}
        return {name: self._collection(name, asked) for name, asked in given.items() if asked}

    def _collection(self, name: str, asked: _Asked) -> Collection:
        """Return queries among the skills that are right for them and others."""
        wanted = dict.fromkeys(row for _, rows in asked for row in rows)
        rows = sorted(list(dict.fromkeys([*wanted, *range(len(self.skills))]))[:_MEASURED_AT])
        places = {row: place for place, row in enumerate(rows)}
        return as_collection(
            name,
            [self.skills[row] for row in rows],
            [(text, [places[row] for row in right if row in places]) for text, right in asked],
        )


def _rows_of(one: ChosenSkills, rows: Mapping[int, int]) -> tuple[int, ...]:
    """Return the rows of the skills that were chosen, copies as one."""
    return tuple(dict.fromkeys(rows[place] for place in one.places if place in rows))
