"""``scripts/near_twins.py``: requests that differ in one name, and what that changes."""

import random

import pytest

SKILLS = [
    {"name": "postgres-tuning", "description": "Tune queries of Postgres.", "body": "Explain."},
    {"name": "sql-basics", "description": "SQL for Postgres and MySQL.", "body": "Select."},
    {"name": "letter-writer", "description": "Write letters.", "body": "Dear Redis team."},
    {"name": "cassandra-ring", "description": "Repair a ring.", "body": "Or ScyllaDB."},
]


@pytest.fixture
def near(import_script):
    return import_script("near_twins")


@pytest.fixture
def twins(near):
    names = near.Names((("postgres", "mysql", "oracle", "duckdb"), ("redis", "cassandra", "neo4j")))
    return near.NearTwins(SKILLS, names, random.Random(1))


def make_request(text, grades, rows=(0, 1, 2, 3)):
    return {"text": text, "kind": "p", "rows": list(rows), "grades": grades, "cluster": 5}


def test_a_skill_for_one_name_of_a_kind_helps_with_no_other(twins):
    """MySQL is no choice, since another of the judged skills is for it too."""
    request = make_request("POSTGRES is slow, why does Postgres scan", {"0": 2})
    near_twins = list(twins.of(request))
    assert sorted(twin["text"] for twin in near_twins) == [
        "Duckdb is slow, why does Duckdb scan",
        "Oracle is slow, why does Oracle scan",
    ]
    for twin in near_twins:
        assert (twin["kind"], twin["twin_of"], twin["grades"]) == ("x", request["text"], {})
        assert twin["rows"][0] == 0
        assert len(set(twin["rows"])) == 3


@pytest.mark.parametrize("grades", [{"1": 2}, {"0": 2, "1": 1}])
def test_a_skill_for_several_names_of_a_kind_may_help_with_more(twins, grades):
    assert list(twins.of(make_request("postgres is slow", grades))) == []


def test_skills_nearby_lend_their_names(near, import_script):
    """A name is a word in capitals; the twin has none that a judged skill has."""
    about = "Trade on {0} with {0} keys: place an order on {0}, and read prices."
    names = ("Binance", "Kraken", "Coinbase", "Upbit", "Bitstamp")
    texts = [near.SkillText(f"{name.lower()}-orders", about.format(name), "") for name in names]
    texts.append(near.SkillText("bread", "Bake bread at home, with a sourdough of rye.", ""))
    skills = import_script("graded_requests").Skills(texts, ["en"] * 6, {n: n for n in range(6)})
    swaps = near.OwnNames(skills, random.Random(3)).swaps
    requests = [
        make_request("buy on Binance at noon", {"0": 2}, rows=[0, 1, 5]),
        make_request("buy on binance or kraken", {"0": 2, "1": 1}, rows=[0, 1]),
        make_request("bake bread", {"5": 2}, rows=[5]),
        make_request("of a copy on Binance", {"9": 2}, rows=[9]),
    ]
    (swap,) = swaps(requests)
    assert swap.request == requests[0]
    assert swap.rename[0] == "binance"
    assert swap.rename[1] in ("Coinbase", "Upbit", "Bitstamp")
    assert swap.text == f"buy on {swap.rename[1]} at noon"


def test_a_name_without_a_meaning_for_the_skill_changes_no_grade(near, twins, monkeypatch):
    monkeypatch.setattr(near, "CONTROLS", 1.0)
    request = make_request("a letter about our mysql outage", {"2": 2}, rows=[2, 3])
    (control,) = twins.of(request)
    assert control == {**request, "text": control["text"]}
    assert control["text"].removeprefix("a letter about our ").removesuffix(" outage") in (
        "postgres",
        "oracle",
        "duckdb",
    )
    assert list(twins.of(make_request("a letter to the redis team", {"2": 2}))) == []
