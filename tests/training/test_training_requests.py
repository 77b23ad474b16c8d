"""``scripts/training_requests``: each line can be trained with, and its twin is there."""

import gzip
import json
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "scripts" / "training_requests" / "requests.jsonl.gz"
LEFT_OUT = {*range(100), *range(600, 650), *range(700, 750)}
pytestmark = pytest.mark.skipif(not FILE.exists(), reason="an installed copy has no scripts")


@pytest.fixture(scope="module")
def records():
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_texts_of_a_cluster_differ(records):
    texts = [(record["cluster"], record["text"]) for record in records]
    assert len(set(texts)) == len(texts) == 6504
    assert LEFT_OUT.isdisjoint(cluster for cluster, _ in texts)


def test_a_twin_has_its_original_in_the_cluster(records):
    texts = {(record["cluster"], record["text"]) for record in records if record["kind"] != "x"}
    twins = [record for record in records if record["kind"] == "x"]
    assert all((twin["cluster"], twin["twin_of"]) in texts for twin in twins)
    assert not any(twin["text"] == twin["twin_of"] for twin in twins)


def test_some_skill_of_eight_does_what_is_wanted(records):
    for record in records:
        grades = {int(row): grade for row, grade in record["grades"].items()}
        assert len(set(record["rows"])) == 8
        assert grades.keys() <= set(record["rows"])
        assert set(grades.values()) <= {1, 2}
        assert record["kind"] == "x" or 2 in grades.values()


def test_it_is_read_behind_another_file(records, tmp_path, import_script):
    joined = tmp_path / "joined.jsonl.gz"
    joined.write_bytes(FILE.read_bytes() * 2)
    rows = {row: row for record in records for row in record["rows"]}
    requests = list(import_script("graded_requests").read_requests(joined, (), rows))
    assert len(requests) == 2 * len(records)
    assert {request.source for request in requests} == {"everyday"}
