"""Runs a skill's command: staged into a workspace, run by an executor, its outputs collected."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType

from skillsearch.errors import ExecutionError, ExecutorError, WorkspaceError
from skillsearch.execution.artifacts import ArtifactStore
from skillsearch.execution.commands import CommandPolicy
from skillsearch.execution.gathering import check_outputs, gather
from skillsearch.execution.inputs import InputStager
from skillsearch.execution.preparing import Ready, prepare
from skillsearch.execution.program import MAX_TIMEOUT, Executor, Finished, Limits
from skillsearch.execution.request import RunRequest, RunResult
from skillsearch.execution.results import run_warnings, stream_text
from skillsearch.execution.tracing import command_name, span
from skillsearch.execution.workspaces import Workspaces


class SkillRunner:
    """Runs commands of skills. Calls may come from several threads.

    Runs of one session share a workspace and wait for each other; those of others run beside them.
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
            executor: What runs them.
            workspaces: Where they run, closed with the runner; None for the default folder.
            artifacts: Where outputs are kept and inputs come from; None for nowhere.
            host_folders: Folders of this machine that inputs may come from.
            skill_folder: Gives the folder of a skill that an input names, or raises a
                `SkillSearchError`; None for those skills alone that this runner has run.
            policy: Which commands may be run; None for all.
            limits: What each may use; None for the default.
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
        """Run a command, and collect what it leaves.

        What earlier runs of the session left is collected too if a pattern of the request matches
        it; without patterns, and for the primary output, only what this run made or changed counts.

        Args:
            request: The command, and what belongs to it.
            session: Id of the session, any text.

        Returns:
            How it ended, be it by a failure or because its time was over.

        Raises:
            ExecutionError: When the command is refused, an input cannot be had, the runner is
                closed, or something else keeps it from being started.
        """
        timeout, notes = _timeout(request.timeout, self._limits.timeout)
        check_outputs(request)
        self._folders[request.skill] = request.folder
        limits = replace(self._limits, timeout=timeout)
        with self._turn(session), self._ready(request, session, limits) as ready:
            finished = self._execute(request, ready)
            gathered = gather(
                ready.workspace,
                request,
                artifacts=self._artifacts,
                variables=ready.variables,
                since_ns=ready.since_ns,
                failed=finished.timed_out or finished.exit_code != 0,
            )
        return RunResult(
            stdout=stream_text(finished.stdout, finished.stdout_dropped),
            stderr=stream_text(finished.stderr, finished.stderr_dropped),
            exit_code=finished.exit_code,
            timed_out=finished.timed_out,
            duration_ms=finished.duration_ms,
            executor=self._executor.name,
            output_files=gathered.files,
            primary_output=gathered.primary,
            artifact_files=gathered.artifacts,
            staged_inputs=ready.inputs,
            warnings=(*notes, *ready.warnings, *run_warnings(finished), *gathered.warnings),
        )

    def close(self) -> None:
        """Remove all workspaces, and run nothing more; runs that are not over lose theirs."""
        self._is_closed = True
        with span("workspace.cleanup"):
            self._workspaces.close_all()

    def __enter__(self) -> SkillRunner:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove all workspaces."""
        self.close()

    def _folder(self, name: str) -> Path:
        """Return the folder of a skill that was run."""
        if name in self._folders:
            return self._folders[name]
        raise WorkspaceError(
            f"The skill {name[:200]!r} was not run here, so no input can come from it; name the"
            " skill that is run."
        )

    @contextmanager
    def _turn(self, session: str) -> Iterator[None]:
        """Wait until no other run of a session is left."""
        with self._guard:
            lock = self._locks.setdefault(session, threading.Lock())
            self._waiting[session] += 1
        try:
            with lock:
                if self._is_closed:
                    raise ExecutionError("What runs commands is closed; make another SkillRunner.")
                yield
        finally:
            with self._guard:
                self._waiting[session] -= 1
                if not self._waiting[session]:
                    del self._waiting[session], self._locks[session]
            if self._is_closed:  # while this one made its workspace
                self._workspaces.close(session)

    @contextmanager
    def _ready(self, request: RunRequest, session: str, limits: Limits) -> Iterator[Ready]:
        """Hold a workspace with all that a run needs; a new one where the old one vanishes."""
        preparing = partial(
            prepare, request=request, policy=self._policy, limits=limits, stager=self._stager
        )
        with ExitStack() as held:
            with span("workspace.create") as tell:
                workspace = held.enter_context(self._workspaces.using(session))
                tell(exec_id=workspace.path.name, path=str(workspace.path))
            try:
                ready = preparing(workspace)
            except ExecutionError:
                if workspace.exists() or self._is_closed:
                    raise
                ready = preparing(self._workspaces.of(session))
            yield ready

    def _execute(self, request: RunRequest, ready: Ready) -> Finished:
        """Run the command."""
        with span(
            "workspace.run",
            exec_id=ready.workspace.path.name,
            cmd=command_name(request.command),
            cwd=str(ready.cwd),
        ) as tell:
            try:
                finished = self._executor.run(ready.program)
            except OSError as exc:
                raise ExecutorError(
                    f"The executor {self._executor.name!r} cannot be used: {exc.strerror}."
                ) from exc
            tell(exit_code=finished.exit_code, timed_out=finished.timed_out)
        return finished


def _timeout(asked: float | None, default: float) -> tuple[float, tuple[str, ...]]:
    """Return the seconds that a run may take, and a warning where these are fewer than asked."""
    seconds = default if asked is None else asked
    if not seconds > 0:
        raise ExecutionError(f"The timeout is {seconds}; give more than 0 seconds.")
    if seconds <= MAX_TIMEOUT:
        return seconds, ()
    return MAX_TIMEOUT, (f"The timeout is {MAX_TIMEOUT:,.0f} seconds, and no more.",)
