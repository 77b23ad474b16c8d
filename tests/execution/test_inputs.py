"""Tests of putting inputs into a workspace."""

import os
import shutil
import threading
import time
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillsearch.errors import (
    ArtifactNotFoundError,
    SkillNotFoundError,
    SkillSearchError,
    WorkspaceError,
)
from skillsearch.execution.types import ArtifactRef, InputSpec, StagedInput
from skillsearch.execution.workspaces.artifacts import FolderArtifacts
from skillsearch.execution.workspaces.files import CopyLimits
from skillsearch.execution.workspaces.globs import FOLDERS
from skillsearch.execution.workspaces.inputs import InputStager
from skillsearch.execution.workspaces.staging import stage_skill


@pytest.fixture
def host(tmp_path):
    folder = tmp_path / "host"
    (folder / "sub").mkdir(parents=True)
    (folder / "data.csv").write_bytes(b"x,y\n")
    (folder / "sub" / "b.txt").write_bytes(b"bb")
    return folder


@pytest.fixture
def skill(tmp_path, make_skill):
    folder = make_skill(tmp_path / "root").parent
    (folder / "references").mkdir()
    (folder / "references" / "guide.md").write_bytes(b"# Guide\n")
    return folder


@pytest.fixture
def store(tmp_path):
    return FolderArtifacts(tmp_path / "artifacts")


@pytest.fixture
def limited(store, host, skill):
    """Return what makes a stager with limits, for artifacts, one folder, and one skill."""

    def folder(name):
        if name != skill.name:
            raise SkillNotFoundError(name, ())
        return skill

    return lambda **limits: InputStager(store, (host,), folder, CopyLimits(**limits))


@pytest.fixture
def stager(limited):
    return limited()


def stage(stager, workspace, source, to="", mode="copy", **options):
    """Put one input into a workspace, and return what is told of it and the warnings."""
    (staged,), warnings = stager.stage(workspace, [InputSpec(source, to, mode, **options)])
    return staged, warnings


def test_a_file_of_this_machine_is_copied(stager, workspace, host):
    source = f"host://{host}/data.csv"
    staged, warnings = stage(stager, workspace, source)
    assert staged == StagedInput("work/inputs/data.csv", source, 4, "text/csv")
    assert warnings == ()
    assert (workspace.work / "inputs" / "data.csv").read_bytes() == b"x,y\n"
    assert os.listdir(workspace.work / "inputs") == ["data.csv"]  # noqa: PTH208


