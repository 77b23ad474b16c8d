"""Tests of the log of usage on disk."""

import json
import os
import stat
import subprocess
import sys
import time

import pytest

from skillsearch.errors import StorageError
from skillsearch.usage import log as logs
from skillsearch.usage.events import packed
from skillsearch.usage.log import UsageLog

WRITER = """
import sys
from pathlib import Path
import numpy as np
from skillsearch.types.answers import SearchResult
from skillsearch.usage.log import Origin, UsageLog
log, vector = UsageLog(Path(sys.argv[1]), has_text=True), np.ones(8, np.float32)
for number in range(500):
    answer = SearchResult(f"{sys.argv[2]} {number}", 0.65, (), True, 0.0)
    log.note_request(Origin("", "/i"), answer, vector)
"""


def kinds(log):
    """Return what each event is, and the skill that it is about."""
    return [(event.kind, event.skill) for event in log.events()]


def test_a_request_and_the_load_that_it_led_to_are_kept(log, origin, answer, vector):
    UsageLog(log.folder, "query").note_request(origin, answer(steep=0.9, brew=0.4), vector())
    UsageLog(log.folder, "show").note_load(origin, "tea:brew")
    request, load = log.events()
    assert (request.state, request.interface) == ("fits", "query")
    assert request.offered == (("tea:steep", 0.9), ("tea:brew", 0.4))
    assert (load.skill, load.after, load.interface) == ("tea:brew", 1, "show")
    assert load.request_id == request.request_id != ""
    assert load.vector == request.vector == packed(vector())
    assert request.text == load.text == ""
    assert abs(request.at - time.time()) < 60


def test_the_folder_and_its_files_are_the_users_alone(log, origin, answer, vector):
    umask = os.umask(0)
    try:
        log.note_request(origin, answer(steep=0.9), vector())
    finally:
        os.umask(umask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in log.folder.iterdir()}
    assert modes == {"events.jsonl": 0o600, "key": 0o600, "lock": 0o600}
    assert stat.S_IMODE(log.folder.stat().st_mode) == 0o700
    log.file.chmod(0o644)
    log.note_load(origin, "tea:steep")
    assert stat.S_IMODE(log.file.stat().st_mode) == 0o600


def test_words_are_kept_only_if_they_are_asked_for(log, origin, answer, vector):
    request = answer().query
    words = request.split()
    log.note_request(origin, answer(steep=0.9), vector())
    log.note_load(origin, "tea:steep")
    log.pin(origin, request, vector(), "tea:steep")
    files = [path for path in log.folder.rglob("*") if path.is_file()]
    assert len(files) == 3
    for path in files:
        data = path.read_bytes().lower()
        for begin in range(len(words) - 3):
            assert " ".join(words[begin : begin + 4]).lower().encode() not in data
    with_text = UsageLog(log.folder, has_text=True)
    with_text.note_request(origin, answer(steep=0.9), vector())
    assert log.events()[-1].text == request
    log.note_load(origin, "tea:brew")  # no words again: nor those of the request before
    assert (log.events()[-1].after, log.events()[-1].text) == (1, "")


def test_a_request_is_known_again_by_a_key_that_is_the_users(log, origin, answer, vector, tmp_path):
    other = UsageLog(tmp_path / "other")
    for users, request in ((log, "Steep  TEA"), (log, "steep tea"), (other, "steep tea")):
        users.note_request(origin, answer(request), vector())
    (first, second), (third,) = log.events(), other.events()
    assert first.request_id == second.request_id != third.request_id
    assert first.project_id != third.project_id
    assert str(tmp_path).encode() not in log.file.read_bytes()


def test_a_load_is_due_to_the_last_request_that_offered_it(log, origin, answer, vector):
    log.note_request(origin, answer("a b c", steep=0.9), vector(1))
    log.note_request(origin, answer("d e f", brew=0.9), vector(2))
    log.note_load(origin, "tea:steep")
    log.note_load(origin, "tea:lemon")
    first, second, offered, other = log.events()
    assert (offered.request_id, offered.after) == (first.request_id, 2)
    assert (other.request_id, other.after) == (second.request_id, 1)


