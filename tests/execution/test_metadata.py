"""Tests of metadata.json: what happened, written over whatever a command put in its place."""

import json
import os
from datetime import UTC, datetime

import pytest

from skillsearch.execution.metadata import (
    MAX_RECORDS,
    InputRecord,
    OutputRecord,
    SkillRecord,
    WorkspaceMetadata,
    save_metadata,
)
from skillsearch.execution.workspace import Workspace
from skillsearch.files.openat import open_folder

SKILL = SkillRecord("tea", "skills/tea", "0f", "2026-01-02T03:04:05.678+00:00")
INPUT = InputRecord(
    "artifact://a.txt", "work/inputs/a.txt", "artifact://a.txt@2", 2, "copy", "2026-01-02"
)
OUTPUT = OutputRecord(("out/**",), ("a.txt", "b.txt"), (0, 3), True, "2026-01-02")


@pytest.fixture
def workspace(tmp_path):
    """Make a workspace."""
    made = Workspace.create(tmp_path / "base", "s")
    yield made
    made.close()


def written(workspace):
    """Read metadata.json."""
    return json.loads((workspace.path / "metadata.json").read_text(encoding="utf-8"))


def test_a_new_workspace_has_metadata(workspace):
    """With times, and nothing else yet."""
    record = written(workspace)
    assert {key: record[key] for key in ("version", "skills", "inputs", "outputs")} == {
        "version": 1,
        "skills": {},
        "inputs": [],
        "outputs": [],
    }
    assert record["created_at"] == record["updated_at"] <= record["last_access"]


def test_times_are_iso_8601_in_utc(workspace):
    """With milliseconds."""
    at = datetime.fromisoformat(written(workspace)["created_at"])
    assert at.tzinfo == UTC
    assert abs((datetime.now(UTC) - at).total_seconds()) < 60


def test_the_file_is_for_its_owner_alone(workspace):
    """Whatever the mask of the process."""
    assert (workspace.path / "metadata.json").stat().st_mode & 0o777 == 0o600


def test_records_are_written_as_other_tools_know_them(workspace):
    """With the keys of trpc-agent-go."""
    workspace.record(SKILL, INPUT)
    workspace.record(OUTPUT)
    record = written(workspace)
    assert record["skills"] == {
        "tea": {
            "name": "tea",
            "rel_path": "skills/tea",
            "digest": "0f",
            "mounted": False,
            "staged_at": "2026-01-02T03:04:05.678+00:00",
        }
    }
    assert record["inputs"] == [
        {
            "from": "artifact://a.txt",
            "to": "work/inputs/a.txt",
            "resolved": "artifact://a.txt@2",
            "version": 2,
            "mode": "copy",
            "ts": "2026-01-02",
        }
    ]
    assert record["outputs"] == [
        {
            "globs": ["out/**"],
            "saved_as": ["a.txt", "b.txt"],
            "versions": [0, 3],
            "limits_hit": True,
            "ts": "2026-01-02",
        }
    ]


def test_what_is_written_is_what_is_remembered(workspace):
    """Names of any characters included."""
    workspace.record(SkillRecord("周报\ud800\n", "skills/x", "0f"), INPUT)
    assert written(workspace) == json.loads(json.dumps(workspace.metadata.to_dict()))


def test_a_record_changes_the_time_of_the_update_and_use_does_not():
    """Both change that of the last use; neither changes when it was made."""
    old = WorkspaceMetadata("2020", "2020", "2020")
    used, changed = old.used(), old.with_records(INPUT)
    assert (used.created_at, used.updated_at) == ("2020", "2020")
    assert used.last_access > "2020"
    assert changed.created_at == "2020"
    assert changed.updated_at == changed.last_access > "2020"


def test_a_skill_has_one_record():
    """The latest, which is also the last."""
    others = SkillRecord("a", "skills/a", "01"), SkillRecord("tea", "skills/tea", "02")
    metadata = WorkspaceMetadata.new().with_records(SKILL, *others)
    assert metadata.skills == others


def test_of_too_many_records_the_last_are_kept():
    """A hundred of each kind."""
    numbers = range(MAX_RECORDS + 2)
    metadata = WorkspaceMetadata.new().with_records(
        *(SkillRecord(f"s{number}", "", "") for number in numbers),
        *(InputRecord(f"{number}", "", "", None, "copy") for number in numbers),
    )
    metadata = metadata.with_records(*(OutputRecord((f"{number}",)) for number in numbers))
    assert [skill.name for skill in metadata.skills] == [f"s{number}" for number in numbers[2:]]
    assert [record.source for record in metadata.inputs] == [str(number) for number in numbers[2:]]
    assert [record.globs for record in metadata.outputs] == [(str(n),) for n in numbers[2:]]


def make_folder(path):
    """Make a folder that is not empty."""
    (path / "inner").mkdir(parents=True)
    (path / "inner" / "file").touch()


def make_huge(path):
    """Make a file of 5 GB that takes no space."""
    with path.open("wb") as file:
        file.truncate(5 << 30)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "put",
    [
        lambda path: None,
        lambda path: path.write_text("{", encoding="utf-8"),
        lambda path: path.symlink_to("out/victim"),
        os.mkfifo,
        make_folder,
        make_huge,
    ],
)
def test_whatever_a_command_put_there_is_replaced(workspace, put):
    """Nothing is read of it, and no link is followed."""
    workspace.record(INPUT)
    victim = workspace.out / "victim"
    victim.write_text("kept", encoding="utf-8")
    (workspace.path / "metadata.json").unlink()
    put(workspace.path / "metadata.json")
    workspace.new_run_dir()
    assert written(workspace) == json.loads(json.dumps(workspace.metadata.to_dict()))
    assert not (workspace.path / "metadata.json").is_symlink()
    assert victim.read_text(encoding="utf-8") == "kept"


def test_what_a_command_wrote_into_it_is_not_believed(workspace):
    """The next record is added to what this process remembers."""
    (workspace.path / "metadata.json").write_text('{"skills": {"evil": {}}}', encoding="utf-8")
    workspace.record(SKILL)
    assert list(written(workspace)["skills"]) == ["tea"]


def test_no_temporary_file_is_left(workspace, monkeypatch):
    """Nor when the file cannot get its name; then the old one stays."""
    before = written(workspace)
    folder = open_folder(workspace.path)

    def refuse(*args, **kwargs):
        raise PermissionError

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(PermissionError):
        save_metadata(folder, WorkspaceMetadata.new())
    os.close(folder)
    assert written(workspace) == before
    assert not [name for name in workspace.path.iterdir() if name.name.startswith(".")]
