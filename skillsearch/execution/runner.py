"""Runs a skill's command: prepares a workspace, runs the program, and gathers the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from skillsearch.errors import ExecutionError, ExecutorError, WorkspaceError
from skillsearch.execution import types
from skillsearch.execution.artifacts import ArtifactStore
from skillsearch.execution.capture import stream_text
from skillsearch.execution.commands import CommandPolicy
from skillsearch.execution.globs import FOLDERS, matcher
from skillsearch.execution.inputs import InputStager
from skillsearch.execution.outputs import Gathering, output_specs, primary_output
from skillsearch.execution.preparation import PreparedRun, prepare_run
from skillsearch.execution.tracing import command_name, span
from skillsearch.execution.workspace import Workspaces
from skillsearch.text.safe_text import one_line


class SkillRunner:
    """Runs commands of skills. Calls may come from several threads.

    Runs of one session share a workspace and wait for each other; different sessions run in
    parallel.
    """

    def __init__(
        self,
        executor: types.Executor,
        *,
        workspaces: Workspaces | None = None,
        artifacts: ArtifactStore | None = None,
        host_folders: Sequence[Path] = (),
        skill_folder: Callable[[str], Path] | None = None,
        policy: CommandPolicy | None = None,
        limits: types.Limits | None = None,
    ) -> None:
        """Choose who runs commands, and what these may use.

        Args:
            workspaces: The workspaces, closed with the runner; None for the default folder.
            host_folders: Folders of this machine that inputs may come from.
            skill_folder: Returns the folder of a skill that an input names, or raises a
                `SkillSearchError`; None to know only the skills that this runner has run.
        """
        self._executor = executor
        self._workspaces = workspaces or Workspaces()
        self._artifacts = artifacts
        self._policy = policy or CommandPolicy()
        self._limits = limits or types.Limits()
        self._folders: dict[str, Path] = {}
        self._stager = InputStager(artifacts, tuple(host_folders), skill_folder or self._folder)
        self._is_closed = False

    def run(self, request: types.RunRequest, session: str = "") -> types.RunResult:
        """Run a command, and collect its outputs.

        Patterns collect files of earlier runs of the session too; without patterns, and for the
        primary output, only what this run made or changed counts. A failed or timed-out command is
        a result; an `ExecutionError` tells what prevented the start.
        """
        seconds = self._limits.timeout if request.timeout is None else request.timeout
        if not seconds > 0:
            raise ExecutionError(f"The timeout is {seconds}; give more than 0 seconds.")
        most = types.MAX_TIMEOUT
        notes = (f"The timeout is capped at {most:,.0f} seconds.",) if seconds > most else ()
        for spec in output_specs(request):  # refuses patterns before anything is run
            matcher(spec.globs, {**FOLDERS, "RUN_DIR": "runs"})
        self._folders[request.skill] = request.folder
        with self._workspaces.held(session):
            try:
                prepared = self._prepare(request, session, min(seconds, most))
                finished = self._execute(request, prepared)
                outputs = Gathering(prepared, self._artifacts)
                outputs.gather(request, failed=finished.timed_out or finished.exit_code != 0)
            finally:
                if self._is_closed:  # perhaps while this run made its workspace
                    self._workspaces.close(session)
        return types.RunResult(
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
            self._workspaces.close()

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

    def _prepare(self, request: types.RunRequest, session: str, timeout: float) -> PreparedRun:
        """Prepare a workspace with all that a run needs; a new one if the old one vanishes."""
        if self._is_closed:
            raise ExecutionError("The runner is closed; make another SkillRunner.")
        with span("workspace.create") as tell:
            workspace = self._workspaces.of(session)
            tell(exec_id=workspace.path.name, path=str(workspace.path))
        how = (self._policy, replace(self._limits, timeout=timeout), self._stager)
        try:
            return prepare_run(workspace, request, *how)
        except ExecutionError:
            if workspace.exists() or self._is_closed:
                raise
            return prepare_run(self._workspaces.of(session), request, *how)

    def _execute(self, request: types.RunRequest, prepared: PreparedRun) -> types.Finished:
        exec_id, cmd = prepared.workspace.path.name, command_name(request.command)
        with span("workspace.run", exec_id=exec_id, cmd=cmd, cwd=str(prepared.cwd)) as tell:
            try:
                finished = self._executor.run(prepared.program)
            except OSError as exc:
                raise ExecutorError(
                    f"The executor {self._executor.name!r} cannot be used: {exc.strerror}."
                ) from exc
            tell(exit_code=finished.exit_code, timed_out=finished.timed_out)
            return finished


def run_warnings(finished: types.Finished) -> list[str]:
    """Return the warnings about how a program ended."""
    dropped = {"stdout": finished.stdout_dropped, "stderr": finished.stderr_dropped}
    truncated = [f"{name} truncated" for name, count in dropped.items() if count]
    return [*map(one_line, finished.problems), *truncated]
