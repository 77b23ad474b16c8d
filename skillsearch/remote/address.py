"""Where an index lies: the address of a Milvus server, and the name of a collection there; pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from skillsearch.errors import ConfigError
from skillsearch.text.safe_text import one_line

COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
"""What Milvus takes as a name, less what we append to it."""
SCHEMES = ("http", "https", "tcp")


def check_collection(name: str) -> str:
    """Return the name of a collection, or refuse it.

    Args:
        name: The name.

    Returns:
        The same.

    Raises:
        ConfigError: When Milvus could not have a collection of this name.
    """
    if not COLLECTION.fullmatch(name):
        raise ConfigError(
            f"The collection is named {one_line(name, 80)!r}; use letters, digits and "
            "underscores, not a digit first, 200 at most."
        )
    return name


def secrets_of(uri: str) -> tuple[str, str]:
    """Return the secrets in the address of a server.

    Args:
        uri: The address.

    Returns:
        User and password, empty where there are none.

    Raises:
        ConfigError: When no Milvus server could have this address.
    """
    try:
        parts = urlsplit(uri)
        is_right = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right:
        raise ConfigError(
            "The address of Milvus cannot be read; give one like --uri http://127.0.0.1:19530 "
            "(http, https or tcp)."
        )
    return parts.username or "", parts.password or ""
