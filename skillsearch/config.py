"""Settings: flags > ``SKILLSEARCH_*`` > project file > user file > defaults.

With `skillsearch.surroundings`, the only reader of environment variables. A project file comes with
a checkout, so what it may name is limited: its paths must stay inside its own folder, and it cannot
choose a model by path or from a hub. The user's own file, variables and flags may name anything.
"""

from __future__ import annotations

import hashlib
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skillsearch.errors import ConfigError
from skillsearch.safe_text import one_line
from skillsearch.surroundings import PREFIX
from skillsearch.types import JsonValue

APP = "skillsearch"
PROJECT_FILES = ("skillsearch.toml", "pyproject.toml")
PROJECT_MODELS = frozenset({"onnx", "all-MiniLM-L6-v2", "hashing"})
"""Models that a project file may choose: those that load nothing from elsewhere."""

MAX_N = 1000
"""Hits that a query can ask for."""
MAX_QUERY_CHARS = 65_536
"""Far beyond any request to an agent; a longer text is a mistake that would cost seconds."""

_MAX_FILE_BYTES = 1 << 20
_MAX_NAME_BYTES = 255
_MAX_TOKEN_BYTES = 4096
STANDARD_ROOTS = (".agents/skills", ".claude/skills")
"""Where hosts keep skills, below a project and below the home folder."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be configured.

    Attributes:
        roots: Folders of skills, in order of precedence; empty where none are configured.
        index_dir: Folder of the index.
        model: What the embedder is loaded by.
        fields: ``full``, or ``metadata`` to leave the bodies out.
        n: Hits a query gives at most.
        threshold: Lowest accepted score; None for the default of the ranking system.
        refresh: Whether a query brings a changed index up to date first where that is cheap.
        environments: Folder of the named environments.
        environment: Name of the one in use; empty for ``default``, or else the only one there is.
        daemon: Whether the daemon is used: ``auto`` where it runs, ``off`` never.
        sources: Where each setting that is not a default came from, for ``doctor``.
    """

    roots: tuple[Path, ...] = ()
    index_dir: Path = Path()
    model: str = "onnx"
    fields: str = "full"
    n: int = 5
    threshold: float | None = None
    refresh: bool = True
    environments: Path = Path()
    environment: str = ""
    daemon: str = "auto"
    sources: Mapping[str, str] = field(default_factory=dict)


def load_settings(
    folder: Path | None = None,
    *,
    variables: Mapping[str, str] | None = None,
    **flags: JsonValue,
) -> Settings:
    """Gather the settings that hold in a folder.

    Args:
        folder: Where to begin looking for a project file, upward; the working folder by default.
        variables: The ``SKILLSEARCH_*`` variables; by default those of this process.
        **flags: Settings given on the command line or in code; None means not given.

    Returns:
        The settings, all checked.

    Raises:
        ConfigError: When a file cannot be read, or a setting is unknown or unusable.
    """
    here = (folder or Path.cwd()).absolute()
    settings = Settings(
        index_dir=default_index_dir(), environments=user_file().parent / "environments"
    )
    for path in (user_file(), project_file(here)):
        if path is not None:
            settings = _with_file(settings, path, is_project=path != user_file())
    settings = _with_values(settings, _environment(variables), here, source="environment")
    given = {key: value for key, value in flags.items() if value is not None}
    return _with_values(settings, given, here, source="flag")


def default_index_dir() -> Path:
    """Return the folder of the index where none is configured: in the user's cache folder."""
    return cache_dir() / "default"


def index_dir_for(roots: Sequence[Path], model: str) -> Path:
    """Return a folder of its own for an index of certain roots, in the user's cache folder."""
    identity = "\0".join([model, *(str(root.absolute()) for root in roots)])
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return cache_dir() / digest[:16]


def cache_dir() -> Path:
    """Return the user's cache folder for skillsearch, by the habits of the platform."""
    import platformdirs

    return Path(platformdirs.user_cache_dir(APP, appauthor=False))


