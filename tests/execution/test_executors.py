"""Which executor is chosen, and what is said where it does not work."""

import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skillsearch
from skillsearch.errors import ConfigError, ExecutorError, IsolationError
from skillsearch.execution.executors import (
    REGISTRY,
    executor_names,
    executor_statuses,
    isolates,
    select_executor,
)
from skillsearch.execution.isolation.namespace import NamespaceExecutor
from skillsearch.execution.runner import SkillRunner

WITHOUT = """if True:
    import json, logging, sys
    from skillsearch.errors import SkillSearchError
    from skillsearch.execution.executors import select_executor, executor_statuses
    logging.basicConfig(level=logging.WARNING)
    sys.executable = "/bin/false"  # what would enclose

    def chosen(name, **options):
        try:
            return select_executor(name, **options).name
        except SkillSearchError as exc:
            return type(exc).__name__

    names = ("auto", "namespace", "container", "local")
    print(json.dumps({
        "chosen": [chosen(name) for name in names],
        "isolating": [chosen(name, require_isolation=True) for name in names],
        "available": [(each.name, each.available) for each in executor_statuses()],
    }))
"""


def run_python(program, *arguments, cwd=None, **variables):
    """Run a program that finds this package, with no variables but these."""
    env = {**variables, "PYTHONPATH": str(Path(skillsearch.__file__).parents[1])}
    argv = [sys.executable, "-c", program, *arguments]
    pipes = {"capture_output": True, "text": True}
    return subprocess.run(argv, env=env, cwd=cwd, timeout=120, check=True, **pipes)


@pytest.fixture(scope="module")
def nothing_works(tmp_path_factory):
    """Return what can be chosen where neither namespaces nor containers can be had."""
    ran = run_python(WITHOUT, PATH=str(tmp_path_factory.mktemp("empty")))
    return {"log": ran.stderr, **json.loads(ran.stdout)}


def test_on_another_system_than_linux_no_executor_works_and_each_says_why(tmp_path):
    program = """if True:
        import sys
        from skillsearch.errors import ExecutorError
        from skillsearch.execution.executors import select_executor
        sys.platform = "darwin"
        for name in ("auto", "container", "local"):
            try:
                select_executor(name)
            except ExecutorError as exc:
                print(exc)
    """
    ran = run_python(program, PATH=str(tmp_path))
    said = "Commands of skills run on Linux only; use a Linux machine."
    assert ran.stdout.splitlines() == [said] * 3


def test_auto_is_local_elsewhere_and_says_so(nothing_works):
    """An executor that is named is never replaced by another."""
    expected = ["local", "ExecutorError", "ExecutorError", "local"]
    assert nothing_works["chosen"] == expected
    assert "Programs run without isolation, by the executor 'local'." in nothing_works["log"]
    assert "bwrap: not installed" in nothing_works["log"]


def test_required_isolation_fails_closed(nothing_works):
    assert nothing_works["isolating"] == ["IsolationError"] * 4
    with pytest.raises(IsolationError, match="choose 'namespace' or 'container'"):
        select_executor("local", require_isolation=True)


def test_auto_is_namespace_where_that_works():
    if NamespaceExecutor().reason():
        pytest.skip(NamespaceExecutor().reason())
    assert select_executor().name == "namespace"
    assert select_executor("auto", require_isolation=True).name == "namespace"


def test_local_is_local(caplog):
    with caplog.at_level(logging.WARNING):
        assert select_executor("local").name == "local"
    assert caplog.text == ""


def test_an_image_is_handed_on():
    with pytest.raises(ExecutorError, match="'--privileged' is not an image"):
        select_executor("container", image="--privileged")


@pytest.mark.parametrize("name", ["", "docker", "LOCAL", "auto\n"])
def test_an_unknown_name_is_answered_with_those_there_are(name):
    with pytest.raises(ConfigError) as caught:
        select_executor(name)
    assert str(caught.value).endswith("there are: auto, local, namespace, container.")


