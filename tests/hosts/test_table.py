"""A host is one row of one table: everything else reads it from there."""

import json
import os
import subprocess
import sys

from skillsearch.hosts import scan
from skillsearch.hosts.entries import HOSTS
from skillsearch.hosts.table import hidden_folders, with_key
from skillsearch.settings.environ import PLACES

RUN = """
import json, sys
from click.testing import CliRunner
from skillsearch.cli.app import app
for words, stdin in json.load(sys.stdin):
    done = CliRunner().invoke(app, words, input=stdin, obj=120.0 if words[0] == "hook" else None)
    print(json.dumps([done.stdout, done.stderr]))
"""
"""Runs commands in one process."""
ROW = """
[quill]
title = "Quill Agent"
skills = ["{QUILL_HOME:~/.quill}/abilities"]
project = [".quill/abilities"]
first = "user"
fields = ["quill-mode"]
program = "quill"
form = "json"
servers = "mcpServers"
user = ["QUILL_HOME", "~/.quill", "quill.json"]
starts = { command = "{program}", args = ["{args}"] }
reaches = { url = "{url}" }
[quill.listing]
order = "all are listed"
rule = "each"
limit = ["characters each", 8]
[quill.hook]
# A comment of a source.
event = "BeforeWriting"
runs = { type = "command", command = "{line}", timeout = 10 }
"""


def test_a_new_host_takes_one_row(package_copy, tmp_path, make_skill):
    with (package_copy / "hosts" / "hosts.toml").open("a", encoding="utf-8") as table:
        table.write(ROW)
    home, programs = tmp_path / "home", tmp_path / "bin"
    programs.mkdir()
    (programs / "quill").write_text("#!/bin/sh\n")
    (programs / "quill").chmod(0o755)
    skill = make_skill(home / "moved" / "abilities", "mend-quills", "Sharpen and mend a quill.")
    skill_md = skill / "SKILL.md" if skill.is_dir() else skill
    text = skill_md.read_text("utf-8").replace("---\n", "---\nquill-mode: fine\n", 1)
    skill_md.write_text(text, "utf-8")
    variables = {
        "HOME": str(home),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(package_copy.parent),
        "QUILL_HOME": str(home / "moved"),
        "SKILLSEARCH_MODEL": "hashing",
        "SKILLSEARCH_DAEMON": "off",
    }

    event = json.dumps({"prompt": "mend a quill", "session_id": "1", "cwd": str(home)})
    commands = {
        "index": (),
        "setup": ("--yes",),
        "hook": ("--client", "quill"),
        "budget": ("--host", "quill"),
        "doctor": (),
        "validate": ("--for", "quill", str(skill_md)),
        "mcp-config": ("--help",),
    }
    form = {"hook": [], "mcp-config": []}
    runs = [
        ([name, *options, *form.get(name, ["--json"])], event if name == "hook" else None)
        for name, options in commands.items()
    ]
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(runs),
        capture_output=True,
        text=True,
        env=variables,
        cwd=home,
        timeout=120,
    )
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(stdout for stdout, _ in printed), (printed, done.stderr)
    *texts, usage = (stdout for stdout, _ in printed)
    answers = dict(zip(commands, map(json.loads, texts), strict=False))

    assert answers["index"]["indexed"] == 1
    (row,) = (row for row in answers["setup"]["hosts"] if row["host"] == "quill")
    assert row["state"] == "changed"
    written = json.loads((home / "moved" / "quill.json").read_text("utf-8"))
    assert "skillsearch" in written["mcpServers"]
    assert "BeforeWriting" in written["hooks"]
    output = answers["hook"]["hookSpecificOutput"]
    assert output["hookEventName"] == "BeforeWriting"
    assert "mend-quills" in output["additionalContext"]
    (listing,) = answers["budget"]["hosts"]
    assert listing["shortened"] == ["mend-quills"]
    assert "abilities" in json.dumps(answers["doctor"])
    problems = answers["validate"]["diagnostics"]
    (severity,) = (
        problem["severity"] for problem in problems if "quill-mode" in problem["message"]
    )
    assert severity == "note"
    assert "or quill" in " ".join(usage.split())


def test_what_the_hook_reads_of_the_table_is_what_is_parsed():
    parsed = {name: row["hook"]["event"] for name, row in with_key("hook").items()}
    assert parsed == scan.EVENTS
    assert {row["user"][0] for row in HOSTS.values()} - {""} <= set(scan.VARIABLES) <= set(PLACES)


def test_hidden_folders_of_hosts_hold_live_skills():
    assert {".claude", ".agents", ".codeium", ".config"} <= hidden_folders()
    assert all(name[0] == "." and "/" not in name for name in hidden_folders())
