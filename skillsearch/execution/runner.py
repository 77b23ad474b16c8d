"""Runs a skill's command: prepares a workspace, runs the program, and gathers the outputs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from skillsearch.errors import ExecutionError, ExecutorError, SkillSearchError, WorkspaceError
from skillsearch.execution.artifacts import ArtifactStore
from skillsearch.execution.commands import CommandPolicy
from skillsearch.execution.content import is_text, stream_text, visible_text, whole_characters
from skillsearch.execution.files import bounded
from skillsearch.execution.globs import FOLDERS, matcher
from skillsearch.execution.inputs import InputStager
from skillsearch.execution.metadata import OutputRecord
from skillsearch.execution.outputs import Collected, CollectedFile, collect
from skillsearch.execution.preparation import PreparedRun, prepare_run
from skillsearch.execution.tracing import command_name, span
from skillsearch.execution.types import (
    MAX_PRIMARY_BYTES,
    MAX_TIMEOUT,
    ArtifactRef,
    Executor,
    Finished,
    Limits,
    OutputFile,
    OutputSpec,
    RunRequest,
    RunResult,
)
from skillsearch.execution.workspace import Workspaces
from skillsearch.files.paths import shown
from skillsearch.text.safe_text import listed, one_line

MAX_AUTOMATIC = 20
"""Files that are collected if nothing was asked for."""

_AUTOMATIC = OutputSpec(globs=("out/**",), max_files=MAX_AUTOMATIC, only_new=True)
_NAMED = 5
"""Files that a warning names."""


class SkillRunner:
    """Runs commands of skills. Calls may come from several threads.

    Runs of one session share a workspace and wait for each other; different sessions run in
    parallel.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        workspaces: Workspaces | None = None,
        artifacts: ArtifactStore | None = None,
        host_folders: Sequence[Path] = (),
        skill_folder: Callable[[str], Path] | None = None,
        policy: CommandPolicy | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Choose who runs commands, and what these may use.

        Args:
            executor: The executor of all commands.
            workspaces: The workspaces, closed with the runner; None for the default folder.
            artifacts: The store for outputs and of inputs, if there is one.
            host_folders: Folders of this machine that inputs may come from.
            skill_folder: Returns the folder of a skill that an input names, or raises a
                `SkillSearchError`; None to know only the skills that this runner has run.
            policy: Which commands may be run; None for all.
            limits: Limits of each run; None for the default.
        """
        self._executor = executor
        self._workspaces = workspaces or Workspaces()
        self._artifacts = artifacts
        self._policy = policy or CommandPolicy()
        self._limits = limits or Limits()
        self._folders: dict[str, Path] = {}
        self._stager = InputStager(artifacts, host_folders, skill_folder or self._folder)
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self._is_closed = False

    def run(self, request: RunRequest, session: str = "") -> RunResult:
        """Run a command, and collect its outputs.

        Files that earlier runs of the session left are collected too if a pattern of the request
        matches them; without patterns, and for the primary output, only files that this run made
        or changed count. A failed or timed-out command is a result, not an error; an
        `ExecutionError` means that the command was refused, an input is not available, the runner
        is closed, or something else prevented the start.
        """
        timeout, notes = _timeout(request.timeout, self._limits.timeout)
        check_outputs(request)
        self._folders[request.skill] = request.folder
        limits = replace(self._limits, timeout=timeout)
        with self._turn(session), self._prepared(request, session, limits) as prepared:
            finished = self._execute(request, prepared)
            outputs = _OutputGathering(prepared, self._artifacts, request.omit_inline_content)
            outputs.gather(request, failed=finished.timed_out or finished.exit_code != 0)
        return RunResult(
            stdout=stream_text(finished.stdout, finished.stdout_dropped),
            stderr=stream_text(finished.stderr, finished.stderr_dropped),
            exit_code=finished.exit_code,
            timed_out=finished.timed_out,
            duration_ms=finished.duration_ms,
            executor=self._executor.name,
            output_files=tuple(file for _, file in sorted(outputs.files.items())),
            primary_output=primary_output(outputs.texts),
            artifact_files=tuple(outputs.artifacts),
            staged_inputs=prepared.inputs,
            warnings=(*notes, *prepared.warnings, *run_warnings(finished), *outputs.warnings),
        )

    def close(self) -> None:
        """Remove all workspaces, even of runs still in progress, and refuse further runs."""
        self._is_closed = True
        with span("workspace.cleanup"):
            self._workspaces.close_all()

    def __enter__(self) -> SkillRunner:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _folder(self, name: str) -> Path:
        if name in self._folders:
            return self._folders[name]
        raise WorkspaceError(
            f"The skill {name[:200]!r} was not run here, so no input can come from it; name the"
            " skill that is run."
        )

    @contextmanager
    def _turn(self, session: str) -> Iterator[None]:
        """Wait until the session has no other run in progress."""
        with self._guard:
            lock = self._locks.setdefault(session, threading.Lock())
            self._waiting[session] += 1
        try:
            with lock:
                if self._is_closed:
                    raise ExecutionError("The runner is closed; make another SkillRunner.")
                yield
        finally:
            with self._guard:
                self._waiting[session] -= 1
                if not self._waiting[session]:
                    del self._waiting[session], self._locks[session]
            if self._is_closed:  # while this run made its workspace
                self._workspaces.close(session)

    @contextmanager
    def _prepared(self, request: RunRequest, session: str, limits: Limits) -> Iterator[PreparedRun]:
        """Hold a workspace with all that a run needs; a new one if the old one vanishes."""
        prepare = partial(
            prepare_run, request=request, policy=self._policy, limits=limits, stager=self._stager
        )
        with ExitStack() as held:
            with span("workspace.create") as tell:
                workspace = held.enter_context(self._workspaces.using(session))
                tell(exec_id=workspace.path.name, path=str(workspace.path))
            try:
                prepared = prepare(workspace)
            except ExecutionError:
                if workspace.exists() or self._is_closed:
                    raise
                prepared = prepare(self._workspaces.of(session))
            yield prepared

    def _execute(self, request: RunRequest, prepared: PreparedRun) -> Finished:
        with span(
            "workspace.run",
            exec_id=prepared.workspace.path.name,
            cmd=command_name(request.command),
            cwd=str(prepared.cwd),
        ) as tell:
            try:
                finished = self._executor.run(prepared.program)
            except OSError as exc:
                raise ExecutorError(
                    f"The executor {self._executor.name!r} cannot be used: {exc.strerror}."
                ) from exc
            tell(exit_code=finished.exit_code, timed_out=finished.timed_out)
        return finished


def _timeout(asked: float | None, default: float) -> tuple[float, tuple[str, ...]]:
    """Return the seconds that a run may take, and a warning if these are fewer than asked."""
    seconds = default if asked is None else asked
    if not seconds > 0:
        raise ExecutionError(f"The timeout is {seconds}; give more than 0 seconds.")
    if seconds <= MAX_TIMEOUT:
        return seconds, ()
    return MAX_TIMEOUT, (f"The timeout is capped at {MAX_TIMEOUT:,.0f} seconds.",)


def run_warnings(finished: Finished) -> list[str]:
    """Return the warnings about how a program ended."""
    dropped = {"stdout": finished.stdout_dropped, "stderr": finished.stderr_dropped}
    truncated = [f"{name} truncated" for name, count in dropped.items() if count]
    return [*map(one_line, finished.problems), *truncated]


def check_outputs(request: RunRequest) -> None:
    """Refuse patterns that cannot be used, before anything is run."""
    for spec in output_specs(request):
        matcher(spec.globs, {**FOLDERS, "RUN_DIR": "runs"})


def output_specs(request: RunRequest) -> tuple[OutputSpec, ...]:
    """Return what a request wants to be collected, the older way as a declaration too.

    Without any patterns, that is the first files of ``out``, of which only the primary output is
    returned with its content.
    """
    older = OutputSpec(
        globs=request.output_files,
        inline=True,
        save=request.save_as_artifacts,
        name_template=request.artifact_prefix,
    )
    given = (older, request.outputs)
    return tuple(spec for spec in given if spec is not None and spec.globs) or (_AUTOMATIC,)


def primary_output(files: Sequence[OutputFile]) -> OutputFile | None:
    """Return the first file by name that holds a text of at most `MAX_PRIMARY_BYTES`."""
    texts = (file for file in files if file.content and file.size_bytes <= MAX_PRIMARY_BYTES)
    return min(texts, key=lambda file: file.name, default=None)


def output_file(file: CollectedFile, *, inline: bool) -> OutputFile:
    """Return the description of a collected file, with its content if that is wanted and text.

    The text is made safe to show; its exact bytes stay in the workspace and in the artifact.
    """
    data = whole_characters(file.data) if file.truncated else file.data
    content = visible_text(data) if inline and is_text(file.media_type, data) else None
    return OutputFile(file.name, file.media_type, file.size, content, file.truncated)


def without_empty(files: Sequence[CollectedFile]) -> tuple[list[CollectedFile], list[str]]:
    """Drop the empty files of a failed run, which were begun and never written, with a warning."""
    full = [file for file in files if file.size]
    if len(full) == len(files):
        return full, []
    names = listed((shown(file.name) for file in files if not file.size), _NAMED)
    return full, [f"The command failed, so empty files are left out: {names}."]


class _OutputGathering:
    """The outputs of a run gathered so far.

    Problems become warnings, not errors: the command ran, and its result is worth having.
    """

    def __init__(self, run: PreparedRun, store: ArtifactStore | None, omit: bool) -> None:
        self.files: dict[str, OutputFile] = {}
        self.texts: list[OutputFile] = []
        self.artifacts: list[ArtifactRef] = []
        self.warnings: list[str] = []
        self._run = run
        self._exec_id = run.workspace.path.name
        self._store = store
        self._omit = omit

    def gather(self, request: RunRequest, *, failed: bool) -> None:
        """Collect the outputs of the run, and keep those that are to be kept."""
        specs = output_specs(request)
        for spec in specs:
            self._add(spec, failed=failed)
        if request.save_as_artifacts and not request.output_files:
            self.warnings.append(
                "save_as_artifacts has no effect without output_files; name the files there."
            )
        if request.omit_inline_content and not any(spec.save for spec in specs):
            self.warnings.append("omit_inline_content has no effect: nothing is to be saved.")

    def _add(self, spec: OutputSpec, *, failed: bool) -> None:
        """Collect the files of one declaration, and save and describe them."""
        collected = self._collect(spec)
        files: Sequence[CollectedFile] = collected.files
        if failed:
            files, notes = without_empty(files)
            self.warnings += notes
        saved = self._save(files, spec) if spec.save else {}
        self._describe(files, spec, saved if self._omit else ())
        refs = tuple(saved.values())
        self.artifacts += refs
        names, versions = tuple(r.name for r in refs), tuple(r.version for r in refs)
        try:
            self._run.workspace.record(
                OutputRecord(spec.globs, names, versions, collected.limits_hit)
            )
        except SkillSearchError as error:
            self.warnings.append(f"The outputs are not recorded in metadata.json: {error}")

    def _collect(self, spec: OutputSpec) -> Collected:
        """Read the files; none if the workspace cannot be read any more."""
        patterns = ", ".join(spec.globs)
        try:
            with span("workspace.collect", exec_id=self._exec_id, patterns=patterns) as tell:
                run = self._run
                collected = collect(run.workspace, spec, run.variables, run.since_ns)
                tell(count=len(collected.files))
        except SkillSearchError as error:
            self.warnings.append(f"Outputs were not collected: {error}")
            return Collected()
        self.warnings += collected.warnings
        return collected

    def _save(self, files: Sequence[CollectedFile], spec: OutputSpec) -> dict[str, ArtifactRef]:
        """Keep files as artifacts; return those that are kept, by the name of the file."""
        if self._store is None:
            self.warnings.append("There is no artifact store; the outputs are not kept.")
            return {}
        saved, notes = {}, []
        for file in files:
            name = spec.name_template + file.name
            if file.truncated:
                notes.append(f"{shown(file.name)} is cut, and is not kept; raise its limits.")
                continue
            try:
                saved[file.name] = self._store.save(name, file.data, file.media_type)
            except (SkillSearchError, OSError) as error:
                notes.append(f"{shown(file.name)} is not kept: {error}")
        self.warnings += bounded(notes)
        return saved

    def _describe(
        self, files: Sequence[CollectedFile], spec: OutputSpec, omitted: Collection[str]
    ) -> None:
        """Add the descriptions of files, with their contents if these are wanted."""
        with span("workspace.inline", exec_id=self._exec_id, count=len(files)):
            for file in files:
                inline = spec.inline and file.name not in omitted
                is_candidate = spec is _AUTOMATIC and file.size <= MAX_PRIMARY_BYTES
                told = output_file(file, inline=inline or is_candidate)
                if told.content is not None and file.is_new:
                    self.texts.append(told)
                if inline or file.name not in self.files:
                    self.files[file.name] = told if inline else replace(told, content=None)