def test_a_load_of_another_project_or_much_later_is_due_to_none(
    log, origin, answer, vector, tmp_path, monkeypatch
):
    (tmp_path / "elsewhere" / ".git").mkdir(parents=True)
    log.note_request(origin, answer(steep=0.9), vector())
    log.note_load(origin._replace(folder=str(tmp_path / "elsewhere")), "tea:steep")
    late = time.time() + logs.WINDOW_SECONDS + 5
    monkeypatch.setattr(logs.time, "time", lambda: late)
    log.note_load(origin, "tea:steep")
    assert [(event.request_id, event.after) for event in log.events()[1:]] == [("", 0)] * 2


def test_a_skill_that_is_loaded_again_counts_once_for_a_request(log, origin, answer, vector):
    for _ in range(2):
        log.note_request(origin, answer(steep=0.9), vector())
        log.note_load(origin, "tea:steep")
        log.note_load(origin, "tea:steep")
    assert kinds(log).count(("loaded", "tea:steep")) == 1


@pytest.mark.slow
def test_two_processes_lose_and_tear_nothing(log):
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, log.folder, name]) for name in ("a", "b")
    ]
    assert [process.wait() for process in running] == [0, 0]
    lines = log.file.read_bytes().splitlines()
    assert sorted(json.loads(line)["text"] for line in lines) == sorted(
        f"{name} {number}" for name in ("a", "b") for number in range(500)
    )


def test_what_is_damaged_is_skipped(log, origin, answer, vector):
    log.note_request(origin, answer(steep=0.9), vector())
    with log.file.open("ab") as file:
        file.write(b'\xff\x00{"kind": "asked"}\n{"kind": "loa')
    log.note_load(origin, "tea:steep")
    assert kinds(log) == [("asked", ""), ("loaded", "tea:steep")]
    assert len(log.usage(origin, 8)) == 1


def test_the_older_half_goes_but_pins_stay(log, origin, answer, vector, monkeypatch):
    log.pin(origin, "pin me", vector(), "tea:steep")
    size = log.file.stat().st_size
    monkeypatch.setattr(logs, "MAX_BYTES", 12 * size)
    for number in range(200):
        log.note_request(origin, answer(f"request {number}"), vector(number))
        assert log.file.stat().st_size <= 12 * size
    events = log.events()
    assert events[0].kind == "pin"
    assert events[-1].vector == packed(vector(199))
    assert 5 < len(events) < 20


def test_pins_leave_room_for_requests(log, origin, answer, vector, monkeypatch):
    """Above the bound all else was dropped at each request, and pins were lost at last."""
    for number in range(10):
        log.pin(origin, f"request {number}", vector(number), "tea:steep")
    monkeypatch.setattr(logs, "MAX_BYTES", 2 * log.file.stat().st_size)
    log.pin(origin, "request 3", vector(3), "tea:steep")
    with pytest.raises(StorageError, match=r"10 pins, and room for no more.*--unpin REQUEST NAME"):
        log.pin(origin, "one more", vector(11), "tea:steep")
    assert kinds(log) == [("pin", "tea:steep")] * 10
    log.unpin(origin, "request 3", "tea:steep")
    log.pin(origin, "one more", vector(11), "tea:steep")


@pytest.mark.parametrize("damage", ["folder", "file", "key", "lock"])
def test_a_log_that_cannot_be_written_fails_nothing(log, origin, answer, vector, damage):
    log.note_request(origin, answer(steep=0.9), vector())
    path = {"folder": log.folder, "file": log.file}.get(damage, log.folder / damage)
    if path.is_dir():
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
        path.write_text("no folder")
    else:
        path.unlink()
        path.mkdir()
    broken = UsageLog(log.folder)
    broken.note_request(origin, answer(steep=0.9), vector())
    broken.note_load(origin, "tea:steep")
    assert not len(broken.usage(origin, 8))
    with pytest.raises(StorageError, match="cannot be changed"):
        broken.pin(origin, "pin me", vector(), "tea:steep")


