"""Artifacts: files that outlive a workspace, with all their versions.

Artifact N is ``<sha256 of N>/<version>/data`` with an ``about.json`` beside it, so no file system
takes two names for one. A version appears atomically and never changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from skillsearch.errors import ArtifactNotFoundError, UnusableError, WorkspaceError
from skillsearch.execution.types import ArtifactRef
from skillsearch.execution.workspaces import files
from skillsearch.files.openat import FOLDER_FLAGS, using
from skillsearch.files.paths import shown
from skillsearch.files.private import make_private
from skillsearch.text.safe_text import listed, one_line

MAX_ARTIFACT_BYTES = 64 << 20

_SCHEME = "artifact://"
_ABOUT, _DATA = "about.json", "data"
_ABOUT_KEYS = ("name", "media_type", "sha256")
_MAX_ABOUT_BYTES = 64 << 10
_MAX_TYPE_CHARS = 200
_MAX_NAMED = 10
_VERSIONED = re.compile(r"(.*)@(0|[1-9][0-9]{0,8})", re.DOTALL)
_VERSION = re.compile(r"0|[1-9][0-9]{0,8}")
_KEY = re.compile(r"[0-9a-f]{64}")


class Artifact(NamedTuple):
    """One version of an artifact."""

    ref: ArtifactRef
    data: bytes
    media_type: str


class ArtifactStore(Protocol):
    """Keeps artifacts. Calls may come from several threads, and names are not trusted.

    What is refused, damaged or cannot be written raises a `WorkspaceError`, and what does not exist
    an `ArtifactNotFoundError`.
    """

    def save(self, name: str, data: bytes, media_type: str) -> ArtifactRef:
        """Keep a new version of an artifact, and return its normalized name and version."""

    def load(self, name: str, version: int | None) -> Artifact:
        """Return a version of an artifact, the newest if `version` is None."""


class FolderArtifacts:
    """Artifacts in a folder of this machine. Several processes may save to it."""

    def __init__(self, folder: Path, *, max_bytes: int = MAX_ARTIFACT_BYTES) -> None:
        """Take a trusted folder, which the first artifact makes, and the size of the largest."""
        self._folder = folder
        self._max_bytes = max_bytes

    def save(self, name: str, data: bytes, media_type: str) -> ArtifactRef:
        """Keep a new version of bounded size; see `ArtifactStore`.

        A WorkspaceError if it is too large or cannot be written.
        """
        name = _plain(name)
        if len(data) > self._max_bytes:
            raise WorkspaceError(
                f"The artifact {shown(name)} has {len(data):,} bytes; {self._max_bytes:,} are"
                " allowed: split it up."
            )
        kind = one_line(media_type, _MAX_TYPE_CHARS)
        about = {"name": name, "media_type": kind, "sha256": hashlib.sha256(data).hexdigest()}
        with files.explained(
            f"The artifact {shown(name)} cannot be written to {shown(self._folder)} (%s); check its"
            " permissions, and that its disk has space."
        ):
            return ArtifactRef(name, _publish(self._folder / _key(name), about, data))

    def load(self, name: str, version: int | None = None) -> Artifact:
        """Return a version of an artifact, its bytes checked; see `ArtifactStore`.

        An ArtifactNotFoundError if there is no such version, a WorkspaceError if it is damaged.
        """
        name = _plain(name)
        versions = _versions(self._folder / _key(name))
        if not versions:
            there_are = listed(map(shown, self.list()), _MAX_NAMED) or "none yet"
            message = f"No artifact is named {shown(name)}. There are: {there_are}."
            raise ArtifactNotFoundError(message)
        chosen = versions[-1] if version is None else version
        if chosen not in versions:
            existing = ", ".join(map(str, versions[-_MAX_NAMED:]))
            if len(versions) == versions[-1] - versions[0] + 1 > 1:
                existing = f"{versions[0]} to {versions[-1]}"
            message = f"The artifact {shown(name)} has no version {version}; it has {existing}."
            raise ArtifactNotFoundError(message)
        folder = self._folder / _key(name) / str(chosen)
        try:
            about = _read_about(folder)
            data = _read(folder, _DATA, self._max_bytes)
            if about["name"] != name or about["sha256"] != hashlib.sha256(data).hexdigest():
                raise UnusableError("its bytes are not those that were saved")
        except (OSError, ValueError, RecursionError) as error:
            why = files.reason(error) if isinstance(error, OSError) else one_line(str(error), 200)
            raise WorkspaceError(
                f"Version {chosen} of the artifact {shown(name)} in {shown(folder)} is damaged"
                f" ({why}); save it again."
            ) from error
        return Artifact(ArtifactRef(name, chosen), data, about["media_type"])

    def list(self) -> tuple[str, ...]:
        """Return the names of all artifacts but damaged ones, sorted."""
        names: list[str] = []
        for key in filter(_KEY.fullmatch, _entries(self._folder)):
            for version in reversed(_versions(self._folder / key)):
                with suppress(OSError, ValueError, RecursionError):
                    name = _read_about(self._folder / key / str(version))["name"]
                    names += [name] if _key(name) == key else []
                    break
        return tuple(sorted(names))


def parse_ref(ref: str) -> tuple[str, int | None]:
    """Return the normalized name in ``artifact://name@version``, and the version if given.

    A WorkspaceError if it is no such reference.
    """
    name = ref.removeprefix(_SCHEME)
    if name == ref:
        raise WorkspaceError(f"{shown(ref)} is not an artifact; write artifact://name@version.")
    match = _VERSIONED.fullmatch(name)
    return (_plain(match[1]), int(match[2])) if match else (_plain(name), None)


def _plain(name: str) -> str:
    return "/".join(files.relative_parts(name, "The artifact name"))


def _key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _publish(folder: Path, about: dict[str, str], data: bytes) -> int:
    """Write a version next to the others, then give it the first free number."""
    make_private(folder)
    new = folder / files.temporary_name()
    new.mkdir(mode=0o700)
    try:
        for name, content in ((_DATA, data), (_ABOUT, json.dumps(about).encode())):
            with (new / name).open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        version = max(_versions(folder), default=-1) + 1
        while True:
            try:
                new.rename(folder / str(version))  # replaces no folder that is not empty
                return version
            except OSError:
                if not os.path.lexists(folder / str(version)):
                    raise
            version += 1
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _entries(folder: Path) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)  # noqa: PTH208
    return []


def _versions(folder: Path) -> list[int]:
    return sorted(int(name) for name in _entries(folder) if _VERSION.fullmatch(name))


def _read_about(folder: Path) -> dict[str, str]:
    about = json.loads(_read(folder, _ABOUT, _MAX_ABOUT_BYTES))
    if not isinstance(about, dict) or not all(isinstance(about.get(k), str) for k in _ABOUT_KEYS):
        raise UnusableError(f"{_ABOUT} is incomplete")
    return about


def _read(folder: Path, name: str, limit: int) -> bytes:
    with (
        using(os.open(folder, FOLDER_FLAGS | os.O_NOFOLLOW)) as top,
        using(files.open_plain(top, (name,), os.fstat(top).st_uid)) as fd,
    ):
        data = b"".join(files.chunks_of(fd, limit + 1))
    if len(data) > limit:
        raise UnusableError(f"{name} is larger than {limit:,} bytes")
    return data
