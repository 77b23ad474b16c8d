"""Runs a program that the user named as a filter: a text in, a text out, bounded in time and size.

It is the user's own program with the user's own rights; `runner` runs those of skills.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress

from skillsearch.errors import ExecutionError, explained
from skillsearch.text.safe_text import one_line

MAX_OUTPUT_BYTES = 4 << 20
_TICK = 0.05
_SHOWN_CHARS, _SHOWN_BYTES = 500, 4_000


def filtered(argv: Sequence[str], text: str, seconds: float, *, is_elsewhere: bool = False) -> str:
    """Return the output of a program for a text on stdin; no process that it started is left.

    If it is to be elsewhere, it runs in an empty folder, without the settings of a project. An
    ExecutionError if it cannot be started, takes too long, prints too much, or fails; it shows the
    end of what the program said on stderr.
    """
    name = one_line(argv[0], 80)
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as empty,
    ):
        stdin.write(text.encode("utf-8", "replace"))
        stdin.seek(0)
        cannot = f"The program {name!r} cannot be started: %s. Check its path and permissions."
        with explained(ExecutionError, cannot):
            process = subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=output,
                stderr=errors,
                cwd=empty if is_elsewhere else None,
                start_new_session=True,
            )
        streams = (output.fileno(), errors.fileno())
        try:
            problem = _problem(process, streams, time.monotonic() + seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if problem:
            errors.seek(max(0, os.fstat(errors.fileno()).st_size - _SHOWN_BYTES))
            last = one_line(errors.read(_SHOWN_BYTES).decode("utf-8", "replace"))[-_SHOWN_CHARS:]
            stderr = f" It said: {last}" if last else " It said nothing on stderr."
            raise ExecutionError(f"The program {name!r} {problem}.{stderr}")
        output.seek(0)
        return output.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace")


def _problem(process: subprocess.Popen[bytes], streams: Sequence[int], until: float) -> str:
    """Wait for a program, and return its problem; empty if there is none."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(_TICK)
        if any(os.fstat(number).st_size > MAX_OUTPUT_BYTES for number in streams):
            return f"printed more than {MAX_OUTPUT_BYTES:,} bytes"
        if process.returncode is not None:
            return f"ended with exit code {code}" if code else ""
        if time.monotonic() > until:
            return "took too long; --seconds gives it more"
