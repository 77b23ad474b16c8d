"""Writes the list of settings in the page of the command line: ``python scripts/setting_pages.py``.

A test fails if the page is not what this writes.
"""

from __future__ import annotations

from pathlib import Path

from skillsearch.config import SETTINGS, text_of

PAGE = Path(__file__).parents[1] / "skillsearch" / "cli" / "README.md"
BEGIN, END = "<!-- settings -->\n", "<!-- end of settings -->\n"


def table() -> str:
    """Return a row for each setting: its name, and what it says."""
    rows = [f"| `{name}` | {text_of(name)} |\n" for name in SETTINGS]
    return "".join(["| setting | what it says |\n|---|---|\n", *rows])


def with_table(text: str) -> str:
    """Return the page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
