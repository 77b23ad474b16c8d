"""Skills for one agent's session: it sees an overview, loads a skill, and selects its documents.

The tools: ``skill_load``, ``skill_select_docs``, ``skill_list_docs`` and, unless it is turned off,
``skill_run``. Whatever they load appears in the system message from the next request on.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from pydantic import Field

from skillsearch import errors
from skillsearch.agents.bounds import first, page
from skillsearch.agents.catalog import SkillCatalog, nearest_of
from skillsearch.agents.default_tools import RUNNER, LibraryTools, SearchSkillsArgs
from skillsearch.agents.failures import message_of
from skillsearch.agents.prompt import (
    LoadedPrompt,
    PromptSkill,
    offered,
    render_available,
    render_loaded,
)
from skillsearch.agents.run_tools import Name, OfSkillArgs, RunArgs, answer_of
from skillsearch.agents.schemas import with_names
from skillsearch.agents.session import LoadedEntry, SkillSession, StateDelta
from skillsearch.agents.tool import Deferred, Offset, Tool, Toolset
from skillsearch.execution.types import RunResult
from skillsearch.index.documents.document import Document
from skillsearch.library.skill_library import SkillLibrary
from skillsearch.settings.values import MAX_N, MAX_QUERY_CHARS
from skillsearch.text.safe_text import counted, listed, one_line
from skillsearch.text.states import note_for_model
from skillsearch.types.answers import Hit
from skillsearch.types.json_values import Json

if TYPE_CHECKING:
    from skillsearch.execution.runner import SkillRunner

_GUIDANCE = Path(__file__).with_name("guidance.txt").read_text(encoding="utf-8")
GUIDANCE, RUN_GUIDANCE = _GUIDANCE.rstrip("\n").split("\n\n")
RUN_GUIDANCE = f"\n{RUN_GUIDANCE}"
"""What the system message says of the tools, and of the one that runs commands."""

MAX_DOCS = 200  # documents that one call may name
MAX_NAMED = 256
"""Up to this many, the definitions of the tools name all skills, as in trpc-agent-go."""
MAX_NAMED_CHARS = 16_384
"""As many of the longest names that the specification allows, 64 characters."""
DESCRIBED = 100
FOUND = 5
MAX_DOC_BYTES = 1 << 18
MAX_DOCS_BYTES = 1 << 20  # for all documents of one skill together, with their paths
_LONG_AGO = datetime.min.replace(tzinfo=UTC)  # when a skill was loaded if the state does not tell
_MAX_SHOWN_CHARS = 200
_MAX_SHOWN_DOCS = 20
_SELECT_FEWER = "mode clear, then select those that the task needs"
_IN_SKILL_MD = "skill_run can print all of SKILL.md"
_SEARCH_OTHERS = "find the others with search_skills"

logger = logging.getLogger(__name__)


class LoadArgs(OfSkillArgs):
    """Load a skill that fits the task.

    From the next request on, its instructions and the documents named here stand in the system
    message. Named again, documents replace those selected before.
    """

    docs: list[Name] | None = Field(
        None, max_length=MAX_DOCS, description="Paths of documents, as skill_list_docs gives them."
    )
    include_all_docs: bool = Field(False, description="True to select all documents instead.")


class SelectDocsArgs(LoadArgs):
    """Choose which documents of a loaded skill stand in the system message.

    Add to them, replace them, or clear them.
    """

    # Shown but not enforced, as in trpc-agent-go: any other word is replace.
    mode: str = Field(
        "replace",
        description="Add the named documents to the selection, replace it, or clear it.",
        json_schema_extra={"enum": ["add", "replace", "clear"]},
    )


class ListDocsArgs(OfSkillArgs):
    """List the documents of a skill, for skill_load and skill_select_docs."""

    offset: Offset = 0


class SearchAllArgs(SearchSkillsArgs):
    """Find skills for a task among all there are; the system message lists only some.

    No hit: no skill fits, go on without. Next: skill_load with the best name.
    """


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """The result of a tool, and the changes of the call in the state of the session.

    `kind` is trpc-agent-go's word for it; `skill` is as the call named it, empty if it named none.
    """

    kind: Literal["tool.response"]
    tool: str
    skill: str
    result: Json
    delta: StateDelta


class WorkspaceToolset:
    """The skills of a library as one agent's session has them loaded.

    The host puts `system_prompt` into each request, and calls `begin_turn` before each turn and
    `end_request` after each request. Of more than 256 skills, tools know those of the last prompt.
    """

    def __init__(
        self,
        library: SkillLibrary,
        session: SkillSession | None = None,
        *,
        overview: int | None = None,
        guidance: str | None = None,
        on_delta: Callable[[StateDelta], None] | None = None,
        on_event: Callable[[ToolEvent], None] | None = None,
        runner: SkillRunner | None = None,
        executor: str | None = "auto",
        run_session: str | None = None,
        call_id: Callable[[], str] = str,
    ) -> None:
        """Take a library, which is refreshed here, and a session, by default a new one.

        `overview` is how many skills the system message describes, from 1 to 1000, and `guidance`
        what it says of the tools. `on_delta` is called with each change of the session's state that
        is made here; `on_event` with each result of a tool that did not fail. ``skill_run`` runs
        commands by the `runner`, which the caller closes, else by an executor that isolates them:
        one of `executor_names`. Only ``local`` isolates nothing; None turns ``skill_run`` off. Its
        workspace has the name `run_session`.
        `call_id` returns the host's id of the current call, for the record of saved artifacts.
        """
        if overview is not None and not 1 <= overview <= MAX_N:
            raise ValueError(f"overview is {overview!r}; use 1 to {MAX_N}, or None.")
        if executor is not None:
            from skillsearch.execution.executors import executor_names

            if executor not in (names := executor_names()):
                message = f"executor is {executor!r}; use one of {', '.join(names)}, or None."
                raise ValueError(message)
        self.library = library
        self.session = SkillSession() if session is None else session
        self._overview = overview
        self._runner, self._executor = runner, executor
        self._runs = runner is not None or executor is not None
        own = GUIDANCE + (RUN_GUIDANCE if self._runs else "")
        self._guidance = own if guidance is None else guidance
        self._on_delta = on_delta
        self._on_event = on_event
        self._in_call = StateDelta()
        self._described: str | None = None  # the request that the last system message was for
        self._run_session = run_session or uuid4().hex
        self._call_id = call_id

    def toolset(self) -> Toolset:
        """Return the tools for a host; each request sees the skills that are there then.

        Their ``skill`` has an enum of all names; if these are too many, there is `search_skills`.
        """
        return Toolset(lambda: [self._observed(tool) for tool in self._tools()])

    def system_prompt(self, query: str | None = None) -> str:
        """Render overview, guidance and what is loaded; forget loaded skills that are gone.

        Given a request, the overview describes its best skills, or raises `SkillSearchError`.
        """
        self._refresh()
        is_new = query != self._described
        self._described = query
        available = describe_skills(self.library, query, self._overview, records=is_new)
        loaded = []
        for entry in sorted(self.session.loaded(), key=lambda entry: entry.since or _LONG_AGO):
            try:
                loaded.append(read_loaded(self.library, entry))
            except errors.SkillNotFoundError:
                self._tell(self.session.unload(entry.name))
        parts = [available, self._guidance if available else "", render_loaded(loaded)]
        return "\n\n".join(filter(None, parts))

    def begin_turn(self) -> StateDelta:
        """Forget the skills loaded for the previous turn, and return the changes of the state."""
        return self._tell(self.session.begin_turn())

    def end_request(self) -> StateDelta:
        """Forget the skills loaded for one request, and return the changes of the state."""
        return self._tell(self.session.end_request())

    def _tools(self) -> Iterator[Tool]:
        if len(self.library) <= MAX_NAMED:
            self._refresh()  # beyond that, no definition names a skill
        names = all_names(self.library)
        find = " search_skills finds its name." if names is None else ""
        needs = (("skill_run", RUNNER),)
        load = Tool.of("skill_load", with_names(LoadArgs, names), self._load, needs=needs)
        yield replace(load, description=load.description + find)
        yield Tool.of("skill_select_docs", with_names(SelectDocsArgs, names), self._select_docs)
        yield Tool.of("skill_list_docs", with_names(ListDocsArgs, names), self._list_docs)
        if self._runs:
            yield Tool.of("skill_run", with_names(RunArgs, names), self._run, read_only=False)
        if names is None:
            search = LibraryTools(lambda: self.library, None).search
            yield Tool.of("search_skills", SearchAllArgs, search, searches=True)

    def _load(self, args: LoadArgs) -> Json:
        name = self._find(args.skill)
        self.library.get(name)  # what cannot be read is not loaded
        docs = () if args.include_all_docs or not args.docs else args.docs
        there = doc_paths(self.library, name) if docs else {}
        delta = self._tell(
            self.session.load(name, args.docs, include_all_docs=args.include_all_docs)
        )
        SkillCatalog(self.library).note_load(name)
        lines = [f"loaded: {name}"]
        if delta.evicted:
            lines.append(f"unloaded to make room: {_joined(delta.evicted)}")
        if unknown := [doc for doc in docs if doc not in there]:
            available = _joined(there) if there else "none"
            lines.append(f"unknown documents: {_joined(unknown)}; there are: {available}")
        return "\n".join(lines)

    def _list_docs(self, args: ListDocsArgs) -> Json:
        paths = list(doc_paths(self.library, self._find(args.skill)))
        kept, left_out = first(paths, "document", offset=args.offset)
        return [*kept, *left_out]

    def _select_docs(self, args: SelectDocsArgs) -> Json:
        name = self._find(args.skill)
        there = doc_paths(self.library, name)
        selection = self.session.select_docs(
            name, args.docs, include_all_docs=args.include_all_docs, mode=args.mode
        )
        self._tell(selection.delta)
        unknown = [doc for doc in selection.names if doc not in there]
        names, more = first(selection.names, "selected document", _SELECT_FEWER)
        unknown, more_unknown = first(unknown, "unknown document", _SELECT_FEWER)
        left_out = [*more, *more_unknown]
        return {
            "skill": name,
            "selected_docs": names,
            "include_all_docs": selection.include_all,
            "mode": selection.mode,
            **({"unknown_docs": unknown} if unknown else {}),
            **({"left_out": left_out} if left_out else {}),
        }

    def _run(self, args: RunArgs) -> Deferred:
        name = self._find(args.skill)
        if not self.session.is_loaded(name):
            raise errors.SkillNotLoadedError(name)
        request = args.request(name, Path(self.library.find(name).path).parent)
        runner = self._runner = self._runner or self._own_runner()

        def finish(result: RunResult) -> Json:
            if result.artifact_files:
                self._tell(self.session.record_artifacts(result.artifact_files, self._call_id()))
            return answer_of(result)

        return Deferred(lambda: runner.run(request, self._run_session), finish)

    def _own_runner(self) -> SkillRunner:
        """Make a runner that is closed with this toolset; `IsolationError` if nothing isolates."""
        from skillsearch.execution.executors import isolates, select_executor
        from skillsearch.execution.runner import SkillRunner

        name = self._executor or "auto"
        runner = SkillRunner(select_executor(name, require_isolation=isolates(name)))
        weakref.finalize(self, runner.close)
        return runner

    def _find(self, name: str) -> str:
        """Return the session's name for a skill that a call names."""
        if not name.strip():
            raise errors.QueryError("skill is empty; give the name of a skill from the overview")
        try:
            document = self.library.find(name)
        except errors.SkillNotFoundError as exc:
            if not isinstance(exc, errors.VersionNotFoundError):
                shown = one_line(name, _MAX_SHOWN_CHARS)
                exc.args = (f"unknown skill: {shown}{nearest_of(exc)}",)
            raise
        return self.library.handle(document)

    def _refresh(self) -> None:
        """Look at the disk; an index that cannot be updated is used as it is."""
        try:
            self.library.refresh()
        except errors.SkillSearchError as exc:
            logger.warning("The skills were not refreshed: %s", exc)

    def _tell(self, delta: StateDelta) -> StateDelta:
        """Tell the host about a change, if it is one, and return it."""
        if delta and self._on_event:
            evicted = (*self._in_call.evicted, *delta.evicted)
            self._in_call = StateDelta({**self._in_call, **delta}, evicted)
        if delta and self._on_delta:
            self._on_delta(delta)
        return delta

    def _observed(self, tool: Tool) -> Tool:
        """Return a tool whose results are told as events, if the host listens."""
        on_event = self._on_event
        if on_event is None:
            return tool

        def observed(args: Any, part: Callable[[Any], Json | Deferred], value: Any) -> Any:
            """Do a part of a call; if it is the last one, tell the result."""
            self._in_call = StateDelta()
            result = part(value)
            if isinstance(result, Deferred):
                return result._replace(finish=partial(observed, args, result.finish))
            skill = getattr(args, "skill", "")
            on_event(ToolEvent("tool.response", tool.name, skill, result, self._in_call))
            return result

        return replace(tool, function=lambda args: observed(args, tool.function, args))


