"""What setup does to the files of hosts, worked out without a command line."""

import pytest

from skillsearch.hosts.plans import plan_hosts


@pytest.fixture(autouse=True)
def machine(home, monkeypatch, tmp_path):
    """Make a machine with codex and cursor, told by their folders alone."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    (home / ".codex").mkdir()
    (home / ".cursor").mkdir()
    return home


def rows(plans):
    return [tuple(plan.row[key] for key in ("host", "entries", "state")) for plan in plans]


def test_each_host_that_is_here_gets_server_and_hook(machine, tmp_path):
    plans = list(plan_hosts(tmp_path, machine))
    assert rows(plans) == [("codex", "server, hook", "write"), ("cursor", "server", "write")]
    assert all(plan.is_open and str(tmp_path) in plan.change.diff() for plan in plans)
    assert rows(plan_hosts(tmp_path, machine, "hook")) == [("codex", "hook", "write")]


def test_what_is_as_it_should_be_is_not_open(machine, tmp_path):
    for plan in plan_hosts(tmp_path, machine):
        plan.change.write()
    plans = list(plan_hosts(tmp_path, machine))
    assert {plan.row["state"] for plan in plans} == {"unchanged"}
    assert not any(plan.is_open for plan in plans)
    assert {state for *_, state in rows(plan_hosts(tmp_path, machine, remove=True))} == {"remove"}


def test_a_file_that_cannot_be_edited_is_refused_with_the_reason(machine, tmp_path):
    (machine / ".cursor" / "mcp.json").write_text("[]")
    (_, plan) = plan_hosts(tmp_path, machine)
    assert (plan.row["state"], plan.change, plan.is_open) == ("refused", None, True)
    assert "it was left as it is" in plan.row["reason"]
