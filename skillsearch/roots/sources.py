"""Spellings of roots that are archives or URLs, and the cache folders that stand for them.

That is CACHE/roots/DIGEST/NAME, with a digest of the path or URL: the folder stays in place when
the content changes, so an index over it is updated like any other.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from skillsearch.errors import RootError
from skillsearch.fast_start.dataclasses import dataclass
from skillsearch.fast_start.patterns import lazy_pattern
from skillsearch.files.openat import open_file
from skillsearch.files.paths import printable
from skillsearch.settings import user_folders
from skillsearch.settings.values import is_url
from skillsearch.text.safe_text import one_line
from skillsearch.types.json_values import JsonObject, checked, list_of, text_of
from skillsearch.types.skills import is_skill_md

SUFFIXES = (".tar.gz", ".tar.bz2", ".tar.xz", ".tar", ".tgz", ".zip", ".skill")
"""Endings of archive names, in any case; packagers of skills write zips that end in the last."""
READY = "ready.json"
"""The record next to the folder of a bundle."""
_MAX_READY_BYTES = 1 << 16
_USED_BY = "used-by-"
_NAME_CHARS = 60
_NAME, _REF = r"\w[\w.-]*(?:/[\w.-]+?)+", r"@(?P<ref>[\w.][\w./-]*)"
_SHORT = lazy_pattern(
    rf"(?:(?:ssh://)?[\w.-]+@(?P<host>[\w.-]+)(?::\d+)?[:/](?P<path>{_NAME})(?:\.git)?"
    rf"|(?P<name>\w[\w-]*/[\w-][\w.-]*?)(?:\.git)?(?:{_REF})?(?:/(?P<folder>[\w.][\w./ -]*?))?)/?"
)
"""What git clones over ssh; or ``owner/repo``, maybe with ``@ref`` and a folder."""
_FORGE = lazy_pattern(
    r"(?P<scheme>(?:git\+)?https?://|git://)?(?:www\.)?"
    r"(?P<host>github\.com|gitlab\.com|codeberg\.org)/(?P<path>[^?#]+?)/?(?:[?#].*)?",
    re.IGNORECASE,
)
_IN_FORGE = lazy_pattern(r"(?P<name>[^/]+/[^/@]+(?:@.+)?)(?:/(?P<page>.*))?")
_IN_GITLAB = lazy_pattern(r"(?P<name>.+?)(?:/-/(?P<page>.*)|/(?P<old>(?:tree|blob)/.*))?")
"""There a project lies in one group or more."""
_REPOSITORY = lazy_pattern(rf"(?P<name>{_NAME})(?:\.git)?(?:{_REF})?")
_PAGE = lazy_pattern(
    r"(?:tree|commit|src/(?:branch|tag|commit)|(?:releases|tags)(?=/[^/]+$)|releases/tag"
    r"|blob(?=/.*SKILL\.md$))/(?P<ref>[^/]+)(?:/(?P<folder>.*?))??(?:/SKILL\.md)?"
)
"""A page of a repository that shows a folder at some state, or the SKILL.md in it."""
_ARCHIVE = lazy_pattern(
    r"https?://[^/]+/(?:[^/]+/)+?(?P<repo>[^/]+)/(?:-/)?archive/(?:refs/(?:heads|tags)/)?[^#]+"
)
_FOLDER = "#folder="
WELL_KNOWN = "/.well-known/agent-skills/index.json"
"""Where a server says which skills it offers: Agent Skills Discovery, version 0.2."""
SKILL_SERVER = "mcp+"
"""What a URL of an MCP server begins with that offers skills (the extension SEP-2640)."""
_HOST = lazy_pattern(r"https?://[^/?]+/?")
_UNPLAIN = lazy_pattern(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class Downloaded:
    """The SHA-256 of a download, and the server's ``ETag`` and ``Last-Modified``, or empty.

    Of an archive that is unpacked also its path or URL, a digest of the folder's names, sizes and
    times, and the stat of a local archive.
    """

    sha256: str
    etag: str = ""
    last_modified: str = ""
    source: str = ""
    content: str = ""
    stat: tuple[int, ...] = ()

    @classmethod
    def from_dict(cls, values: JsonObject) -> Downloaded:
        """Read the JSON form; a KeyError or TypeError if it has another."""
        stat = tuple(checked(number, int) for number in list_of(values["stat"]))
        texts = {key: text_of(value) for key, value in values.items() if key != "stat"}
        return cls(**texts, stat=stat)

    @property
    def condition(self) -> dict[str, str]:
        """The header that asks a server for newer content only, if it can be asked."""
        if self.etag:
            return {"If-None-Match": self.etag}
        return {"If-Modified-Since": self.last_modified} if self.last_modified else {}


def is_bundle(root: str | Path) -> bool:
    """Return whether a root must be unpacked: a URL of a server, or an archive by its name."""
    return _is_bundle(source_of(root))


def _is_bundle(source: str) -> bool:
    return is_url(source) or (source.lower().endswith(SUFFIXES) and not Path(source).is_dir())


def source_of(root: str | Path) -> str:
    """Return the canonical spelling of a root: a URL without its fragment, or an absolute path.

    A root is a path, relative or with ``~``; a ``file://`` URL of one; or a URL. A fragment that
    names a folder of an archive stays. A ``file://`` URL of another machine raises `RootError`, and
    so does an empty text, which would mean the working folder.
    """
    if isinstance(root, Path) and root.is_absolute():
        return str(root)
    if root == "":
        raise RootError("A root is empty; name a path, or . for this folder.")
    if isinstance(root, Path) or not is_url(root):
        path = Path(root)
        with suppress(RuntimeError):  # no user has the name after the ~
            path = path.expanduser()
        return str(path.absolute())
    url, mark, folder = root.partition(_FOLDER)
    url = url.partition("#")[0]
    scheme, _, rest = url.partition("://")
    if scheme.lower() != "file":
        return f"{scheme.lower()}://{rest}{mark}{folder}"
    host, slash, inner = rest.partition("/")
    if not slash or host not in {"", "localhost"}:
        message = f"{printable(url)!r} does not name a file on this machine; write file:///PATH."
        raise RootError(message)
    return str(Path(f"/{unquote(inner, errors='surrogateescape')}"))


def plain_source(text: str) -> str:
    """Return the same without ``..``, so that a path is one source from wherever it is written."""
    source = source_of(text)
    is_plain = is_url(source) or ".." not in Path(source).parts
    return source if is_plain else str(Path(source).resolve())


def folder_of(root: str | Path) -> Path:
    """Return the folder of a root: for a bundle the one in the cache, which may not exist yet."""
    source = source_of(root)
    if not _is_bundle(source):
        return root if isinstance(root, Path) and root.is_absolute() else Path(source)
    parts = [part for part in _path(source).split("/") if part]
    if names_skill_md(source):
        parts = parts[:-1]
    last = parts[-1] if parts else ""
    if is_well_known(source) or source.startswith(SKILL_SERVER):
        last = urlsplit(source).netloc.rpartition("@")[2]
    elif archive := _ARCHIVE.fullmatch(source.partition("#")[0]):
        last = archive["repo"]
    suffix = next((suffix for suffix in SUFFIXES if last.lower().endswith(suffix)), "")
    # The name becomes the alias of the root.
    plain = _UNPLAIN.sub("-", last[: len(last) - len(suffix)])[:_NAME_CHARS].strip("-.")
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    return user_folders.cache_dir() / "roots" / digest[:32] / (plain or "skills")


def source_behind(folder: Path) -> str:
    """Return the path or URL behind a folder in the cache; empty for any other folder."""
    with suppress(OSError, ValueError, RootError):
        source = read_ready(folder.parent).get("source") if _is_unpacked(folder) else None
        if isinstance(source, str) and folder_of(source).resolve() == folder.resolve():
            return source
    return ""


def archive_url(name: str) -> str:
    """Return the URL of an archive for what names a repository or a folder in it; else nothing.

    That is ``OWNER/REPO``, maybe with ``@REF`` and a folder; what git can clone; or a page of a
    forge. A URL of a file there stays as it is.
    """
    if match := _FORGE.fullmatch(name):
        return _archive_behind(match)
    if short := _SHORT.fullmatch(name):
        path = short["path"] or short["name"]
        return _archive(short["host"] or "github.com", path, short["ref"], short["folder"])
    return ""


def _archive_behind(url: re.Match[str]) -> str:
    host, scheme = url["host"].lower(), url["scheme"] or ""
    parts = (_IN_GITLAB if "gitlab" in host else _IN_FORGE).fullmatch(unquote(url["path"]))
    name, *pages = parts.groups() if parts else [""]
    rest = next(filter(None, pages), "")
    repo, page = _REPOSITORY.fullmatch(name), _PAGE.fullmatch(rest)
    if repo and (page or not rest):
        folder = unquote(url[0].partition(_FOLDER)[2]) or (page["folder"] if page else "")
        return _archive(host, repo["name"], page["ref"] if page else repo["ref"], folder)
    return "" if scheme.lower().startswith("http") else f"https://{url[0].removeprefix(scheme)}"


def _archive(host: str, path: str, ref: str | None, folder: str | None) -> str:
    ref = quote(ref or "HEAD")
    inner = f"{_FOLDER}{quote(folder)}" if folder else ""
    if "gitlab" in host:
        return f"https://{host}/{path}/-/archive/{ref}/{path.rpartition('/')[2]}-{ref}.zip{inner}"
    return f"https://{host}/{path}/archive/{ref}.zip{inner}"


def added_source(text: str) -> str:
    """Return the canonical root for a text by which a user adds it, or raise `RootError`.

    That is a folder or an archive that is there; a repository as for `archive_url`; the URL of an
    archive, a SKILL.md or a skill server; or a host, ``https://HOST``, for what it offers.
    """
    if not is_url(text) and Path(source_of(text)).exists():
        return plain_source(text)
    if url := archive_url(text):
        return source_of(url)
    if not is_url(text):
        raise RootError(
            f"{printable(text)!r} is neither a folder or archive that exists here nor a source of "
            "skills elsewhere. Correct the path, or write OWNER/REPO, a URL, or https://HOST."
        )
    source = source_of(text)
    return source.rstrip("/") + WELL_KNOWN if _HOST.fullmatch(source) else source


def is_well_known(source: str) -> bool:
    """Return whether a URL names the list of the skills that a host offers."""
    return is_url(source) and _path(source).endswith(WELL_KNOWN)


def folder_in(source: str) -> tuple[str, ...]:
    """Return the folder of an archive that a source means, by its parts; none for all of it.

    A RootError if it leads out of the archive.
    """
    parts = tuple(part for part in unquote(source.partition(_FOLDER)[2]).split("/") if part)
    if any(part in (".", "..") or "\0" in part for part in parts):
        raise RootError(f"{shown(source)}: the folder leads out of the archive; name one inside.")
    return parts


def read_ready(folder: Path) -> JsonObject:
    """Read the record of an unpacked root, given the folder around it; empty if it is damaged."""
    try:
        with os.fdopen(open_file(folder, (READY,)), "rb") as file:
            record = json.loads(file.read(_MAX_READY_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    is_ours = isinstance(record, dict) and isinstance(record.get("source"), str)
    return record if is_ours else {}


def note_index(root: Path, index: str) -> None:
    """Record that an index, by its path or a description, uses a root, if that was unpacked."""
    if not _is_unpacked(root):
        return
    # A link, which is never followed, is made atomically and holds any text.
    digest = hashlib.sha256(os.fsencode(index)).hexdigest()
    with suppress(OSError):  # recorded already, or the cache is read-only
        (root.parent / f"{_USED_BY}{digest[:16]}").symlink_to(index)


def indexes_over(folder: Path) -> list[str]:
    """Return the indexes that were recorded for an unpacked root, even if they are gone now."""
    notes = []
    for path in folder.glob(f"{_USED_BY}*"):
        with suppress(OSError):
            notes.append(str(path.readlink()))
    return sorted(notes)


def _is_unpacked(root: Path) -> bool:
    return root.parent.parent.resolve() == (user_folders.cache_dir() / "roots").resolve()


def shown(source: str) -> str:
    """Return a source for messages, without a password or a query, which may be a key."""
    if not is_url(source):
        return printable(source)
    try:
        parts = urlsplit(source)
    except ValueError:
        return "The URL"
    query = "..." if parts.query else ""
    host = parts.netloc.rpartition("@")[2]
    _, mark, folder = source.partition(_FOLDER)
    return one_line(urlunsplit((parts.scheme, host, parts.path, query, "")) + mark + folder, 200)


def names_skill_md(source: str) -> bool:
    """Return whether a URL names a bare SKILL.md."""
    return is_skill_md(_path(source).rpartition("/")[2])


def _path(source: str) -> str:
    try:
        return unquote(urlsplit(source).path) if is_url(source) else source
    except ValueError:
        return ""
