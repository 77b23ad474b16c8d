"""Putting a skill into a workspace: a copy that is read-only, made anew only when it has to be."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

from skillsearch.errors import WorkspaceError
from skillsearch.execution.files import bounded, temporary_name
from skillsearch.execution.metadata import SkillRecord
from skillsearch.execution.removal import remove_tree
from skillsearch.execution.tree import LINKS, StagedCopy, Tree, digest_tree, list_tree
from skillsearch.execution.workspace import Workspace
from skillsearch.files.openat import open_folder, using
from skillsearch.files.paths import shown
from skillsearch.text.safe_text import one_line

SKILLS = "skills"

_MAX_NAME_BYTES = 100


@dataclass(frozen=True, slots=True)
class StagedSkill:
    """A skill in a workspace.

    Attributes:
        name: Its name.
        path: The folder of the copy, absolute.
        rel_path: The same from the workspace, such as ``skills/tea-timer``.
        digest: Hash of its files, as `digest_tree` gives it.
        is_new: Whether it was copied just now.
        notes: What of the skill is not in the copy, a sentence each.
    """

    name: str
    path: Path
    rel_path: str
    digest: str
    is_new: bool
    notes: tuple[str, ...] = ()


def stage_skill(workspace: Workspace, name: str, folder: Path) -> StagedSkill:
    """Make sure that a workspace holds a skill as it is now.

    What is hashed is what is copied. Files have mode 0444 or 0555 and folders 0555, and ``out``,
    ``work`` and ``inputs`` in the skill's folder lead to those of the workspace. Nothing is copied
    where neither the skill nor the copy has changed since this process made it.

    Args:
        workspace: The workspace.
        name: Name of the skill, any text.
        folder: The skill's folder, trusted; what is in it is not.

    Returns:
        Where the copy is.

    Raises:
        WorkspaceError: When the skill cannot be read or is too large, or cannot be copied.
    """
    with workspace.guard:
        try:
            with using(open_folder(folder)) as source:
                return _stage(workspace, name, source)
        except OSError as exc:
            raise WorkspaceError(
                f"The skill {shown(name)} cannot be copied from {shown(folder)} to "
                f"{shown(workspace.skills)}: {exc.strerror}."
            ) from exc


def folder_name(name: str) -> str:
    """Return the name of the folder that a skill is staged in.

    Args:
        name: Name of the skill, any text.

    Returns:
        The name itself, if a folder can have it, it shows all that is in it and has at most 100
        bytes; else what it has of that, and the beginning of its sha256.
    """
    safe = one_line(name).replace("/", "-").replace("\\", "-").lstrip(".")
    if safe and safe == name and len(safe.encode()) <= _MAX_NAME_BYTES:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    kept = safe.encode()[: _MAX_NAME_BYTES - 9].decode(errors="ignore")
    return f"{kept}-{digest[:8]}"


def _stage(workspace: Workspace, name: str, source: int) -> StagedSkill:
    """Stage a skill from its open folder, unless that was done and still holds."""
    tree = list_tree(source)
    safe = folder_name(name)
    known = workspace.staged.get(name)
    kept = known and _still_holds(workspace, safe, known, source, tree)
    staged = kept or _copy(workspace, safe, source, tree)
    rel_path = f"{SKILLS}/{safe}"
    if not kept:
        workspace.record(SkillRecord(name, rel_path, staged.digest))
    workspace.staged[name] = staged
    return StagedSkill(
        name, workspace.skills / safe, rel_path, staged.digest, not kept, staged.notes
    )


def _still_holds(
    workspace: Workspace, safe: str, known: StagedCopy, source: int, tree: Tree
) -> StagedCopy | None:
    """Return what is known of a copy, brought up to date; None where it has to be made anew."""
    before = known.source
    if (tree.executables, tree.notes) != (before.executables, before.notes):
        return None
    if not _has_same_files(source, tree, before, known.digest):
        return None
    try:
        with using(workspace.open(SKILLS, safe)) as folder:
            copy = list_tree(folder)
            is_same = copy.state == known.copy.state and _has_same_files(
                folder, copy, known.copy, known.digest
            )
    except (OSError, WorkspaceError):
        return None  # whatever lies there, it is not what we left
    return replace(known, source=tree, copy=copy) if is_same else None


def _has_same_files(folder: int, tree: Tree, before: Tree, digest: str) -> bool:
    """Say whether an open folder holds the same files as before; reads them only in doubt."""
    if tree.state == before.state and before.is_settled:
        return True
    return digest_tree(folder, tree)[0] == digest


def _copy(workspace: Workspace, safe: str, source: int, tree: Tree) -> StagedCopy:
    """Copy a skill under another name, which it then changes, so that there is never half of it."""
    temporary = temporary_name()
    with using(workspace.open(SKILLS)) as skills:
        try:
            with using(open_folder(skills, (temporary,), make=True)) as copy:
                digest, notes = _fill(copy, source, tree)
                if not remove_tree(skills, safe):
                    old = shown(workspace.skills / safe)
                    raise WorkspaceError(f"{old} cannot be removed; close the workspace.")
                os.rename(temporary, safe, src_dir_fd=skills, dst_dir_fd=skills)
                left = list_tree(copy)
        finally:
            remove_tree(skills, temporary)
    return StagedCopy(tree, left, digest, bounded((*tree.notes, *notes)))


def _fill(copy: int, source: int, tree: Tree) -> tuple[str, tuple[str, ...]]:
    """Copy a tree into an empty open folder and make it read-only; return its hash, and notes."""
    for parts in tree.folders:
        os.close(open_folder(copy, parts, make=True))
    digest, notes = digest_tree(source, tree, copy)
    for name, target in LINKS.items():
        os.symlink(target, name, dir_fd=copy)
    for parts in (*tree.folders, ()):
        with using(open_folder(copy, parts)) as folder:
            os.fchmod(folder, 0o555)
    return digest, notes