def _joined(names: Iterable[str]) -> str:
    return listed((one_line(name, _MAX_SHOWN_CHARS) for name in names), _MAX_SHOWN_DOCS)


def all_names(library: SkillLibrary, *, max_chars: int = MAX_NAMED_CHARS) -> tuple[str, ...] | None:
    """Return the names that skills are loaded by; None if they are too many or too long."""
    listed = library.list()
    if len(listed) > MAX_NAMED:
        return None
    names = tuple(dict.fromkeys(library.handle(document) for document in listed))
    return names if sum(map(len, names)) <= max_chars else None


def describe_skills(
    library: SkillLibrary, query: str | None = None, n: int | None = None, *, records: bool = False
) -> str:
    """Render names and descriptions of the skills that an agent may load, with what is left out.

    Given a request, the best skills for it are described, by default `FOUND`, and those that may
    fit; else the first, by default `DESCRIBED`. `SkillSearchError` if they cannot be searched. If
    it `records` and the library has a log of usage, the request is recorded.
    """
    listed, names = library.list(), all_names(library)
    if not listed:
        return ""
    request = (query or "").strip()[:MAX_QUERY_CHARS]
    n = n or (FOUND if request else DESCRIBED)
    shown: Sequence[Document | Hit] = listed[:n] if names is None else listed
    perhaps: Sequence[Hit] = ()
    if request:
        shown = result = library.search(request, n, face="prompt")
        perhaps = result.perhaps
        if records:
            SkillCatalog(library).note_request(result)
    fits, may_fit = _offers(library, shown), _offers(library, perhaps)
    head = note_for_model(fits=bool(fits), perhaps=bool(may_fit))
    parts = [render_available(fits, n), render_available(may_fit, head=head)]
    text = "\n".join(filter(None, parts)) or "Available skills: none seems to fit this request."
    count = len(shown) + len(perhaps)
    if count == len(listed):
        return text
    others = "skill_load takes any other by its name" if names else _SEARCH_OTHERS
    return f"{text}\n(showing {count:,} of {len(listed):,} skills; {others})"


