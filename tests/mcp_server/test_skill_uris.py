"""The URIs of skills: made, taken apart, and unique."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.mcp_server.skill_uris import (
    MAX_URI_CHARS,
    authorities,
    make_uri,
    skill_path,
    split_uri,
)

SEGMENT = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1)
PLAIN = SEGMENT.filter(lambda segment: segment not in {".", ".."})


def test_everything_but_plain_characters_is_encoded():
    uri = make_uri(("skills", "a b%20", "周报?", "x_y-z.md~"))
    assert uri == "skill://skills/a%20b%2520/%E5%91%A8%E6%8A%A5%3F/x_y-z.md~"


@given(st.lists(PLAIN, min_size=1, max_size=5).map(tuple))
def test_taking_a_uri_apart_undoes_its_making(segments):
    assert split_uri(make_uri(segments)) == segments


@given(st.text(max_size=60))
def test_no_part_leads_anywhere(text):
    for part in split_uri(f"skill://{text}"):
        assert part not in {"", ".", ".."}
        assert "/" not in part


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "skill:",
        "skill://",
        "skill:///etc/passwd",
        "SKILL://a/b",
        "file:///etc/passwd",
        "skill://a/",
        "skill://a//b",
        "skill://a/../b",
        "skill://a/%2e%2e/b",
        "skill://a/%2E/b",
        "skill://a/b%2Fc",
        "skill://a/b?c",
        "skill://a/b#c",
        "skill://a/%FF",
        "skill://a/" + "b" * MAX_URI_CHARS,
    ],
)
def test_a_uri_that_we_cannot_have_made_has_no_parts(uri):
    assert split_uri(uri) == ()


@pytest.mark.parametrize(
    ("alias", "authority"),
    [
        ("skills", "skills"),
        ("My Skills", "my-skills"),
        (".claude/skills", "claude-skills"),
        ("Größe", "groe"),
        ("周报", "skills"),
        ("index.json", "index-json"),
        ("a" * 300, "a" * 63),
    ],
)
def test_an_alias_becomes_an_authority(alias, authority):
    assert authorities([alias]) == {alias: authority}


def test_aliases_that_look_the_same_stay_apart():
    expected = {"A b": "a-b", "a b": "a-b-2", "a-b": "a-b-3"}
    assert authorities(["a-b", "a b", "A b"]) == authorities(["A b", "a b", "a-b"]) == expected


@given(st.sets(st.text(max_size=10), max_size=8))
def test_authorities_are_unique_names(aliases):
    names = authorities(aliases)
    assert names.keys() == aliases
    assert len(set(names.values())) == len(aliases)
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name) for name in names.values())


@pytest.mark.parametrize(
    ("folder", "name", "path", "is_renamed"),
    [
        ("pdf", "pdf", ("skills", "pdf"), False),
        ("office/pdf", "pdf", ("skills", "office", "pdf"), False),
        ("office/pdf_tools", "pdf", ("skills", "office", "pdf_tools", "pdf"), True),
        (".", "pdf", ("skills", "pdf"), True),
        (".", "skills", ("skills",), False),
    ],
)
def test_the_path_of_a_skill_ends_in_its_name(folder, name, path, is_renamed):
    assert skill_path("skills", folder, name) == (path, is_renamed)
