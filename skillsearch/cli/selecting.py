"""Options that say which skills a command searches, offers or lists."""

from __future__ import annotations

from collections.abc import Mapping

from skillsearch.cli.app import Decorated, all_projects, setting, setting_flag
from skillsearch.types import JsonValue

_OPTIONS = (
    ("--include", "include", "PATTERN", "Only skills whose name or ROOT:NAME fits; * is any text."),
    ("--exclude", "exclude", "PATTERN", "No skills whose name or ROOT:NAME fits."),
    ("--tag", "tags", "TAG", "Only skills with this tag."),
    ("--root", "in_roots", "ROOT", "Only skills of this root: its alias, path or URL."),
)


def selecting(function: Decorated) -> Decorated:
    """Add the options above, ``--strict``, ``--profile`` and ``--all-projects``."""
    function = all_projects(function)
    function = setting("--profile NAME", "Add the settings of [profiles.NAME].")(function)
    text = "No skills whose metadata are broken, missing or not as specified; they are warned of."
    function = setting_flag("--strict", True, text)(function)
    for name, key, kind, text in reversed(_OPTIONS):
        function = setting(f"{name} {key} {kind}", f"{text} Repeatable.", multiple=True)(function)
    return function


def options(flags: Mapping[str, JsonValue]) -> list[str]:
    """Return the words of a command line that say the same as some flags."""
    pairs = [(name, value) for name, key, *_ in _OPTIONS for value in flags[key]]
    pairs += [("--profile", flags["profile"])] if flags["profile"] else []
    switches = ["--strict"] * bool(flags["strict"]) + ["--all-projects"] * bool(
        flags["all_projects"]
    )
    return [word for pair in pairs for word in pair] + switches
