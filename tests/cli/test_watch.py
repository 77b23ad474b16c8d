"""Tests of ``skillsearch watch``, as a process: it ends only when it is told to."""

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from skillsearch.index.roots.request import IndexRequest
from skillsearch.index.skill_index import SkillIndex
from skillsearch.settings.environ import install_extra

PROGRAM = [sys.executable, "-m", "skillsearch"]


class Process:
    """A watch in a process of its own, its output in two files."""

    def __init__(self, folder, args, env):
        self.stdout, self.stderr = folder / "stdout", folder / "stderr"
        with self.stdout.open("w") as out, self.stderr.open("w") as err:
            self.process = subprocess.Popen(
                [*PROGRAM, "watch", *map(str, args)], stdout=out, stderr=err, env=env, cwd=folder
            )

    def lines(self, path, count):
        """Wait for some lines of output and return all."""
        return self.until(lambda: path.read_text().splitlines(), lambda lines: len(lines) >= count)

    def until(self, look, is_there):
        """Wait until something is there to see."""
        deadline = time.monotonic() + 120
        while not is_there(look()):
            assert self.process.poll() is None, self.stderr.read_text()
            assert time.monotonic() < deadline, self.stderr.read_text()
            time.sleep(0.02)
        return look()

    def end(self, sign):
        """Send a signal and return the exit code."""
        self.process.send_signal(sign)
        return self.process.wait(120)


@pytest.fixture
def start(tmp_path, environment):
    """Start a watch, and let none outlive the test."""
    running = []

    def begin(*args, model="hashing"):
        running.append(Process(tmp_path, args, environment | {"SKILLSEARCH_MODEL": model}))
        return running[-1]

    yield begin
    for watch in running:
        watch.process.kill()
        watch.process.wait(120)


def names(index_dir):
    return [document.name for document in SkillIndex.open(index_dir).documents()]


@pytest.mark.slow
def test_the_index_follows_the_folders(start, drinks, index_dir, make_skill):
    watch = start(drinks, "--index-dir", index_dir)
    (first,) = watch.lines(watch.stderr, 1)
    assert first.startswith("3 skills in the index: 3 read, 0 removed, ")
    make_skill(drinks, "mix-juice")
    second = watch.lines(watch.stderr, 2)[1]
    assert second.startswith("4 skills in the index: 1 read, 0 removed, ")
    assert "mix-juice" in names(index_dir)
    (drinks / "steep-tea" / "SKILL.md").unlink()
    third = watch.lines(watch.stderr, 3)[2]
    assert third.startswith("3 skills in the index: 0 read, 1 removed, ")
    assert "steep-tea" not in names(index_dir)
    assert watch.end(signal.SIGTERM) == 0
    assert watch.stdout.read_text() == ""
    assert len(watch.stderr.read_text().splitlines()) == 3


def test_watch_adds_as_index_does(start, cli, drinks, index_dir, make_skill):
    cli("index", drinks, "--index-dir", index_dir, "--model", "hashing")
    make_skill(drinks.parent / "second", "mix-juice")
    watch = start(drinks.parent / "second", "--index-dir", index_dir)
    watch.lines(watch.stderr, 1)
    assert watch.end(signal.SIGTERM) == 0
    assert [root.name for root in IndexRequest.load(index_dir).named] == ["drinks", "second"]


@pytest.mark.slow
def test_json_is_one_object_a_line(start, drinks, index_dir, make_skill):
    watch = start(drinks, "--index-dir", index_dir, "--json")
    watch.lines(watch.stdout, 1)
    make_skill(drinks, "mix-juice")
    first, second = map(json.loads, watch.lines(watch.stdout, 2))
    assert (first["indexed"], second["indexed"], second["reused"]) == (3, 4, 3)
    assert watch.end(signal.SIGINT) == 130
    assert watch.stderr.read_text() == "Stopped watching.\n"


@pytest.mark.slow
def test_an_index_below_its_root_is_no_reason_for_a_refresh(start, drinks, make_skill):
    watch = start(drinks, "--index-dir", drinks / "index", "--json")
    watch.lines(watch.stdout, 1)
    make_skill(drinks, "mix-juice")
    watch.lines(watch.stdout, 2)
    time.sleep(2)
    assert len(watch.lines(watch.stdout, 2)) == 2


@pytest.mark.slow
def test_a_root_that_vanishes_keeps_its_skills_until_it_returns(
    start, drinks, index_dir, make_skill
):
    """A folder on an unmounted disk is not an empty folder."""
    watch = start(drinks, "--index-dir", index_dir)
    watch.lines(watch.stderr, 1)
    shutil.rmtree(drinks)
    warning = watch.lines(watch.stderr, 2)[1]
    assert warning.startswith("warning: ")
    assert warning.endswith(" Still watching.")
    assert len(names(index_dir)) == 3
    make_skill(drinks.parent, "new")
    make_skill(drinks.parent / "new", "mix-juice")
    (drinks.parent / "new").rename(drinks)
    last = watch.lines(watch.stderr, 3)[2]
    assert last.startswith("2 skills in the index: 2 read, 3 removed, ")
    assert watch.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_sigterm_ends_the_first_indexing_too(start, tmp_path, make_skill, count_saved):
    for number in range(150):
        make_skill(tmp_path / "many", f"skill-{number}", f"Does {number} things. " * 40)
    watch = start("many", "--index-dir", "i", model="onnx")
    watch.until(count_saved, bool)
    assert watch.end(signal.SIGTERM) == 0
    assert not (tmp_path / "i" / "CURRENT").exists()
    assert (watch.stdout.read_text(), watch.stderr.read_text()) == ("", "")


def test_a_folder_that_is_missing_from_the_start_is_a_wrong_usage(cli, tmp_path):
    """A typing error would else be waited for."""
    result = cli("watch", tmp_path / "none", "--index-dir", "i")
    assert result.exit_code == 2
    assert "none" in result.stderr


def test_a_missing_library_is_told_before_anything_is_indexed(cli, drinks, monkeypatch):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    result = cli("watch", drinks, "--index-dir", "i")
    assert result.exit_code == 1
    assert install_extra("watch") in result.stderr
    assert not Path("i").exists()


@pytest.mark.slow
def test_a_watch_ends_when_nobody_reads_what_it_prints(
    tmp_path, drinks, index_dir, make_skill, environment
):
    """As in ``watch --json | head -1``; it does not go on for nobody."""
    args = [*PROGRAM, "watch", str(drinks), "--index-dir", str(index_dir), "--json"]
    env = environment | {"SKILLSEARCH_MODEL": "hashing"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(args, env=env, cwd=tmp_path, text=True, **pipes) as process:
        try:
            process.stdout.readline()
            process.stdout.close()
            for number in range(40):  # the first may come before the watch
                make_skill(drinks, f"mix-{number}", "Mix cocktails with a shaker.")
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=3)
                    break
            assert process.poll() == 1
            assert "Still watching" not in process.stderr.read()
        finally:
            process.kill()
