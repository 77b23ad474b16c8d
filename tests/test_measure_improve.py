"""Proposals are measured on judged requests that they are not made from."""

import json
from pathlib import Path

import skillsearch

COLLECTION = Path(skillsearch.__file__).parent / "evaluation" / "example"


def test_each_skill_with_room_gets_a_row_and_the_table_counts_them(
    import_script, monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    results = tmp_path / "improve.json"
    argv = [COLLECTION, "--skills", "2", "--reader", "off", "--results", results]
    import_script("measure_improve").main(list(map(str, argv)))
    counts = json.loads(results.read_bytes())["collections"]
    assert counts["all"] == counts[COLLECTION.name]
    assert counts["all"]["with room"] == 2 <= counts["all"]["skills"]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"| all | {counts['all']['skills']} | 2 |")


def test_a_skill_is_raised_if_a_number_rises_and_none_falls(import_script):
    raised, lowered = {"kinds": ("words",), "after": (2, 2, 0)}, {"kinds": (), "after": (1, 1, 3)}
    changed = {"chosen": raised, "fixed": {**lowered, "kinds": ("words",)}}
    rows = [
        {"collection": "tea", "room": True, "before": (1, 2, 0), **changed},
        {"collection": "tea", "room": True, "before": (1, 2, 0), "chosen": lowered},
        {"collection": "ink", "room": False, "before": (3, 3, 3)},
    ]
    counts = import_script("measure_improve").counts_of(rows)
    changes = {"chosen first": 1, "chosen any": 1, "fixed fits": 1, "fixed lowered": 1}
    assert counts["tea"] == {"skills": 2, "with room": 2, **changes}
    assert counts["ink"] == {"skills": 1, "with room": 0}
    assert counts["all"] == {"skills": 3, "with room": 2, **changes}
