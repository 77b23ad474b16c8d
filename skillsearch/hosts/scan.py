"""What is needed of the table of hosts before every prompt, from its text: to parse it takes 16 ms.

The hook of a host imports this, so it imports almost nothing.
"""

from __future__ import annotations

import os
import re

TABLE = os.path.join(os.path.dirname(__file__), "hosts.toml")  # noqa: PTH118, PTH120
with open(TABLE, encoding="utf-8") as _file:  # noqa: PTH123
    TEXT = _file.read()

VARIABLES = tuple(dict.fromkeys(re.findall(r"\{([A-Z_]+):", TEXT)))
"""Variables by which hosts name the folders of their own settings."""
EVENTS: dict[str, str] = dict(
    re.findall(r'(?m)^\[([\w-]+)\.hook\]\n(?:#.*\n)*event = "(\w+)"', TEXT)
)
"""The event of each host that runs a command at every prompt."""