def _offers(library: SkillLibrary, skills: Sequence[Document | Hit]) -> list[PromptSkill]:
    """Return skills as an overview offers them to an agent that opens no files."""
    return [offered(library, skill)._replace(location="") for skill in skills]


def doc_paths(library: SkillLibrary, name: str) -> dict[str, str]:
    """Return the documents of a skill: for each path as a model sees it, the path to read."""
    return {one_line(path): path for path in library.doc_files(name)}


def read_loaded(
    library: SkillLibrary, entry: LoadedEntry, *, room: int = MAX_DOCS_BYTES
) -> LoadedPrompt:
    """Read the body and the selected documents of a loaded skill that still exist.

    Each document has at most `MAX_DOC_BYTES`, all of them `room`. `SkillNotFoundError` if the
    library no longer has the skill.
    """
    try:
        skill = library.get(entry.name)
        body = page(SkillCatalog(library).note(skill) + skill.body, then=_IN_SKILL_MD)
        there = doc_paths(library, entry.name)
    except errors.SkillNotFoundError:
        raise
    except errors.SkillError as exc:
        return LoadedPrompt(entry.name, f"[not shown: {message_of(exc)}]")
    shown = list(there) if entry.include_all_docs else [doc for doc in entry.docs if doc in there]
    docs = []
    for number, path in enumerate(shown):
        room -= len(path)
        if room < 1:
            left = len(shown) - number - 1
            docs.append((path, f"[not shown: no room for this and {left:,} more]"))
            break
        content, used = _content(library, entry.name, there[path], min(room, MAX_DOC_BYTES))
        room -= used
        docs.append((path, content))
    return LoadedPrompt(entry.name, body, tuple(docs))


def _content(library: SkillLibrary, name: str, path: str, limit: int) -> tuple[str, int]:
    """Return a document or its beginning, and the room it takes, which even binary data does."""
    try:
        page = library.read(name, path, limit=limit)
    except errors.SkillError as exc:
        note = f"[not shown: {message_of(exc)}]"
        return note, len(note)
    content = page.content
    if page.encoding == "base64":
        content = f"[not shown: {counted(page.size, 'byte')}, not UTF-8 text]"
    elif page.next_offset is not None:
        content += f"\n[truncated: only the first {page.next_offset:,} of {page.size:,} bytes]"
    return content, min(page.size, limit)
