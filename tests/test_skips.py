"""Tests of how skipped tests are told."""

from types import SimpleNamespace

import pytest


@pytest.fixture
def hooks(request):
    plugins = request.config.pluginmanager.get_plugins()
    return next(plugin for plugin in plugins if hasattr(plugin, "need_of"))


@pytest.mark.parametrize(
    ("reason", "need"),
    [
        ("Skipped: could not import 'torch': No module named 'torch'", "needs torch"),
        ("could not import 'skillsearch.training.contrastive': No module", "needs torch"),
        ("Skipped: not installed: pymilvus, milvus_lite", "needs Milvus"),
        ("needs Ray: pip install ray", "needs Ray"),
        ("podman: not installed; docker: the daemon does not answer", "needs a container engine"),
        ("root reads whatever the permissions say", "needs a user who is not root"),
        ("only root gives files away", "needs root"),
        ("the array is too short", "the array is too short"),
    ],
)
def test_a_reason_is_told_as_what_is_needed(hooks, reason, need):
    assert hooks.need_of(reason).startswith(need)


def test_each_need_is_a_line_with_the_most_frequent_first(hooks):
    reasons = ["could not import 'torch'", "only root gives files away", "needs torch"]
    skipped = [SimpleNamespace(longrepr=("test.py", 1, reason)) for reason in reasons]
    lines = []
    reporter = SimpleNamespace(stats={"skipped": skipped}, write_line=lines.append)
    hooks.pytest_terminal_summary(reporter)
    assert [line.partition(":")[0] for line in lines] == ["SKIPPED 2", "SKIPPED 1"]
    assert lines[0].startswith("SKIPPED 2: needs torch")
