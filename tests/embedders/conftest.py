"""A fresh interpreter for the tests of this folder."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def run_python():
    """Run code in a fresh interpreter with the same paths; return what it printed."""

    def run(code, **environment):
        return subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout

    return run
