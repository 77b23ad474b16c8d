"""Tests of ``skillsearch find``: in a real terminal of its own, and by keys from a pipe."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

import pytest

from skillsearch.errors import CacheError
from skillsearch.types.answers import Explanation, Hit, SearchResult

pyte = pytest.importorskip("pyte")
pytest.importorskip("prompt_toolkit")
SECONDS = 120
"""What a busy machine may take."""
UP, DOWN, ESCAPE, INTERRUPT = "\x1b[A", "\x1b[B", "\x1b", "\x03"


class Terminal:
    """A process whose controlling terminal is drawn by pyte, and whose stdout is a pipe."""

    def __init__(self, argv, env, columns=80, rows=24):
        self.screen = pyte.Screen(columns, rows)
        self._stream, self.written = pyte.ByteStream(self.screen), b""
        self._stdout, stdout = os.pipe()
        self.fd, slave = pty.openpty()
        self.resize(columns, rows)
        self.state = termios.tcgetattr(self.fd)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may run under nohup

        self._process = subprocess.Popen(
            argv,
            stdin=slave,
            stderr=slave,
            stdout=stdout,
            preexec_fn=own_terminal,
            env=env | {"TERM": "xterm-256color"},
        )
        os.close(slave)
        os.close(stdout)

    def resize(self, columns, rows):
        """Give it another size, as a person does with a window."""
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                self.written += (data := os.read(self.fd, 65536))
            except OSError:
                return False
            self._stream.feed(data)
        return True

    @property
    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def wait(self, text):
        """Wait until a text is on the screen; return its lines."""
        end = time.monotonic() + SECONDS
        while not any(text in line for line in self.lines):
            assert time.monotonic() < end, "\n".join([f"no {text!r} in:", *self.lines])
            assert self._read(0.05), "\n".join(self.lines)
        return self.lines

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def hang_up(self):
        os.close(self.fd)
        return self._process.wait(SECONDS)

    def end(self, number=None):
        """Wait for the end, maybe after a signal; return the exit code and what stdout got."""
        if number:
            self._process.send_signal(number)
        end = time.monotonic() + SECONDS
        while self._process.poll() is None and time.monotonic() < end:
            self._read(0.05)
        self._process.kill()
        self.state = termios.tcgetattr(self.fd)
        with os.fdopen(self._stdout, "rb") as file:
            printed = file.read()
        os.close(self.fd)
        return self._process.wait(), printed.decode()


@pytest.fixture
def find(indexed, index_dir, environment):
    def begin(*args, columns=80, rows=24):
        argv = [sys.executable, "-m", "skillsearch", "find", "--index-dir", index_dir]
        return Terminal([*argv, "--threshold", "0.2", *args], environment, columns, rows)

    return begin


@pytest.mark.parametrize(
    ("what", "printed"),
    [
        pytest.param(None, "{0}/brew-coffee\n", marks=pytest.mark.slow),
        pytest.param("path", "{0}/brew-coffee/SKILL.md\n", marks=pytest.mark.night),
        pytest.param("name", "brew-coffee\n", marks=pytest.mark.night),
        pytest.param(
            "body",
            "# Coffee\n\n## Grind\n\nGrind the beans just before you brew.\n\n",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_enter_prints_what_is_wanted_of_the_chosen_skill(what, printed, find, drinks):
    """Nothing else is on stdout, so a shell can use it."""
    at = find(*(["--print", what] if what else []))
    at.wait("3 skills.")
    at.type("brew filter coffee")
    at.wait("terms: ")
    lines = at.wait("Grind the beans")  # the last of what is drawn
    assert lines[0] == "> brew filter coffee"
    assert lines[2].startswith("> fits")
    assert "brew-coffee" in lines[2]
    assert any("Grind the beans" in line for line in lines)
    at.type("\r")
    code, output = at.end()
    assert (code, output.rstrip("\n")) == (0, printed.format(drinks).rstrip("\n"))


@pytest.mark.slow
def test_what_is_left_out_is_not_listed(find):
    at = find("--exclude", "brew-*")
    at.wait("3 skills.")
    at.type("brew filter coffee")
    assert "brew-coffee" not in "\n".join(at.wait("fit"))
    at.type(ESCAPE)
    assert at.end() == (130, "")


@pytest.mark.parametrize(
    "key",
    [
        *(pytest.param(key, marks=pytest.mark.slow) for key in (signal.SIGTERM, ESCAPE)),
        *(
            pytest.param(key, marks=pytest.mark.night)
            for key in (signal.SIGHUP, signal.SIGINT, "\r")
        ),
    ],
)
def test_however_it_ends_the_terminal_is_as_it_was(key, find):
    at = find("brew filter coffee")
    before = at.state
    at.wait("Grind the beans")
    assert termios.tcgetattr(at.fd) != before
    at.type(key if isinstance(key, str) else "")
    code, _ = at.end(None if isinstance(key, str) else key)
    assert code == {"\r": 0, signal.SIGTERM: -15, signal.SIGHUP: -1}.get(key, 130)
    assert at.state == before
    assert pyte.modes.DECTCEM in at.screen.mode
    for mode in (b"?1049", b"?2004", b"?1000", b"?1"):
        begun, ended = (at.written.rfind(b"\x1b[" + mode + end) for end in (b"h", b"l"))
        assert begun <= ended, mode
    assert b"\x1b[?1049h" in at.written


def test_it_ends_with_its_terminal(find):
    at = find("brew filter coffee")
    at.wait("Grind the beans")
    assert at.hang_up() == -1


def test_it_follows_the_size_of_the_window(find):
    at = find("brew filter coffee or steep green tea", columns=120)
    wide = at.wait("terms: ")
    at.resize(60, 24)
    narrow = at.wait("…")
    assert any(len(line) > 60 for line in wide)
    assert all(len(line) <= 60 for line in narrow)
    at.type(ESCAPE)
    assert at.end() == (130, "")


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(80, marks=pytest.mark.slow),
        *(pytest.param(columns, marks=pytest.mark.night) for columns in (100, 120)),
    ],
)
def test_it_fits_terminals_of_the_usual_sizes(columns, find, mixed, cli, index_dir):
    cli("index", mixed, "--index-dir", index_dir)
    at = find("把销售表格做成图表 coffee", columns=columns)
    lines = at.wait("terms: ")
    listed = [line for line in lines if line[2:6] in ("fits", "may ")]
    assert listed
    assert lines[2 + len(listed)] == "─" * columns
    at.type(ESCAPE)
    assert at.end() == (130, "")


def test_it_uses_the_index_that_it_opened(find, cli, drinks, index_dir):
    """Another process may write a new one, and remove what is shown."""
    at = find()
    at.wait("3 skills.")
    (drinks / "brew-coffee" / "SKILL.md").unlink()
    assert cli("index", "--index-dir", index_dir).exit_code == 0
    at.type("brew filter coffee")
    lines = at.wait("cannot be read")
    assert any("brew-coffee" in line for line in lines)
    at.type(ESCAPE)
    assert at.end() == (130, "")


def test_without_a_terminal_it_names_query(find, index_dir):
    argv = [sys.executable, "-m", "skillsearch", "find", "--index-dir", str(index_dir)]
    done = subprocess.run(argv, stdin=-3, capture_output=True, text=True, start_new_session=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "find needs a terminal; in scripts, use: skillsearch query TEXT" in done.stderr


def test_without_its_extra_it_says_how_to_install_it(indexed, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = indexed("find")
    assert done.exit_code == 1
    assert "prompt_toolkit" in done.stderr
    assert "[find]'" in done.stderr


def test_an_empty_index_has_nothing_to_pick(find, cli, index_dir, drinks):
    for path in drinks.glob("*/SKILL.md"):
        path.unlink()
    cli("index", "--index-dir", index_dir)
    at = find()
    at.wait("0 skills.")
    at.type("tea\r")
    at.wait("No skill fits")
    at.type(ESCAPE)
    assert at.end() == (130, "")


@pytest.fixture
def by_keys():
    """Pick by keys from a pipe, on a screen that is thrown away."""
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    from skillsearch.cli.interactive.picker import Picker

    def pick(search, keys, text="", body=lambda _: "", more=()):
        answered = threading.Event()

        def tell(text):
            try:
                return search(text)
            finally:
                answered.set()

        with create_pipe_input() as pipe:
            pipe.send_text(keys if isinstance(keys, str) else "")
            if not isinstance(keys, str):
                threading.Thread(target=keys, args=(pipe, answered)).start()
            return Picker([tell, *more], body, "").pick(text, pipe, DummyOutput())

    return pick


def answer(query, names="abc", fit=1):
    hits = tuple(
        Hit(rank, name, name, 1 / rank, f"/{name}/SKILL.md", "/", f"r:{name}", explain=NOTHING)
        for rank, name in enumerate(names, start=1)
    )
    return SearchResult(query, 0.5, hits[:fit], not fit, 0.0, hits[fit:])


NOTHING = Explanation({}, {}, {}, 0.0, {})


def slow(keys, pauses):
    """Press keys one after the other, with pauses, all but the first once there is an answer."""

    def press(pipe, answered):
        for key in keys:
            pipe.send_text(key)
            answered.wait(SECONDS)
            time.sleep(pauses)

    return press


@pytest.mark.parametrize(
    ("keys", "name"), [("", "a"), (DOWN, "b"), (DOWN * 9, "c"), (DOWN * 2 + UP, "b"), (UP, "a")]
)
def test_arrows_choose_within_the_list(keys, name, by_keys):
    assert by_keys(answer, slow(["x", *([keys] if keys else []), "\r"], 0.3)).name == name


def test_enter_waits_for_the_answer_to_what_was_typed(by_keys):
    searched = []

    def search(text):
        searched.append(text)
        time.sleep(0.1)
        return answer(text, names=[f"for {text}"])

    assert by_keys(search, "tea\r").name == "for tea"
    assert searched == ["tea"]


def test_the_chosen_skill_stays_chosen_when_a_reader_has_read(by_keys):
    """The second search runs when typing pauses, and may order the skills anew."""
    searched = []

    def read(text):
        searched.append(text)
        return answer(text, names="acb")

    press = slow(["x", DOWN, "", "", "", "", "\r"], 0.3)
    assert by_keys(answer, press, more=[read]).name == "b"
    assert searched == ["x"]


def test_what_a_reader_finds_best_is_chosen_until_somebody_chooses(by_keys):
    more = [lambda text: answer(text, names="cab")]
    assert by_keys(answer, slow(["x", "", "", "", "", "\r"], 0.3), more=more).name == "c"
    chosen = slow(["x", DOWN, UP, "", "", "", "", "\r"], 0.2)
    assert by_keys(answer, chosen, more=more).name == "a"


@pytest.mark.parametrize(
    ("seconds", "last_key", "standing"),
    [
        ((3600, 3600), ESCAPE, None),
        ((3600, 3600), "\r", "tea"),
        ((3600, 0), ESCAPE, "tea"),
        ((0, 3600), ESCAPE, None),
    ],
)
def test_only_an_answer_that_was_read_stands(seconds, last_key, standing, monkeypatch, wait_for):
    """One to choose from, or one after which no key came for some seconds; not one for each key."""
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    from skillsearch.cli.interactive import picker

    searched = []
    chooser = picker.Picker(
        [lambda text: searched.append(text) or answer(text)], lambda _: "", "No skills."
    )

    def stands(text):
        return chooser.standing and chooser.standing.query == text

    def press(pipe):
        for key, text, pause in zip(("t", "ea"), ("t", "tea"), seconds, strict=True):
            monkeypatch.setattr(picker, "STANDING_SECONDS", pause)
            pipe.send_text(key)
            wait_for(lambda text=text: searched[-1:] == [text])
            if not pause:
                wait_for(lambda text=text: stands(text))
        pipe.send_text(last_key)

    with create_pipe_input() as pipe:
        threading.Thread(target=press, args=(pipe,)).start()
        chooser.pick("", pipe, DummyOutput())
    assert searched == ["t", "tea"]
    assert (chooser.standing and chooser.standing.query) == standing


def test_keys_are_never_blocked_by_a_search(by_keys):
    begun, goes_on = threading.Event(), threading.Event()

    def search(text):
        begun.set()
        goes_on.wait(SECONDS)
        return answer(text)

    def press(pipe, _answered):
        pipe.send_text("x")
        begun.wait(SECONDS)
        pipe.send_text(INTERRUPT)
        time.sleep(0.2)
        goes_on.set()

    assert by_keys(search, press) is None


def test_an_error_of_a_search_is_said_and_the_next_one_runs(by_keys):
    """A damaged index does not end the picker."""

    def search(text):
        if text == "x":
            raise CacheError("damaged")
        return answer(text)

    assert by_keys(search, slow(["x", "y", "\r"], 0.4)).name == "a"


def test_a_bug_ends_the_picker_with_its_error(by_keys):
    """The command line makes a line of it, and the terminal is as it was."""
    with pytest.raises(ZeroDivisionError):
        by_keys(lambda _: 1 // 0, "x")


@pytest.mark.slow
def test_what_skills_say_moves_no_cursor_and_hides_nothing(cli, tmp_path, make_skill, environment):
    evil = "\x1b]0;owned\x07\x1b[2J\u202eevil\u200b\x9b31m"
    path = make_skill(tmp_path / "s", "tea", f"Steep tea {evil}", body=f"# Tea {evil}\n\ttab\n")
    cli("index", tmp_path / "s", "--index-dir", tmp_path / "i", "--model", "hashing")
    argv = [sys.executable, "-m", "skillsearch", "find", "--index-dir", tmp_path / "i", "tea"]
    at = Terminal([*argv, "--threshold", "0"], environment)
    lines = at.wait("# Tea")
    assert at.screen.title != "owned"
    assert all(line.isprintable() for line in lines)
    assert any("    tab" in line for line in lines)
    at.type("\r")
    assert at.end() == (0, f"{path.parent}\n")
