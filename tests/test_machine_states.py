"""States of a machine by commands: each ends in an answer, or in a message that says what helps."""

import ctypes
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import skillsearch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and mounts as on Linux")
PACKAGE_FOLDER = Path(skillsearch.__file__).parents[1]
DOCUMENTED = (0, 1, 2, 3, 4)
EVENT = json.dumps({"hook_event_name": "UserPromptSubmit", "prompt": "Fill in the PDF form."})
INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        },
    }
)

PROGRAM = """
import ctypes, json, os, resource, struct, sys

def deny(number, error):
    load, test = (0x20, 0, 0, 0), (0x15, 0, 1, number)
    rules = [load, test, (6, 0, 0, 0x50000 | error), (6, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    program = ctypes.create_string_buffer(struct.pack("HP", len(rules), ctypes.addressof(code)))
    assert not ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
    assert not ctypes.CDLL(None).prctl(22, 2, program, 0, 0)

state = json.loads(sys.argv[1])
for name, value in state.get("limits", {}).items():
    resource.setrlimit(getattr(resource, name), (value, value))
for number in state.get("full", ()):
    os.dup2(os.open("/dev/full", os.O_WRONLY), number)
for number in state.get("closed", ()):
    os.close(number)
if "umask" in state:
    os.umask(state["umask"])
if "no_locks" in state:
    deny(*state["no_locks"])
if "gone" in state:
    os.mkdir(state["gone"])
    os.chdir(state["gone"])
    os.rmdir(state["gone"])
sys.argv = ["skillsearch", *sys.argv[2:]]
from skillsearch.cli import main
main()
"""

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
INDEX = "{home}/.cache/skillsearch/default"
NAMELESS = ["unshare", "--user", "--map-user=4242"]
FULL = (
    'cp -a "$HOME/.cache" "$TMPDIR/saved" && mount -t tmpfs -o size=600k tmpfs "$HOME/.cache" && '
    'cp -a "$TMPDIR/saved/." "$HOME/.cache" && cat /dev/zero >"$HOME/.cache/filled"'
)
READ_ONLY = 'mount --bind "$HOME" "$HOME" && mount -o remount,ro,bind "$HOME"'
NO_SHARED = "mount -t tmpfs -o ro tmpfs /dev/shm"
# What each state makes: variables, limits and streams of the process, what is run in a shell before
# it, what runs it, and what is refused (`forbid`: nobody may read or write there).
STATES = {
    "nothing odd": {},
    "HOME unset, user unknown": {"env": {"HOME": None}, "by": NAMELESS, "says": "Set HOME"},
    "user unknown": {"by": NAMELESS},
    "HOME empty": {"env": {"HOME": ""}},
    "HOME relative": {"env": {"HOME": "home"}},
    "HOME a tilde": {"env": {"HOME": "~"}},
    "HOME a file": {"env": {"HOME": "{folder}/file"}},
    "HOME missing": {"env": {"HOME": "{folder}/none/of/these"}},
    "HOME a loop": {"env": {"HOME": "{folder}/loop"}},
    "HOME too long": {"env": {"HOME": f"/{'long' * 70}"}},
    "HOME of two lines": {"env": {"HOME": "{folder}/two\nlines"}},
    "XDG folders are files": {
        "env": {f"XDG_{kind}_HOME": "{folder}/file" for kind in ("CACHE", "CONFIG", "DATA")}
    },
    "names in ASCII": {"env": ASCII},
    "names and output in ASCII": {"env": ASCII | {"PYTHONIOENCODING": "ascii:strict"}},
    "output in ASCII": {"env": {"PYTHONIOENCODING": "ascii:strict"}},
    "unknown locale": {"env": {"LC_ALL": "xx_YY.NONE", "TZ": "No/Where"}},
    "8 open files": {"limits": {"RLIMIT_NOFILE": 8}, "says": "ulimit -n"},
    "20 open files": {"limits": {"RLIMIT_NOFILE": 20}, "says": "ulimit -n"},
    "150 MB of memory": {"limits": {"RLIMIT_AS": 150 << 20}},
    "400 MB of memory": {"limits": {"RLIMIT_AS": 400 << 20}},
    "no file may grow": {"limits": {"RLIMIT_FSIZE": 0}},
    "no process more": {"limits": {"RLIMIT_NPROC": 0}},
    "CURRENT forbidden": {"forbid": f"{INDEX}/CURRENT", "says": "permissions"},
    "manifest forbidden": {"forbid": f"{INDEX}/generations/*/manifest.json", "says": "permissions"},
    "parts forbidden": {"forbid": f"{INDEX}/generations/*/*.npy", "says": "permissions"},
    "generations forbidden": {"forbid": f"{INDEX}/generations", "says": "permissions"},
    "request forbidden": {"forbid": f"{INDEX}/request.json", "says": "permissions"},
    "index forbidden": {"forbid": INDEX, "says": "permissions"},
    "home forbidden": {"forbid": "{home}", "says": "ermission"},
    "disk full": {"within": FULL},
    "disk read-only": {"within": READ_ONLY},
    "no /dev/shm": {"within": NO_SHARED},
    "no folder for temporary files": {"env": {"TMPDIR": "/none"}},
    "working folder gone": {"gone": "{folder}/gone"},
    "stdin closed": {"closed": [0]},
    "stdout closed": {"closed": [1]},
    "stdout full": {"full": [1]},
    "stderr closed": {"closed": [2]},
    "stderr full": {"full": [2]},
    "no stream at all": {"closed": [0, 1, 2]},
    "times in 1930": {"time": -1_262_304_000},
    "times in the year 10000": {"time": 253_402_300_800},
    "PATH empty": {"env": {"PATH": ""}},
    "umask 000": {"umask": 0},
}
COMMANDS = {
    "index": ["index"],
    "query": ["query", "fill in a PDF form", "--json"],
    "list": ["list"],
    "families": ["families"],
    "show": ["show", "fill-日本", "--body"],
    "prompt": ["prompt", "fill in a PDF form"],
    "hook": ["hook"],
    "status": ["status"],
    "doctor": ["doctor"],
    "validate": ["validate", "{skills}"],
    "audit": ["audit"],
    "mcp": ["mcp"],
    "daemon": ["daemon", "status"],
    "cache": ["cache"],
    "env": ["env", "list"],
    "budget": ["budget"],
    "library": ["library", "list"],
    "enrich": ["enrich", "--list"],
    "improve": ["improve", "fill-日本"],
    "eval": ["eval", "{skills}", "--self", "--system", "bm25"],
    "add": ["add", "{skills}"],
    "remove": ["remove", "{skills}"],
    "update": ["update", "--yes"],
    "setup": ["setup", "--yes"],
    "mcp-config": ["mcp-config", "claude-code"],
    "run": ["run", "fill-日本", "--executor", "local", "--", "true"],
    "tune": ["tune", "--out", "{folder}/model", "--minutes", "0.01"],
    "completion": ["completion", "bash"],
    "find": ["find", "pdf"],
    "ui": ["ui"],
    "watch": ["watch"],
}
FLOCK = {"x86_64": 73, "aarch64": 32}
"""The number of the system call, by the machine."""
ENDLESS = ("ui", "watch")
"""Commands that end when they are interrupted."""
PAIRS = [(state, command) for state in STATES for command in COMMANDS]
ALIKE = {
    "user unknown": "HOME unset, user unknown",
    "HOME a tilde": "HOME relative",
    "HOME missing": "HOME a file",
    "HOME of two lines": "HOME a file",
    "names in ASCII": "names and output in ASCII",
    "output in ASCII": "names and output in ASCII",
    "20 open files": "8 open files",
    "400 MB of memory": "150 MB of memory",
    "manifest forbidden": "CURRENT forbidden",
    "generations forbidden": "index forbidden",
    "disk read-only": "disk full",
    "stdin closed": "no stream at all",
    "stdout closed": "no stream at all",
    "stderr full": "stdout full",
    "times in the year 10000": "times in 1930",
    "umask 000": "nothing odd",
    "HOME empty": "HOME relative",
    "HOME a loop": "HOME a file",
    "HOME too long": "HOME a file",
    "XDG folders are files": "HOME a file",
    "unknown locale": "names and output in ASCII",
    "parts forbidden": "CURRENT forbidden",
    "request forbidden": "CURRENT forbidden",
    "home forbidden": "index forbidden",
    "no folder for temporary files": "no /dev/shm",
    "PATH empty": "nothing odd",
    "stderr closed": "no stream at all",
}
"""States in which a query goes the way that it goes in another."""
FAST = [
    *((state, "query") for state in STATES if state not in ALIKE),
    *((state, "index") for state in list(STATES)[::22]),
]
SOME = PAIRS[:: len(COMMANDS) + 1]
"""Each command in a state or two, and all states but one with a command."""


