"""Steps of a longer run: other scripts or modules, each in a process of its own; a part of scripts.

`nightly.py` and `figures.py` have a table of them.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SCRIPTS = Path(__file__).resolve().parent


class Step(NamedTuple):
    """A script or module with its arguments, and more of them for a whole or for a quick run.

    Names in braces stand for what the run fills in.
    """

    script: str
    whole: str
    quick: str

    def words(self, names: Mapping[str, object], *, is_quick: bool) -> list[str]:
        """Return the words of the command, without the interpreter's."""
        text = f"{self.script} {self.quick if is_quick else self.whole}"
        return [word.format(**names) for word in shlex.split(text)]


class Ended(NamedTuple):
    """How a step ended, and what it printed; the code is None if it took too long."""

    code: int | None
    output: str
    errors: str
    seconds: int


def run(words: Sequence[str], timeout: float) -> Ended:
    """Run the words of a step in the checkout."""
    started = time.monotonic()
    program = words if words[0] == "-m" else [str(SCRIPTS / words[0]), *words[1:]]
    process = subprocess.Popen(
        [sys.executable, *program],
        cwd=SCRIPTS.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its children hold the pipes
        process.communicate()
        return Ended(None, "", "", round(timeout))
    return Ended(process.returncode, output, errors, round(time.monotonic() - started))


def last_line(text: str) -> str:
    """Return the last line with words in it, short enough for a table."""
    lines = [line.strip() for line in text.splitlines() if re.search(r"\w", line)]
    return " ".join(lines[-1].split()).replace("|", "/")[:160] if lines else ""
