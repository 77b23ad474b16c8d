"""Roots that are an archive or a URL: how they are written, and which folder stands for them.

    CACHE/roots/DIGEST/NAME/

The folder is named by the digest of the path or URL and not by what it holds. So it stays where it
is when that changes, and an index over it is brought up to date like that of any folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from skillsearch import config
from skillsearch.errors import RootError
from skillsearch.files.openat import open_file
from skillsearch.files.paths import printable
from skillsearch.setting_values import is_url
from skillsearch.text.safe_text import one_line

SUFFIXES = (".tar.gz", ".tar.bz2", ".tar.xz", ".tar", ".tgz", ".zip")
"""Ends of the names of archives, in any case."""

READY = "ready.json"
"""Beside the folder of a bundle: what lies in it."""
MAX_READY_BYTES = 1 << 16
_USED_BY = "used-by-"

_SKILL_MD = "skill.md"
_NAME_CHARS = 60
_REPOSITORY = re.compile(
    r"(?:https?://(?:www\.)?(?P<host>(?:github|gitlab|codeberg)\.(?:com|org))/"
    r"|(?:ssh://)?[\w.-]+@(?P<git_host>[\w.-]+)(?::\d+)?[:/])?"
    r"(?P<path>[\w-][\w.-]*/[\w-][\w.-]*?)(?:\.git)?/?"
)
"""``owner/repo``, alone or behind a host."""
_UNPLAIN = re.compile(r"[^\w.-]+")


def is_bundle(root: str | Path) -> bool:
    """Tell whether a root has to be unpacked: a URL of a server, or an archive by its name."""
    source = source_of(root)
    is_archive = source.lower().endswith(SUFFIXES) and not Path(source).is_dir()
    return is_url(source) or is_archive


def source_of(root: str | Path) -> str:
    """Return the one way to write a root: a URL, or an absolute path.

    Args:
        root: A path, from the working folder or with ``~``; a ``file://`` URL of one; or a URL.

    Returns:
        The URL without its fragment, or the path.

    Raises:
        RootError: When a ``file://`` URL names a file of another machine.
    """
    if isinstance(root, Path) or not is_url(root):
        path = Path(root)
        with suppress(RuntimeError):  # the name begins with ~, but that of no user follows
            path = path.expanduser()
        return str(path.absolute())
    url = root.partition("#")[0]
    scheme, _, rest = url.partition("://")
    if scheme.lower() != "file":
        return f"{scheme.lower()}://{rest}"
    host, slash, inner = rest.partition("/")
    if not slash or host not in {"", "localhost"}:
        raise RootError(f"{printable(url)!r} names no file of this machine; write file:///PATH.")
    return str(Path(f"/{unquote(inner, errors='surrogateescape')}"))


def place_of(root: str | Path, cache_dir: Path | None = None) -> Path:
    """Return the folder of a root, whether there is anything in it yet or not.

    Args:
        root: As in `source_of`.
        cache_dir: The cache; by default the user's.

    Returns:
        The folder itself; of a bundle, that in the cache.
    """
    source = source_of(root)
    if not is_bundle(source):
        return Path(source)
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    return (cache_dir or config.cache_dir()) / "roots" / digest[:32] / _name(source)


def unpacked_from(folder: Path) -> str:
    """Return what a folder in the cache comes from, to show; empty for any other folder."""
    source = source_behind(folder)
    return shown(source) if source else ""


def source_behind(folder: Path) -> str:
    """Return the path or URL that a folder in the cache comes from; empty for any other folder."""
    try:
        source = source_in(folder.parent) if _is_unpacked(folder) else ""
        is_ours = source != "" and place_of(source).resolve() == folder.resolve()
    except (OSError, ValueError, RootError):
        return ""
    return str(source) if is_ours else ""


def archive_url(name: str) -> str:
    """Return the URL of an archive of the repository that a name means; empty for any other name.

    Args:
        name: ``owner/repo``, which is taken for one on GitHub; or an address that git clones from.

    Returns:
        The URL.
    """
    found = _REPOSITORY.fullmatch(name)
    if found is None:
        return ""
    host, path = found["host"] or found["git_host"] or "github.com", found["path"]
    if "gitlab" in host:
        return f"https://{host}/{path}/-/archive/HEAD/{path.rpartition('/')[2]}-HEAD.zip"
    return f"https://{host}/{path}/archive/HEAD.zip"


def source_in(folder: Path) -> str:
    """Return what was unpacked into a folder of the cache; empty if that is not known."""
    try:
        with os.fdopen(open_file(folder, (READY,)), "rb") as file:
            source = json.loads(file.read(MAX_READY_BYTES))["source"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return ""
    return source if isinstance(source, str) else ""


def note_index(root: Path, index: str) -> None:
    """Note that an index needs a root; nothing is noted of a root that was not unpacked.

    The note is a link that is never followed: it is made in one step, and holds any text.

    Args:
        root: A folder of skills.
        index: Absolute path of the index, or words for one that lies elsewhere.
    """
    if not _is_unpacked(root):
        return
    digest = hashlib.sha256(os.fsencode(index)).hexdigest()
    with suppress(OSError):  # it is noted already, or the cache cannot be written
        (root.parent / f"{_USED_BY}{digest[:16]}").symlink_to(index)


def indexes_over(folder: Path) -> list[str]:
    """Return the indexes that were noted beside an unpacked root, there or gone by now."""
    notes = []
    for path in folder.glob(f"{_USED_BY}*"):
        with suppress(OSError):
            notes.append(str(path.readlink()))
    return sorted(notes)


def _is_unpacked(root: Path) -> bool:
    """Return whether a folder is in the place of unpacked roots."""
    return root.parent.parent.resolve() == (config.cache_dir() / "roots").resolve()


def shown(source: str) -> str:
    """Return a source for messages: without a password, and without a query, which may be a key."""
    if not is_url(source):
        return printable(source)
    try:
        parts = urlsplit(source)
    except ValueError:
        return "The URL"
    query = "..." if parts.query else ""
    host = parts.netloc.rpartition("@")[2]
    return one_line(urlunsplit((parts.scheme, host, parts.path, query, "")), 200)


def is_skill_md(source: str) -> bool:
    """Tell whether a URL names a bare SKILL.md."""
    return _path(source).rpartition("/")[2].lower() == _SKILL_MD


def _name(source: str) -> str:
    """Return what the folder of a source is called, and so the alias of the root."""
    parts = [part for part in _path(source).split("/") if part]
    if is_skill_md(source):
        parts = parts[:-1]
    last = parts[-1] if parts else ""
    suffix = next((suffix for suffix in SUFFIXES if last.lower().endswith(suffix)), "")
    plain = _UNPLAIN.sub("-", last[: len(last) - len(suffix)])[:_NAME_CHARS].strip("-.")
    return plain or "skills"


def _path(source: str) -> str:
    """Return the path of a source, decoded."""
    try:
        return unquote(urlsplit(source).path) if is_url(source) else source
    except ValueError:
        return ""