@pytest.fixture(scope="module")
def template(tmp_path_factory, write_skill):
    """Make a home with an index of three skills, one of whose names is not ASCII."""
    folder = tmp_path_factory.mktemp("states")
    skills = folder / "skills"
    for name, description in (
        ("fill-日本", "Fill in PDF forms."),
        ("tea", "Make green tea."),
        ("plants", "Water the plants on the balcony."),
    ):
        write_skill(skills, name, description, "Do it.\n")
    (folder / "home").mkdir()
    done = start(folder, {}, ["index", str(skills), "--model", "hashing"])
    assert done.communicate()[1] == b""
    return folder


def start(folder, state, arguments):
    def filled(text):
        return text.replace("{folder}", str(folder)).replace("{home}", f"{folder}/home")

    env = {
        "PATH": os.environ["PATH"],
        "HOME": f"{folder}/home",
        "TMPDIR": f"{folder}",
        "XDG_RUNTIME_DIR": f"{folder}/runtime",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(PACKAGE_FOLDER),
        "SKILLSEARCH_READER": "off",
        "SKILLSEARCH_DAEMON": "off",
    }
    env |= {name: value and filled(value) for name, value in state.get("env", {}).items()}
    conditions = {
        key: state[key] for key in ("limits", "full", "closed", "umask", "no_locks") if key in state
    }
    conditions |= {"gone": filled(state["gone"])} if "gone" in state else {}
    before = state.get("by", [])
    if "within" in state:
        before = ["unshare", "-rm", "sh", "-c", f'{state["within"]}\nexec "$@"', "sh"]
    return subprocess.Popen(
        [*before, sys.executable, "-c", PROGRAM, json.dumps(conditions), *map(filled, arguments)],
        cwd=folder,
        env={name: value for name, value in env.items() if value is not None},
        preexec_fn=partial(prepare, state),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def prepare(state):
    """Have permissions bind root too."""
    if "forbid" not in state:
        return
    for capability in (1, 2):  # to override permissions, and to read and search despite them
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


@pytest.fixture
def machine(template, tmp_path):
    """Copy the home; the skills stay where they were indexed."""
    shutil.copytree(template / "home", tmp_path / "home", symlinks=True)
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    yield tmp_path
    for path in (tmp_path / "home").rglob("*"):
        with suppress(OSError):
            path.chmod(0o700)


def made(folder, state):
    if "time" in state:
        for path in (folder / "home").rglob("*"):
            os.utime(path, (state["time"], state["time"]))
    forbidden = []
    if "forbid" in state:
        pattern = state["forbid"].replace("{home}", "home")
        forbidden = [(path, path.stat().st_mode) for path in folder.glob(pattern)]
        assert forbidden
    for path, _ in forbidden:
        path.chmod(0)
    return forbidden


def require(state):
    """Skip a state that cannot be made here."""
    before = state.get("by", ["unshare", "-rm"] if "within" in state else None)
    if before and (
        not shutil.which(before[0])
        or subprocess.run([*before, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no user namespaces on this system")


def walk(template, machine, state, arguments, stdin, *, is_endless=False):
    """Run a command in a state, and check what holds in all of them."""
    require(state)
    forbidden = made(machine, state)
    arguments = [word.replace("{skills}", f"{template}/skills") for word in arguments]
    process = start(machine, state, arguments)
    if is_endless:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=3)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(f"{stdin}\n".encode(), timeout=120)
    for path, mode in forbidden:
        with suppress(FileNotFoundError):  # the command was to remove it
            path.chmod(mode)
    text = (output + errors).decode("utf-8", "replace")
    codes = (*DOCUMENTED, 125) if arguments[0] == "run" else DOCUMENTED
    codes = (*codes, 130, -signal.SIGINT) if is_endless else codes
    assert process.returncode in codes, (process.returncode, text)
    for word in ("Traceback", "is a bug", "damaged", "building it anew"):
        assert word not in text
    is_heard = not {1, 2} & {*state.get("closed", ()), *state.get("full", ())}
    assert text or not process.returncode or not is_heard
    return process.returncode, text


@pytest.mark.parametrize(("state", "command"), FAST)
def test_a_state_of_the_machine_ends_in_an_answer_or_a_message(template, machine, state, command):
    conditions, folder = STATES[state], machine / "home/.cache/skillsearch/default"
    before = (folder / "CURRENT").read_text()
    code, text = walk(template, machine, conditions, COMMANDS[command], "")
    assert (folder / "CURRENT").read_text() == before
    if code == 0 and command == "query" and "HOME" not in conditions.get("env", {}):
        is_heard = not {1} & {*conditions.get("closed", ()), *conditions.get("full", ())}
        assert "fill-" in text or not is_heard
    if code:
        assert conditions.get("says", "") in text


@pytest.mark.parametrize(
    ("state", "command"),
    [
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in SOME),
        *(pytest.param(*pair, marks=pytest.mark.night) for pair in PAIRS if pair not in SOME),
    ],
)
def test_every_command_ends_so_in_every_state(template, machine, state, command):
    stdin = {"hook": EVENT, "mcp": INITIALIZE}.get(command, "")
    is_endless = command in ENDLESS
    walk(template, machine, STATES[state], COMMANDS[command], stdin, is_endless=is_endless)


def test_skills_are_the_same_in_every_locale(template, machine):
    _, listing = walk(template, machine, STATES["names in ASCII"], ["list"], "")
    assert "fill-\\u65e5\\u672c" in listing or "fill-日本" in listing
    assert len(listing.splitlines()) == 3


def test_folders_of_ours_are_private_whatever_the_umask(template, machine):
    shutil.rmtree(machine / "home")
    (machine / "home").mkdir()
    add = ["add", f"{template}/skills"]
    code, text = walk(template, machine, {"umask": 0}, add, "")
    assert code == 0, text
    folders = [path for path in (machine / "home").rglob("*") if path.is_dir()]
    assert folders
    assert [path for path in folders if path.stat().st_mode & 0o077] == []


@pytest.mark.skipif(os.uname().machine not in FLOCK, reason="the number of flock is not known here")
@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EIO], ids=errno.errorcode.get)
def test_a_disk_without_locks_is_told_at_once(template, machine, error):
    current = machine / "home/.cache/skillsearch/default/CURRENT"
    before = current.read_text()
    shutil.copytree(template / "skills" / "tea", machine / "more" / "coffee")
    state = {"no_locks": [FLOCK[os.uname().machine], error]}
    code, text = walk(template, machine, state, ["index", "{folder}/more"], "")
    assert (code, current.read_text()) == (1, before)
    assert os.strerror(error) in text
