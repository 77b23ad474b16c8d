"""What to say after indexing: about roots and paths that are not what their user may think."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skillsearch.index.roots.request import key_of
from skillsearch.index.roots.root_change import SHOWN_ROOTS
from skillsearch.index.roots.scope import Viewpoint, is_in_scope
from skillsearch.settings.config import user_index_dir
from skillsearch.settings.table import Settings
from skillsearch.text.safe_text import listed
from skillsearch.types.skills import Diagnostic, Root

if TYPE_CHECKING:
    from skillsearch.index.skill_index import SkillIndex


def outside(settings: Settings, roots: Sequence[str | Path]) -> str:
    """Return the next step for new roots outside of the project, if its index is used."""
    if not settings.is_project_index:
        return ""
    file = settings.sources["index_dir"]
    outside = [root for root in roots if not Path(root).is_relative_to(Path(file).parent)]
    own = ["--index-dir", str(user_index_dir())]
    note = f"this is the index of the project, which {file} names. To add to your own instead: "
    return note + shlex.join(["skillsearch", "index", *map(str, outside), *own]) if outside else ""


def below_no_root(only: Sequence[Path], roots: Sequence[Root]) -> str:
    """Return a note on paths to look at that no root of the index holds or lies below."""
    folders = [folder for root in roots for folder in (root.path, root.path.resolve())]

    def is_known(path: Path) -> bool:
        return any(path.is_relative_to(each) or each.is_relative_to(path) for each in folders)

    stray = [path for path in only if not (is_known(path) or is_known(path.resolve()))]
    names = listed(map(str, stray), SHOWN_ROOTS)
    next_step = "correct the path, or add its folder: skillsearch index FOLDER"
    return f"no root of this index holds {names}; {next_step}" if stray else ""


def without_skills(
    named: Sequence[str | Path], index: SkillIndex, diagnostics: Sequence[Diagnostic]
) -> str:
    """Return a note on named roots below which there is no SKILL.md, not even a broken one."""
    reported = [Path(diagnostic.path) for diagnostic in diagnostics]

    def has_skills(folder: Path) -> bool:
        inner = [root for root in index.opened.settings.roots if root.path.is_relative_to(folder)]
        documents = index.opened.corpus.documents
        is_read = any(next(documents.with_prefix(f"{root.alias}:"), None) for root in inner)
        return is_read or any(path.is_relative_to(folder) for path in reported)

    empty = [str(root) for root in named if not has_skills(Path(key_of(root)))]
    next_step = "correct the path, or put skills there"
    return f"no SKILL.md lies below {listed(empty, SHOWN_ROOTS)}; {next_step}" if empty else ""


def unvetted(roots: Sequence[Root], option: str) -> str:
    """Return a note on roots that nobody vouches for and that are seen from here.

    The `option` names the index in commands, if it has to.
    """
    here = Viewpoint.of(Path.cwd())
    doubted = [root for root in roots if root.trust != "vetted" and is_in_scope(root, [here])]
    names = listed((root.origin or str(root.path) for root in doubted), SHOWN_ROOTS)
    if not doubted:
        return ""
    first = here.project_of(doubted[0]) or doubted[0].origin or str(doubted[0].path)
    command = f"skillsearch index --trust {shlex.quote(f'{first}=vetted')}{option}"
    return f"prompt and hook do not offer the skills of {names}; to vouch: {command}"
