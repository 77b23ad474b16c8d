"""Tests of collecting the files that a command left."""

import itertools
import os
import shutil
import socket
import threading
import time
import tracemalloc
from functools import partial

import pytest

from skillsearch.errors import WorkspaceError
from skillsearch.execution.types import OutputFile, OutputSpec
from skillsearch.execution.workspaces import outputs
from skillsearch.execution.workspaces.outputs import (
    CollectedFile,
    FileCollection,
    collect,
    output_file,
    primary_output,
    without_empty,
)

ALL = OutputSpec(("out/**",))


def write(workspace, **files):
    for name, data in files.items():
        (workspace.out / name).write_bytes(data)


def names(collected):
    return [file.name for file in collected.files]


def test_files_that_match_are_collected_by_name(workspace):
    write(workspace, b=b"b\n", a=b'{"a": 1}', c=b"\0")
    (workspace.out / "sub").mkdir()
    (workspace.out / "sub" / "d.csv").write_bytes(b"x,y\n")
    (workspace.work / "e").write_bytes(b"e")
    assert collect(workspace, OutputSpec(("out/**", "$OUTPUT_DIR/a", "*/b"))) == FileCollection(
        (
            CollectedFile("out/a", b'{"a": 1}', 8, "application/json", False),
            CollectedFile("out/b", b"b\n", 2, "text/plain", False),
            CollectedFile("out/c", b"\0", 1, "application/octet-stream", False),
            CollectedFile("out/sub/d.csv", b"x,y\n", 4, "text/csv", False),
        ),
        (),
        False,
    )


def test_the_links_of_a_staged_skill_and_the_metadata_of_the_workspace_are_no_output(workspace):
    skill = workspace.skills / "tea"
    skill.mkdir()
    (skill / "SKILL.md").write_bytes(b"# Tea")
    for name, target in (("out", "../../out"), ("work", "../../work")):
        (skill / name).symlink_to(target)
    (skill / "inputs").symlink_to("../../work/inputs")
    write(workspace, a=b"a")
    collected = collect(workspace, OutputSpec(("**", "skills/**")))
    assert names(collected) == ["out/a", "skills/tea/SKILL.md"]
    assert collected.warnings == ()
    (workspace.path / ".skillsearch-1234").write_bytes(b"{}")
    (workspace.path / "result.txt").write_bytes(b"x")
    (workspace.out / "metadata.json").write_bytes(b"{}")
    outputs = names(collect(workspace, OutputSpec(("**",))))
    assert outputs == ["out/a", "out/metadata.json", "result.txt", "skills/tea/SKILL.md"]


@pytest.mark.parametrize("pattern", ["out/**", "out/link", "out/link/*"])
@pytest.mark.parametrize("to", ["file", "folder", "chain", "itself", "nowhere"])
def test_a_planted_link_is_reported_and_never_followed(workspace, secret, pattern, to):
    (workspace.work / "hop").symlink_to(secret)
    targets = {
        "file": secret,
        "folder": secret.parent,
        "chain": "../work/hop",
        "itself": "link",
        "nowhere": "/nonexistent",
    }
    (workspace.out / "link").symlink_to(targets[to])
    collected = collect(workspace, OutputSpec((pattern,)))
    assert collected.files == ()
    assert "'out/link' was not collected: it is a link." in collected.warnings


def test_a_folder_of_the_workspace_that_became_a_link_is_not_entered(workspace, secret):
    (workspace.out / "link").symlink_to(secret)
    write(workspace, **{"a.txt": b"a"})
    collected = collect(workspace, OutputSpec(("out/*.txt",)))
    assert (names(collected), collected.warnings) == (["out/a.txt"], ())  # nobody asked for it
    shutil.rmtree(workspace.out)
    workspace.out.mkdir()
    workspace.out.rmdir()
    workspace.out.symlink_to(secret.parent)
    collected = collect(workspace, ALL)
    assert collected.files == ()
    assert collected.warnings == ("'out' was not collected: it is a link.",)


