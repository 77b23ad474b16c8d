"""Which executor is chosen, and what is said where it does not work."""

import logging
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import skillsearch
from skillsearch.errors import ConfigError, ExecutorError, IsolationError
from skillsearch.execution.executors import (
    LocalExecutor,
    NamespaceExecutor,
    executor_statuses,
    select_executor,
)
from skillsearch.execution.types import EXECUTORS, Limits, Program

WITHOUT = """if True:
    import logging, sys
    from skillsearch.errors import SkillSearchError
    from skillsearch.execution.executors import select_executor, executor_statuses
    logging.basicConfig(level=logging.WARNING)
    sys.executable = "/bin/false"  # what would enclose
"""


@pytest.fixture
def where_nothing_works(tmp_path):
    """Run Python text where neither namespaces nor containers can be had."""

    def run(text):
        env = {"PATH": str(tmp_path), "PYTHONPATH": str(Path(skillsearch.__file__).parents[1])}
        argv = [sys.executable, "-c", f"{WITHOUT}\n    {text}"]
        return subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=120, check=False
        )

    return run


def test_auto_is_namespace_where_that_works():
    """The safest that needs no installation."""
    if NamespaceExecutor().reason():
        pytest.skip(NamespaceExecutor().reason())
    assert select_executor().name == "namespace"
    assert select_executor("auto", require_isolation=True).name == "namespace"


def test_auto_is_local_elsewhere_and_says_so(where_nothing_works):
    """In the log, with the reason."""
    ran = where_nothing_works("print(select_executor().name)")
    assert ran.stdout == "local\n"
    assert "Programs run without isolation, by the executor 'local'." in ran.stderr
    assert "bwrap: not installed" in ran.stderr


@pytest.mark.parametrize("name", ["auto", "namespace", "container", "local"])
def test_required_isolation_fails_closed(where_nothing_works, name):
    """No executor is chosen rather than one that does not isolate."""
    text = f"""try: print(select_executor({name!r}, require_isolation=True).name)
    except SkillSearchError as exc: print(type(exc).__name__)"""
    assert where_nothing_works(text).stdout == "IsolationError\n"


@pytest.mark.parametrize("name", ["namespace", "container"])
def test_a_named_executor_is_never_replaced(where_nothing_works, name):
    """Who names one has a reason."""
    text = f"""try: print(select_executor({name!r}).name)
    except SkillSearchError as exc: print(type(exc).__name__)"""
    assert where_nothing_works(text).stdout == "ExecutorError\n"


def test_local_is_local(caplog):
    """It was asked for by name, so nothing is logged."""
    with caplog.at_level(logging.WARNING):
        assert select_executor("local").name == "local"
    assert caplog.text == ""


def test_local_isolates_nothing():
    """So it cannot be had where isolation is required."""
    with pytest.raises(IsolationError, match="choose 'namespace' or 'container'"):
        select_executor("local", require_isolation=True)


def test_an_image_is_handed_on():
    """To the only executor that has one, which checks it."""
    with pytest.raises(ExecutorError, match="'--privileged' is not an image"):
        select_executor("container", image="--privileged")


@pytest.mark.parametrize("name", ["", "docker", "LOCAL", "auto\n"])
def test_an_unknown_name_is_answered_with_those_there_are(name):
    """All four."""
    with pytest.raises(ConfigError) as caught:
        select_executor(name)
    assert str(caught.value).endswith("there are: auto, local, namespace, container.")


def test_all_executors_are_described(where_nothing_works):
    """With why they do not work, and what they keep programs from."""
    described = {found.name: found for found in executor_statuses()}
    assert tuple(described) == EXECUTORS[1:]
    assert described["local"].capabilities.isolation == "none"
    assert all(found.available == (not found.reason) for found in described.values())
    ran = where_nothing_works(
        "print([(found.name, found.available) for found in executor_statuses()])"
    )
    assert ran.stdout == f"{[('local', True), ('namespace', False), ('container', False)]}\n"


