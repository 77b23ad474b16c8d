"""Prepares a run: stages skill and inputs, and makes its program and environment from nothing."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from skillsearch.errors import ExecutionError, WorkspaceError
from skillsearch.execution.commands import CommandPolicy
from skillsearch.execution.files import remove_tree, replace_file
from skillsearch.execution.globs import FOLDERS, working_folder
from skillsearch.execution.inputs import InputStager
from skillsearch.execution.staging import stage_skill
from skillsearch.execution.tracing import span
from skillsearch.execution.types import InputSpec, Limits, Program, RunRequest, StagedInput
from skillsearch.execution.workspace import Workspace
from skillsearch.files.openat import open_folder, using
from skillsearch.files.paths import is_utf8, shown
from skillsearch.text.safe_text import one_line
from skillsearch.types import JsonValue

EDITORS = ("EDITOR", "VISUAL")
MAX_VARIABLES, MAX_BYTES = 100, 64 << 10
"""Of the caller: names and values together."""

_ALWAYS = ("/usr/local/bin", "/usr/bin", "/bin")
_IF_PRESENT = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/homebrew/bin")
_DEFAULTS = {
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PYTHONDONTWRITEBYTECODE": "1",  # the copy of a skill stays as it is, even for root
}
_MAX_SKILL_CHARS = 200
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_HARMLESS = re.compile(
    "PYTHON(UNBUFFERED|HASHSEED|IOENCODING|UTF8|DONTWRITEBYTECODE|OPTIMIZE)|NODE_ENV"
    "|GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)"
)
"""Harmless variables that `_REFUSED` matches too."""
_REFUSED = re.compile(
    # The loader of programs, and libraries that load others.
    "LD_.*|DYLD_.*|.*_PRELOAD|.*LD_LIBRARY_PATH|GCONV_PATH|GETCONF_DIR|GLIBC_TUNABLES|LOCPATH"
    "|NLSPATH|HOSTALIASES|MALLOC_.*|OPENSSL_.*|GIO_.*|GST_.*|G[DT]K_.*|QT_.*|MAGICK_.*|TERMINFO.*"
    # Shells.
    "|BASH.*|ENV|PROMPT_COMMAND|PS[0-4]|SHELL|SHELLOPTS|IFS|CDPATH|GLOBIGNORE|EXECIGNORE|FPATH"
    "|ZDOTDIR|INPUTRC|POSIXLY_CORRECT|FCEDIT"
    # Languages.
    "|PYTHON.*|PERL.*|RUBY.*|GEM_.*|BUNDLE_.*|NODE_.*|(?i:NPM_.*)|YARN_.*|BUN_.*|DENO_.*|ELECTRON_.*"
    "|.*JAVA_.*|CLASSPATH|PHPRC|PHP_.*|LUA_.*|R_(HOME|LIBS.*|PROFILE.*|ENVIRON.*)|JULIA_.*|ERL_.*"
    "|ELIXIR_.*|GUILE_.*|TCL_LIBRARY|TCLLIBPATH|OCAML.*|CAML_.*|GO(FLAGS|PATH|ROOT|ENV|PROXY|TOOL.*)"
    "|RUSTC.*|RUSTFLAGS|RUSTUP_.*|CARGO_.*|DOTNET_.*|COMPLUS_.*|COR_.*|CORECLR_.*|AWK(LIB)?PATH"
    "|PIP_.*|UV_.*|CONDA_.*|VIRTUAL_ENV"
    # Programs that start others, or that read settings which do.
    "|GIT_.*|SSH_.*|SUDO_.*|SVN_SSH|HG|HGMERGE|HGRCPATH|.*_(RSH|ASKPASS|OPTS|OPTIONS)|.*EDITOR"
    "|VISUAL|.*PAGER|BROWSER|LESS|LESS(OPEN|CLOSE|KEY.*)|MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS"
    "|CONFIG_SITE|ZIPOPT|UNZIP|UNZIPOPT|WGETRC|CURL_HOME|NETRC|PSQLRC|GS_LIB.*|AWS_.*FILE"
    "|TEX(INPUTS|FORMATS|MF.*)|shell_escape.*|KUBECONFIG|DOCKER_.*|DBUS_.*|XDG_.*"
)
"""Variables that make a program start or load what its own arguments do not name. No such list is
complete: what runs by an allow list had better be given no variables at all."""

_EDITOR_FOLDER = ".skillsearch"
_EDITOR_TEXT = "editor_input.txt"
_EDITOR_NAME = "skillsearch-editor"
_EDITOR_SCRIPT = f"""#!/bin/sh
for file; do :; done
cat -- "${{0%/*}}/{_EDITOR_TEXT}" > "$file"
"""
"""The file to edit is the last argument; options such as a line number may come before it."""


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that can begin, and when it did by the clock of the workspace's disk.

    Patterns may begin with the variables, which name folders.
    """

    workspace: Workspace
    program: Program
    cwd: PurePosixPath
    variables: Mapping[str, str]
    since_ns: int
    inputs: tuple[StagedInput, ...]
    warnings: tuple[str, ...]


