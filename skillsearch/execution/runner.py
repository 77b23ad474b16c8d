"""Runs a skill's command: prepares a workspace, runs the program, and gathers the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from skillsearch.errors import ConfigError, ExecutionError, ExecutorError, WorkspaceError, explained
from skillsearch.execution import types
from skillsearch.execution.commands import EDITORS, CommandPolicy, clean_environment, write_editor
from skillsearch.execution.isolation.capture import stream_text
from skillsearch.execution.tracing import command_name, span
from skillsearch.execution.workspaces.artifacts import ArtifactStore
from skillsearch.execution.workspaces.globs import FOLDERS, check_patterns, working_folder
from skillsearch.execution.workspaces.inputs import InputStager
from skillsearch.execution.workspaces.outputs import Gathering, output_specs, primary_output
from skillsearch.execution.workspaces.staging import stage_skill
from skillsearch.execution.workspaces.workspace import Workspace, Workspaces
from skillsearch.files.paths import shown
from skillsearch.settings.config import load_only
from skillsearch.text.safe_text import one_line
from skillsearch.types.json_values import JsonObject


class SkillRunner(AbstractContextManager["SkillRunner"]):
    """Runs commands of skills, for several threads; each session in its own workspace, in turn."""

    def __init__(
        self,
        executor: types.Executor,
        *,
        workspaces: Workspaces | None = None,
        artifacts: ArtifactStore | None = None,
        host_folders: Sequence[Path] = (),
        skill_folder: Callable[[str], Path] | None = None,
        policy: CommandPolicy | None = None,
        limits: types.RunLimits | None = None,
    ) -> None:
        """Choose who runs commands, and what these may use.

        The workspaces are closed with the runner. Inputs may come from the `host_folders` of this
        machine, and from skills that were run here or that `skill_folder` finds. The policy is by
        default that of the settings.
        """
        if isinstance(executor, type) or not hasattr(executor, "run"):
            message = f"executor is {executor!r:.80}; give one that select_executor returns."
            raise ConfigError(message)
        self._executor = executor
        self._workspaces = workspaces or Workspaces()
        self._artifacts = artifacts
        settings = load_only("allowed_commands", "denied_commands")
        self._policy = policy or CommandPolicy(settings.allowed_commands, settings.denied_commands)
        self._limits = limits or types.RunLimits()
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
        request = replace(request, timeout=min(seconds, most))
        for spec in output_specs(request):  # refuses patterns before anything is run
            check_patterns(spec.globs)
        self._folders[request.skill] = request.folder
        with self._workspaces.held(session):
            try:
                program, outputs = self._prepare(request, session)
                finished = self._execute(request, program)
                outputs.warnings.extend(run_warnings(finished))
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
            staged_inputs=outputs.inputs,
            warnings=(*notes, *outputs.warnings),
        )

    def close(self) -> None:
        """Remove all workspaces, even of runs still in progress, and refuse further runs."""
        self._is_closed = True
        with span("workspace.cleanup"):
            self._workspaces.close()

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _folder(self, name: str) -> Path:
        if name in self._folders:
            return self._folders[name]
        raise WorkspaceError(
            f"The skill {name[:200]!r} was not run here, so no input can come from it; name the"
            " skill that is run."
        )

    def _prepare(self, request: types.RunRequest, session: str) -> tuple[types.Program, Gathering]:
        """Prepare a run in a workspace; in a new one if the old one vanishes."""
        if self._is_closed:
            raise ExecutionError("The runner is closed; make another SkillRunner.")
        with span("workspace.create") as tell:
            workspace = self._workspaces.of(session)
            tell({"exec_id": workspace.path.name, "path": str(workspace.path)})
        try:
            return self._prepare_in(workspace, request)
        except ExecutionError:
            if workspace.exists() or self._is_closed:
                raise
            return self._prepare_in(self._workspaces.of(session), request)

    def _prepare_in(
        self, workspace: Workspace, request: types.RunRequest
    ) -> tuple[types.Program, Gathering]:
        if request.editor_text is not None and (named := [e for e in EDITORS if e in request.env]):
            raise ExecutionError(
                f"editor_text sets {' and '.join(EDITORS)}, but env sets {' and '.join(named)};"
                " leave out one or the other."
            )
        exec_id = workspace.path.name
        run_dir = workspace.new_run_dir()
        since_ns = run_dir.lstat().st_ctime_ns
        variables = {**FOLDERS, "RUN_DIR": f"runs/{run_dir.name}"}
        with span("workspace.stage.dir", {"exec_id": exec_id, "path": str(request.folder)}):
            skill = stage_skill(workspace, request.skill, request.folder)
        with span("workspace.stage.files", {"exec_id": exec_id, "count": len(request.inputs)}):
            inputs, notes = self._stager.stage(workspace, request.inputs, variables)
        if inputs:
            workspace.record("inputs", *map(_record, request.inputs, inputs))
        env = clean_environment(workspace, run_dir, request.skill, request.env)
        if request.editor_text is not None:
            env |= write_editor(workspace, request.editor_text, env["PATH"])
        own = PurePosixPath(skill.rel_path)
        cwd = working_folder(request.cwd, skill.rel_path, variables)
        warnings = [*skill.notes, *notes]
        if cwd is None or not workspace.has_folder(*cwd.parts):
            cwd = own
            elsewhere = f"cwd {shown(request.cwd)} is not a folder of the workspace"
            warnings.append(f"{elsewhere}; the command ran in {own}.")
        program = types.Program(
            argv=self._policy.argv(request.command, skill=skill.path if cwd == own else None),
            cwd=workspace.path / cwd,
            workspace=workspace.path,
            env=env,
            stdin=request.stdin.encode("utf-8", "replace"),
            limits=replace(self._limits, timeout=request.timeout or self._limits.timeout),
        )
        return program, Gathering(workspace, variables, since_ns, self._artifacts, inputs, warnings)

    def _execute(self, request: types.RunRequest, program: types.Program) -> types.Finished:
        exec_id = program.workspace.name
        cmd = command_name(request.command)
        cwd = str(program.cwd.relative_to(program.workspace))
        with span("workspace.run", {"exec_id": exec_id, "cmd": cmd, "cwd": cwd}) as tell:
            failed = f"The executor {self._executor.name!r} cannot be used: %s."
            with explained(ExecutorError, failed):
                finished = self._executor.run(program)
            tell({"exit_code": finished.exit_code, "timed_out": finished.timed_out})
            return finished


def _record(spec: types.InputSpec, staged: types.StagedInput) -> JsonObject:
    artifact = staged.artifact
    resolved = {"resolved": artifact.ref if artifact else spec.source}
    version = {"version": artifact.version if artifact else None}
    return {"from": spec.source, "to": staged.name, "mode": spec.mode, **resolved, **version}


def run_warnings(finished: types.Finished) -> list[str]:
    """Return the warnings about how a program ended."""
    dropped = {"stdout": finished.stdout_dropped, "stderr": finished.stderr_dropped}
    truncated = [f"{name} truncated" for name, count in dropped.items() if count]
    return [*map(one_line, finished.problems), *truncated]
