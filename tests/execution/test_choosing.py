"""Which executor is chosen, and what is said where it does not work."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import skillsearch
from skillsearch.errors import ConfigError, ExecutorError, IsolationError
from skillsearch.execution.choosing import EXECUTORS, choose, describe
from skillsearch.execution.namespace import NamespaceExecutor

WITHOUT = """if True:
    import logging, sys
    from skillsearch.errors import SkillSearchError
    from skillsearch.execution.choosing import choose, describe
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
            argv, env=env, capture_output=True, text=True, timeout=60, check=False
        )

    return run


def test_auto_is_namespace_where_that_works():
    """The safest that needs no installation."""
    if not NamespaceExecutor().is_available():
        pytest.skip(NamespaceExecutor().reason())
    assert choose().name == "namespace"
    assert choose("auto", require_isolation=True).name == "namespace"


def test_auto_is_local_elsewhere_and_says_so(where_nothing_works):
    """In the log, with the reason."""
    ran = where_nothing_works("print(choose().name)")
    assert ran.stdout == "local\n"
    assert "Programs run without isolation, by the executor 'local'." in ran.stderr
    assert "bwrap: not installed" in ran.stderr


@pytest.mark.parametrize("name", ["auto", "namespace", "container", "local"])
def test_required_isolation_fails_closed(where_nothing_works, name):
    """No executor is chosen rather than one that does not isolate."""
    text = f"""try: print(choose({name!r}, require_isolation=True).name)
    except SkillSearchError as exc: print(type(exc).__name__)"""
    assert where_nothing_works(text).stdout == "IsolationError\n"


@pytest.mark.parametrize("name", ["namespace", "container"])
def test_a_named_executor_is_never_replaced(where_nothing_works, name):
    """Who names one has a reason."""
    text = f"""try: print(choose({name!r}).name)
    except SkillSearchError as exc: print(type(exc).__name__)"""
    assert where_nothing_works(text).stdout == "ExecutorError\n"


def test_local_is_local(caplog):
    """Asked for by name, it is no surprise, and nothing is logged."""
    with caplog.at_level(logging.WARNING):
        assert choose("local").name == "local"
    assert caplog.text == ""


def test_local_isolates_nothing():
    """So it cannot be had where isolation is required."""
    with pytest.raises(IsolationError, match="choose 'namespace' or 'container'"):
        choose("local", require_isolation=True)


def test_an_image_is_handed_on():
    """To the only executor that has one, which checks it."""
    with pytest.raises(ExecutorError, match="'--privileged' is not an image"):
        choose("container", image="--privileged")


@pytest.mark.parametrize("name", ["", "docker", "LOCAL", "auto\n"])
def test_an_unknown_name_is_answered_with_those_there_are(name):
    """All four."""
    with pytest.raises(ConfigError) as caught:
        choose(name)
    assert str(caught.value).endswith("there are: auto, local, namespace, container.")


def test_all_executors_are_described(where_nothing_works):
    """With why they do not work, and what they keep programs from."""
    described = {found.name: found for found in describe()}
    assert tuple(described) == EXECUTORS[1:]
    assert described["local"].capabilities.isolation == "none"
    assert all(found.available == (not found.reason) for found in described.values())
    ran = where_nothing_works("print([(found.name, found.available) for found in describe()])")
    assert ran.stdout == f"{[('local', True), ('namespace', False), ('container', False)]}\n"


def test_what_is_described_as_working_can_be_chosen():
    """And nothing else."""
    for name, available, reason, capabilities in describe():
        if available:
            assert choose(name).capabilities() == capabilities
        else:
            with pytest.raises(ExecutorError) as caught:
                choose(name)
            assert str(caught.value) == reason
