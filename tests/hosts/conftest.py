"""A skill in a folder of a host, with all that a file system can hold."""

import os

import pytest


@pytest.fixture
def make_tea(home, make_skill):
    """Make a skill where Claude Code looks, and return its folder."""

    def make():
        folder = make_skill(home / ".claude" / "skills", "tea", "Brew tea in a pot.").parent
        (folder / "scripts").mkdir()
        (folder / "scripts" / "pour.sh").write_text("#!/bin/sh\necho tea\n")
        (folder / "scripts" / "pour.sh").chmod(0o755)
        (folder / "empty").mkdir(mode=0o700)
        (folder / "link").symlink_to("scripts/pour.sh")
        os.utime(folder / "SKILL.md", (1e9, 1e9))
        return folder

    return make


@pytest.fixture
def folder(make_tea):
    return make_tea()
