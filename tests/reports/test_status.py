"""Tests of what status and validate find out."""

import os

from skillsearch.index.skill_index import SkillIndex
from skillsearch.reports.status import status, validate_paths


def test_status_hashes_every_file(drinks, index_dir):
    """Bytes changed behind an unchanged stat are found, even if it is an old one."""
    path = drinks / "steep-tea" / "SKILL.md"
    long_ago = 1_500_000_000_000_000_000
    os.utime(path, ns=(long_ago, long_ago))
    index = SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing")
    assert not index.differences()
    data = path.read_bytes()
    path.write_bytes(data.replace(b"green", b"black"))
    os.utime(path, ns=(long_ago, long_ago))
    report = status(index)
    assert report.differences.changed == (str(path),)
    assert not report.in_sync


def test_status_counts_what_was_skipped(drinks, index_dir, make_skill):
    """A file without description is no skill, and is counted."""
    make_skill(drinks, "empty", description="")
    index = SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing")
    report = status(index)
    assert (report.indexed, report.skipped) == (3, 1)
    assert report.diagnostics == {"error": 1, "warning": 0, "note": 0}


def test_validating_a_folder_reports_what_stands_in_the_way(drinks):
    """A FIFO in the place of a SKILL.md is a finding, not a hang."""
    (drinks / "pipe").mkdir()
    os.mkfifo(drinks / "pipe" / "SKILL.md")
    checked, found = validate_paths([drinks])
    assert checked == 3
    assert [(item.code, item.severity) for item in found] == [("not-a-regular-file", "error")]
