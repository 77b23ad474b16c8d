"""Libraries of judged and of real skills, with requests that they can and cannot answer; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from skillsearch.evaluation.types import Collection, JudgedDocument
from turns.counts import Task

JUDGED = 0.8
"""Share of a library that are judged skills, at most."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Library:
    """Skills of different names, judged ones first, and requests; by kind those nothing fits."""

    skills: tuple[JudgedDocument, ...]
    judged: int
    tasks: tuple[Task, ...]
    agent: tuple[Task, ...]
    nothing: Mapping[str, tuple[Task, ...]]

    @cached_property
    def descriptions(self) -> dict[str, str]:
        """The description of each skill by name, on one line."""
        return {skill.name: " ".join(skill.description.split()) for skill in self.skills}


def evenly(items: Sequence[_T], most: int) -> tuple[_T, ...]:
    """Return at most so many items, evenly spaced, the first among them."""
    count = min(len(items), most)
    return tuple(items[number * len(items) // count] for number in range(count))


def distinct(documents: Iterable[JudgedDocument]) -> list[JudgedDocument]:
    """Return the first document of each name, with the name as its id."""
    first: dict[str, JudgedDocument] = {}
    for document in documents:
        first.setdefault(document.name.casefold(), replace(document, doc_id=document.name))
    return list(first.values())


def draw(
    size: int,
    collections: Sequence[Collection],
    agent: Sequence[Collection],
    fillers: Sequence[JudgedDocument],
    ordinary: Sequence[str],
    most: int,
) -> Library:
    """Draw a library of a size, with at most so many requests of each kind."""
    documents = [document for collection in collections for document in collection.documents]
    judged = distinct(documents[: int(size * JUDGED)])
    skills = (*judged, *fill(judged, fillers, size))
    held = {document.name: document for document in judged}
    tasks: list[Task] = []
    twins: list[Task] = []
    for collection in collections:
        by_query = tasks_of(collection, held)
        tasks += by_query.values()
        twins += (Task(twin.text) for twin in collection.negatives if twin.twin_of in by_query)
    of_agent = [task for collection in agent for task in tasks_of(collection, held).values()]
    return Library(
        skills,
        len(judged),
        evenly(tasks, most),
        evenly(of_agent, most),
        {"ordinary": evenly([*map(Task, ordinary)], most), "twins": evenly(twins, most)},
    )


def fill(
    judged: Sequence[JudgedDocument], fillers: Iterable[JudgedDocument], size: int
) -> tuple[JudgedDocument, ...]:
    """Return skills of other names than the judged ones, evenly drawn, up to the size."""
    names = {document.name.casefold() for document in judged}
    others = [skill for skill in distinct(fillers) if skill.name.casefold() not in names]
    drawn = evenly(others, size - len(judged))
    if (count := len(judged) + len(drawn)) < size:
        raise SystemExit(f"There are {count:,} skills for a library of {size:,}.")
    return drawn


def tasks_of(collection: Collection, held: Mapping[str, JudgedDocument]) -> dict[str, Task]:
    """Return the requests of a collection by id of which all skills that help are held.

    The right ones of a request have its best grade.
    """
    documents = {document.doc_id: document for document in collection.documents}
    tasks = {}
    for query in collection.queries:
        grades = {
            documents[key]: grade
            for key, grade in collection.qrels[query.query_id].items()
            if grade > 0
        }
        if all(_is_held(document, held) for document in grades):
            best = max(grades.values())
            right = frozenset(skill.name for skill, grade in grades.items() if grade == best)
            helps = frozenset(skill.name for skill in grades)
            tasks[query.query_id] = Task(query.text, right, helps)
    return tasks


def _is_held(document: JudgedDocument, held: Mapping[str, JudgedDocument]) -> bool:
    same = held.get(document.name)
    return same is not None and same == replace(document, doc_id=document.name)
