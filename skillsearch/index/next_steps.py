"""Next steps: the command for an index, and the reason why a folder has none."""

from __future__ import annotations

import shlex
from pathlib import Path

from skillsearch.errors import ConfigError
from skillsearch.settings.config import load_settings, user_index_dir
from skillsearch.settings.environ import PREFIX
from skillsearch.settings.table import Settings


def index_option(folder: Path, settings: Settings | None = None) -> str:
    """Return `` --index-dir FOLDER`` for a command, or nothing if its settings name this index."""
    try:
        settings = settings or load_settings()
    except ConfigError:
        settings = Settings()
    is_flag = settings.sources.get("index_dir") == "flag"
    is_meant = folder == settings.index_dir.absolute() and not is_flag
    return "" if is_meant else f" --index-dir {shlex.quote(str(folder))}"


def no_index(folder: Path, settings: Settings | None) -> str:
    """Return the message that a folder holds no index: why it was chosen, and what makes one.

    That is a command without a FOLDER if hosts look for skills somewhere.
    """
    # Users with an index do without it.
    from skillsearch.hosts.folders import has_host_folders

    try:
        settings = settings or load_settings()
        is_meant = folder == settings.index_dir.absolute()
        has_roots = (is_meant and settings.index_roots) or has_host_folders(Path.cwd())
        own = user_index_dir()
    except ConfigError:
        return f"There is no index in {folder}. Make it: skillsearch index FOLDER"
    source = settings.sources.get("index_dir", "")
    spellings = {"flag": "--index-dir", "environment": f"{PREFIX}INDEX_DIR"}
    reason = f"named by {spellings.get(source, source)}" if source else "the default"
    why = f" ({reason})" if is_meant else ""
    command = f"skillsearch index{'' if has_roots else ' FOLDER'}{index_option(folder, settings)}"
    text = f"There is no index in {folder}{why}. Make it: {command}"
    if settings.is_project_index and is_meant and (own / "CURRENT").is_file():
        text += f". Or use your own: --index-dir {shlex.quote(str(own))}"
    if settings.is_project_index and is_meant and (folder.parent / "CURRENT").is_file():
        text += f". (That in {folder.parent} may have come with the project: --index-dir trusts it)"
    return text
