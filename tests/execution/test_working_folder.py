"""Where a command runs."""

import posixpath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillsearch.execution.globs import FOLDERS
from skillsearch.execution.working_folder import working_folder

VARIABLES = {**FOLDERS, "RUN_DIR": "runs/run_1"}


def resolve(cwd):
    """Return the folder that is meant, as text, or None."""
    found = working_folder(cwd, "skills/tea", VARIABLES)
    return found and str(found)


@pytest.mark.parametrize(
    ("cwd", "folder"),
    [
        ("", "skills/tea"),
        (".", "skills/tea"),
        ("scripts", "skills/tea/scripts"),
        ("./scripts//deep/../", "skills/tea/scripts"),
        ("out", "out"),
        ("work/sub", "work/sub"),
        ("inputs/a", "work/inputs/a"),
        ("outer", "skills/tea/outer"),
        ("$WORK_DIR", "work"),
        ("$WORK_DIR/a/b", "work/a/b"),
        ("${OUTPUT_DIR}", "out"),
        ("${OUTPUT_DIR}/x", "out/x"),
        ("$SKILLS_DIR/other", "skills/other"),
        ("$SKILLS_DIR/other/out/x", "out/x"),
        ("$WORKSPACE_DIR", "."),
        ("$WORKSPACE_DIR/runs", "runs"),
        ("$RUN_DIR", "runs/run_1"),
        ("$WORK_DIRECTORY", "skills/tea/$WORK_DIRECTORY"),
        ("$HOME/x", "skills/tea/$HOME/x"),
        ("${WORK_DIR", "skills/tea/${WORK_DIR"),
        ("/skills/tea", "skills/tea"),
        ("/skills/tea/work", "work"),
        ("/work", "work"),
        ("//work/", "work"),
        ("/out/a", "out/a"),
        ("/runs/../work", "work"),
    ],
)
def test_a_folder_of_the_workspace_is_found(cwd, folder):
    """By what is relative to the skill, a variable, or the workspace as the root."""
    assert resolve(cwd) == folder


@pytest.mark.parametrize(
    "cwd",
    [
        "..",
        "../other",
        "a/../../b",
        "$WORK_DIR/..",
        "$RUN_DIR/../../..",
        "/",
        "/etc",
        "/work/../etc",
        "/workspace",
        "/../../etc/passwd",
        "a\0b",
        "a\nb",
        "\udc80",
    ],
)
def test_all_else_is_refused(cwd):
    """What climbs, what is absolute elsewhere, and what cannot be a name."""
    assert resolve(cwd) is None


_PARTS = st.sampled_from(
    [
        "..",
        ".",
        "",
        "a",
        "out",
        "work",
        "skills",
        "tea",
        "$WORK_DIR",
        "${RUN_DIR}",
        "~",
        "\\",
        "...",
    ]
)


@given(st.lists(_PARTS, max_size=8).map("/".join) | st.text(max_size=20))
@example("/..//work")
def test_a_folder_never_lies_outside(cwd):
    """Whatever is asked for, it is a plain path below the workspace."""
    found = resolve(cwd)
    if found is not None:
        assert not found.startswith("/")
        assert posixpath.normpath(found) == found
        assert ".." not in found.split("/")
