"""Which SKILL.md files are the user's to edit, and how one is replaced so that nothing is lost."""

from __future__ import annotations

import os
from pathlib import Path

from skillsearch.errors import SkillError, StorageError, explained
from skillsearch.files.atomic_files import replace_unchanged
from skillsearch.hosts.folders import project_folders, user_folders
from skillsearch.index.documents.document import Document
from skillsearch.index.skill_index import SkillIndex
from skillsearch.text.provenance import vouch_for
from skillsearch.text.safe_text import visible


def why_not_own(index: SkillIndex, document: Document, folder: Path, option: str = "") -> str:
    """Return why a skill is not the user's to edit, and the next step; empty if it is.

    `folder` is the working folder: plugins of its project count too.
    """
    root, path = index.root_of(document), Path(os.path.realpath(document.path))
    plugins = (
        looked.plugin
        for looked in (*user_folders(), *project_folders(folder))
        if looked.plugin and path.is_relative_to(os.path.realpath(looked.path))
    )
    owner = f"it came from {visible(root.origin)}, and the next update" if root.origin else ""
    if plugin := next(plugins, "") if not owner else "":
        owner = f"it belongs to the plugin {plugin}, whose next version"
    if owner:
        return (
            f"{owner} would take the edit away; propose the change to its author, or copy its "
            "folder among your own skills"
        )
    if root.trust != "vetted":
        shown = visible(str(root.path))
        return f"nobody vouches for its root {shown}; if it is yours: {vouch_for(root, option)}"
    if not path.is_relative_to(root.path):
        return f"its file is a link out of its root, to {visible(str(path))}; edit it there"
    return "" if os.access(path, os.W_OK) else "its file is read-only; change its mode first"


def replace_skill_md(path: Path, before: bytes, after: bytes) -> None:
    """Replace a SKILL.md in one step, with its mode; of a link, the file that it leads to.

    A SkillError if it has other bytes than before by now, a StorageError if it cannot be written;
    then it is as it was.
    """
    target = Path(os.path.realpath(path))
    advice = "It is as it was; free some space, or check who may write there."
    with explained(StorageError, f"{path} cannot be written: %s. {advice}"):
        if not replace_unchanged(target, before, after):
            raise SkillError(f"{path} was changed meanwhile; nothing was written. Try again.")
