"""Nothing asks the network: the program works where there is none."""

import shutil
import subprocess
import sys

import pytest

UNSHARE = ["unshare", "--map-root-user", "--net"]


@pytest.fixture
def run_offline(tmp_path):
    """Run the program in a network namespace of its own, which has not even a loopback."""
    can_unshare = (
        shutil.which("unshare")
        and not subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode
    )
    if not can_unshare:
        pytest.skip("this system lets no ordinary user make a network namespace")

    def run(*args):
        command = [*UNSHARE, sys.executable, "-m", "skillsearch", *args]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

    return run


@pytest.mark.slow
def test_examples_are_indexed_and_found_without_a_network(run_offline):
    """With the packaged model, from an empty cache."""
    run_offline("index", "--examples", "--index-dir", "i")
    found = run_offline("query", "my pod keeps restarting", "--index-dir", "i").stdout
    assert found.split("\t")[2] == "kubernetes-crashloop"
