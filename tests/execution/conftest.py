"""A workspace and a secret beside it; the processes of a test; the package for any user."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

import skillsearch
from skillsearch.execution.workspaces.workspace import Workspace

PACKAGE = str(Path(skillsearch.__file__).parents[1])
CALLER = """if True:
    import sys
    from pathlib import Path
    from skillsearch.execution.isolation.container import ContainerExecutor
    from skillsearch.execution.isolation.local import LocalExecutor
    from skillsearch.execution.isolation.namespace import NamespaceExecutor
    from skillsearch.execution.types import Program
    folder, script = Path(sys.argv[1]), sys.argv[2]
    program = Program(("bash", "-c", script), folder, folder, {{"PATH": "/usr/bin:/bin"}})
    {executor}.run(program)
"""


@pytest.fixture
def workspace(tmp_path):
    made = Workspace.create(tmp_path / "base", "s")
    yield made
    made.close()


@pytest.fixture
def base(tmp_path):
    """Name the folder of the workspaces, of which none may be left in the end."""
    folder = tmp_path / "workspaces"
    yield folder
    assert sorted(path.name for path in folder.glob("ws_*")) == []


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret" / "id.txt"
    path.parent.mkdir()
    path.write_bytes(b"secret")
    return path


@pytest.fixture(scope="session")
def processes():
    """Return the processes of this machine with a mark on their command line."""

    def marked(mark):
        numbers = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark.encode() in (folder / "cmdline").read_bytes():
                    numbers.append(int(folder.name))
        return numbers

    return marked


@pytest.fixture(scope="session")
def gone(processes, wait_for):
    """Wait until no process has the mark, and return whether that happened."""
    return lambda mark: wait_for(lambda: not processes(mark))


@pytest.fixture
def killed_caller(wait_for):
    """Kill a process that runs a script by an executor, once the script has made ``started``."""

    def kill(executor, folder, script):
        argv = [sys.executable, "-c", CALLER.format(executor=executor), folder, script]
        with subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": PACKAGE}) as process:
            try:
                assert wait_for((folder / "started").exists)
            finally:
                process.kill()

    return kill


@pytest.fixture(scope="session")
def open_package():
    package = Path(skillsearch.__file__).parent
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="skillsearch-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for pattern in ("*.py", "*/*.py", "*/*/*.py", "*/*.txt", "*/*/*.txt", "*/*.toml"):
            for file in package.glob(pattern):
                copy = folder / "skillsearch" / file.relative_to(package)
                copy.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
        yield folder
