"""Pairs of commands that change one index at the same moment, as real processes."""

import pytest


@pytest.fixture(scope="module")
def pairs(import_script):
    """Import the script that runs them; every night it runs each of its nine 20 times."""
    return import_script("soak_pairs")


def faults_of(pairs, names):
    """Run each pair once: a rare loss is for the 20 runs of the night to find."""
    return [fault for name in names for fault in pairs.run_pairs(name, 1)]


def test_two_commands_at_once_lose_nothing_and_say_what_is_true(pairs):
    assert faults_of(pairs, ("remove and index",)) == []


@pytest.mark.slow
def test_pairs_without_two_plain_updates_lose_nothing_either(pairs):
    """A watch and a first index; the night runs a refresh and another set of roots too."""
    names = ("watch and index", "first and first")
    assert faults_of(pairs, names) == []


def test_a_lost_root_and_an_untrue_report_are_noticed(pairs, tmp_path, monkeypatch):
    """As if both commands had been expected to add another root than they did."""
    wrong = pairs.Pair("index {b} --json", "index {c} --json", ({"a": "vetted", "x": "vetted"},))
    monkeypatch.setitem(pairs.PAIRS, "wrong", wrong)
    first, second = pairs.run_pair("wrong", tmp_path)
    assert first.startswith("the index holds {")
    assert second == "nobody said that x left"
