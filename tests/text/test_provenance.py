"""Tests of the words for where a skill comes from."""

from pathlib import Path

import pytest

from skillsearch.text.provenance import (
    body_warning,
    left_out,
    left_out_for_model,
    record_of_source,
    source_tag,
)
from skillsearch.types.skills import Root

URL = "https://x.org/a.zip"
HOSTILE = "https://x.org/\u202ea\x1b[31m\n.zip"


def root(trust, origin=""):
    return Root(Path("/skills"), "skills", trust, origin)


@pytest.mark.parametrize(
    ("trust", "origin", "tag", "line"),
    [
        ("vetted", "", "", ""),
        ("vetted", URL, "", ""),
        ("project", "", "[project]", "From a project root: nobody has vouched for it."),
        (
            "fetched",
            URL,
            f"[fetched: {URL}]",
            f"From a fetched root ({URL}): nobody has vouched for it.",
        ),
        (
            "fetched",
            HOSTILE,
            "[fetched: https://x.org/a[31m .zip]",
            "From a fetched root (https://x.org/a[31m .zip): nobody has vouched for it.",
        ),
    ],
)
def test_only_a_root_that_nobody_vouches_for_is_spoken_of(trust, origin, tag, line):
    assert (source_tag(root(trust, origin)), body_warning(trust, origin)) == (tag, line)


def test_a_record_names_trust_and_origin_if_there_is_something_to_know():
    assert record_of_source(root("vetted", URL)) == {}
    assert record_of_source(root("project")) == {"trust": "project"}
    assert record_of_source(root("fetched", URL)) == {"trust": "fetched", "origin": URL}


def test_those_left_out_are_counted_in_a_sentence():
    assert left_out(0) == left_out_for_model(0) == ""
    assert left_out(1).startswith("1 skill of an unvetted root fits too; vouch for")
    assert left_out(2).startswith("2 skills of unvetted roots fit too; vouch for")
    assert left_out_for_model(1) == (
        "1 skill fits too but is left out: nobody has vouched for where it comes from. "
        "Only the user may, with `skillsearch index --trust ROOT=vetted`."
    )
    assert "\n" not in left_out_for_model(2)
