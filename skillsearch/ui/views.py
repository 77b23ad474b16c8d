"""The values that the template of each page renders, by their names there.

A template that reads a value which is not there fails, unless it asks whether it is there. What
takes seconds is missing until it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

from skillsearch.budget.costs import BudgetReport
from skillsearch.index.documents.document import Document
from skillsearch.rendering.blocks import Table
from skillsearch.reports.health import Check
from skillsearch.types.answers import Hit, Relative, SearchResult
from skillsearch.types.skills import Diagnostic, FileContent, Root, Skill


class AnswerView(TypedDict, total=False):
    """The answer to a query, and names it may misspell; without one, requests to begin with."""

    result: SearchResult
    near: Sequence[str]
    requests: Sequence[str]


class SearchView(AnswerView):
    """A query and its answer.

    `projects` are the values and labels to search from, `count` the skills of the index.
    """

    query: str
    notes: Sequence[str]
    count: int
    project: str
    projects: Sequence[tuple[str, str]]


class RelativesView(TypedDict):
    """How many near-copies a skill has, and the first of them with what differs."""

    count: int
    members: Sequence[tuple[Document, Relative]]


class SkillView(TypedDict):
    """A skill as it is on disk: its cost, files, rivals and near-copies, and its body.

    It is stale if the index has an earlier version; the body is cut after a number of characters.
    """

    document: Document
    skill: Skill
    root: Root
    is_stale: bool
    warning: str
    costs: Table
    files: Sequence[str]
    is_truncated: bool
    rivals: Sequence[Hit]
    relatives: RelativesView
    body: str
    is_cut: bool


class FileView(TypedDict):
    """A file of a skill, or a page of it, and what to know before one follows it."""

    document: Document
    file: FileContent
    warning: str


class TableView(TypedDict, total=False):
    """The first rows of a table: how many there are, and how many are shown."""

    count: int
    shown: int
    table: Table


class MapView(TypedDict):
    """How many skills the map has."""

    count: int


class HostsView(TypedDict):
    """What each host would cut from its listing in a context window."""

    window: int
    windows: Sequence[int]
    fates: Sequence[str]
    counted_by: str
    levels: NotRequired[Table]
    listings: NotRequired[Table]
    report: NotRequired[BudgetReport]
    problems: NotRequired[Sequence[Diagnostic]]


class HealthView(TypedDict, total=False):
    """The checks of `doctor`, and the lost skills if there is an index to ask."""

    checks: Sequence[Check]
    lost: TableView


class ReportsView(TypedDict):
    """A folder of saved evaluation pages: the name and the day of each, the newest first."""

    folder: Path | None
    reports: Sequence[tuple[str, str]]
