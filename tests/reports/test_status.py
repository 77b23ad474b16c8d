"""What an index holds, and how it differs from the disk."""

import os

from skillsearch.index.skill_index import SkillIndex
from skillsearch.reports.status import status


def test_status_hashes_every_file(drinks, index_dir):
    path = drinks / "steep-tea" / "SKILL.md"
    long_ago = 1_500_000_000_000_000_000
    os.utime(path, ns=(long_ago, long_ago))
    index = SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing")
    assert not index.differences()
    data = path.read_bytes()
    path.write_bytes(data.replace(b"green", b"black"))
    os.utime(path, ns=(long_ago, long_ago))
    record, differences = status(index)
    assert differences.changed == (str(path),)
    assert record["differences"]["changed"] == [str(path)]
    assert not record["is_current"]


def test_status_counts_what_was_skipped(drinks, index_dir, make_skill):
    make_skill(drinks, "empty", description="")
    index = SkillIndex.from_roots(drinks, index_dir=index_dir, model="hashing")
    record, _ = status(index)
    assert (record["indexed"], record["skipped"]) == (3, 1)
    assert record["diagnostics"] == {"error": 1, "warning": 0, "note": 0}
