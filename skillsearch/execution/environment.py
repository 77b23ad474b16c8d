"""The environment of a run: made from nothing, so that no secret of this process is in it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from skillsearch.errors import WorkspaceError
from skillsearch.execution.workspace import Workspace
from skillsearch.text.safe_text import one_line

MAX_VARIABLES = 100
MAX_BYTES = 64 << 10
"""Names and values of the caller's variables together."""

_SYSTEM_PATH = (
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/usr/local/sbin",
    "/usr/sbin",
    "/sbin",
    "/opt/homebrew/bin",
)
_ALWAYS = _SYSTEM_PATH[:3]
_DEFAULTS = {
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PYTHONDONTWRITEBYTECODE": "1",  # the copy of a skill is to stay as it is, root or not
}
_MAX_SKILL_CHARS = 200
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_HARMLESS = re.compile(
    "PYTHON(UNBUFFERED|HASHSEED|IOENCODING|UTF8|DONTWRITEBYTECODE|OPTIMIZE)|NODE_ENV"
    "|GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)"
)
"""What `_REFUSED` means too, and need not."""
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


def clean_environment(
    workspace: Workspace, run_dir: Path, skill: str, given: Mapping[str, str]
) -> dict[str, str]:
    """Return all variables of a run.

    Nothing comes from this process but the folder of its Python, which is the first of ``PATH``.
    In trpc-agent-go the caller's variables win over those of the run; here a caller, who may be a
    model, can neither change those nor give variables that start code.

    Args:
        workspace: The workspace.
        run_dir: Folder of the run, also the home folder and that of temporary files: what earlier
            commands left (.bash_profile, .gitconfig) starts nothing in this one.
        skill: Name of the skill, any text.
        given: The caller's variables; they may change ``LANG`` and ``TERM``.

    Returns:
        The variables.

    Raises:
        WorkspaceError: When one of the caller's has a name that no variable can have, is refused,
            or holds what no variable can; or when they are too many.
    """
    fixed = {
        "WORKSPACE_DIR": str(workspace.path),
        "SKILLS_DIR": str(workspace.skills),
        "WORK_DIR": str(workspace.work),
        "OUTPUT_DIR": str(workspace.out),
        "RUN_DIR": str(run_dir),
        "SKILL_NAME": one_line(skill, _MAX_SKILL_CHARS),
        "HOME": str(run_dir),
        "TMPDIR": str(run_dir),
        "PATH": _search_path(),
    }
    if len(given) > MAX_VARIABLES or _size(given) > MAX_BYTES:
        raise WorkspaceError(
            f"The {len(given):,} variables given are more than {MAX_VARIABLES}, or larger than "
            f"{MAX_BYTES >> 10} KiB; write them to a file."
        )
    for name, value in given.items():
        if reason := _refusal(name, value, fixed):
            raise WorkspaceError(f"The variable {name[:100]!r} {reason}.")
    return {**_DEFAULTS, **given, **fixed}


def _size(given: Mapping[str, str]) -> int:
    """Return the bytes of all names and values."""
    texts = (text for variable in given.items() for text in variable)
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def _refusal(name: str, value: str, fixed: Mapping[str, str]) -> str | None:
    """Return why a variable is refused, and the next step; None where it is not."""
    if not _NAME.fullmatch(name):
        return "has a name that no variable can have; use letters, digits and '_'"
    if name in fixed:
        return "is set for every run; use another name"
    if _REFUSED.fullmatch(name) and not _HARMLESS.fullmatch(name):
        return "can make programs load or start other code; do without it"
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        return "holds characters that no variable should; write them to a file"
    return None


def _search_path() -> str:
    """Return where programs are looked for."""
    own = str(Path(sys.executable).parent)
    has_python = own.startswith("/") and ":" not in own and os.access(f"{own}/python3", os.X_OK)
    folders = [own] if has_python else []
    folders += [f for f in _SYSTEM_PATH if f in _ALWAYS or os.access(f, os.X_OK)]
    return ":".join(dict.fromkeys(folders))
