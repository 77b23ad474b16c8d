"""The surroundings of a process; with `skillsearch.settings.config`, the only reader of variables.

It imports almost nothing: the hook of a host runs it before every prompt.
"""

from __future__ import annotations

import os

from skillsearch.hosts import scan

PREFIX = "SKILLSEARCH_"
SEED_ROOT = "SKILLS_ROOT"
"""The variable by which other programs name a root; used if no setting names any."""
OTHER_VARIABLES = frozenset({f"{PREFIX}MCP_TOKEN", f"{PREFIX}MILVUS_TOKEN"})
"""Variables of ours other than settings: secrets, which a settings file must not hold."""
PLACES = ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", *scan.VARIABLES)
"""Variables that say where the user's own settings, default index and skills lie."""

INTERRUPTED = 130
"""Exit code of a process that Ctrl-C has ended."""
_NO_TELEMETRY = {
    "ORT_DISABLE_TELEMETRY": "1",  # onnxruntime: a device id in ~/.cache, events to Microsoft
    "HF_HUB_DISABLE_TELEMETRY": "1",  # huggingface_hub: versions, and which agent runs it
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Variables that keep the libraries that we load from reporting to their makers."""

ENGINE_NAMES = ("PATH", "HOME", "TMPDIR", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS")
ENGINE_PREFIXES = ("DOCKER_", "CONTAINER", "PODMAN", "XDG_", "STORAGE_")


def settle() -> None:
    """Fix the surroundings that a process of ours cannot work with.

    A relative home would be another folder wherever we run, so it is replaced by the one in the
    system's list of users. Where names of files are not UTF-8, ours differ from one locale to the
    next, so the process begins again with the names in UTF-8 and the terminal's encoding kept.
    """
    import sys

    if not os.environ.get("HOME", "").startswith("/") and os.name == "posix":
        os.environ.pop("HOME", None)
        home = os.path.expanduser("~")  # noqa: PTH111
        if home.startswith("/"):
            os.environ["HOME"] = home
    if sys.getfilesystemencoding() != "utf-8" and sys.executable and sys.orig_argv:
        set_defaults({"PYTHONIOENCODING": getattr(sys.stdout, "encoding", "")})
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def variables() -> dict[str, str]:
    """Return the variables that settings depend on: `PLACES`, and all with our prefix."""
    return _chosen(PLACES, PREFIX)


def runtime_dir() -> str:
    """Return the folder of the daemon's socket, lock and log, where other users cannot write."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    if folder.startswith("/"):
        return f"{folder.rstrip('/')}/skillsearch"
    if hasattr(os, "getuid") and os.access(f"/run/user/{os.getuid()}", os.W_OK):
        return f"/run/user/{os.getuid()}/skillsearch"
    cache = os.environ.get("XDG_CACHE_HOME") or f"{os.environ.get('HOME', '')}/.cache"
    return f"{cache}/skillsearch/run"


def engine_variables() -> dict[str, str]:
    """Return the variables that a container engine needs to find its settings and images."""
    return _chosen(ENGINE_NAMES, ENGINE_PREFIXES)


def host_folders() -> dict[str, str]:
    """Return the variables that are set of those by which hosts name their own folders."""
    return {name: os.environ[name] for name in scan.VARIABLES if name in os.environ}


def _chosen(names: tuple[str, ...], prefixes: str | tuple[str, ...]) -> dict[str, str]:
    chosen = (name for name in os.environ if name in names or name.startswith(prefixes))
    return {name: os.environ[name] for name in chosen}


def skills_root() -> str:
    """Return the root that `SEED_ROOT` names, or an empty string."""
    return os.environ.get(SEED_ROOT, "")


def milvus_token() -> str:
    """Return ``user:password`` or an API key for Milvus, or empty; never a flag or a setting."""
    return os.environ.get(f"{PREFIX}MILVUS_TOKEN", "").strip()


def install_extra(extra: str) -> str:
    """Return the shell command that adds an extra to this installation, keeping those there are."""
    import shlex
    import sys
    import tomllib
    from contextlib import suppress
    from pathlib import Path

    prefix, extras = Path(sys.prefix), {extra}
    if (receipt := prefix / "uv-receipt.toml").is_file():
        start = "uv tool install"  # which would drop the extras that there are
        with suppress(OSError, ValueError, KeyError, TypeError):
            wanted = tomllib.loads(receipt.read_text("utf-8"))["tool"]["requirements"]
            ours = [requirement for requirement in wanted if requirement["name"] == "skillsearch"]
            extras = extras.union(*(requirement.get("extras", ()) for requirement in ours))
    elif (prefix / "pipx_metadata.json").is_file():
        start = f"pipx runpip {shlex.quote(prefix.name)} install"
    else:
        start = pip_install()
    return f"{start} {shlex.join(_requirement(extras))}"


def install_again() -> str:
    """Return the command that reinstalls this copy of skillsearch."""
    import shlex

    return f"{pip_install(again=True)} {shlex.join(_requirement(set()))}"


def pip_install(*, again: bool = False) -> str:
    """Return the start of a command that installs packages where this one is, or reinstalls."""
    import shlex
    import sys
    from importlib import util

    if util.find_spec("pip"):
        command = f"{shlex.quote(sys.executable)} -m pip install"
        return f"{command} --force-reinstall" if again else command
    command = f"uv pip install --python {shlex.quote(sys.executable)}"
    return f"{command} --reinstall" if again else command


def _requirement(extras: set[str]) -> list[str]:
    """Return this copy of skillsearch with some extras, as arguments of an installer."""
    import json
    from importlib import metadata
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    names = f"[{','.join(sorted(extras))}]" if extras else ""
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return ["-e", f"{checkout}{names}"]
    try:
        text = metadata.distribution("skillsearch").read_text("direct_url.json")
        source = json.loads(text or "{}")
        url, vcs = source.get("url", ""), source.get("vcs_info")
        folder = Path(unquote(urlsplit(url).path))
        if "dir_info" in source and folder.is_dir():
            return [f"{folder}{names}"]
        if vcs:
            url = f"{vcs['vcs']}+{url}@{vcs.get('requested_revision') or vcs['commit_id']}"
            url += f"#subdirectory={source['subdirectory']}" if "subdirectory" in source else ""
        if vcs or "archive_info" in source:
            return [f"skillsearch{names} @ {url}"]
    except (metadata.PackageNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        pass  # Nothing says where it came from.
    return [f"path/to/skillsearch{names}"]  # no registry has it, so a bare name could be anyone's


def forbid_telemetry() -> None:
    """Keep libraries that are imported after this from reporting."""
    set_defaults(_NO_TELEMETRY)


def set_defaults(values: dict[str, str]) -> None:
    """Set variables for as long as the process lives; values set by the user stay."""
    for name, value in values.items():
        if not os.environ.get(name):
            os.environ[name] = value


def use_one_blas_thread() -> None:
    """Before numpy is imported: no threads of OpenBLAS, which cost a fifth of a cold query."""
    set_defaults({"OPENBLAS_NUM_THREADS": "1"})


def no_color() -> bool:
    """Return whether the user wants output without colours (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


class Variables:
    """Sets environment variables while a block runs."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    def __enter__(self) -> None:
        self._before = {name: os.environ.get(name) for name in self._values}
        os.environ.update(self._values)

    def __exit__(self, *_exception: object) -> None:
        for name, value in self._before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
