"""What a walk over the roots and the reading of its files leave behind for the next run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from skillsearch.index.build.snapshot import SeenFile, Snapshot
from skillsearch.skills.discovery import Discovery

logger = logging.getLogger(__name__)


def look(
    generation: str, discovery: Discovery, seen: Mapping[str, SeenFile], seen_at_ns: int
) -> Snapshot:
    """Put down what the disk looked like.

    Args:
        generation: The index generation that was made of it.
        discovery: The folders that were listed.
        seen: The files that were read, or known to be unchanged, by path.
        seen_at_ns: When the look began, nanoseconds since the epoch.

    Returns:
        The snapshot; what changed so shortly before that it may change unseen is unknown in it.
    """
    unreadable = {d.path for d in discovery.diagnostics if d.code == "folder-unreadable"}
    folders = {path: -1 if path in unreadable else at for path, at in discovery.folders}
    return Snapshot(generation, folders, seen).without_racy(seen_at_ns)


def store(snapshot: Snapshot, folder: Path) -> None:
    """Write a snapshot into an index folder; where that fails, the next run only takes longer.

    Args:
        snapshot: The snapshot.
        folder: The index folder.
    """
    try:
        snapshot.save(folder)
    except OSError as exc:
        logger.warning("the snapshot of %s was not saved: %s", folder, exc)