def test_a_key_that_others_can_read_is_not_used(log, origin, answer, vector):
    log.note_request(origin, answer(steep=0.9), vector())
    (log.folder / "key").chmod(0o644)
    UsageLog(log.folder).note_request(origin, answer(steep=0.9), vector())
    assert len(log.events()) == 1


def test_a_lock_that_another_process_keeps_delays_little(log, origin, answer, vector, monkeypatch):
    log.note_request(origin, answer(steep=0.9), vector())
    monkeypatch.setattr(logs, "_LOCK_SECONDS", 0.05)
    with logs.briefly_locked(log.folder / "lock", 0.1):
        begun = time.monotonic()
        log.note_request(origin, answer(steep=0.9), vector())
        assert time.monotonic() - begun < 5
    assert len(log.events()) == 1


def test_a_pin_is_kept_once_and_taken_back(log, origin, vector):
    for request in ("steep tea", "Steep Tea", "other"):
        log.pin(origin, request, vector(), "tea:steep")
    assert kinds(log) == [("pin", "tea:steep")] * 2
    assert log.unpin(origin, "STEEP tea", "tea:steep") == 1
    assert log.unpin(origin, "steep tea", "tea:steep") == 0
    assert len(log.events()) == 1


def test_what_is_forgotten_is_gone(log, origin, answer, vector):
    log.note_request(origin, answer(steep=0.9, brew=0.8), vector())
    log.note_load(origin, "tea:steep")
    log.note_load(origin, "tea:brew")
    log.pin(origin, "pin me", vector(), "tea:steep")
    assert log.forget(["tea:steep"]) == 3
    assert b"steep" not in log.file.read_bytes()
    assert kinds(log) == [("asked", ""), ("loaded", "tea:brew")]
    assert log.forget(None) == 2
    assert {path.name for path in log.folder.iterdir()} == {"lock"}
    assert log.events() == []


def test_a_log_that_is_open_goes_on_after_another_process_forgot_all(log, origin, answer, vector):
    """With the key that is there then, so that both know each other's requests."""
    other = UsageLog(log.folder)
    log.note_request(origin, answer(steep=0.9), vector())
    other.forget(None)
    for opened in (other, log):
        opened.note_request(origin, answer(steep=0.9), vector())
    assert len({event.request_id for event in log.events()}) == 1
    assert len(log.of_index(origin)) == len(other.of_index(origin)) == 2


def test_usage_is_read_once_and_then_what_is_new(log, origin, answer, vector, monkeypatch):
    parsed = []
    read_line = logs.read_line
    monkeypatch.setattr(logs, "read_line", lambda line: parsed.append(line) or read_line(line))
    for number in range(3):
        log.note_request(origin, answer(f"request {number}", steep=0.9), vector(number))
        log.note_load(origin, "tea:steep")
    first = log.usage(origin, 8)
    assert len(first) == 3
    parsed.clear()
    assert log.usage(origin, 8, first) is first
    log.note_request(origin, answer("request 4", steep=0.9), vector(4))
    second = log.usage(origin, 8, first)
    assert second.vectors is first.vectors
    assert second.read.stat[2] == log.file.stat().st_size
    assert parsed == []
    log.note_load(origin, "tea:steep")
    parsed.clear()
    third = log.usage(origin, 8, second)
    assert len(third) == 4
    assert len(parsed) == 1
    for elsewhere in (origin._replace(model="another"), origin._replace(index_dir="/other")):
        assert not len(log.usage(elsewhere, 8, third))
        assert len(log.usage(origin, 8, log.usage(elsewhere, 8))) == 4
    log.forget(["tea:steep"])
    assert not len(log.usage(origin, 8, third))


def test_reading_makes_nothing(log, origin):
    assert log.events() == []
    assert not len(log.usage(origin, 8))
    assert not log.folder.exists()


def test_a_log_is_described_for_another_process(log):
    for described in (log, UsageLog(log.folder, has_text=True)):
        again = UsageLog.read(str(described))
        assert (str(again), again.folder) == (str(described), log.folder)
    assert UsageLog.read("") is None