def test_all_executors_are_described(nothing_works):
    described = {status.name: status for status in executor_statuses()}
    assert list(described) == list(REGISTRY)
    for name, row in REGISTRY.items():
        assert described[name].capabilities.isolation == row.isolation
        assert row.make().name == name
        assert isolates(name) == (name != "local")
        capabilities = described[name].capabilities.to_dict()
        reaches = ("network", "reads_outside", "writes_outside", "sees_processes")
        assert {capabilities[reach] for reach in reaches} == {name == "local"}
        assert capabilities["not_isolated"]
    assert all(status.available == (not status.reason) for status in described.values())
    available = [["local", True], ["namespace", False], ["container", False]]
    assert nothing_works["available"] == available


def test_what_is_described_as_working_can_be_chosen():
    for name, available, reason, capabilities in executor_statuses():
        if available:
            assert select_executor(name).capabilities() == capabilities
        else:
            with pytest.raises(ExecutorError) as caught:
                select_executor(name)
            assert str(caught.value) == reason


def test_the_page_describes_every_executor():
    page = Path(skillsearch.__file__).parent / "execution" / "README.md"
    described = re.findall(r"^\| `(\w+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(described) == sorted(REGISTRY)


REGISTERING = """if True:
    import json, sys
    from click.testing import CliRunner
    from skillsearch.cli.app import app
    from skillsearch.execution import executors
    from skillsearch.execution.isolation.local import LocalExecutor

    class Remote(LocalExecutor):
        name = "remote"

        def __init__(self, image="plain"):
            self.image = image

        def reason(self):
            return "No machine answers at HOST." if self.image == "plain" else ""

    executors.REGISTRY["remote"] = executors.Registered(Remote, "container", Remote)
    results = [CliRunner().invoke(app, arguments) for arguments in json.loads(sys.argv[1])]
    print(json.dumps([(each.exit_code, each.stdout, each.stderr) for each in results]))
"""


def test_a_row_of_the_table_is_all_that_an_executor_needs(tmp_path):
    skill = tmp_path / "tea" / "SKILL.md"
    skill.parent.mkdir()
    skill.write_text("---\nname: tea\ndescription: Brews tea.\n---\n")
    command = ["run", "tea", "--root", str(tmp_path), "--executor", "remote"]
    commands = [
        ["run", "--help"],
        ["mcp", "--help"],
        ["run", "--list-executors"],
        ["doctor"],
        [*command, "--", "echo", "hot"],
        [*command, "--image", "other", "--", "echo", "hot"],
    ]
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    ran = run_python(REGISTERING, json.dumps(commands), cwd=tmp_path, **variables)
    assert ran.stderr == ""
    shown, served, listed, examined, refused, done = json.loads(ran.stdout)
    assert "local|namespace|container|remote" in "".join(shown[1].split())
    assert "Image for --executor container or remote." in " ".join(shown[1].split())
    assert "|remote]" in "".join(served[1].split())
    assert "remote" in listed[1]
    assert "remote: No machine answers at HOST." in " ".join(examined[1].split())
    assert refused[:2] == [125, ""]
    assert "No machine answers at HOST." in refused[2]
    assert done[1] == "hot\n"


def test_a_row_is_found_by_name(monkeypatch):
    monkeypatch.setitem(REGISTRY, "other", REGISTRY["local"])
    assert executor_names() == ("auto", "local", "namespace", "container", "other")
    assert select_executor("other").name == "local"
    with pytest.raises(IsolationError, match="The executor 'other' isolates nothing"):
        select_executor("other", require_isolation=True)


@pytest.mark.parametrize("executor", [5, None, "local", object])
def test_what_is_no_executor_is_refused_by_the_runner(executor):
    with pytest.raises(ConfigError, match=r"executor is .*; give one that select_executor returns"):
        SkillRunner(executor)
