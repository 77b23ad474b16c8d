"""Versions of skills and constraints on them."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skillsearch
from skillsearch.errors import SkillError, VersionConstraintError
from skillsearch.skills.versions import (
    normal_constraint,
    parse_version,
    release_order,
    satisfies,
    split_requirement,
)

SAME = {
    "1.0.0": "1",
    "v1": "1.0",
    "V2.1": "2.1",
    " 1.2 ": "1.2.0",
    "2.0-beta": "2.0b0",
    "1.0.0-rc.1": "1.0rc1",
    "2025.01": "2025.1",
    "1.10": "1.10.0",
}
NO_VERSIONS = ["", "one", "1.x", "2.7.6-canary.3", "2025-01-15", "\u0661", "1\0", "1" * 101]
NO_VERSIONS += ["9" * 9999]


def test_versions_are_read_as_authors_write_them():
    for text, same in SAME.items():
        assert parse_version(text) == parse_version(same) is not None
    assert [text for text in NO_VERSIONS if parse_version(text) is not None] == []


NORMAL = {
    "": "",
    "*": "",
    " latest ": "",
    " , ": "",
    ",>=1,,": ">=1",
    "1.2": "==1.2",
    "v1.2": "==1.2",
    "=1.2": "==1.2",
    "== 1.2.*": "==1.2.*",
    "1.x": "==1.*",
    "1.X.x": "==1.*",
    ">= v1.2 , <2": ">=1.2,<2",
    ">=1.2 <2": ">=1.2,<2",
    ">=1.2<2": ">=1.2,<2",
    "~=1.4": "~=1.4",
    "!=1.5": "!=1.5",
    "^1.2": ">=1.2,<2",
    "^1.x": ">=1,<2",
    "^1": ">=1,<2",
    "^0.2.3": ">=0.2.3,<0.3",
    "^0.0.3": ">=0.0.3,<0.0.4",
    "^0.0": ">=0.0,<0.1",
    "^0": ">=0,<1",
    "^2.0-beta.1": ">=2.0-beta.1,<3",
    "~1.2.3": ">=1.2.3,<1.3",
    "~1.2": ">=1.2,<1.3",
    "~1": ">=1,<2",
    "^1.2, !=1.5": ">=1.2,<2,!=1.5",
}


@pytest.mark.parametrize(("text", "normal"), NORMAL.items())
def test_a_constraint_has_one_regular_form(text, normal):
    assert normal_constraint(text) == normal
    assert normal_constraint(normal) == normal


BROKEN = [
    "new", ">", ">=", "===1.0", "~=1", ">=1.*", "1.2 || 2", "1.2 - 2.0", "^one", "^1.2foo", "<>1",
    "==1.2.*.3", "1!2.0", "\0", "1\u0661", ">=1," * 60, "9" * 9999,
]  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_constraint_is_named_with_an_example(text):
    with pytest.raises(VersionConstraintError, match=r">=1\.2,<2") as caught:
        normal_constraint(text)
    assert isinstance(caught.value, SkillError)
    assert caught.value.constraint == text
    assert text[:100] in str(caught.value) or not text.isprintable()
    assert len(str(caught.value)) < 400


SATISFIED = [
    ("1.2.0", "1.2", True),
    ("1.2.5", "1.2", False),
    ("1.2.5", "1.2.*", True),
    ("v1.5", ">=1,<2", True),
    ("2.0", ">=1,<2", False),
    ("1.9", "^1.2", True),
    ("2", "^1.2", False),
    ("0.2.9", "^0.2.3", True),
    ("0.3", "^0.2.3", False),
    ("1.10", ">1.9", True),
    ("1.4.7", "~=1.4", True),
    ("1.5", "!=1.5", False),
    ("2025.01", ">=2024", True),
    ("2.0-beta", ">=1", False),
    ("2.0-beta", "2.0b0", True),
    ("2.0rc1", ">=2.0-beta", True),
    ("2.0rc1", "^1.2", False),
    ("", "", True),
    ("one", "latest", True),
    ("", ">=0", False),
    ("one", "!=1", False),
]


@pytest.mark.parametrize(("version", "constraint", "expected"), SATISFIED)
def test_a_version_satisfies_a_constraint_or_not(version, constraint, expected):
    assert satisfies(version, constraint) is expected


def test_a_broken_constraint_is_an_error_whatever_the_version():
    with pytest.raises(VersionConstraintError):
        satisfies("one", "new")


RELEASES = st.lists(st.integers(0, 3), min_size=3, max_size=3)


@given(RELEASES, RELEASES)
def test_a_caret_allows_what_keeps_the_first_number_that_is_not_zero(least, release):
    fixed = next((position for position, number in enumerate(least) if number), 2) + 1
    expected = release >= least and release[:fixed] == least[:fixed]
    version, caret = (".".join(map(str, numbers)) for numbers in (release, least))
    assert satisfies(version, f"^{caret}") is expected


@given(RELEASES, RELEASES, RELEASES)
def test_a_range_is_compared_number_by_number(low, high, release):
    version, least, bound = (".".join(map(str, numbers)) for numbers in (release, low, high))
    assert satisfies(version, f">={least},<{bound}") is (low <= release < high)


@given(st.text(alphabet="0123.x*v^~<>=!, |-ab", max_size=12))
def test_any_constraint_is_read_or_refused(text):
    try:
        normal = normal_constraint(text)
    except VersionConstraintError:
        return
    assert normal_constraint(normal) == normal
    assert satisfies("1.2", text) is satisfies("1.2", normal)


@pytest.mark.parametrize(
    ("older", "newer"),
    [("1.9", "1.10"), ("2.0-beta", "1.0"), ("2.0-alpha", "2.0-beta"), ("v1", "1.0.1")],
)
def test_releases_are_newer_than_whatever_comes_before_one(older, newer):
    assert release_order(older) < release_order(newer)
    assert release_order("1.0") == release_order("v1")
    assert release_order("") is release_order("one") is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("pdf", ("pdf", "")),
        ("pdf@>=1,<2", ("pdf", ">=1,<2")),
        ("team:pdf @ ^1", ("team:pdf", "^1")),
        ("@org/pdf", ("@org/pdf", "")),
        ("@org/pdf@1", ("@org/pdf", "1")),
        ("a@b@1", ("a@b", "1")),
        ("a@1", ("a", "1")),
        ("pdf@", ("pdf", "")),
        ("", ("", "")),
    ],
)
def test_a_requirement_is_split_at_its_last_at_sign(text, parts):
    assert split_requirement(text) == parts


def test_a_constraint_that_allows_all_needs_no_parser():
    code = "import sys; from skillsearch.skills.versions import satisfies;"
    code += "assert satisfies('1', '*'); assert 'packaging' not in sys.modules"
    folder = Path(skillsearch.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=folder)
