"""Which folders hold live skills, and which hold what was thrown away or kept aside."""

import pytest

from skillsearch.skills.folders import (
    in_checkout,
    is_in_trash,
    is_thrown_away,
    remoteness,
    repository_of,
)

THROWN_AWAY, LIVE = (
    [
        ".trash", ".Trash", ".Trash-1000", ".Trashes", ".trash_2024", ".backup", ".backups",
        ".backup-2024-01-01", ".old", ".archive", ".archived", ".bak", ".attic", ".disabled",
        ".history", ".snapshots", ".deleted", "$RECYCLE.BIN", "lost+found", "pdf.bak", "pdf.bak.1",
        "pdf.BAK", "pdf.bak-2", "pdf.old", "pdf.orig", "pdf~", "pdf.backup", "pdf.disabled",
        "x.~1~",
    ],
    [
        ".claude", ".agents", ".agent-skills", ".codex", ".cursor", ".github", ".gemini",
        ".opencode", ".curated", ".system", ".experimental", "trash", "archive", "backup",
        "db-backup", "backup-postgres", "old", "old-english", "bold", "trash-cleaner",
        "restore.old-db",
        "threshold", "archives", "pdf", ".trashcan-skills-of-mine", "gold", "pdf.v2",
    ],
)  # fmt: skip


def test_what_people_throw_away_or_keep_aside_is_no_skill():
    assert [name for name in THROWN_AWAY if not is_thrown_away(name)] == []
    assert [name for name in LIVE if is_thrown_away(name)] == []


def test_what_lies_in_a_trash_is_thrown_away_but_a_skill_may_be_named_so():
    assert is_in_trash("trash/pdf")
    assert is_in_trash("a/Trash/2024/pdf")
    assert not is_in_trash("trash")
    assert not is_in_trash("a/trash")
    assert not is_in_trash("trash-it/pdf")


def test_copies_are_the_more_remote_the_further_they_lie_aside():
    live = ["pdf", "a/b/pdf", ".claude/skills/pdf", ".agents/skills/pdf", "a/.github/skills/pdf"]
    live += ["old", "archive", "."]  # a skill's own name says what it is about
    assert {remoteness(folder) for folder in live} == {0}
    rising = ["pdf", ".cache/pdf", ".cache/old/pdf", "worktrees/x/pdf", ".worktrees/x/.pdf"]
    numbers = list(map(remoteness, rising))
    assert numbers == sorted(set(numbers))
    assert remoteness("archive/pdf") == remoteness("_old/pdf") == remoteness(".pdf") == 1
    assert remoteness("/".join(["old"] * 99) + "/pdf") < remoteness(".claude/worktrees/x/pdf") < 256


@pytest.mark.parametrize(
    "name", ["pdf copy", "pdf copy 2", "pdf - Copy", "pdf - Copy (3)", "pdf (1)"]
)
def test_what_a_file_manager_calls_a_copy_is_remote(name):
    assert remoteness(name) == remoteness(f"{name}/pdf") == 1
    assert remoteness("copy") == remoteness("pdf-copy") == remoteness("copy-editor") == 0


@pytest.mark.parametrize("prefix", [".worktrees/fix", ".claude/worktrees/a-b", "x/worktrees/y"])
def test_another_checkout_names_the_same_folder(prefix):
    assert in_checkout(f"{prefix}/skills/pdf") == "skills/pdf"
    assert in_checkout("skills/pdf") == "skills/pdf"


def test_the_repository_of_a_skill_is_its_root_or_the_first_folder_below_it():
    named = {
        "tea:green": "tea",
        "tea:.": "tea",
        "all:acme+skills/green": "all/acme+skills",
        "all:acme+skills/skills/tea/green": "all/acme+skills",
        "acme:skills/green": "acme",
        "acme:Plugins/tea/skills/green": "acme",
        "acme:.claude/skills/green": "acme",
        "a/b:packages/green": "a/b",
    }
    assert {doc_id: repository_of(doc_id) for doc_id in named} == named
