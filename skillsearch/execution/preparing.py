"""Puts all that a run needs into a workspace, up to the program that an executor can run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from skillsearch.execution.commands import CommandPolicy
from skillsearch.execution.editor import check_editor, write_editor
from skillsearch.execution.environment import clean_environment
from skillsearch.execution.globs import FOLDERS
from skillsearch.execution.inputs import InputStager
from skillsearch.execution.metadata import InputRecord
from skillsearch.execution.program import Limits, Program
from skillsearch.execution.request import InputSpec, RunRequest, StagedInput
from skillsearch.execution.staging import stage_skill
from skillsearch.execution.tracing import span
from skillsearch.execution.working_folder import working_folder
from skillsearch.execution.workspace import Workspace
from skillsearch.files.paths import shown


@dataclass(frozen=True, slots=True)
class Ready:
    """A run that can begin.

    Attributes:
        workspace: Where.
        program: What.
        cwd: Where in the workspace.
        variables: The variables that patterns may begin with, and the folder of each.
        since_ns: When it began, by the clock of the workspace's disk.
        inputs: What was put into the workspace.
        warnings: What there is to tell so far.
    """

    workspace: Workspace
    program: Program
    cwd: PurePosixPath
    variables: Mapping[str, str]
    since_ns: int
    inputs: tuple[StagedInput, ...]
    warnings: tuple[str, ...]


def prepare(
    workspace: Workspace,
    request: RunRequest,
    *,
    policy: CommandPolicy,
    limits: Limits,
    stager: InputStager,
) -> Ready:
    """Stage skill and inputs, have the command let through, and make the program.

    Args:
        workspace: The workspace.
        request: What was asked for.
        policy: Which commands may be run.
        limits: What it may use.
        stager: What puts inputs into workspaces.

    Returns:
        The run.

    Raises:
        ExecutionError: When the command is refused, or anything of the run cannot be had.
    """
    if request.editor_text is not None:
        check_editor(request.env)
    exec_id = workspace.path.name
    run_dir = workspace.new_run_dir()
    since_ns = run_dir.lstat().st_ctime_ns
    variables = {**FOLDERS, "RUN_DIR": f"runs/{run_dir.name}"}
    with span("workspace.stage.dir", exec_id=exec_id, path=str(request.folder)):
        skill = stage_skill(workspace, request.skill, request.folder)
    with span("workspace.stage.files", exec_id=exec_id, count=len(request.inputs)):
        inputs, notes = stager.stage(workspace, request.inputs, variables)
    if inputs:
        workspace.record(*map(_record, request.inputs, inputs))
    env = clean_environment(workspace, run_dir, request.skill, request.env)
    if request.editor_text is not None:
        env |= write_editor(workspace, request.editor_text, env["PATH"])
    cwd, warnings = _choose_folder(workspace, request.cwd, skill.rel_path, variables)
    is_in_skill = cwd == PurePosixPath(skill.rel_path)
    program = Program(
        argv=policy.argv(request.command, skill=skill.path if is_in_skill else None),
        cwd=workspace.path / cwd,
        workspace=workspace.path,
        env=env,
        stdin=request.stdin.encode("utf-8", "replace"),
        limits=limits,
    )
    told = (*skill.notes, *notes, *warnings)
    return Ready(workspace, program, cwd, variables, since_ns, inputs, told)


def _record(spec: InputSpec, staged: StagedInput) -> InputRecord:
    """Return what the metadata says of an input."""
    found = staged.artifact
    resolved, version = (found.ref, found.version) if found else (spec.source, None)
    return InputRecord(spec.source, staged.name, resolved, version, spec.mode)


def _choose_folder(
    workspace: Workspace, cwd: str, skill: str, variables: Mapping[str, str]
) -> tuple[PurePosixPath, tuple[str, ...]]:
    """Return the folder to run in, and a warning where it is not what was asked for."""
    found = working_folder(cwd, skill, variables)
    if found is not None and _is_folder(workspace, found):
        return found, ()
    return PurePosixPath(skill), (
        f"cwd {shown(cwd)} is no folder of the workspace; the command ran in {skill}.",
    )


def _is_folder(workspace: Workspace, path: PurePosixPath) -> bool:
    """Say whether a path below a workspace is a folder, and no part of it a link."""
    try:
        os.close(workspace.open(*path.parts))
    except OSError:
        return False
    return True
