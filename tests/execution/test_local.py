"""What the executor ``local`` enforces, and what it says that it does not."""

import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from skillsearch.execution.isolation.local import LocalExecutor
from skillsearch.execution.types import Program, RunLimits

PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def run(tmp_path):
    def run(*argv, stdin=b"", **limits):
        bounds = RunLimits(**{"timeout": 20, **limits})
        return LocalExecutor().run(Program(argv, tmp_path, tmp_path, {"PATH": PATH}, stdin, bounds))

    return run


def python(text):
    return (sys.executable, "-I", "-S", "-c", text)


def test_it_names_the_limits_that_it_enforces():
    assert set(LocalExecutor().capabilities().limits) == {field.name for field in fields(RunLimits)}


def test_a_process_has_no_more_memory_than_allowed(run):
    ask = python("bytearray(300 << 20); print('had')")
    refused = run(*ask, memory_bytes=200 << 20)
    assert (refused.exit_code, refused.stdout) == (1, b"")
    assert b"MemoryError" in refused.stderr
    assert run(*ask, memory_bytes=600 << 20).stdout == b"had\n"


def test_a_file_grows_no_larger_than_allowed(run, tmp_path):
    finished = run("sh", "-c", "head -c 50000 /dev/zero > big", file_bytes=10_000)
    assert finished.exit_code == 128 + signal.SIGXFSZ
    assert (tmp_path / "big").stat().st_size == 10_000
    sparse = "import os; os.truncate(os.open('big', os.O_CREAT | os.O_RDWR), 20_000)"
    assert b"File too large" in run(*python(sparse), file_bytes=10_000).stderr


def test_a_process_opens_no_more_files_than_allowed(run):
    text = (
        "n = []\ntry:\n    while True: n.append(open('/dev/null'))\nexcept OSError: print(len(n))"
    )
    assert run(*python(text), open_files=20).stdout == b"17\n"


def test_what_it_says_of_its_isolation_is_true(run, tmp_path_factory):
    claims = LocalExecutor().capabilities()
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.write_text("hunter2")
    neighbour = subprocess.Popen(["sleep", "60"])
    try:
        assert claims.isolation == "none"
        assert claims.reads_outside == (run("cat", str(outside)).stdout == b"hunter2")
        assert claims.writes_outside == (run("rm", str(outside)).exit_code == 0)
        assert claims.sees_processes == (run("kill", str(neighbour.pid)).exit_code == 0)
        assert neighbour.wait(120) == -signal.SIGTERM
    finally:
        neighbour.kill()
        neighbour.wait(120)
    routes = Path("/proc/net/dev").read_bytes().split(b":")[0]
    assert claims.network == run("cat", "/proc/net/dev").stdout.startswith(routes)
