"""Finds the blocks of pages and runs them.

Python: ``page_blocks.py PAGE...`` runs each block in an empty folder. Where a block of text
follows, it is what the Python before it prints. Needs our package alone; ``--without-extras`` hides
what else is installed.

Commands: a block of ``console`` has lines that begin with ``$`` and what they print, in which a
line of three dots stands for any lines; a block of ``sh`` has commands alone. `Terminal` runs them.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```(?:\n+```text\n(?P<output>.*?)^```)?", re.MULTILINE | re.DOTALL
)
FENCE = re.compile(r"^```(?P<kind>\S*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
MASKS = {"seconds": r'(?<="seconds": )[\d.]+'}
"""What differs from one machine or run to the next, by name."""
SECONDS = 300
"""The time limit of a command."""
EXTRAS = """google.adk jinja2 langchain_core matplotlib mcp onnx opentelemetry
prompt_toolkit pydantic_ai pymilvus ray safetensors scipy sentence_transformers starlette torch
uvicorn watchfiles"""
"""What only the extras import."""


def blocks_of(text):
    """Return the Python blocks of a page, each with what it prints, or None if that is not told."""
    return [(block["code"], block["output"]) for block in BLOCK.finditer(text)]


def fences_of(text):
    """Return the kind and the text of each fenced block of a page."""
    return [(fence["kind"], fence["text"]) for fence in FENCE.finditer(text)]


def commands_of(text):
    """Return the commands of a page, each with what it prints, or None if that is not shown."""
    commands = []
    for kind, block in fences_of(text):
        if kind == "sh":
            lines = block.replace("\\\n", " ").splitlines()
            commands += [(line, None) for line in lines if line]
        elif kind == "console":
            commands += [(match["command"], match["output"]) for match in COMMAND.finditer(block)]
    return commands


def is_printed(printed, shown, masks=()):
    """Return whether a command printed what a page shows, but for what the masks name."""
    for name in masks:
        printed = re.sub(MASKS[name], f"<{name}>", printed)
        shown = re.sub(MASKS[name], f"<{name}>", shown)
    pattern = re.escape(shown).replace(re.escape("...\n"), r"(?:.*\n)*")
    return re.fullmatch(pattern, printed) is not None


class Terminal:
    """Runs commands in an empty home folder, with our program and Python on the path.

    Attributes:
        folder: The working folder, empty to begin with.
    """

    def __init__(self, home, package, **variables):
        """Make the folders; the package is the folder of the code to run."""
        programs = home / "bin"
        programs.mkdir(parents=True)
        for name, arguments in {"python": "", "skillsearch": " -m skillsearch"}.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable}{arguments} "$@"\n', "utf-8")
            program.chmod(0o755)
        self.folder = home / "work"
        self.folder.mkdir()
        (home / "run").mkdir(mode=0o700)
        self._home = home
        self._variables = {
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(package.parent),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "PACKAGE": str(package),
            **variables,
        }

    def run(self, command):
        """Return the exit code of a command and what it prints, the home folder as ``~``."""
        done = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._variables,
            cwd=self.folder,
            timeout=SECONDS,
            check=False,
        )
        return done.returncode, done.stdout.replace(str(self._home), "~")


def run_block(code, output):
    """Run a block in the current folder; `AssertionError` if it prints something else."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "page", "exec"), {"__name__": "__main__"})
    if output is not None and printed.getvalue() != output:
        raise AssertionError(f"it prints\n{printed.getvalue()}and not\n{output}")


def main(arguments):
    """Run the blocks of some pages, and say how many there were."""
    if "--without-extras" in arguments:
        sys.modules.update(dict.fromkeys(EXTRAS.split()))
    pages = [Path(name) for name in arguments if not name.startswith("--")]
    blocks = [block for page in pages for block in blocks_of(page.read_text("utf-8"))]
    for block in blocks:
        with tempfile.TemporaryDirectory() as folder:
            os.environ.update(HOME=folder, XDG_CACHE_HOME=folder, XDG_CONFIG_HOME=folder)
            os.chdir(folder)
            run_block(*block)
            os.chdir("/")
    sys.stdout.write(f"{len(blocks)} blocks ran\n")


if __name__ == "__main__":
    main(sys.argv[1:])