def test_a_folder_of_this_machine_is_copied_with_all_that_is_in_it(stager, workspace, host):
    (host / "sub" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (host / "sub" / "run.sh").chmod(0o4750)
    staged, _ = stage(stager, workspace, f"host://{host}", "work/all")
    assert staged == StagedInput("work/all", f"host://{host}", 16, "inode/directory")
    copy = workspace.work / "all"
    paths = {path.relative_to(copy).as_posix() for path in copy.rglob("*")}
    assert paths == {"data.csv", "sub", "sub/b.txt", "sub/run.sh"}
    assert (copy / "sub" / "run.sh").stat().st_mode & 0o7777 == 0o755
    assert (copy / "sub" / "b.txt").stat().st_mode & 0o7777 == 0o644


def test_a_file_of_the_workspace_is_copied(stager, workspace):
    (workspace.out / "a").write_bytes(b"a")
    staged, _ = stage(stager, workspace, "workspace://out/a")
    (workspace.out / "a").write_bytes(b"b")
    assert staged == StagedInput("work/inputs/a", "workspace://out/a", 1, "text/plain")
    assert (workspace.work / "inputs" / "a").read_bytes() == b"a"


def test_an_artifact_is_written(stager, workspace, store):
    store.save("reports/.env  x", b"one", "application/x-one")
    store.save("reports/.env  x", b"two", "application/x-two")
    staged, _ = stage(stager, workspace, "artifact://reports/.env  x")
    source, version = "artifact://reports/.env  x", ArtifactRef("reports/.env  x", 1)
    assert staged == StagedInput("work/inputs/.env  x", source, 3, "application/x-two", version)
    assert (workspace.work / "inputs" / ".env  x").read_bytes() == b"two"
    stage(stager, workspace, f"{source}@0")
    assert (workspace.work / "inputs" / ".env  x").read_bytes() == b"one"


def test_a_pinned_artifact_stays_the_version_that_was_first_put_there(stager, workspace, store):
    put = workspace.work / "inputs" / "a"
    store.save("a", b"one", "text/plain")
    stage(stager, workspace, "artifact://a", pin=True)
    store.save("a", b"two", "text/plain")
    stage(stager, workspace, "artifact://a", pin=True)
    assert put.read_bytes() == b"one"
    stage(stager, workspace, "artifact://a")
    assert put.read_bytes() == b"two"
    stage(stager, workspace, "artifact://a", pin=True)
    assert put.read_bytes() == b"one"
    stage(stager, workspace, "artifact://a@1", pin=True)
    assert put.read_bytes() == b"two"
    stage(stager, workspace, "artifact://a", "work/other", pin=True)
    assert (workspace.work / "other").read_bytes() == b"two"
    store.save("b/a", b"b", "text/plain")
    stage(stager, workspace, "artifact://b/a", pin=True)
    assert put.read_bytes() == b"b"


TARGETS = {
    "": "work/inputs/data.csv",
    "inputs/x": "work/inputs/x",
    "inputs/": "work/inputs/data.csv",
    "work/x": "work/x",
    "work/sub/": "work/sub/data.csv",
    "./out//x": "out/x",
    "$OUTPUT_DIR/x": "out/x",
    "${WORK_DIR}/inputs/x": "work/inputs/x",
    "runs/r/x": "runs/r/x",
    "$RUN_DIR/x": "runs/run_1/x",
    "work/50%25": "work/50%25",
}


@pytest.mark.parametrize(("to", "target"), TARGETS.items())
def test_inputs_go_where_they_are_asked_to_go(stager, workspace, host, to, target):
    specs = [InputSpec(f"host://{host}/data.csv", to)]
    (staged,), _ = stager.stage(workspace, specs, {**FOLDERS, "RUN_DIR": "runs/run_1"})
    assert staged.name == target
    assert (workspace.path / target).read_bytes() == b"x,y\n"


FORBIDDEN = ["skills/tea-timer/SKILL.md", "metadata.json", "out", "work/../../x", "/etc/x"]
FORBIDDEN += ["work\\x", "work/a\0b", "work/a\nb", "$HOME/x", "work/" + "x" * 1025, "work/\udcff"]
FORBIDDEN += [".", "C:/x", "$WORKSPACE_DIR/metadata.json"]


@pytest.mark.parametrize("to", FORBIDDEN, ids=range(len(FORBIDDEN)))
def test_other_places_are_refused(stager, workspace, host, to):
    with pytest.raises(WorkspaceError, match=r"target|variable"):
        stage(stager, workspace, f"host://{host}/data.csv", to)
    assert [path for path in workspace.path.rglob("*") if path.is_file()] == [
        workspace.path / "metadata.json"
    ]


UNKNOWN = ["", "file:///etc/passwd", "host://etc/passwd", "HOST:///etc", "skill:///x", "artifact:a"]
CLIMBING = ["workspace://../x", "workspace:///etc/passwd", "workspace://", "workspace://a\\b"]
CLIMBING += ["skill://tea-timer/../x", "host:///", "host:///tmp/../etc/passwd", "workspace://a\0"]
CLIMBING += ["artifact://../x"]
SOURCES = dict.fromkeys(UNKNOWN, "write artifact://name, host:///absolute/path")
SOURCES |= dict.fromkeys(CLIMBING, "cannot be used")


@pytest.mark.parametrize(("source", "reason"), SOURCES.items())
def test_sources_that_are_unknown_or_leave_their_folder_are_refused(
    stager, workspace, source, reason
):
    with pytest.raises(WorkspaceError, match=reason):
        stage(stager, workspace, source)


def test_an_encoded_path_is_taken_as_it_is(stager, workspace):
    """No scheme decodes anything, so nothing can hide in it."""
    (workspace.out / "a%2fb").write_bytes(b"a")
    staged, _ = stage(stager, workspace, "workspace://out/a%2fb")
    assert staged.name == "work/inputs/a%2fb"
    with pytest.raises(WorkspaceError, match="it does not exist"):
        stage(stager, workspace, "workspace://%2e%2e/x")


def test_files_of_this_machine_are_read_from_allowed_folders_only(stager, workspace, secret, host):
    for path in (secret, secret.parent / "none", host.parent, f"{host}x"):
        with pytest.raises(WorkspaceError, match=r"is not in a folder .* host_folders"):
            stage(stager, workspace, f"host://{path}")


def test_allowed_folders_are_compared_by_where_they_really_are(stager, workspace, host, tmp_path):
    (tmp_path / "way").symlink_to(host)
    staged, _ = stage(stager, workspace, f"host://{tmp_path}/way/sub/b.txt")
    assert staged.size_bytes == 2
    linked = InputStager(None, (tmp_path / "way",), lambda name: host)
    assert stage(linked, workspace, f"host://{host}/data.csv")[0].size_bytes == 4


@pytest.mark.parametrize("through", ["link", "folder/id.txt", "hop/link"])
def test_a_link_out_of_an_allowed_folder_is_refused(stager, workspace, host, secret, through):
    (host / "link").symlink_to(secret)
    (host / "folder").symlink_to(secret.parent)
    (host / "hop").symlink_to(host)
    with pytest.raises(WorkspaceError, match="is not in a folder"):
        stage(stager, workspace, f"host://{host}/{through}")


@pytest.mark.parametrize("mode", ["copy", "link"])
@pytest.mark.parametrize("source", ["workspace://out/link", "workspace://out/folder/id.txt"])
def test_a_link_in_the_workspace_is_no_source(stager, workspace, secret, source, mode):
    (workspace.out / "link").symlink_to(secret)
    (workspace.out / "folder").symlink_to(secret.parent)
    with pytest.raises(WorkspaceError, match=r"cannot be read: (it is a link|a part of it)"):
        stage(stager, workspace, source, mode=mode)
    assert os.listdir(workspace.work / "inputs") == []  # noqa: PTH208


def test_links_and_special_files_in_a_folder_are_left_out_and_reported(
    stager, workspace, host, secret
):
    (host / "link").symlink_to(secret)
    (host / "folder").symlink_to(secret.parent)
    os.mkfifo(host / "fifo")
    source = f"host://{host}"
    _, warnings = stage(stager, workspace, source, "work/all")
    assert warnings == (
        f"'{source}/fifo' was left out: it is not a plain file.",
        f"'{source}/folder' was left out: it is a link.",
        f"'{source}/link' was left out: it is a link.",
    )
    assert sorted(os.listdir(workspace.work / "all")) == ["data.csv", "sub"]  # noqa: PTH208


def test_nothing_of_a_folder_is_left_out_for_its_name(stager, workspace, host):
    """Files that staging leaves out of a skill are inputs like any other."""
    for name in (".git/config", "out/a", "work/b"):
        (host / name).parent.mkdir()
        (host / name).write_bytes(b"x")
    _, warnings = stage(stager, workspace, f"host://{host}", "work/all")
    assert warnings == ()
    names = sorted(os.listdir(workspace.work / "all"))  # noqa: PTH208
    assert names == [".git", "data.csv", "out", "sub", "work"]
    assert (workspace.work / "all" / ".git" / "config").read_bytes() == b"x"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_hard_link_to_the_file_of_another_user_is_refused(stager, workspace, secret):
    os.link(secret, workspace.out / "a")
    os.chown(secret, 65534, 65534)
    with pytest.raises(WorkspaceError, match="hard link to the file of another user"):
        stage(stager, workspace, "workspace://out/a")


def test_a_source_that_is_missing_or_no_file_is_told(stager, workspace, host):
    os.mkfifo(workspace.out / "fifo")
    with pytest.raises(WorkspaceError, match="it is not a plain file"):
        stage(stager, workspace, "workspace://out/fifo")
    for source in (f"host://{host}/none", "workspace://out/none", "skill://tea-timer/none"):
        with pytest.raises(WorkspaceError, match="it does not exist; name an existing file"):
            stage(stager, workspace, source)
    with pytest.raises(ArtifactNotFoundError, match="No artifact is named 'none'"):
        stage(stager, workspace, "artifact://none")
    with pytest.raises(SkillNotFoundError):
        stage(stager, workspace, "skill://none/x")


def test_without_a_store_and_folders_neither_artifacts_nor_files_are_had(workspace, host):
    bare = InputStager(None, (), lambda name: host)
    with pytest.raises(WorkspaceError, match="no artifacts are kept here"):
        stage(bare, workspace, "artifact://a")
    with pytest.raises(WorkspaceError, match="allow its folder in host_folders"):
        stage(bare, workspace, f"host://{host}/data.csv")


def test_a_file_or_link_in_the_way_is_replaced(stager, workspace, host, secret):
    put = workspace.work / "inputs" / "data.csv"
    put.symlink_to(secret)
    stage(stager, workspace, f"host://{host}/data.csv")
    assert not put.is_symlink()
    assert secret.read_bytes() == b"secret"
    (host / "data.csv").write_bytes(b"new")
    stage(stager, workspace, f"host://{host}/data.csv")
    assert put.read_bytes() == b"new"


def test_a_folder_is_not_replaced_by_a_file(stager, workspace, host):
    (workspace.out / "a").write_bytes(b"a")
    (workspace.work / "x").mkdir()
    for mode, source in (("copy", f"host://{host}/data.csv"), ("link", "workspace://out/a")):
        with pytest.raises(WorkspaceError, match="cannot be put to 'work/x': a folder has that"):
            stage(stager, workspace, source, "work/x", mode)
    with pytest.raises(WorkspaceError, match=r"cannot be put to 'out/a': .* not a folder"):
        stage(stager, workspace, f"host://{host}", "out/a")
    assert sorted(os.listdir(workspace.work)) == ["inputs", "x"]  # noqa: PTH208


def test_a_folder_that_is_there_is_filled_up(stager, workspace, host):
    (workspace.work / "all").mkdir()
    (workspace.work / "all" / "data.csv").write_bytes(b"old")
    (workspace.work / "all" / "mine").write_bytes(b"mine")
    stage(stager, workspace, f"host://{host}", "work/all")
    assert (workspace.work / "all" / "data.csv").read_bytes() == b"x,y\n"
    assert (workspace.work / "all" / "mine").read_bytes() == b"mine"


@pytest.mark.parametrize("to", ["work/way/x", "work/way/sub/x", "work/way"])
def test_nothing_is_written_through_a_link(stager, workspace, host, secret, to):
    """A command may have replaced a folder on the way."""
    (workspace.work / "way").symlink_to(secret.parent)
    with pytest.raises(WorkspaceError, match="a part of it is a link"):
        stage(stager, workspace, f"host://{host}/sub", to)
    assert os.listdir(secret.parent) == ["id.txt"]  # noqa: PTH208


def test_nothing_is_put_into_itself(stager, workspace):
    (workspace.work / "a").mkdir()
    for to in ("work/a", "work/a/b", "work/a/"):
        for mode in ("copy", "link"):
            with pytest.raises(WorkspaceError, match="would be put into itself"):
                stage(stager, workspace, "workspace://work/a", to, mode)
    assert stage(stager, workspace, "workspace://work/a", "work/ab")[0].name == "work/ab"


def test_what_stays_in_the_workspace_can_be_linked(stager, workspace):
    (workspace.out / "a.json").write_bytes(b"{}")
    staged, warnings = stage(stager, workspace, "workspace://out/a.json", mode="link")
    assert staged == StagedInput(
        "work/inputs/a.json", "workspace://out/a.json", 2, "application/json"
    )
    assert warnings == ()
    put = workspace.work / "inputs" / "a.json"
    assert os.readlink(put) == "../../out/a.json"  # noqa: PTH115
    assert put.read_bytes() == b"{}"
    (workspace.out / "b").write_bytes(b"b")
    stage(stager, workspace, "workspace://out/b", "inputs/a.json", "link")
    assert put.read_bytes() == b"b"
    staged, _ = stage(stager, workspace, "workspace://runs", "out/deep/runs", "link")
    assert staged == StagedInput("out/deep/runs", "workspace://runs", 0, "inode/directory")
    assert (workspace.out / "deep" / "runs").resolve() == workspace.runs.resolve()


def test_a_skill_is_copied_or_linked_to_its_staged_copy(stager, workspace, skill):
    staged, _ = stage(stager, workspace, "skill://tea-timer")
    assert (staged.name, staged.mime_type) == ("work/inputs/tea-timer", "inode/directory")
    copied = (workspace.work / "inputs" / "tea-timer" / "SKILL.md").read_bytes()
    assert copied == (skill / "SKILL.md").read_bytes()
    source = "skill://tea-timer/references/guide.md"
    put = workspace.work / "inputs" / "guide.md"
    _, warnings = stage(stager, workspace, source, mode="link")
    assert warnings == (f"'{source}' was copied: a link would leave the workspace.",)
    assert not put.is_symlink()
    stage_skill(workspace, "tea-timer", skill)
    _, warnings = stage(stager, workspace, source, mode="link")
    assert warnings == ()
    assert os.readlink(put) == "../../skills/tea-timer/references/guide.md"  # noqa: PTH115


def test_what_lies_outside_is_copied_instead_of_linked(stager, workspace, host, store):
    store.save("a", b"a", "text/plain")
    for source in (f"host://{host}/data.csv", f"host://{host}/sub", "artifact://a"):
        staged, warnings = stage(stager, workspace, source, mode="link")
        assert warnings == (f"'{source}' was copied: a link would leave the workspace.",)
        assert not (workspace.path / staged.name).is_symlink()


def test_two_inputs_for_one_place_are_refused(stager, workspace, host):
    """Nothing is put there, as one of them would be lost."""
    (host / "sub" / "data.csv").write_bytes(b"other")
    specs = [InputSpec(f"host://{host}/{name}") for name in ("data.csv", "sub/data.csv")]
    with pytest.raises(WorkspaceError, match=r"both go to 'work/inputs/data.csv'"):
        stager.stage(workspace, specs)
    assert os.listdir(workspace.work / "inputs") == []  # noqa: PTH208


def test_the_mode_and_the_number_of_inputs_are_limited(stager, workspace, host):
    with pytest.raises(WorkspaceError, match="'move'; use 'copy' or 'link'"):
        stage(stager, workspace, f"host://{host}/data.csv", mode="move")
    specs = [InputSpec(f"host://{host}/data.csv", f"work/{number}") for number in range(101)]
    with pytest.raises(WorkspaceError, match="101 inputs, and 100 are allowed"):
        stager.stage(workspace, specs)


def test_the_bytes_of_all_inputs_are_limited(limited, workspace, host):
    stager = limited(total_bytes=6)
    stage(stager, workspace, f"host://{host}", "work/all")
    (host / "one").write_bytes(b"1")
    with pytest.raises(WorkspaceError, match="larger than 6 bytes together"):
        stage(stager, workspace, f"host://{host}", "work/all")


PIECES = st.sampled_from(
    ["..", ".", "", "out", "work", "inputs", "link", "a", "~", "\0", "%2e", "é"]
)
WILD = st.lists(PIECES | st.text(max_size=4), max_size=6).map("/".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    source=st.tuples(st.sampled_from(["workspace", "host", "skill", "artifact", ""]), WILD),
    to=WILD | st.just(""),
    mode=st.sampled_from(["copy", "link"]),
)
def test_no_words_reach_outside(stager, workspace, host, secret, source, to, mode):
    if not (workspace.out / "link").is_symlink():
        shutil.rmtree(workspace.out)
        workspace.out.mkdir()
        (workspace.out / "link").symlink_to(secret.parent)
    try:
        staged, _ = stage(stager, workspace, "://".join(source), to, mode)
    except SkillSearchError:
        pass
    else:
        put = workspace.path / staged.name
        assert put.parent.resolve() == put.parent
        assert put.resolve().is_relative_to(workspace.path)
        assert staged.name.split("/")[0] in {"work", "out", "runs"}
    assert os.listdir(secret.parent) == ["id.txt"]  # noqa: PTH208
    assert secret.read_bytes() == b"secret"


SWAPS = 5_000


@pytest.mark.slow
@pytest.mark.parametrize("source", ["workspace://out/deep/id.txt", "workspace://out", "host://{}"])
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_source_that_is_swapped_for_a_link_brings_nothing_from_outside(
    stager, workspace, host, secret, repeating, swap_for_link, source, is_folder
):
    inside = (host if "host" in source else workspace.out) / "deep"
    inside.mkdir()
    (inside / "id.txt").write_bytes(b"mine")
    victim, target = (inside, secret.parent) if is_folder else (inside / "id.txt", secret)
    seen, copy, end = set(), workspace.work / "copy", time.monotonic() + 1
    with repeating(partial(swap_for_link, victim, target, workspace.work / "aside")):
        # A busy machine needs more until a copy comes through.
        while not seen or time.monotonic() < end:
            shutil.rmtree(copy, ignore_errors=True)
            copy.unlink(missing_ok=True)
            try:
                stage(stager, workspace, source.format(host), "work/copy")
            except WorkspaceError:
                continue
            files = [copy] if copy.is_file() else copy.rglob("id.txt")
            seen |= {file.read_bytes() for file in files}
    assert seen == {b"mine"}


@pytest.mark.slow
def test_a_target_folder_that_is_swapped_for_a_link_takes_nothing_outside(
    stager, workspace, host, secret
):
    victim, aside = workspace.work / "sub", workspace.work / "aside"
    victim.mkdir()

    def swap():
        for _ in range(SWAPS):
            with suppress(OSError):  # the folder may be made anew meanwhile
                victim.rename(aside)
                victim.symlink_to(secret.parent)
            with suppress(OSError):
                victim.unlink()
                aside.rename(victim)
            shutil.rmtree(aside, ignore_errors=True)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        while thread.is_alive():
            try:
                stage(stager, workspace, f"host://{host}/data.csv", "work/sub/x")
            except WorkspaceError:
                continue
    finally:
        thread.join()
    assert os.listdir(secret.parent) == ["id.txt"]  # noqa: PTH208
