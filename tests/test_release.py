"""What a release says of itself is said once, or the same everywhere."""

import re
import tomllib
from pathlib import Path

import pytest

import skillsearch

PACKAGE = Path(skillsearch.__file__).parent
PROJECT = PACKAGE.parent / "pyproject.toml"


def test_changes_begin_with_this_version_and_its_date():
    text = (PACKAGE / "CHANGES.md").read_text("utf-8")
    version = re.escape(skillsearch.__version__)
    assert re.match(rf"# Changes\n\n## {version}, (\d{{4}}-\d\d-\d\d|unreleased)\n", text)


@pytest.mark.skipif(not PROJECT.exists(), reason="an installed copy has no pyproject.toml")
def test_the_pythons_of_the_metadata_begin_with_the_oldest_and_leave_none_out():
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    named = re.findall(r"Python :: 3\.(\d+)", "\n".join(project["classifiers"]))
    oldest = int(project["requires-python"].removeprefix(">=3."))
    assert list(map(int, named)) == [*range(oldest, oldest + len(named))]
