"""Proposals are measured on judged requests that they are not made from."""

import json
import sys
from pathlib import Path

import skillsearch

COLLECTION = Path(skillsearch.__file__).parent / "evaluation" / "example"


def test_each_skill_with_room_gets_a_row_and_the_table_counts_them(
    import_script, monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")
    results = tmp_path / "rows.jsonl"
    argv = ["x", COLLECTION.parent, COLLECTION.name, "--skills", "2", "--reader", "off"]
    monkeypatch.setattr(sys, "argv", [*map(str, argv), "--results", str(results)])
    import_script("measure_improve").main()
    rows = [json.loads(line) for line in results.read_text("utf-8").splitlines()]
    with_room = [row for row in rows if row["room"]]
    assert all(row["before"][0] < row["on"] for row in with_room)
    for row in with_room:
        if row["chosen"]["kinds"]:
            assert any(
                now > was for was, now in zip(row["before"], row["chosen"]["after"], strict=True)
            )
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"| all | {len(rows)} | {len(with_room)} |")
