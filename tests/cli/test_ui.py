"""Tests of ``skillsearch ui``: what it serves, to whom, and what it starts."""

import http.client
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import skillsearch
from skillsearch.index.skill_index import SkillIndex


def test_a_folder_of_reports_that_is_not_there_is_told(cli, index_dir):
    result = cli("ui", "--index-dir", index_dir, "--reports", "nowhere")
    assert result.exit_code == 2
    assert "'nowhere' does not exist" in result.stderr


@pytest.fixture
def start(drinks, index_dir, home):
    """Start the command; return the process and the address that it prints."""
    SkillIndex.from_roots([drinks], index_dir=index_dir, model="hashing")
    command = [sys.executable, "-m", "skillsearch", "ui", "--index-dir", str(index_dir)]
    folder = str(Path(skillsearch.__file__).parents[1])
    env = {"HOME": str(home), "PYTHONPATH": folder, "PATH": "/usr/bin:/bin"}
    running = []

    def begin(*args, **variables):
        process = subprocess.Popen(
            [*command, *args], stderr=subprocess.PIPE, env=env | variables, text=True
        )
        running.append(process)
        line = process.stderr.readline()
        return process, re.fullmatch(r"3 skills at (http://127\.0\.0\.1:\d+/[\w-]{43}/)\n", line)[1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def test_the_command_serves_this_machine_until_it_is_interrupted(start):
    process, url = start()
    address = urlsplit(url)
    for host, status in ((address.netloc, 200), ("localhost:1", 200), ("evil.example", 421)):
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=120)
        connection.request("GET", address.path, headers={"Host": host})
        assert connection.getresponse().status == status
        connection.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130
    assert process.stderr.read() == ""


def test_the_browser_is_started_without_the_secret(start, tmp_path):
    """All users may read what it is started with; only this one reads the file, while it serves."""
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(
        f'#!/bin/sh\nf="${{1#file://}}"\n'
        f'{{ echo "$@"; stat -c %a "$f"; cat "$f"; }} > {seen}.new\nmv {seen}.new {seen}\n'
    )
    browser.chmod(0o755)
    process, url = start("--open", BROWSER=f"{browser} %s", TMPDIR=str(tmp_path))
    while not seen.exists():
        assert process.poll() is None
        time.sleep(0.05)
    started_with, mode, page = seen.read_text().splitlines()
    assert urlsplit(url).path.strip("/") not in started_with
    assert (mode, url in page) == ("600", True)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130
    assert not Path(urlsplit(started_with).path).exists()


def test_without_the_extra_the_command_says_what_to_install(indexed, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    result = indexed("ui")
    assert result.exit_code == 1
    assert re.search(r"The page needs starlette: .*\[ui\]", result.stderr)
