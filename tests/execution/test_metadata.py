"""Tests of metadata.json: what happened, written over whatever a command put in its place."""

import json
import os
from datetime import UTC, datetime

import pytest

from skillsearch.errors import WorkspaceError
from skillsearch.execution.types import StagedSkill, Tree
from skillsearch.execution.workspaces.workspace import MAX_RECORDS

INPUT = {
    "from": "artifact://a.txt",
    "to": "work/inputs/a.txt",
    "resolved": "artifact://a.txt@2",
    "version": 2,
    "mode": "copy",
}
OUTPUT = {
    "globs": ("out/**",),
    "saved_as": ["a.txt", "b.txt"],
    "versions": [0, 3],
    "limits_hit": True,
}


def staged(workspace, name, digest="0f"):
    path, tree = workspace.skills / name, Tree("", 0)
    return StagedSkill(path, f"skills/{name}", digest, tree, tree, (), is_new=True)


def written(workspace):
    return json.loads((workspace.path / "metadata.json").read_text(encoding="utf-8"))


def test_a_new_workspace_has_metadata_for_its_owner_alone(workspace):
    record = written(workspace)
    assert {key: record[key] for key in ("version", "skills", "inputs", "outputs")} == {
        "version": 1,
        "skills": {},
        "inputs": [],
        "outputs": [],
    }
    assert record["created_at"] == record["updated_at"] <= record["last_access"]
    at = datetime.fromisoformat(record["created_at"])
    assert at.tzinfo == UTC
    assert abs((datetime.now(UTC) - at).total_seconds()) < 60
    assert (workspace.path / "metadata.json").stat().st_mode & 0o777 == 0o600


def test_records_are_written_as_other_tools_know_them(workspace):
    before = written(workspace)["created_at"]
    workspace.record_skill("tea", staged(workspace, "tea"))
    workspace.record("inputs", INPUT)
    workspace.record("outputs", OUTPUT)
    record = written(workspace)
    (skill,), (put,), (taken,) = record["skills"].values(), record["inputs"], record["outputs"]
    assert before <= skill.pop("staged_at") <= put.pop("ts") <= taken.pop("ts")
    assert list(record["skills"]) == ["tea"]
    assert skill == {"name": "tea", "rel_path": "skills/tea", "digest": "0f", "mounted": False}
    assert put == INPUT
    assert taken == {**OUTPUT, "globs": ["out/**"]}


def test_a_record_changes_the_time_of_the_update_and_use_does_not(workspace):
    times = ("created_at", "updated_at", "last_access")
    workspace.metadata.update(dict.fromkeys(times, "2020"))
    workspace.new_run_dir()
    used = written(workspace)
    assert (used["created_at"], used["updated_at"]) == ("2020", "2020")
    assert used["last_access"] > "2020"
    workspace.record("inputs", INPUT)
    changed = written(workspace)
    assert changed["created_at"] == "2020"
    assert changed["updated_at"] == changed["last_access"] > "2020"


def test_a_skill_has_one_record(workspace):
    for name, digest in (("tea", "0f"), ("a", "01"), ("tea", "02")):
        workspace.record_skill(name, staged(workspace, name, digest))
    skills = written(workspace)["skills"]
    assert [(name, skill["digest"]) for name, skill in skills.items()] == [
        ("a", "01"),
        ("tea", "02"),
    ]


def test_of_too_many_records_the_last_are_kept(workspace):
    numbers = range(MAX_RECORDS + 2)
    for number in numbers:
        workspace.record_skill(f"s{number}", staged(workspace, f"s{number}"))
        workspace.record("outputs", {"globs": [f"{number}"]})
    workspace.record("inputs", *({**INPUT, "to": f"{number}"} for number in numbers))
    record = written(workspace)
    assert list(record["skills"]) == [f"s{number}" for number in numbers[2:]]
    assert [entry["to"] for entry in record["inputs"]] == [str(number) for number in numbers[2:]]
    assert [entry["globs"] for entry in record["outputs"]] == [[str(n)] for n in numbers[2:]]


def make_folder(path):
    (path / "inner").mkdir(parents=True)
    (path / "inner" / "file").touch()


def make_huge(path):
    with path.open("wb") as file:
        file.truncate(5 << 30)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "put",
    [
        lambda path: None,
        lambda path: path.write_text("{", encoding="utf-8"),
        lambda path: path.write_text('{"skills": {"evil": {}}}', encoding="utf-8"),
        lambda path: path.symlink_to("out/victim"),
        lambda path: path.hardlink_to(path.with_name("out") / "victim"),
        os.mkfifo,
        make_folder,
        make_huge,
    ],
)
def test_whatever_a_command_put_there_is_replaced(workspace, put):
    workspace.record("inputs", INPUT)
    victim = workspace.out / "victim"
    victim.write_text("kept", encoding="utf-8")
    (workspace.path / "metadata.json").unlink()
    put(workspace.path / "metadata.json")
    workspace.record_skill("周报\ud800\n", staged(workspace, "x"))
    assert written(workspace) == json.loads(json.dumps(workspace.metadata))
    assert len(written(workspace)["skills"]) == 1
    assert not (workspace.path / "metadata.json").is_symlink()
    assert victim.read_text(encoding="utf-8") == "kept"


def test_no_temporary_file_is_left(workspace, monkeypatch):
    before = written(workspace)

    def refuse(*args, **kwargs):
        raise PermissionError

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(WorkspaceError, match="cannot be used"):
        workspace.record("inputs", INPUT)
    assert written(workspace) == before
    assert not [name for name in workspace.path.iterdir() if name.name.startswith(".")]
