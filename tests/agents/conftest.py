"""What runs commands of skills for an agent."""

import pytest

from skillsearch.execution.executors import select_executor
from skillsearch.execution.runner import SkillRunner
from skillsearch.execution.workspaces.artifacts import FolderArtifacts
from skillsearch.execution.workspaces.workspace import Workspaces


@pytest.fixture
def artifacts(tmp_path):
    return FolderArtifacts(tmp_path / "artifacts")


@pytest.fixture
def runner(tmp_path, artifacts):
    workspaces = Workspaces(tmp_path / "workspaces")
    runner = SkillRunner(select_executor("local"), workspaces=workspaces, artifacts=artifacts)
    yield runner
    runner.close()