def user_file() -> Path:
    """Return where the user's own settings would lie."""
    import platformdirs

    return Path(platformdirs.user_config_dir(APP, appauthor=False)) / "skillsearch.toml"


def is_environment_name(text: str) -> bool:
    """Tell whether a text can name an environment: a folder, and nothing above or below it.

    A name has at most 255 bytes, no hidden characters, neither slash nor backslash nor colon, and
    does not begin with a dot.
    """
    is_plain = text != "" and one_line(text) == text and not text.startswith(".")
    return is_plain and not set("/\\:") & set(text) and len(text.encode()) <= _MAX_NAME_BYTES


def project_file(folder: Path) -> Path | None:
    """Return the nearest project file with settings, in a folder or above it."""
    for place in (folder, *folder.parents):
        for name in PROJECT_FILES:
            path = place / name
            if path.is_file() and (name == "skillsearch.toml" or _table(path)):
                return path
    return None


def standard_roots(folder: Path | None = None) -> tuple[Path, ...]:
    """Return the places where hosts keep skills that exist, the project's before the user's."""
    here = folder or Path.cwd()
    places = [base / name for base in (here, Path.home()) for name in STANDARD_ROOTS]
    return tuple(dict.fromkeys(place for place in places if place.is_dir()))


def use_one_blas_thread() -> None:
    """Keep OpenBLAS, which numpy and faiss bring, from starting threads in this process.

    Call it before numpy is imported. A search multiplies too little to gain from them, and their
    start alone costs 0.12 CPU seconds: a fifth of a cold query. What the user set stays.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def no_color() -> bool:
    """Tell whether the user asked for output without colours (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def mcp_token(file: Path | None = None) -> str:
    """Return the token that clients of the MCP server have to show; it is never a flag itself.

    Args:
        file: A file that holds it; None for ``SKILLSEARCH_MCP_TOKEN``.

    Returns:
        The token; empty where there is none.

    Raises:
        ConfigError: When the file cannot be read, or holds nothing.
    """
    if file is None:
        return os.environ.get(f"{PREFIX}MCP_TOKEN", "").strip()
    try:
        with file.open("rb") as opened:
            token = opened.read(_MAX_TOKEN_BYTES).decode().strip()
    except (OSError, ValueError) as exc:
        raise ConfigError(f"The token file {file} cannot be read: {exc}") from exc
    if not token:
        raise ConfigError(f"The token file {file} is empty; write the token into it.")
    return token


def _environment(variables: Mapping[str, str] | None) -> dict[str, JsonValue]:
    """Read the ``SKILLSEARCH_*`` variables that name settings; click's own are left alone."""
    values: dict[str, JsonValue] = {}
    for key in _PARSERS:
        text = (os.environ if variables is None else variables).get(f"{PREFIX}{key.upper()}")
        if text:
            values[key] = text.split(os.pathsep) if key == "roots" else text
    return values


def _table(path: Path) -> dict[str, JsonValue]:
    """Read the settings of a TOML file.

    Args:
        path: The file; of a pyproject.toml only ``[tool.skillsearch]`` is read.

    Returns:
        The settings as they are written, none where there are none.

    Raises:
        ConfigError: When the file cannot be read as TOML.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES)
        if path.name == "pyproject.toml" and b"[tool.skillsearch]" not in data:
            return {}
        content = tomllib.loads(data.decode())
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{path} cannot be read: {exc}") from exc
    if path.name != "pyproject.toml":
        return content
    table: dict[str, JsonValue] = content.get("tool", {}).get(APP, {})
    return table


def _with_file(settings: Settings, path: Path, *, is_project: bool) -> Settings:
    """Add the settings of a file, where it exists."""
    if not path.is_file():
        return settings
    values = _table(path)
    changed = _with_values(settings, values, path.parent, source=str(path))
    if is_project:
        _check_project(changed, values, path)
    return changed


def _with_values(
    settings: Settings, values: Mapping[str, JsonValue], base: Path, *, source: str
) -> Settings:
    """Add settings from one source; relative paths are relative to `base`."""
    unknown = sorted(values.keys() - _PARSERS.keys())
    if unknown:
        known = ", ".join(sorted(_PARSERS))
        raise ConfigError(f"{source}: unknown setting {unknown[0]!r}; known are: {known}")
    parsed: dict[str, Any] = {}
    for key, value in values.items():
        try:
            parsed[key] = _PARSERS[key](value, base)
        except (TypeError, ValueError) as exc:
            raise ConfigError(f"{source}: {key} = {value!r} {exc}") from exc
    sources = {**settings.sources, **dict.fromkeys(parsed, source)}
    return replace(settings, **parsed, sources=sources)


def _check_project(settings: Settings, values: Mapping[str, JsonValue], path: Path) -> None:
    """Refuse what a checkout must not decide for its user.

    Args:
        settings: The settings with those of the file.
        values: What the file says.
        path: The file.

    Raises:
        ConfigError: When the project file reaches outside its folder.
    """
    base = path.parent.resolve()
    paths = [*(settings.roots if "roots" in values else ())]
    paths += [getattr(settings, key) for key in ("index_dir", "environments") if key in values]
    for inside in paths:
        if not inside.resolve().is_relative_to(base):
            raise ConfigError(
                f"{path}: {inside} lies outside {base}; a project file may only name folders "
                "inside it. Use a flag, SKILLSEARCH_* or the user file instead."
            )
    if "model" in values and settings.model not in PROJECT_MODELS:
        raise ConfigError(
            f"{path}: model = {settings.model!r} is not for a project file to choose "
            f"(only {', '.join(sorted(PROJECT_MODELS))}); use --model or SKILLSEARCH_MODEL."
        )


def _parse_path(value: JsonValue, base: Path) -> Path:
    """Read a folder."""
    if isinstance(value, Path):
        return base / value
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("must be the path of a folder")
    return base / Path(value).expanduser()


def _parse_paths(value: JsonValue, base: Path) -> tuple[Path, ...]:
    """Read a list of folders."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError("must be a list of folders")
    return tuple(_parse_path(item, base) for item in value)


def _parse_text(value: JsonValue, base: Path) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text")
    return value.strip()


def _parse_environment(value: JsonValue, base: Path) -> str:
    """Read the name of an environment."""
    if not isinstance(value, str) or not is_environment_name(value):
        raise ValueError("must be the name of a folder, without '/', '\\', ':' or a leading dot")
    return value


def _parse_daemon(value: JsonValue, base: Path) -> str:
    """Read whether to use the daemon."""
    if value not in ("auto", "off"):
        raise ValueError("must be 'auto' or 'off'")
    return str(value)


def _parse_fields(value: JsonValue, base: Path) -> str:
    """Read which fields to index."""
    if value not in ("metadata", "full"):
        raise ValueError("must be 'metadata' or 'full'")
    return str(value)


def _parse_n(value: JsonValue, base: Path) -> int:
    """Read a number of hits."""
    number = int(value)
    if isinstance(value, float | bool) or not 1 <= number <= MAX_N:
        raise ValueError(f"must be a whole number from 1 to {MAX_N}")
    return number


def _parse_threshold(value: JsonValue, base: Path) -> float:
    """Read a threshold."""
    number = float(value)
    if not math.isfinite(number) or not 0.0 <= number <= 1.0:
        raise ValueError("must be a number from 0 to 1")
    return number


def _parse_switch(value: JsonValue, base: Path) -> bool:
    """Read a switch."""
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if str(value).lower() not in words:
        raise ValueError("must be true or false")
    return words[str(value).lower()]


_PARSERS = {
    "roots": _parse_paths,
    "index_dir": _parse_path,
    "model": _parse_text,
    "fields": _parse_fields,
    "n": _parse_n,
    "threshold": _parse_threshold,
    "refresh": _parse_switch,
    "environments": _parse_path,
    "environment": _parse_environment,
    "daemon": _parse_daemon,
}
"""How each setting is read; its errors complete the sentence "KEY = VALUE ..."."""
