"""Open the index that a command asks, and tell what bringing it up to date came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillsearch.cli.output import say
from skillsearch.index import opening
from skillsearch.index.opening import MAX_REFRESHED_FILES, open_index

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex

__all__ = ["MAX_REFRESHED_FILES", "bring_up_to_date", "open_index"]


def bring_up_to_date(index: SkillIndex) -> None:
    """Refresh an index of which little has changed, and tell; else tell why not.

    Args:
        index: The opened index.
    """
    message = opening.bring_up_to_date(index)
    if message:
        say(message)
