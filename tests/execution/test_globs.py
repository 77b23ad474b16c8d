"""Tests of the patterns for output files."""

import posixpath
from contextlib import suppress

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from wcmatch import glob as oracle

from skillsearch.errors import WorkspaceError
from skillsearch.execution.workspaces.globs import (
    FOLDERS,
    MAX_EXPANDED,
    MAX_PATTERN_CHARS,
    MAX_PATTERNS,
    matcher,
    normalize,
    working_folder,
)

NORMAL = {
    "out/*.txt": "out/*.txt",
    "$OUTPUT_DIR/*.txt": "out/*.txt",
    "${OUTPUT_DIR}/**": "out/**",
    "$OUTPUT_DIR": "out",
    "$WORK_DIR/a": "work/a",
    "$SKILLS_DIR/x/y": "skills/x/y",
    "$WORKSPACE_DIR/a.txt": "a.txt",
    "$WORKSPACE_DIR/": "**",
    "./out//./a": "out/a",
    "out/": "out/**",
    "out/$x": "out/$x",
    "{out,work}/*": "{out,work}/*",
}


def arrive(step, path):
    for name in path.split("/"):
        step = step.below(name)
    return step


def matches(patterns, path):
    return arrive(patterns, path).is_match


def may_lie_below(patterns, folder):
    return arrive(patterns, folder).goes_on


@pytest.mark.parametrize(("pattern", "plain"), NORMAL.items())
def test_patterns_are_relative_to_the_workspace(pattern, plain):
    assert normalize(pattern) == plain
    assert normalize("$RUN_DIR/x", {**FOLDERS, "RUN_DIR": "runs/run_1"}) == "runs/run_1/x"


REFUSED = {
    "": "names no file",
    ".": "names no file",
    "{/etc,out}/x": "is absolute",
    "out/../../x": "climbs",
    "$OUTPUT_DIR/../x": "climbs",
    "{.,x}./a": "climbs",
    "a\\b": "backslash",
    "a\0b": "characters",
    "a\nb": "characters",
    "a\ud800": "characters",
    "a" * (MAX_PATTERN_CHARS + 1): "more than 1024 characters",
    "$HOME/x": "not known; use $OUTPUT_DIR, $SKILLS_DIR, $WORKSPACE_DIR, $WORK_DIR",
    "$RUN_DIR/x": "not known",
    "$OUTPUT_DIRx": "not known",
    "${OUTPUT_DIR/x": "not known",
    "out/{a,b": "has a '{' without",
    "out/a}": "has a '}' without",
    "out/[ab": "has a '[' without",
    "out/[]": "which no character is in",
    "out/[!]": "which no character is in",
    "out/[z-a]": "which no character is in",
    "out/[a/b]": "'/' between '[' and ']'",
    "{{a,b},{c,d}}" * 10: "too many",
    "{" + "," * MAX_EXPANDED + "}x": "too many",
    "{a,b,c,d,e,f,g,h,i,j}" + "x" * 1000: "too many",
}


@pytest.mark.parametrize(("pattern", "reason"), REFUSED.items(), ids=range(len(REFUSED)))
def test_a_refused_pattern_is_named_with_the_reason(pattern, reason):
    with pytest.raises(WorkspaceError) as caught:
        matcher((pattern,))
    assert reason in str(caught.value)
    assert repr(pattern[:200]) in str(caught.value)