def test_special_files_are_reported_and_block_nothing(workspace):
    os.mkfifo(workspace.out / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    here = os.open(workspace.out, os.O_RDONLY)
    try:
        listener.bind(f"/proc/self/fd/{here}/socket")
        collected = collect(workspace, ALL)
    finally:
        os.close(here)
        listener.close()
    assert collected.files == ()
    assert collected.warnings == (
        "'out/fifo' was not collected: it is not a plain file.",
        "'out/socket' was not collected: it is not a plain file.",
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_hard_link_to_the_file_of_another_user_is_refused(workspace, secret):
    os.link(secret, workspace.out / "a")
    os.chown(secret, 65534, 65534)
    collected = collect(workspace, ALL)
    assert collected.files == ()
    assert collected.warnings == (
        "'out/a' was not collected: it is a hard link to the file of another user.",
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_reported(workspace):
    write(workspace, a=b"a", b=b"b")
    (workspace.out / "a").chmod(0)
    collected = collect(workspace, ALL)
    assert names(collected) == ["out/b"]
    assert collected.warnings == ("'out/a' was not collected: it may not be read.",)


def test_a_file_with_two_names_is_collected_once(workspace):
    write(workspace, a=b"a")
    os.link(workspace.out / "a", workspace.out / "b")
    collected = collect(workspace, ALL)
    assert names(collected) == ["out/a"]
    assert collected.warnings == ("'out/b' is the same file as 'out/a', collected once.",)


def test_a_name_that_could_hide_something_is_reported_and_shown_escaped(workspace, secret):
    (workspace.out / "a\n\x1b[2Jb\u202e").symlink_to(secret)
    os.mkdir(os.fsencode(workspace.out) + b"/dir-\xfe")  # noqa: PTH102
    for name in (b"/bad-\xff", b"/dir-\xfe/a"):
        os.close(os.open(os.fsencode(workspace.out) + name, os.O_CREAT | os.O_WRONLY, 0o600))
    collected = collect(workspace, ALL)
    assert collected.files == ()
    assert collected.warnings == (
        r"'out/a\n\x1b[2Jb\u202e' was not collected: it is a link.",
        r"'out/bad-\udcff' was not collected: its name is not UTF-8.",
        r"'out/dir-\udcfe' was not collected: its name is not UTF-8.",
    )


def test_a_file_is_cut_at_its_limit_and_no_earlier(workspace):
    write(workspace, a=b"x" * 10, b=b"y" * 11)
    collected = collect(workspace, OutputSpec(("out/*",), max_file_bytes=10))
    exact, cut = collected.files
    assert (exact.data, exact.size, exact.truncated) == (b"x" * 10, 10, False)
    assert (cut.data, cut.size, cut.truncated) == (b"y" * 10, 11, True)
    assert collected.warnings == ("'out/b' is cut to 10 of 11 bytes.",)
    assert collected.limits_hit


def test_a_sparse_file_of_five_gigabytes_costs_no_more_than_its_limit(workspace):
    with (workspace.out / "huge").open("wb") as file:
        file.truncate(5 << 30)
    (huge,) = collect(workspace, ALL).files
    assert (len(huge.data), huge.size, huge.truncated) == (4 << 20, 5 << 30, True)


def test_the_number_of_files_is_limited(workspace):
    write(workspace, **{f"f{number}": b"x" for number in range(9)})
    collected = collect(workspace, OutputSpec(("out/*",), max_files=3))
    assert names(collected) == ["out/f0", "out/f1", "out/f2"]
    assert collected.warnings == ("max_files is 3; matching files that were not collected: 6.",)
    assert collected.limits_hit
    assert not collect(workspace, OutputSpec(("out/*",), max_files=9)).limits_hit
    (workspace.out / "a").symlink_to("f0")  # what is left out does not count
    collected = collect(workspace, OutputSpec(("out/a", "out/f0"), max_files=1))
    assert (names(collected), collected.limits_hit) == (["out/f0"], False)


def test_the_bytes_of_all_files_are_limited(workspace):
    write(workspace, a=b"a" * 6, b=b"b" * 6, c=b"c")
    collected = collect(workspace, OutputSpec(("out/*",), max_total_bytes=10))
    assert [(file.data, file.truncated) for file in collected.files] == [
        (b"aaaaaa", False),
        (b"bbbb", True),
    ]
    assert collected.warnings == (
        "max_total_bytes is 10; matching files that were not collected: 1.",
        "'out/b' is cut to 4 of 6 bytes.",
    )
    assert collected.limits_hit


@pytest.mark.parametrize("limit", ["max_files", "max_file_bytes", "max_total_bytes"])
@pytest.mark.parametrize("value", [0, 1 << 40])
def test_limits_that_mean_nothing_and_a_workspace_that_is_gone_are_refused(workspace, limit, value):
    with pytest.raises(WorkspaceError, match=f"{limit} is {value}; give a number from 1 to"):
        collect(workspace, OutputSpec(("out/*",), **{limit: value}))
    workspace.close()
    with pytest.raises(WorkspaceError, match="gone"):
        collect(workspace, ALL)


def test_folders_are_entered_to_a_bounded_depth(workspace):
    folder = workspace.out
    for depth in range(2, 40):
        folder /= "d"
        folder.mkdir()
        (folder / f"f{depth}").write_bytes(b"x")
    collected = collect(workspace, ALL)
    assert max(name.count("/") for name in names(collected)) == 31
    assert collected.limits_hit
    (warning,) = collected.warnings
    assert "it lies 32 folders deep" in warning


def test_the_entries_that_are_looked_at_and_the_time_for_it_are_bounded(workspace, monkeypatch):
    for folder in "abc":
        (workspace.out / folder).mkdir()
        for number in range(6):
            (workspace.out / folder / f"{number}").write_bytes(b"x")
    monkeypatch.setattr(outputs, "MAX_ENTRIES", 20)
    collected = collect(workspace, ALL)
    assert names(collected)[:6] == [f"out/a/{number}" for number in range(6)]
    assert collected.limits_hit
    assert collected.warnings == (
        "Only 20 files and folders were looked at; name fewer folders in the patterns, or leave"
        " fewer files.",
    )
    monkeypatch.setattr(outputs, "MAX_SECONDS", -1.0)
    collected = collect(workspace, ALL)
    assert (collected.files, collected.limits_hit) == ((), True)
    assert "took longer than -1 s" in collected.warnings[0]


def test_a_file_that_is_named_is_found_among_any_number(workspace, monkeypatch):
    monkeypatch.setattr(outputs, "MAX_ENTRIES", 5)
    write(workspace, **{f"{number}": b"x" for number in range(20)})
    for number in range(20):
        (workspace.path / f"{number}").write_bytes(b"x")
    collected = collect(workspace, OutputSpec(("out/{7,13}", "none/x", "out/7/x")))
    assert names(collected) == ["out/13", "out/7"]
    assert not collected.limits_hit


def test_a_file_in_the_place_of_a_folder_has_nothing_below_it(workspace):
    write(workspace, a=b"a")
    (workspace.out / "b").mkdir()
    (workspace.out / "b" / "x").write_bytes(b"x")
    assert collect(workspace, OutputSpec(("out/*/y", "out/*a/x", "out/b"))) == FileCollection(
        (), (), False
    )


def test_too_many_warnings_are_counted(workspace):
    for number in range(30):
        (workspace.out / f"{number:02}").symlink_to("x")
    write(workspace, a=b"a", b=b"b")
    warnings = collect(workspace, OutputSpec(("out/**",), max_files=1)).warnings
    assert len(warnings) == 21
    assert warnings[0] == "max_files is 1; matching files that were not collected: 1."
    assert warnings[1] == "'out/00' was not collected: it is a link."
    assert warnings[-1] == "and 11 more"


@pytest.mark.slow
def test_a_hundred_thousand_files_are_bounded_in_time_and_memory(workspace):
    folder = os.open(workspace.out, os.O_RDONLY)
    try:
        for number in range(100_000):
            os.close(os.open(f"file-{number}", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=folder))
    finally:
        os.close(folder)
    collected = collect(workspace, ALL)
    assert len(collected.files) == 100
    assert collected.warnings[0].startswith("Only 20,000 files and folders were looked at")
    assert collected.warnings[1].endswith("were not collected: 19,900.")
    tracemalloc.start()
    try:
        collect(workspace, ALL)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_a_file_that_changes_while_it_is_collected_is_told(workspace):
    """The bytes read may be neither the old file nor the new one."""
    path = workspace.out / "log"
    path.write_bytes(b"x" * 4_000_000)
    is_over = threading.Event()

    def change():
        for moment in itertools.takewhile(lambda _: not is_over.is_set(), itertools.count(1)):
            os.utime(path, ns=(moment, moment))

    thread = threading.Thread(target=change)
    thread.start()
    try:
        end = time.monotonic() + 120
        warnings = ()
        while not warnings and time.monotonic() < end:
            warnings = collect(workspace, ALL).warnings
    finally:
        is_over.set()
        thread.join()
    assert warnings == ("'out/log' changed while it was collected.",)


@pytest.mark.slow
def test_a_file_that_never_ends_is_read_up_to_its_limit(workspace):
    path = workspace.out / "grows"
    path.write_bytes(b"x")

    def change():
        with path.open("ab") as file:
            file.write(b"x" * 50_000)
        if path.stat().st_size > 4_000_000:
            os.truncate(path, 1)

    def repeat():
        end = time.monotonic() + 1
        while time.monotonic() < end:
            change()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        while thread.is_alive():
            for file in collect(workspace, OutputSpec(("out/*",), max_file_bytes=100_000)).files:
                assert set(file.data) == {ord("x")}
                assert len(file.data) <= 100_000 <= file.size or len(file.data) == file.size
                assert file.truncated == (len(file.data) < file.size)
    finally:
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("is_folder", [False, True])
def test_swapping_a_file_or_folder_for_a_link_brings_nothing_from_outside(
    workspace, secret, repeating, swap_for_link, is_folder
):
    inside = workspace.out / "sub"
    inside.mkdir()
    (inside / "id.txt").write_text("mine")
    victim, target = (inside, secret.parent) if is_folder else (inside / "id.txt", secret)
    seen, end = set(), time.monotonic() + 1
    with repeating(partial(swap_for_link, victim, target, workspace.work / "aside")):
        while not seen or time.monotonic() < end:
            seen |= {file.data for file in collect(workspace, ALL).files}
    assert seen == {b"mine"}


def collected(name, data, *, size=None, media_type="text/plain"):
    """Return a collected file; of a larger size than its data it is truncated."""
    size = len(data) if size is None else size
    return CollectedFile(name, data, size, media_type, size > len(data))


def output_of(name, content, size=None):
    return OutputFile(name, "text/plain", len(content or "") if size is None else size, content)


@pytest.mark.parametrize(
    ("data", "media_type", "inline"),
    [
        (b"abc", "text/plain", False),
        (b"abc", "application/pdf", True),
        (b"a\0c", "text/plain", True),
        (b"a\xffc", "text/plain", True),
    ],
)
def test_other_files_are_told_without_content(data, media_type, inline):
    file = output_file(collected("out/a", data, media_type=media_type), inline=inline)
    assert (file.content, file.size_bytes, file.mime_type) == (None, 3, media_type)


@pytest.mark.parametrize(
    ("data", "size", "content"),
    [
        ("añ".encode()[:2], 90, "a"),  # cut, so that the character is whole in the file
        ("añ".encode()[:2], 2, None),
        (b"a\x1b[8mb\r\n", 8, "a[8mb\n"),
    ],
)
def test_a_text_has_whole_characters_and_hides_nothing(data, size, content):
    file = output_file(collected("out/a.txt", data, size=size), inline=True)
    assert (file.content, file.size_bytes) == (content, size)
    assert file.truncated == (size > len(data))


def test_the_primary_output_is_the_first_short_text_by_name():
    files = [
        output_of("out/z.txt", "z"),
        output_of("out/a.txt", ""),
        output_of("out/b.png", None, size=9),
        output_of("out/c.txt", "long", size=(32 << 10) + 1),
        output_of("out/d.txt", "short", size=32 << 10),
    ]
    assert primary_output(files).name == "out/d.txt"
    assert primary_output(files[1:4]) is None


def test_empty_files_of_a_failed_run_are_left_out_with_a_warning():
    empty = [collected(f"out/{number}", b"") for number in range(7)]
    full = [collected("out/full", b"x")]
    named = ", ".join(f"'out/{number}'" for number in range(5))
    warning = f"The command failed, so empty files are left out: {named} and 2 more."
    assert without_empty([*empty, *full]) == (full, [warning])
    assert without_empty(full) == (full, [])
    _, (warning,) = without_empty([collected("out/a\nb\x1b[2J", b"")])
    assert warning.endswith(r": 'out/a\nb\x1b[2J'.")
