"""Pairs of commands that change one index at the same moment, as real processes."""

import pytest

ASKED_FOR = (
    "index and index",
    "index and refresh",
    "setup and index",
    "watch and index",
    "remove and index",
)


@pytest.fixture(scope="module")
def pairs(import_script):
    """Import the script that runs them; every night it runs each 20 times."""
    return import_script("soak_pairs")


@pytest.mark.parametrize("name", ASKED_FOR)
def test_two_commands_at_once_lose_nothing_and_say_what_is_true(pairs, name):
    """Both exit with 0, and the index holds what either of them added."""
    assert pairs.run_pairs(name, 5) == []


def test_no_other_pair_loses_anything_either(pairs):
    """The first two of an index, beside a replacement, a new trust, and over damage."""
    others = [name for name in pairs.PAIRS if name not in ASKED_FOR]
    assert len(others) == 4
    assert [fault for name in others for fault in pairs.run_pairs(name, 1)] == []


def test_a_lost_root_and_an_untrue_report_are_noticed(pairs, tmp_path, monkeypatch):
    """As if both commands had been expected to add another root than they did."""
    wrong = pairs.Pair("index {b} --json", "index {c} --json", ({"a": "vetted", "x": "vetted"},))
    monkeypatch.setitem(pairs.PAIRS, "wrong", wrong)
    first, second = pairs.run_pair("wrong", tmp_path)
    assert first.startswith("the index holds {")
    assert second == "nobody said that x left"
