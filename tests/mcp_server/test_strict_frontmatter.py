"""A frontmatter that all hosts read alike, and those that they would not."""

import pytest

from skillsearch.mcp_server.publication import strict_frontmatter
from skillsearch.skills.findings import Finding

GOOD = b"---\nname: steep-tea\ndescription: Steep tea.\n---\nUse 80 C.\n"
GOOD_FIELDS = {"name": "steep-tea", "description": "Steep tea."}


@pytest.mark.parametrize(
    "data",
    [GOOD, b"\xef\xbb\xbf" + GOOD, GOOD.replace(b"\n", b"\r\n"), GOOD.replace(b"Use", b"---\nUse")],
    ids=["plain", "mark", "windows", "ruler"],
)
def test_a_plain_frontmatter_is_read(data):
    assert strict_frontmatter(data) == GOOD_FIELDS


def test_a_placeholder_is_read_alike_everywhere():
    fields = strict_frontmatter(GOOD.replace(b"Steep", b"Steep {{green}}"))
    assert fields == {**GOOD_FIELDS, "description": "Steep {{green}} tea."}


def test_every_field_is_kept_as_it_was_written():
    fields = (
        b"license: MIT\nsince: 2026-01-02\nversion: 1.10\ncount: 3\nnothing: null\n"
        b"metadata:\n  tags: [a, b]\n  deep:\n    on: true\n---\n"
    )
    assert strict_frontmatter(GOOD.replace(b"---\nUse", fields + b"Use")) == {
        **GOOD_FIELDS,
        "license": "MIT",
        "since": "2026-01-02",
        "version": "1.10",
        "count": 3,
        "nothing": None,
        "metadata": {"tags": ["a", "b"], "deep": {"on": True}},
    }


def swap(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"# Tea\n", "frontmatter-unreadable"),
        (swap(b"---\nUse", b"Use"), "frontmatter-unreadable"),
        (swap(b"Steep tea.", b"Steep: tea: now"), "frontmatter-unreadable"),
        (swap(b"Steep tea.", b"&a Steep\nb: *a"), "frontmatter-unreadable"),
        (swap(b"name:", b"name: other\nname:"), "frontmatter-unreadable"),
        (swap(b"Steep", b"Steep #green"), "frontmatter-unreadable"),
        (swap(b"description:", b"Description:"), "frontmatter-unreadable"),
        (swap(b"Steep", b"St\xe9ep"), "frontmatter-unreadable"),
        (swap(b"name: steep-tea\n", b""), "name-missing"),
        (swap(b"steep-tea", b"12"), "name-not-text"),
        (swap(b"steep-tea", b"Steep-Tea"), "name-characters"),
        (swap(b"steep-tea", b"steep--tea"), "name-hyphens"),
        (swap(b"steep-tea", b"t" * 65), "name-too-long"),
        (swap(b"Steep tea.", b"[Steep, tea]"), "description-not-text"),
        (swap(b"Steep tea.", b"' '"), "description-not-text"),
        (swap(b"Steep tea.", b"t" * 1025), "description-too-long"),
        (swap(b"---\nUse", b"compatibility: [a]\n---\n"), "compatibility-not-text"),
        (swap(b"---\nUse", b"compatibility: " + b"c" * 501 + b"\n---\n"), "compatibility-too-long"),
    ],
)
def test_what_hosts_would_not_agree_on_is_refused(data, code):
    finding = strict_frontmatter(data)
    assert isinstance(finding, Finding)
    assert (finding.code, finding.severity) == (code, "warning")
    assert finding.message
    assert "\n" not in finding.message


def test_the_longest_name_and_description_are_taken():
    data = swap(b"steep-tea", b"t" * 64).replace(b"Steep tea.", b"t" * 1024)
    assert strict_frontmatter(data) == {"name": "t" * 64, "description": "t" * 1024}


def test_a_name_in_another_script_is_no_fault_but_not_taken_everywhere():
    finding = strict_frontmatter(swap(b"steep-tea", "周报".encode()))
    assert (finding.code, finding.severity) == ("name-not-ascii", "note")
