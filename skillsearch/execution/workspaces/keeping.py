"""Files that a run left, held in memory, and written into a folder of the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from skillsearch.errors import ArtifactNotFoundError
from skillsearch.execution.types import ArtifactRef
from skillsearch.execution.workspaces.artifacts import Artifact
from skillsearch.execution.workspaces.files import replacing
from skillsearch.files.openat import CREATE_FLAGS, open_folder, using
from skillsearch.text.safe_text import one_line

_FORCE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class MemoryArtifactStore:
    """An `ArtifactStore` that holds the files of one run, by path below the workspace."""

    def __init__(self) -> None:
        """Begin without files."""
        self.files: dict[str, bytes] = {}

    def save(self, name: str, data: bytes, media_type: str) -> ArtifactRef:
        """Hold a file."""
        self.files[name] = data
        return ArtifactRef(name, 0)

    def load(self, name: str, version: int | None) -> Artifact:
        """Raise an ArtifactNotFoundError: nothing is kept from one run to the next."""
        raise ArtifactNotFoundError(
            f"There is no artifact {one_line(name, 80)!r}: skillsearch run keeps none; name a file"
            " for --input."
        )


def keep_files(
    files: Mapping[str, bytes], folder: Path, *, force: bool
) -> tuple[list[Path], list[str]]:
    """Write files, by untrusted paths, into a folder of the user; with ``force`` over others.

    Returns the paths that were written, and why others were not.
    """
    written, problems = [], []
    for name, data in files.items():
        try:
            _keep(folder, name, data, force=force)
            written.append(folder / name)
        except FileExistsError:
            problems.append(f"{name} was not written: it exists; --force overwrites it")
        except OSError as exc:
            problems.append(f"{name} was not written: {exc.strerror or exc}")
    return written, problems


def _keep(folder: Path, name: str, data: bytes, *, force: bool) -> None:
    """Write a file below a folder in one step, through no link and not out of it."""
    parts = name.split("/")
    if not all(parts) or {".", ".."} & set(parts):
        raise PermissionError(f"its path leads out of {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    with (
        using(open_folder(folder, parts[:-1], make=True)) as inner,
        replacing(inner, parts[-1]) as temporary,
    ):
        with os.fdopen(os.open(temporary, CREATE_FLAGS, 0o666, dir_fd=inner), "wb") as file:
            file.write(data)
        # What is replaced is an empty file of ours, or with force neither link nor folder.
        flags = _FORCE_FLAGS if force else CREATE_FLAGS
        os.close(os.open(parts[-1], flags, 0o666, dir_fd=inner))
