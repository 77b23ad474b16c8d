"""The folders of the user that skillsearch writes to, by the platform's convention."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from skillsearch.errors import ConfigError

APP = "skillsearch"


def cache_dir() -> Path:
    """Return the user's cache folder for skillsearch, by the platform's convention."""
    return _user_folder("cache")


def data_dir() -> Path:
    """Return the user's folder for data of skillsearch that must not be lost."""
    return _user_folder("data")


def user_file() -> Path:
    """Return the path of the user's own settings; it may not exist."""
    return _user_folder("config") / "skillsearch.toml"


def home_dir() -> Path:
    """Return the user's home folder; a ConfigError if nothing says where it is."""
    try:
        return Path.home()
    except RuntimeError as exc:
        raise ConfigError(
            "You have no home folder: HOME is not set, and the system's list of users does not "
            "name one. Set HOME to a folder of yours"
        ) from exc


def _user_folder(kind: str) -> Path:
    """Return a folder of the user, by the platform's convention."""
    variables = map(os.environ.get, ("HOME", f"XDG_{kind.upper()}_HOME"))
    return _user_folder_of(kind, *variables)


@lru_cache(16)
def _user_folder_of(kind: str, *variables: str | None) -> Path:
    """Return the folder of the user while the variables that move it are these."""
    import platformdirs

    home_dir()
    folder: str = getattr(platformdirs, f"user_{kind}_dir")(APP, appauthor=False)
    return Path(folder)


def default_index_dir() -> Path:
    """Return the folder of the index if none is configured."""
    return cache_dir() / "default"


def index_dir_for(roots: Sequence[Path], model: str) -> Path:
    """Return the folder, in the user's cache folder, of an index of certain roots and a model."""
    identity = "\0".join([model, *(str(root.absolute()) for root in roots)])
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return cache_dir() / digest[:16]
