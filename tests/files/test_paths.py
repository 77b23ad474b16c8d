"""Tests of the path rule."""

import os
import posixpath
from pathlib import Path, PurePosixPath
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillsearch.errors import UnsafePathError
from skillsearch.files import paths
from skillsearch.files.paths import MAX_PATH_CHARS, confine, is_utf8, printable, shown

SAFE = {
    "references/guide.md": "references/guide.md",
    "./references//guide.md": "references/guide.md",
    "references%2Fguide.md": "references/guide.md",
    "%72eferences/guide.md": "references/guide.md",
    "a%20b.md": "a b.md",
    "50%.md": "50%.md",
    "%252e%252e/x": "%2e%2e/x",
    "..a/b..c": "..a/b..c",
    "references\\win.md": "references/win.md",
    ".\\references%5Cwin.md": "references/win.md",
    "技能.md": "技能.md",
    "%E6%8A%80.md": "技.md",
    "~/x": "~/x",
    "...": "...",
}


@pytest.mark.parametrize(("path", "plain"), SAFE.items())
def test_safe_paths_are_decoded_once(path, plain):
    assert confine(path) == PurePosixPath(plain)


REASONS = {
    "": "names no file",
    "%2e/": "names no file",
    "a/..": "climbs with '..'",
    "a\\..\\b": "climbs with '..'",
    "\\x": "is absolute",
    "%2e%2e/x": "climbs with '..'",
    "/x": "is absolute",
    ".//./C:x": "begins with a drive of Windows",
    "c%3a/x": "begins with a drive of Windows",
    "a%00b": "characters that no file name should have",
    "\ud800": "characters that no file name should have",
    "x" * 1025: "more than 1024 characters",
}


@pytest.mark.parametrize(("path", "reason"), REASONS.items(), ids=range(len(REASONS)))
def test_a_refusal_says_why_and_what_to_ask_for(path, reason):
    with pytest.raises(UnsafePathError, match=rf"^The path '.*' .*{reason}.*references/guide\.md"):
        confine(path)


def test_the_limit_holds_for_the_decoded_path_and_what_is_far_too_long_is_not_decoded(monkeypatch):
    """A path of 1024 characters may need twelve times as many to be written."""
    longest = "🫖" * MAX_PATH_CHARS
    assert confine(quote(longest)) == PurePosixPath(longest)
    with pytest.raises(UnsafePathError, match="more than 1024"):
        confine(quote(longest) + "x")
    monkeypatch.setattr(paths, "unquote", None)
    with pytest.raises(UnsafePathError, match="more than 1024"):
        confine("%25%c3" * 1_000_000)


FOLDERS = ("references", "assets", "scripts")


@pytest.mark.parametrize(
    "path",
    ["SKILL.md", "Assets/a", "SCRIPTS/b", "referencesx/c", "x/references/c", "assets%252fa", "~/a"],
)
def test_a_path_passes_below_an_allowed_folder_alone(path):
    with pytest.raises(UnsafePathError, match="not below references/ or assets/ or scripts/; ask"):
        confine(path, FOLDERS)
    with pytest.raises(UnsafePathError, match="climbs"):
        confine("references/../SKILL.md", FOLDERS)
    for allowed in ("assets/a", "./scripts//b", "%72eferences/c", "references"):
        assert confine(allowed, FOLDERS) == confine(allowed)


NASTY = st.lists(
    st.one_of(
        st.sampled_from(["..", ".", "", "%2e", "%2E%2e", "%2f", "%", "%25", "\\", "C:", "\0", "a"]),
        st.text(max_size=3),
    ),
    max_size=8,
)


@given(path=st.one_of(NASTY.map("/".join), NASTY.map("".join)))
def test_what_passes_stays_below_its_folder_and_passes_again(path):
    try:
        plain = confine(path)
    except UnsafePathError:
        return
    written = str(plain)
    assert posixpath.normpath(posixpath.join("/skill", written)) == f"/skill/{written}"
    assert confine(quote(os.fsencode(written))) == plain


def test_any_path_can_be_printed_on_one_line_and_not_without_end():
    odd = os.fsdecode(b"/skills/caf\xe9.md")
    assert is_utf8("/skills/café.md")
    assert not is_utf8(odd)
    assert printable(Path(odd)) == "/skills/caf\\udce9.md"
    assert printable(PurePosixPath("/skills/café.md")) == "/skills/café.md"
    assert shown("a\n\u202eb") == r"'a\n\u202eb'"
    assert len(shown("x" * 10_000)) == 202
