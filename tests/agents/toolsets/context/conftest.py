"""Two skills of a project, and the manager that a context has of them."""

import os
from pathlib import Path

import pytest

from skillsearch.agents.toolsets.context import SkillsLoader, SkillsManager, ToolContext

UINT = "Add unsigned integer (uint) type support to PyTorch operators."
TEA = "Steep green tea at the right temperature."


@pytest.fixture
def root(tmp_path, make_skill):
    folder = tmp_path / ".skills"
    make_skill(folder, "add-uint-support", UINT, body="# Uint\n\nEdit the dispatch macro.\n")
    make_skill(folder, "steep-tea", TEA, body="# Tea\n\nUse 80 C.\n")
    return folder


@pytest.fixture
def make_manager(tmp_path):
    def make(root, *, global_root=None, **settings):
        loader = SkillsLoader(
            root, global_root=global_root, index_dir=tmp_path / "index", model="hashing"
        )
        return SkillsManager(loader, **settings)

    return make


@pytest.fixture
def manager(root, make_manager):
    return make_manager(root)


@pytest.fixture
def ctx(manager, tmp_path):
    return ToolContext(workspace_root=tmp_path, skills_manager=manager)


@pytest.fixture
def opened(monkeypatch):
    paths = []
    system_open = os.open

    def record(path, *args, **options):
        if Path(os.fsdecode(path)).name == "SKILL.md":
            paths.append(path)
        return system_open(path, *args, **options)

    monkeypatch.setattr(os, "open", record)
    return paths


@pytest.fixture
def versions(tmp_path, make_skill):
    root = tmp_path / "versions"
    for version in ("1.0", "1.10", "2.0"):
        make_skill(root / version, "pdf", f"Fills forms, {version}.", version=version)
    return root
