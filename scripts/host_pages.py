"""Writes the tables of pages about hosts from the table of hosts: ``python scripts/host_pages.py``.

A test fails if a page is not what this writes.
"""

from __future__ import annotations

import re
from pathlib import Path

from skillsearch.hosts.table import hosts

CHECKOUT = Path(__file__).parents[1]
PAGE = CHECKOUT / "skillsearch" / "hosts" / "README.md"
FRONT = CHECKOUT / "README.md"
_FOLDER = re.compile(r"\{(\w+):([^}]*)\}")
BEGIN, END = "<!-- hosts -->\n", "<!-- end of hosts -->\n"


def table() -> str:
    """Return a row for each host: where it looks, whose skill wins, what we can do for it."""
    rows = ["| host | skills of the user | of a project | first | plugins | server | hook |"]
    rows.append("|---|---|---|---|---|---|---|")
    for name, row in hosts().items():
        cells = [f"{row['title']} (`{name}`)", _paths(row["skills"]), _paths(row["project"])]
        cells += [row.get("first", ""), "yes" if "plugins" in row else ""]
        cells += ["yes" if key in row else "" for key in ("servers", "hook")]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _paths(templates: list[str]) -> str:
    """Return folders as code, by the usual name of one that a variable may move."""
    usual = (_FOLDER.sub(r"\2", template) for template in templates)
    return ", ".join(f"`{path}`" for path in usual)


def with_table(text: str) -> str:
    """Return a page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def with_count(text: str) -> str:
    """Return the README with the number of hosts as it is now."""
    return re.sub(r"\[\d+ hosts\]", f"[{len(hosts())} hosts]", text)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
    FRONT.write_text(with_count(FRONT.read_text("utf-8")), "utf-8")
