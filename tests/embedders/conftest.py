"""The packaged embedder, vectors of texts, and a fresh interpreter."""

import os
import subprocess
import sys

import pytest

from skillsearch.embedders.embedder import load_embedder
from skillsearch.embedders.embedding import embed


@pytest.fixture
def run_python():
    """Run code in a fresh interpreter with the same paths; return what it printed."""

    def run(code, *arguments, **environment):
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout

    return run


@pytest.fixture(scope="session")
def packaged():
    return load_embedder("onnx")


@pytest.fixture(scope="session")
def vector_of():
    """Embed one text."""
    return lambda embedder, text: embed(embedder, [text])[0]


@pytest.fixture(scope="session")
def cut_texts():
    """Count the texts that an embedder cuts at its token limit."""
    return lambda embedder, texts: sum(row.truncated for row in embedder.embed_stream(texts))
