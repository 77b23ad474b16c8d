"""Tests of entries: they are as the draft has them, whatever a skill says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.ard.entries import (
    UNNAMED_PUBLISHER,
    PublishedSkill,
    entry_of,
    identifier_of,
    is_identifier,
    publisher_of,
    registry_entry,
)

DIGEST = f"sha256:{'a' * 64}"
URL = "https://example.org/skills/drinks/steep-tea/SKILL.md"
PATH = ("drinks", "steep-tea")
QUESTIONS = [f"how do I steep tea number {number}" for number in range(7)]


@pytest.fixture
def entry(document, conforms):
    """Make the entry of a skill, and check it."""

    def make(offer=None, **fields):
        skill = document(**fields)
        offered = {"description": skill.description, "url": URL, "digest": DIGEST} | (offer or {})
        return conforms("entry", entry_of(PublishedSkill(PATH, skill, **offered), "example.org"))

    return make


def test_an_entry_says_what_the_skill_is_and_where(entry):
    made = entry(
        {"changed_ns": 1_000_000_000, "facts": {"trust": "fetched", "origin": ""}},
        examples=QUESTIONS[:2],
        tags=("tea",),
        version="1.2",
    )
    assert made == {
        "identifier": "urn:air:example.org:drinks:steep-tea",
        "displayName": "steep-tea",
        "type": 'text/markdown; profile="urn:air:agent-skills"',
        "url": URL,
        "description": "Steep green tea.",
        "tags": ["tea"],
        "representativeQueries": QUESTIONS[:2],
        "version": "1.2",
        "updatedAt": "1970-01-01T00:00:01Z",
        "metadata": {"digest": DIGEST, "trust": "fetched"},
    }


@pytest.mark.parametrize(("written", "listed"), [(0, 0), (1, 0), (2, 2), (5, 5), (7, 5)])
def test_two_to_five_queries_are_told_and_none_is_made_up(entry, written, listed):
    made = entry(examples=QUESTIONS[:written])
    assert made.get("representativeQueries", []) == QUESTIONS[:listed]


def test_hidden_characters_reach_no_reader(entry):
    hidden = "a\x1b[2J\u202eb\U000e0041\u200b\nc\ud800"
    made = entry(
        {"description": hidden, "facts": {"origin": hidden}},
        examples=[hidden, f"{hidden}2"],
        tags=(hidden, "\u200b", hidden),
        version=hidden,
    )
    shown = "a[2Jb c\ufffd"
    assert [made["description"], made["tags"], made["version"]] == [shown, [shown], shown]
    assert made["representativeQueries"] == [shown, f"{shown}2"]
    assert made["metadata"]["origin"] == shown


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4).map(tuple), st.data())
def test_different_paths_have_different_identifiers(path, data):
    other = data.draw(st.lists(st.text(min_size=1), min_size=1, max_size=4).map(tuple))
    mine, theirs = (identifier_of("example.org", of) for of in (path, other))
    assert is_identifier(mine)
    assert (mine == theirs) == (path == other)


@pytest.mark.parametrize("near", [("a:b",), ("a", "b"), ("a_3a_b",), ("a b",), ("a_20_b",)])
def test_no_spelling_of_one_path_is_another(near):
    every = [("a:b",), ("a", "b"), ("a_3a_b",), ("a b",), ("a_20_b",)]
    mine = identifier_of("x.org", near)
    assert [identifier_of("x.org", path) == mine for path in every].count(True) == 1


@pytest.mark.parametrize(
    "text",
    [
        *("", "urn:air:", "urn:air:x.org", "urn:air:x.org:", "urn:air:x.org:a b", "urn:air::a"),
        *("urn:ai:x.org:a:b", "urn:air:x.org:a\n", "x urn:air:x.org:a", "urn:air:x.org:ä"),
    ],
)
def test_what_is_no_identifier_is_told_from_one(text):
    assert not is_identifier(text)


@pytest.mark.parametrize(
    ("host", "publisher"),
    [
        ("Skills.Example.org", "skills.example.org"),
        ("example.org.", "example.org"),
        ("127.0.0.1", UNNAMED_PUBLISHER),
        ("::1", UNNAMED_PUBLISHER),
        ("0.0.0.0", UNNAMED_PUBLISHER),
        ("localhost", UNNAMED_PUBLISHER),
        ("-a.example", UNNAMED_PUBLISHER),
        ("a:b.example", UNNAMED_PUBLISHER),
        ("", UNNAMED_PUBLISHER),
    ],
)
def test_a_publisher_is_a_domain(host, publisher):
    """What is none has a name that the draft reserves; it forbids localhost."""
    assert publisher_of(host) == publisher


@pytest.mark.parametrize("nanoseconds", [-(1 << 63), 0, (1 << 63) - 1])
def test_every_time_that_a_file_can_have_is_told(entry, nanoseconds):
    assert "updatedAt" in entry({"changed_ns": nanoseconds})


def test_a_registry_is_an_entry_too(conforms):
    made = conforms("entry", registry_entry("example.org", "https://example.org/"))
    assert made["type"] == "application/ai-registry+json"
