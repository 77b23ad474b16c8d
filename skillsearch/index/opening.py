"""Open the index that is to be searched, and bring it up to date where that is cheap."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from skillsearch.errors import IndexNotFoundError, LockTimeoutError, RootError, SkillSearchError

if TYPE_CHECKING:
    from skillsearch.index.freshness import Differences
    from skillsearch.index.skill_index import SkillIndex

MAX_CHECKED_SKILLS = 20_000
"""Looking at the stat of more files than this takes longer than the search itself."""
MAX_REFRESHED_FILES = 32
"""More new skills than this take seconds to embed."""


def open_index(index_dir: Path) -> SkillIndex:
    """Open an index, which builds a damaged one anew.

    Args:
        index_dir: Its folder.

    Returns:
        The index.

    Raises:
        IndexNotFoundError: When there is none, or it is damaged and its roots are gone.
    """
    from skillsearch.index.skill_index import SkillIndex

    try:
        return SkillIndex.open(index_dir)
    except RootError as exc:
        raise IndexNotFoundError(
            f"The index in {index_dir} is damaged and cannot be built anew: {exc} "
            "Name a folder that exists: skillsearch index FOLDER"
        ) from exc


def bring_up_to_date(index: SkillIndex) -> str:
    """Refresh an index of which little has changed.

    Whatever goes wrong, the index that is open can still be searched.

    Args:
        index: The opened index.

    Returns:
        What to tell the user: what changed, or why the index stays as it was; empty for nothing.
    """
    if len(index) > MAX_CHECKED_SKILLS or index.is_current():
        return ""
    differences = index.differences()
    obstacle = _obstacle(differences)
    if obstacle:
        return f"warning: {obstacle}; searching the index as it was. To mend: skillsearch index"
    return _refresh(index, differences)


def _obstacle(differences: Differences) -> str:
    """Say what speaks against refreshing now, or nothing."""
    if differences.missing_roots:
        return f"the folder {', '.join(differences.missing_roots)} is gone"
    if len(differences.added) + len(differences.changed) > MAX_REFRESHED_FILES:
        return f"much has changed ({differences})"
    return ""


def _refresh(index: SkillIndex, differences: Differences) -> str:
    """Refresh an index unless another process is at it, and say what changed."""
    from skillsearch.index.cache import IndexFolder

    try:
        with IndexFolder(index.folder).lock(timeout=0):
            pass
        index.refresh(keep_channels=True)
    except LockTimeoutError:
        return "warning: another process is writing the index; searching it as it was"
    except SkillSearchError as exc:
        return f"warning: the index was not refreshed, searching it as it was: {exc}"
    return f"index refreshed: {differences}" if len(differences) else ""