def test_the_number_of_patterns_is_bounded():
    matcher(["out/x"] * MAX_PATTERNS)
    with pytest.raises(WorkspaceError, match="101 patterns, and 100 are allowed"):
        matcher(["out/x"] * (MAX_PATTERNS + 1))
    with pytest.raises(WorkspaceError, match="too many"):
        matcher([f"{number}{{a,b,c,d}}" for number in range(MAX_EXPANDED // 4 + 1)])


MATCHES = [
    ("out/*.txt", "out/a.txt", True),
    ("out/*.txt", "out/b/a.txt", False),
    ("out/*.txt", "out/A.TXT", False),
    ("out/**", "out/a/b/c", True),
    ("out/**", "work/a", False),
    ("**/x", "x", True),
    ("**/x", "a/xx", False),
    ("out/**.txt", "out/b/a.txt", False),
    ("a/**/b/**/c", "a/x/b/y/z/c", True),
    ("**/**/**", "a/b", True),
    ("?", "ä", True),
    ("?", "ab", False),
    ("[a-c]x", "bx", True),
    ("[!a-c]x", "bx", False),
    ("[^a-c]x", "dx", True),
    ("[a-]", "-", True),
    ("[-a]", "-", True),
    ("[*]", "*", True),
    ("[{]", "{", True),
    ("[$]x", "$x", True),
    ("{a,b{c,d}}.txt", "bd.txt", True),
    ("{a,}x", "x", True),
    ("{out/a,work}/x", "out/a/x", True),
    ("a,b", "a,b", True),
    ("a(b|c)+", "ab", False),
    ("*", "a\nb", True),
    ("*a*b", "xxbxxa", False),
    ("*?*", "", False),
]


@pytest.mark.parametrize(("pattern", "path", "expected"), MATCHES)
def test_patterns_mean_what_doublestar_says(pattern, path, expected):
    assert matches(matcher((pattern,)), path) is expected


NAMES = st.text("ab.-", min_size=1, max_size=4).filter(lambda name: name not in {".", ".."})
PARTS = st.lists(
    st.sampled_from(["a", "b", ".", "-", "*", "?", "[ab]", "[!a]", "[a-b]", "**"]),
    min_size=1,
    max_size=5,
).map("".join)
PATTERNS = st.lists(PARTS | st.just("**"), min_size=1, max_size=5).map("/".join)
FLAGS = oracle.GLOBSTAR | oracle.BRACE | oracle.FORCEUNIX | oracle.CASE


@given(PATTERNS, st.lists(NAMES, min_size=1, max_size=5).map("/".join), st.booleans())
def test_matching_agrees_with_another_library(pattern, path, hidden):
    """Wcmatch has the same rules where ``**`` stands alone and no part is ``.`` or ``..``."""
    parts = pattern.split("/")
    assume(not {".", ".."} & set(parts))
    if parts[-1] == "**":
        parts += ["*"]  # at the end wcmatch lets it stand for the folder itself only with a slash
        path += "/a"
    pattern = "/".join(parts)
    flags = FLAGS | oracle.DOTGLOB if hidden else FLAGS
    is_match = matches(matcher((pattern,), hidden=hidden), path)
    assert is_match == oracle.globmatch(path, pattern, flags=flags)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**", {"out/a"}),
        ("*/*", {"out/a"}),
        ("?*/**", {"out/a"}),
        ("[.o]*/*", {"out/a"}),
        ("**/.env", {"out/.env"}),
        (".git/**", {".git/config"}),
        (".*", {".bashrc"}),
        ("{.git,out}/{*,.*}", {".git/config", "out/a", "out/.env"}),
    ],
)
def test_a_wildcard_can_be_kept_from_hidden_names(pattern, expected):
    paths = {"out/a", "out/.env", ".bashrc", ".git/config", ".git/hooks/.x"}
    shown = matcher((pattern,), hidden=False)
    assert {path for path in paths if matches(shown, path)} == expected


@given(st.text("ab*", min_size=1, max_size=3), st.lists(PATTERNS, min_size=1, max_size=4))
def test_several_patterns_match_what_one_of_them_matches(name, patterns):
    assume(not any({".", ".."} & set(pattern.split("/")) for pattern in patterns))
    expected = any(matches(matcher((pattern,)), f"a/{name}") for pattern in patterns)
    assert matches(matcher(patterns), f"a/{name}") is expected
    assert matches(matcher((f"{{{','.join(patterns)}}}",)), f"a/{name}") is expected


@given(PATTERNS, st.lists(NAMES, min_size=2, max_size=5))
def test_a_folder_of_a_match_is_one_to_look_into(pattern, names):
    assume(not {".", ".."} & set(pattern.split("/")))
    start = matcher((pattern,))
    if matches(start, "/".join(names)):
        assert all(may_lie_below(start, "/".join(names[:end])) for end in range(1, len(names)))


def test_folders_without_a_match_are_told_from_those_with_one():
    start = matcher(("out/a/*.txt", "work/**/x"))
    looked_into = ("out", "out/a", "work", "work/b/c", "out/b", "out/a/b", "skills", "runs")
    assert [may_lie_below(start, folder) for folder in looked_into] == [True] * 4 + [False] * 4


def test_the_names_that_come_next_are_known_where_all_are_plain():
    start = matcher(("out/a/*.txt", "work", "out/b"))
    assert start.next_names == {"out", "work"}
    assert start.below("out").next_names == {"a", "b"}
    assert start.below("out").below("a").next_names is None
    assert start.below("work").next_names == frozenset()
    assert matcher(("**/a",)).next_names is None


HARD = [
    ("**/" * 200 + "a*a*a*a*b", "/".join(["a" * 100] * 32)),
    ("*a" * 400 + "b", "a" * 255),
    ("**/a/" * 100 + "b", "/".join(["a"] * 500)),
    ("*" + "?a" * 100 + "*b", "a" * 255),
]


@pytest.mark.parametrize(("pattern", "path"), HARD, ids=range(len(HARD)))
@pytest.mark.timeout(120)
def test_hard_patterns_are_matched_fast(pattern, path):
    assert not matches(matcher((pattern,)), path)
    patterns = [f"**/*{'?[ab]*' * 12}{number:03}" for number in range(MAX_PATTERNS)]
    assert matches(matcher(patterns), "x/" + "ab" * 12 + "042")
    assert not matches(matcher(()), path)
    assert not matcher(()).goes_on


@given(st.text(max_size=60) | st.text("{},[]!-*?/.$ab", max_size=60))
def test_any_text_is_a_pattern_or_refused(pattern):
    with suppress(WorkspaceError):
        matches(matcher((pattern,)), "out/a.txt")


VARIABLES = {**FOLDERS, "RUN_DIR": "runs/run_1"}


def resolve(cwd):
    folder = working_folder(cwd, "skills/tea", VARIABLES)
    return folder and str(folder)


@pytest.mark.parametrize(
    ("cwd", "folder"),
    [
        ("", "skills/tea"),
        ("./scripts//deep/../", "skills/tea/scripts"),
        ("out", "out"),
        ("inputs/a", "work/inputs/a"),
        ("outer", "skills/tea/outer"),
        ("$WORK_DIR/a/b", "work/a/b"),
        ("${OUTPUT_DIR}", "out"),
        ("$SKILLS_DIR/other/out/x", "out/x"),
        ("$WORKSPACE_DIR", "."),
        ("$WORKSPACE_DIR/runs", "runs"),
        ("$RUN_DIR", "runs/run_1"),
        ("$WORK_DIRECTORY", "skills/tea/$WORK_DIRECTORY"),
        ("${WORK_DIR", "skills/tea/${WORK_DIR"),
        ("/skills/tea/work", "work"),
        ("//work/", "work"),
        ("/runs/../work", "work"),
    ],
)
def test_a_folder_of_the_workspace_is_found(cwd, folder):
    assert resolve(cwd) == folder


@pytest.mark.parametrize(
    "cwd", ["..", "a/../../b", "$WORK_DIR/..", "/", "/work/../etc", "/workspace", "a\nb", "\udc80"]
)
def test_all_else_is_refused(cwd):
    assert resolve(cwd) is None


_PARTS = st.sampled_from(
    ["..", ".", "", "out", "work", "skills", "tea", "$WORK_DIR", "${RUN_DIR}", "~", "\\", "..."]
)


@given(st.lists(_PARTS, max_size=8).map("/".join) | st.text(max_size=20))
@example("/..//work")
def test_a_folder_never_lies_outside(cwd):
    folder = resolve(cwd)
    if folder is not None:
        assert not folder.startswith("/")
        assert posixpath.normpath(folder) == folder
        assert ".." not in folder.split("/")