def prepare_run(
    workspace: Workspace,
    request: RunRequest,
    policy: CommandPolicy,
    limits: Limits,
    stager: InputStager,
) -> PreparedRun:
    """Stage skill and inputs, and make the program of a command; else raise `ExecutionError`."""
    if request.editor_text is not None and (named := [e for e in EDITORS if e in request.env]):
        raise ExecutionError(
            f"editor_text sets {' and '.join(EDITORS)}, but env sets {' and '.join(named)}; leave"
            " out one or the other."
        )
    exec_id = workspace.path.name
    run_dir = workspace.new_run_dir()
    since_ns = run_dir.lstat().st_ctime_ns
    variables = {**FOLDERS, "RUN_DIR": f"runs/{run_dir.name}"}
    with span("workspace.stage.dir", exec_id=exec_id, path=str(request.folder)):
        skill = stage_skill(workspace, request.skill, request.folder)
    with span("workspace.stage.files", exec_id=exec_id, count=len(request.inputs)):
        inputs, notes = stager.stage(workspace, request.inputs, variables)
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
        warnings.append(
            f"cwd {shown(request.cwd)} is not a folder of the workspace; the command ran in {own}."
        )
    program = Program(
        argv=policy.argv(request.command, skill=skill.path if cwd == own else None),
        cwd=workspace.path / cwd,
        workspace=workspace.path,
        env=env,
        stdin=request.stdin.encode("utf-8", "replace"),
        limits=limits,
    )
    return PreparedRun(workspace, program, cwd, variables, since_ns, inputs, tuple(warnings))


def _record(spec: InputSpec, staged: StagedInput) -> dict[str, JsonValue]:
    record: dict[str, JsonValue] = {"from": spec.source, "to": staged.name, "mode": spec.mode}
    if found := staged.artifact:
        return record | {"resolved": found.ref, "version": found.version}
    return record | {"resolved": spec.source, "version": None}


def clean_environment(
    workspace: Workspace, run_dir: Path, skill: str, given: Mapping[str, str]
) -> dict[str, str]:
    """Return all variables of a run, of which a caller, maybe a model, gives harmless ones.

    Nothing comes from this process but the folder of its Python, which is first in ``PATH``. The
    run's folder is its home: what earlier commands left (.bash_profile, .gitconfig) starts nothing
    in this one. A `WorkspaceError` refuses variables that start code.
    """
    python = str(Path(sys.executable).parent)
    has_python = python.startswith("/") and ":" not in python
    folders = [python] if has_python and os.access(f"{python}/python3", os.X_OK) else []
    folders += [*_ALWAYS, *(folder for folder in _IF_PRESENT if os.access(folder, os.X_OK))]
    fixed = {
        "WORKSPACE_DIR": str(workspace.path),
        "SKILLS_DIR": str(workspace.skills),
        "WORK_DIR": str(workspace.work),
        "OUTPUT_DIR": str(workspace.out),
        "RUN_DIR": str(run_dir),
        "SKILL_NAME": one_line(skill, _MAX_SKILL_CHARS),
        "HOME": str(run_dir),
        "TMPDIR": str(run_dir),
        "PATH": ":".join(dict.fromkeys(folders)),
    }
    texts = (text for variable in given.items() for text in variable)
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    if len(given) > MAX_VARIABLES or size > MAX_BYTES:
        raise WorkspaceError(
            f"The {len(given):,} variables given are more than {MAX_VARIABLES}, or larger than "
            f"{MAX_BYTES >> 10} KiB; write them to a file."
        )
    for name, value in given.items():
        rules = {
            "has an impossible name; use letters, digits and '_'": not _NAME.fullmatch(name),
            "is set for every run; use another name": name in fixed,
            "can make programs load or start other code; leave it out": (
                _REFUSED.fullmatch(name) and not _HARMLESS.fullmatch(name)
            ),
            "holds characters that no variable should; write them to a file": (
                "\0" in value or not is_utf8(value)
            ),
        }
        if broken := [rule for rule, is_broken in rules.items() if is_broken]:
            raise WorkspaceError(f"The variable {name[:100]!r} {broken[0]}.")
    return {**_DEFAULTS, **given, **fixed}


def write_editor(workspace: Workspace, text: str, search_path: str) -> dict[str, str]:
    """Put an editor that writes a text into a workspace; return the variables that name it."""
    try:
        with using(workspace.open("work")) as work:
            remove_tree(work, _EDITOR_FOLDER)
            with using(open_folder(work, (_EDITOR_FOLDER,), make=True)) as folder:
                replace_file(folder, _EDITOR_TEXT, (text.encode("utf-8", "replace"),), 0o600)
                replace_file(folder, _EDITOR_NAME, (_EDITOR_SCRIPT.encode(),), 0o700)
    except OSError as exc:
        raise WorkspaceError(
            f"The editor for editor_text cannot be put into {shown(workspace.work)} "
            f"({exc.strerror}); check that its disk has space."
        ) from exc
    place = str(workspace.work / _EDITOR_FOLDER)
    script = f"{place}/{_EDITOR_NAME}"
    if shlex.quote(script) == script or ":" in place:
        return dict.fromkeys(EDITORS, shlex.quote(script))
    # `$EDITOR file` splits a path at its blanks however it is quoted, so PATH has to find it.
    return {**dict.fromkeys(EDITORS, _EDITOR_NAME), "PATH": f"{search_path}:{place}"}
