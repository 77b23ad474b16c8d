"""What each page shows: searches, skills and files, reports."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from skillsearch.budget.costs import measure, report_budget, sources_of_index
from skillsearch.budget.hosts import FATES
from skillsearch.budget.tables import levels, listings
from skillsearch.embedders.embedder import COUNTED_BY, TokenCounter
from skillsearch.errors import SkillError, SkillSearchError
from skillsearch.files.openat import UNKNOWN_STAT
from skillsearch.index.documents.document import Document
from skillsearch.index.documents.relatives import MOST_LISTED
from skillsearch.index.freshness import MAX_AGE, Freshness
from skillsearch.index.indexing.reading import skipped
from skillsearch.index.opening import Tell, answer_queries, near_names
from skillsearch.index.roots.scope import everywhere, folders_of, from_folders
from skillsearch.index.search.options import SearchOptions
from skillsearch.index.skill_index import SkillIndex
from skillsearch.library.thread import LibraryThread
from skillsearch.rendering.blocks import Cell, Row, RowGroup, Table
from skillsearch.reports.audit import audit
from skillsearch.reports.health import doctor
from skillsearch.settings.table import Settings
from skillsearch.skills.folders import repository_of
from skillsearch.skills.resources import list_files, read_file, read_page
from skillsearch.text.provenance import body_warning
from skillsearch.text.safe_text import listed
from skillsearch.types.answers import Family, Hit, Relative, SearchResult, Selection
from skillsearch.types.skills import LAST_SECOND, SkillFile
from skillsearch.ui.first_requests import first_requests
from skillsearch.ui.skill_map import make_map
from skillsearch.ui.views import (
    AnswerView,
    FileView,
    HealthView,
    HostsView,
    MapView,
    RelativesView,
    ReportsView,
    SearchView,
    SkillView,
    TableView,
)
from skillsearch.usage.log import UsageLog
from skillsearch.usage.recording import learn, log_of, record, record_load

_T = TypeVar("_T")
HITS, RIVALS = 10, 6
ALL_PROJECTS = "*"
MOST_CHARS = 2_000  # of a query that is typed into a page
MOST_ROWS = 500  # of a table
MOST_ANSWERED = 100  # requests after which a page that is loaded again counts as a new one
MOST_BYTES = 100_000  # of a body or a file, shown at once
WINDOWS = (32_000, 128_000, 200_000, 1_000_000)
"""Context windows to choose from, in tokens."""
WINDOW = WINDOWS[2]  # the one that is assumed
SLOW_SECONDS, PATIENCE = 600.0, 0.5
"""How long slow work may take, and how long a page waits for it before it says so."""


class Pages:
    """The pages over the index of some settings.

    Searches have a thread, and what takes seconds has another, each with the index open for itself.
    """

    def __init__(self, settings: Settings, reports: Path | None = None) -> None:
        """Take settings, and a folder of reports to show; the index is opened when it is asked."""
        self.settings, self.reports = settings, reports
        self.searching, self.aside = LibraryThread(), LibraryThread(SLOW_SECONDS)
        self._opened: Freshness | None = None
        self._note = ""
        self._made: dict[str, tuple[str, Future[Any]]] = {}
        self._first: tuple[object, tuple[str, ...]] = (None, ())
        self._standing: tuple[SearchResult, Selection] | None = None
        self._recorded: tuple[str, Selection] = ("", ())
        self._answered: deque[tuple[str, Selection]] = deque(maxlen=MOST_ANSWERED)

    def index(self, max_age: float = 0, selection: Selection = ()) -> SkillIndex:
        """Return the index as `Freshness.look` keeps it, for the thread that searches."""
        if self._opened is None:
            index = SkillIndex.open(self.settings.index_dir)
            self._opened = Freshness(index, ThreadPoolExecutor(1))
        folders = folders_of(selection or self.settings.selection)
        self._note = self._opened.look(max_age if self.settings.refresh else None, folders)
        learn(self._opened.index, self._log)
        return self._opened.index

    @cached_property
    def _log(self) -> UsageLog | None:
        return log_of(self.settings, "ui")

    def search(
        self,
        query: str,
        project: str = "",
        *,
        refresh: bool = False,
        read: bool = True,
        submitted: bool = False,
    ) -> SearchView:
        """Search the selected skills, as seen from a project of the index, or `ALL_PROJECTS`.

        With `read`, the reader of the settings looks at the hits, and names are looked for that the
        query may misspell; both take too long for every key. A query that is `submitted` is
        recorded as usage; not so a page, which looks at the disk (`refresh`), that the browser
        loads again: of a query that was answered before, typed or submitted.
        """
        selection = self._seen_from(project)
        index = self.index(0 if refresh else MAX_AGE, selection)
        query = query[:MOST_CHARS].strip()
        notes = self._note.splitlines()
        shown: SearchView = {
            **self._answer(index, query, selection, notes.append, read=read),
            "query": query,
            "notes": notes,
            "count": len(index),
            "project": project,
            "projects": self._projects(index),
        }
        if query:
            is_again = refresh and (query, selection) in self._answered
            if submitted and not is_again:
                self._record_request(index)
            if read and (query, selection) not in self._answered:
                self._answered.append((query, selection))
            return shown
        if refresh:  # whoever opens the page is about to type
            self.searching.submit(index.search, "anything")
        return {**shown, "requests": self._first_requests(index, selection)}

    def _answer(
        self, index: SkillIndex, query: str, selection: Selection, tell: Tell, *, read: bool
    ) -> AnswerView:
        """Search if there is a query, and look for names that it may misspell if nothing fits."""
        options = replace(
            SearchOptions.of(self.settings),
            n=HITS,
            reader=self.settings.reader if read else "off",
            selection=selection,
            explain=True,
            face="page",
        )
        shown: AnswerView = {}
        for result in answer_queries(index, [query] if query else [], tell, options):
            self._standing = result, selection
            is_lost = read and not result
            near = near_names(index, query, selection) if is_lost else ()
            shown = {"result": result, "near": near}
        return shown

    def _first_requests(self, index: SkillIndex, selection: Selection) -> tuple[str, ...]:
        """Return requests to begin with, looked for once in a generation."""
        of = index.generation, selection
        if self._first[0] != of:
            self._first = of, first_requests(index, selection)
        return self._first[1]

    def _projects(self, index: SkillIndex) -> list[tuple[str, str]]:
        """Return what the page can search from, each with its label; nothing without projects."""
        projects = {folder for root in index.opened.settings.roots for folder in root.projects}
        folders = folders_of(self.settings.selection)
        first = [("", f"from {listed(folders, 3)}")] if folders else []
        others = sorted(projects if len(folders) > 1 else projects.difference(folders))
        some = [(project, f"from {project}") for project in others]
        return [*first, *some, (ALL_PROJECTS, "all projects")] if projects else []

    def _seen_from(self, project: str) -> Selection:
        if project == ALL_PROJECTS:
            return everywhere(self.settings.selection)
        is_known = project in (value for value, _ in self._projects(self.index(MAX_AGE)))
        own = self.settings.selection
        return from_folders(own, [project]) if project and is_known else own

    def _record_request(self, index: SkillIndex) -> None:
        """Record the request of the last answer, but not again if its page is."""
        if self._standing:
            result, selection = self._standing
            if self._recorded != (result.query, selection):
                self._recorded = result.query, selection
                record(self._log, index, result, selection)

    def _record_load(self, index: SkillIndex, doc_id: str) -> None:
        """Record a skill that was opened from an answer, and the request if it was only typed."""
        selection = self.settings.selection
        if self._standing and any(hit.doc_id == doc_id for hit in self._standing[0].shown):
            selection = self._standing[1]
            self._record_request(index)
        record_load(self._log, index, doc_id, selection)

    def skill(self, doc_id: str, *, answers: bool = False) -> SkillView:
        """Show a skill as it is on disk now, what it costs, and what else answers its requests.

        If it was opened because it `answers` a request, that is recorded as usage.
        """
        index = self.index()
        document = index.find(doc_id)
        if answers:
            self._record_load(index, document.doc_id)
        skill, root = index.get(doc_id), index.root_of(document)
        file = SkillFile(doc_id, skill.path, root, UNKNOWN_STAT)
        (costs,), _ = measure([file], TokenCounter.load())
        parts = {"line in the overview": costs.overview, "body": costs.body}
        parts["its documents"] = costs.documents
        rows = [(part, size.tokens, size.characters) for part, size in parts.items()]
        files, is_truncated = list_files(skill.path.parent)
        return {
            "document": document,
            "skill": skill,
            "root": root,
            "is_stale": skill.content_hash != document.content_hash,
            "warning": body_warning(root.trust, root.origin),
            "costs": Table("Costs", ("part", "tokens", "characters"), [RowGroup(rows)]),
            "files": files,
            "is_truncated": is_truncated,
            "rivals": self._rivals(index, document),
            "relatives": self._relatives(index, document),
            "body": skill.body[:MOST_BYTES],
            "is_cut": len(skill.body) > MOST_BYTES,
        }

    def file(self, doc_id: str, path: str, offset: int) -> FileView:
        """Show a file of a skill, or a page of a long one."""
        index = self.index()
        document = index.find(doc_id)
        page = read_page(Path(document.path).parent, path, offset=offset, limit=MOST_BYTES)
        root = index.root_of(document)
        warning = body_warning(root.trust, root.origin)
        return {"document": document, "file": page, "warning": warning}

    def families(self) -> TableView:
        """Show the families of near-copies, the largest first."""
        index = self.index()
        families = index.families()
        rows = []
        for first, *others in families[:MOST_ROWS]:
            family = index.family(first, others)
            name = Cell(first.name, link=f"skill?id={quote(first.doc_id)}")
            repository = repository_of(first.doc_id)
            rows.append((name, repository, f"{family.size:,}", _names_of(family, repository)))
        heads = "first skill", "repository", "near-copies", "which, and what differs"
        return _first_of("Families", heads, rows, len(families))

    def map(self) -> MapView:
        """Show how many skills the map has."""
        return {"count": len(self.index())}

    async def map_record(self) -> bytes | None:
        """Return what the map draws, as JSON; None while it is computed."""
        return await self._of_index("map", make_map)

    async def hosts(self, window: int) -> HostsView:
        """Show what each host would cut from its listing."""
        shown: HostsView = {
            "window": window,
            "windows": WINDOWS,
            "fates": FATES,
            "counted_by": COUNTED_BY,
        }
        measured = await self._of_index(
            "budget", lambda index: measure(sources_of_index(index), TokenCounter.load())
        )
        if measured is None:
            return shown
        skills, problems = measured
        n = self.settings.n
        report = await self.aside.run(report_budget, skills, n=n, window=window or None)
        return {
            **shown,
            "levels": levels(report),
            "listings": listings(report),
            "report": report,
            "problems": problems[:MOST_ROWS],
        }

    async def health(self) -> HealthView:
        """Check the installation, the settings and the index, each time anew."""
        health = await self._once("health", "", lambda: _health(self.settings.index_dir))
        if health is None:
            return {}
        self._made.pop("health", None)
        return health

    async def audit(self) -> TableView:
        """Show the findings of an audit."""
        findings = await self._of_index("audit", audit)
        if findings is None:
            return {}
        shown = findings[:MOST_ROWS]
        rows = [
            (finding.severity, finding.code, finding.message, finding.path) for finding in shown
        ]
        return _first_of("Findings", ("severity", "code", "finding", "file"), rows, len(findings))

    def report_list(self) -> ReportsView:
        """Show the names of saved evaluation pages, the newest first."""
        files = self.reports.glob("*.html") if self.reports else ()
        dated = sorted(((file.stat().st_mtime, file.name) for file in files), reverse=True)
        return {"folder": self.reports, "reports": [(name, _day(at)) for at, name in dated]}

    def report(self, name: str) -> bytes:
        """Return a saved evaluation page; a SkillError if there is none."""
        if self.reports is None or not name.endswith(".html"):
            raise SkillError(f"There is no report {name!r}; the page Reports lists them.")
        return read_file(self.reports, name)

    def _rivals(self, index: SkillIndex, document: Document) -> list[Hit]:
        about = f"{document.name}: {document.description}"[:MOST_CHARS]
        rivals = index.search(about, RIVALS, 0.0, exclude=[document.doc_id], reader="off")
        return list(rivals)

    def _relatives(self, index: SkillIndex, document: Document) -> RelativesView:
        ids = sorted(index.copies([document.doc_id]) - {document.doc_id})
        others = [index.find(other_id) for other_id in ids[:MOST_LISTED]]
        differs = index.family(document, others).members
        return {"count": len(ids), "members": list(zip(others, differs, strict=True))}

    async def _of_index(self, name: str, make: Callable[[SkillIndex], _T]) -> _T | None:
        """Return the result of slow work on the newest generation; None until it is done."""
        generation = await self.searching.run(lambda: self.index().generation)
        folder = self.settings.index_dir
        return await self._once(name, generation, lambda: make(SkillIndex.open(folder)))

    async def _once(self, name: str, of: str, make: Callable[[], _T]) -> _T | None:
        """Return the result of slow work, done once for each version; None until it is done."""
        if name not in self._made or self._made[name][0] != of:
            self._made[name] = of, self.aside.submit(make)
        work: Future[_T] = self._made[name][1]
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(work)), PATIENCE)
        except TimeoutError:
            return None
        finally:
            if work.done() and work.exception():
                self._made.pop(name, None)


def _first_of(title: str, heads: Sequence[str], rows: Sequence[Row], count: int) -> TableView:
    """Show the first rows of a longer table."""
    table = Table(title, heads, [RowGroup(rows)], texts=heads)
    return {"count": count, "shown": len(rows), "table": table}


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(min(seconds, LAST_SECOND)).astimezone().strftime("%Y-%m-%d %H:%M")


def _names_of(family: Family, repository: str) -> str:
    """Return the names of near-copies, with the repository of those from another one."""

    def shown(near: Relative) -> str:
        where = repository_of(near.doc_id)
        return near.name if where == repository else f"{near.name} in {where}"

    return family.names_by(shown)


def _health(folder: Path) -> HealthView:
    """Check everything; `lost` is left out if there is no index to ask."""
    checks = doctor(folder)
    try:
        lost = skipped(SkillIndex.open(folder).diagnostics())
    except SkillSearchError:
        return {"checks": checks}
    rows = [(diagnostic.path, diagnostic.message) for diagnostic in lost[:MOST_ROWS]]
    heads = "file or folder", "why"
    return {"checks": checks, "lost": _first_of("Lost skills", heads, rows, len(lost))}