def test_what_is_described_as_working_can_be_chosen():
    """And nothing else."""
    for name, available, reason, capabilities in executor_statuses():
        if available:
            assert select_executor(name).capabilities() == capabilities
        else:
            with pytest.raises(ExecutorError) as caught:
                select_executor(name)
            assert str(caught.value) == reason


PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def run(tmp_path):
    """Run a program in an empty folder."""

    def run(*argv, stdin=b"", **limits):
        bounds = Limits(**{"timeout": 20, **limits})
        return LocalExecutor().run(Program(argv, tmp_path, tmp_path, {"PATH": PATH}, stdin, bounds))

    return run


def python(text):
    """Return what runs a Python text, quickly."""
    return (sys.executable, "-I", "-S", "-c", text)


def test_it_is_chosen_by_its_name():
    """As settings write it."""
    assert LocalExecutor().name == "local"


def test_it_runs_a_program_in_its_folder(run, tmp_path):
    """With its input."""
    found = run("sh", "-c", "pwd; cat > out.txt", stdin=b"tea")
    assert found.stdout.decode() == f"{tmp_path}\n"
    assert (tmp_path / "out.txt").read_bytes() == b"tea"


def test_it_names_the_limits_that_it_enforces():
    """All there are."""
    assert set(LocalExecutor().capabilities().limits) == {field.name for field in fields(Limits)}


def test_a_process_has_no_more_memory_than_allowed(run):
    """It is told so when it asks, and the same amount is had where the limit is higher."""
    ask = python("bytearray(300 << 20); print('had')")
    refused = run(*ask, memory_bytes=200 << 20)
    assert (refused.exit_code, refused.stdout) == (1, b"")
    assert b"MemoryError" in refused.stderr
    assert run(*ask, memory_bytes=600 << 20).stdout == b"had\n"


def test_a_file_grows_no_larger_than_allowed(run, tmp_path):
    """Who writes more is ended by a signal."""
    found = run("sh", "-c", "head -c 50000 /dev/zero > big", file_bytes=10_000)
    assert found.exit_code == 128 + signal.SIGXFSZ
    assert (tmp_path / "big").stat().st_size == 10_000


def test_a_sparse_file_counts_with_its_size(run):
    """Not with its blocks."""
    text = "import os; os.truncate(os.open('big', os.O_CREAT | os.O_RDWR), 20_000)"
    assert b"File too large" in run(*python(text), file_bytes=10_000).stderr


def test_a_process_opens_no_more_files_than_allowed(run):
    """Its streams are three of them."""
    text = (
        "n = []\ntry:\n    while True: n.append(open('/dev/null'))\nexcept OSError: print(len(n))"
    )
    assert run(*python(text), open_files=20).stdout == b"17\n"


def test_no_core_is_dumped(run, tmp_path):
    """It might hold a secret."""
    assert run("sh", "-c", "kill -SEGV $$").exit_code == 128 + signal.SIGSEGV
    assert list(tmp_path.iterdir()) == []


def test_time_is_limited(run):
    """The executor's own bound."""
    assert run("sleep", "60", timeout=0.2).timed_out


def test_output_is_limited(run):
    """Beginning and end stay."""
    found = run("sh", "-c", "echo begin; seq 10000; echo end", output_bytes=100)
    assert found.stdout.startswith(b"begin\n")
    assert found.stdout.endswith(b"end\n")
    assert len(found.stdout) == 100


def test_what_it_says_of_its_isolation_is_true(run, tmp_path_factory):
    """None: files, processes and the network of this machine are within reach."""
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


def test_what_is_not_isolated_is_told_in_sentences():
    """For a user."""
    told = LocalExecutor().capabilities().not_isolated
    assert len(told) == 4
    assert all(sentence.startswith(("It ", "Memory ")) for sentence in told)
    assert all(sentence.endswith(".") for sentence in told)
