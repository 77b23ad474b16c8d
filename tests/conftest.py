"""Fixtures of all tests: a home of one's own, skills to index, and a command line to run."""

import asyncio
import gc
import importlib
import json
import os
import re
import runpy
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import settings

import skillsearch
from skillsearch.daemon import client
from skillsearch.embedders.embedding import HashingEmbedder
from skillsearch.errors import DaemonError
from skillsearch.files.openat import is_racy
from skillsearch.index import skill_index
from skillsearch.index.indexing import snapshot
from skillsearch.index.search import options as search_options
from skillsearch.index.search.calibration_file import default_calibration
from skillsearch.settings.environ import forbid_telemetry
from skillsearch.text import states
from skillsearch.types.answers import FACES

forbid_telemetry()
settings.register_profile("search", deadline=None, max_examples=50)
settings.register_profile("replay", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("replay" if os.environ.get("CI") else "search")
"""On a developer's machine hypothesis tries new examples in every run; what decides whether a
change lands tries the same ones each time."""

RECORDER = Path(__file__).with_name("network_recorder.py")
UNSHARE = ["unshare", "--map-root-user", "--net", "--mount"]
SCRIPTS = Path(__file__).parent.parent / "scripts"
OURS = (".cache/skillsearch", ".config/skillsearch", ".local/share/skillsearch")
"""Our folders below a home folder, unless a variable puts them elsewhere."""
ENGINES = (".config/cni", ".config/containers", ".docker", ".local/share/containers")
"""Files that podman and docker create when `doctor` asks whether they work."""
NEEDS = {
    "torch and its libraries: pip install -e '.[st,train]'": "torch|transformers|training",
    "frameworks: pip install -e '.[langchain,adk,pydantic-ai]'": "langchain|google|pydantic_ai",
    "Milvus: pip install -e '.[milvus]' --group milvus-server": "milvus",
    "Ray: pip install --group ray": r"\bray\b",
    "a container engine that answers, with its image": "docker|podman|engine|container",
    "a Chromium, and for some playwright and axe-core": "chromium|playwright|axe-core",
    "namespaces": "namespace|unshare|bubblewrap|bwrap",
    "a user who is not root": "to root|root reads|root may|root writes",
    "root": "only root|who is not root",
}
"""What tests need that not every machine has, and what tells of it in the reason for a skip."""
WAIT_SECONDS = 120
NOBODY = {"asked": [], "tries": {}}
XDG = ("CACHE", "CONFIG", "DATA", "STATE")
FOLDERS = count()
"""Numbers of the folders of tests."""


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for garbage only after the tests are collected, and never among all that they are."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def need_of(reason):
    """Return what a skipped test needs, or else the reason that it gave."""
    reason = reason.removeprefix("Skipped: ")
    needs = (need for need, words in NEEDS.items() if re.search(words, reason, re.IGNORECASE))
    need = next(needs, "")
    return f"needs {need}" if need else reason


def pytest_terminal_summary(terminalreporter):
    """Tell in a line for each need how many tests were skipped for it."""
    reports = terminalreporter.stats.get("skipped", [])
    needs = Counter(need_of(report.longrepr[2]) for report in reports)
    for need, times in needs.most_common():
        terminalreporter.write_line(f"SKIPPED {times:,}: {need}")


@pytest.fixture(scope="module")
def import_script():
    """Import a module of ``scripts`` by its name; they import each other."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield importlib.import_module
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.fixture(scope="session")
def wait_for():
    """Wait for a condition, and return what it was at last."""

    def wait(condition, seconds=WAIT_SECONDS):
        deadline = time.monotonic() + seconds
        while not (is_met := condition()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return is_met

    return wait


@pytest.fixture
def package_copy(tmp_path):
    """Make a copy of the package that a test can change; models and examples are linked."""
    package, copy = Path(skillsearch.__file__).parent, tmp_path / "copy" / "skillsearch"
    linked = ("models", "examples")
    unfinished = "*.pyc.*"  # bytecode that another process is writing
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns(*linked, unfinished))
    for name in linked:
        (copy / name).symlink_to(package / name)
    return copy


@pytest.fixture(scope="session", autouse=True)
def heeded_interrupts():
    """Undo what a shell does to jobs in the background: they ignore Ctrl-C, and so do theirs."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def no_fsync():
    """Do not wait for the disk: no test cuts the power, and an index syncs forty files.

    Tests of failing disks patch ``os.fsync`` themselves, in this process or in one of their own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _handle: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def fine_clock():
    """Take no file for too young to trust its stat: files of users were not written just now.

    The clock of a disk ticks every few milliseconds; to index takes longer.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "is_racy", partial(is_racy, within_ns=0))
        yield


@pytest.fixture
def young_files(monkeypatch):
    """Take files for as old as they are: what was written just now is read again."""
    monkeypatch.setattr(snapshot, "is_racy", is_racy)


@pytest.fixture(scope="session")
def homes(tmp_path_factory):
    """Make the folder of the homes and folders of all tests."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture
def tmp_path(request, homes):
    """Make an empty folder named after the test.

    The one of pytest lists all of its folders to count on, thousands in the end.
    """
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = homes / f"{name}{next(FOLDERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def home(homes, monkeypatch):
    """Point the home folder and everything below it to an empty place, and unset our settings.

    Only tests of the packaged reader have skills read by it, which takes longer than the rest.
    """
    folder = Path(tempfile.mkdtemp(prefix="h", dir=homes))
    monkeypatch.setenv("HOME", str(folder))
    for name in XDG:
        monkeypatch.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "runtime"))
    for name in [name for name in os.environ if name.startswith(("SKILLSEARCH_", "SKILLS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SKILLSEARCH_READER", "off")
    locale = ("LC_ALL", "LC_MESSAGES", "LANG")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", *locale):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def default_reader(home, monkeypatch):
    """Have skills read as by default, or by what a test asks for."""
    monkeypatch.delenv("SKILLSEARCH_READER", raising=False)


@pytest.fixture
def fits_from(monkeypatch):
    """Have skills fit from a score on, and all others that are found may fit, by every face.

    An index that is open already keeps its threshold.
    """

    def fits_from(threshold):
        calibration = replace(default_calibration(), threshold=threshold)
        monkeypatch.setattr(skill_index, "default_calibration", lambda: calibration)
        monkeypatch.setattr(search_options, "BOUNDS", dict.fromkeys(FACES, 0.0))
        monkeypatch.setattr(states, "NEAR", 0.0)

    return fits_from


@pytest.fixture
def make_later():
    """Make an executor that does what it was given when it is told to."""

    class Later:
        def __init__(self):
            self.waiting = []

        def submit(self, function, *args):
            self.waiting.append((Future(), function, args))
            return self.waiting[-1][0]

        def work(self):
            while self.waiting:
                future, function, args = self.waiting.pop(0)
                try:
                    future.set_result(function(*args))
                except Exception as exc:  # noqa: BLE001 - as executors do
                    future.set_exception(exc)

    return Later


@pytest.fixture
def count_saved():
    """Count the vectors in the user's cache, while others write to it too."""
    from skillsearch.embedders.embedding_cache import FILE, FOLDER
    from skillsearch.settings.user_folders import cache_dir

    def count_vectors():
        path = cache_dir() / FOLDER / FILE
        if not path.exists():
            return 0
        with closing(sqlite3.connect(path, timeout=60)) as file, suppress(sqlite3.OperationalError):
            return file.execute("SELECT count(*) FROM vectors").fetchone()[0]
        return 0  # it has no tables yet

    return count_vectors


@pytest.fixture
def embedded_texts(monkeypatch):
    """List the texts that are embedded by hashing, in order."""
    texts = []
    embed_stream = HashingEmbedder.embed_stream

    def embed_and_list(self, batch):
        texts.extend(batch)
        return embed_stream(self, batch)

    monkeypatch.setattr(HashingEmbedder, "embed_stream", embed_and_list)
    return texts


@pytest.fixture
def rot():
    """Flip a bit of a part of an index as a failing disk does: no stat tells of it."""
    from skillsearch.index.storage.generation_parts import trust_parts, trusted_parts

    def flip(path, offset=-1, bit=0):
        trusted = trusted_parts(path.parent)
        data = bytearray(path.read_bytes())
        data[offset] ^= 1 << bit
        before = path.stat()
        path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        trust_parts(path.parent, trusted)

    return flip


def _write_skill(root, name="tea-timer", description="Times tea.", body="# Body\n", **frontmatter):
    """Write a skill into a root and return its SKILL.md."""
    fields = {"name": name, "description": description, **frontmatter}
    path = Path(root) / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = yaml.safe_dump(fields, allow_unicode=True, sort_keys=False)
    path.write_text(f"---\n{head}---\n{body}", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def write_skill():
    """Write skills for several tests; as `make_skill`."""
    return _write_skill


@pytest.fixture
def make_skill():
    """Write a skill into a root and return its SKILL.md."""
    return _write_skill


@pytest.fixture
def cli(tmp_path, monkeypatch):
    """Run the command line in an empty folder; whatever it raises fails the test."""
    from skillsearch.cli.app import app

    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def run(*args, stdin=None, **options):
        result = CliRunner().invoke(app, [str(arg) for arg in args], input=stdin, **options)
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        assert "Traceback" not in result.stderr
        return result

    return run


@pytest.fixture
def drinks(tmp_path, shared_drinks):
    """Make a root of three skills about drinks."""
    return Path(shutil.copytree(shared_drinks / "drinks", tmp_path / "drinks"))


@pytest.fixture(scope="session")
def shared_drinks(tmp_path_factory):
    """Make a folder with the drinks and an index of them, which no test changes."""
    from skillsearch.cli.app import app

    folder = tmp_path_factory.mktemp("shared")
    _write_skill(
        folder / "drinks",
        "brew-coffee",
        "Brew filter coffee with a scale. Use for espresso and roasting questions.",
        body="# Coffee\n\n## Grind\n\nGrind the beans just before you brew.\n",
        license="MIT",
    )
    tea = "Steep green tea at the right temperature."
    _write_skill(folder / "drinks", "steep-tea", tea, body="# Tea\n\nUse 80 C.\n")
    _write_skill(folder / "drinks", "squeeze-lemons", "Squeeze lemons for lemonade.")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder / "home"))
        for name in XDG:
            patch.setenv(f"XDG_{name}_HOME", str(folder / "home" / name.lower()))
        command = ["index", folder / "drinks", "--index-dir", folder / "index"]
        done = CliRunner().invoke(app, [*map(str, command), "--model", "hashing"])
        assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def index_dir(tmp_path):
    """Name the folder of an index that is still to be made."""
    return tmp_path / "index"


@pytest.fixture
def drinks_index(request, cli, index_dir):
    """Make an index of `drinks` by the hashing embedder.

    A test that does not ask for the drinks itself cannot change them, and gets a copy of an index.
    """
    if "drinks" in request.fixturenames:
        drinks = request.getfixturevalue("drinks")
        assert cli("index", drinks, "--index-dir", index_dir, "--model", "hashing").exit_code == 0
    else:
        shutil.copytree(request.getfixturevalue("shared_drinks") / "index", index_dir)
    return index_dir


@pytest.fixture
def indexed(cli, drinks_index, index_dir):
    """Run commands on an index of `drinks`."""

    def run(command, *args, **kwargs):
        return cli(command, "--index-dir", index_dir, *args, **kwargs)

    return run


@pytest.fixture
def mixed(drinks, make_skill):
    """Add a Korean and a Chinese skill to the drinks."""
    make_skill(drinks, "회의록", "회의 녹음을 글로 옮기고 요점을 정리합니다.", body="# 순서\n")
    make_skill(drinks, "表格", "把销售表格做成图表并放进季度报告。", body="# 步骤\n")
    return drinks


@pytest.fixture
def runtime(home, monkeypatch):
    """Name the folder of the daemon, below one with a short path; leave no daemon behind."""
    monkeypatch.setenv("PYTHONPATH", str(Path(skillsearch.__file__).parents[1]))
    # On a busy machine a daemon takes long to start.
    monkeypatch.setitem(client.start.__kwdefaults__, "seconds", 120)
    monkeypatch.setattr(client, "QUERY_SECONDS", 120)
    with tempfile.TemporaryDirectory(prefix="ss") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        try:
            yield Path(folder) / "skillsearch"
        finally:
            with suppress(DaemonError, ProcessLookupError):
                status = client.ask("status", seconds=120)
                if status and status["pid"] != os.getpid():
                    os.kill(status["pid"], signal.SIGKILL)


@pytest.fixture
def serve(runtime):
    """Serve in a thread; returns the daemon, and a function that waits for why it ended."""
    from skillsearch.daemon import server
    from skillsearch.daemon.answers import Answers

    running = []

    def start(idle=60.0, package=server.PACKAGE, version=skillsearch.__version__, **limits):
        listener, lock = server.listen(runtime)
        path = runtime / "daemon.sock"
        answers = Answers(version=version)
        bounds = server.DaemonLimits(**{"tick_seconds": 0.1, **limits})
        daemon = server.Daemon(listener, path, idle, answers, package, bounds)
        reasons = []
        thread = threading.Thread(target=lambda: reasons.append(daemon.run()))
        thread.start()
        running.append((daemon, thread, lock))

        def reason():
            thread.join(timeout=120)
            return reasons[0]

        return daemon, reason

    yield start
    for daemon, thread, lock in running:
        daemon.end("the test is over")
        thread.join(timeout=120)
        daemon.close()
        os.close(lock)


@pytest.fixture
def serve_library(monkeypatch):
    """Serve the library of some roots, or else of an index."""
    from skillsearch.mcp_server.served_library import ServedLibrary
    from skillsearch.settings.config import load_settings

    monkeypatch.setenv("SKILLSEARCH_MODEL", "hashing")

    def make(*roots, index_dir=None):
        return ServedLibrary(roots, load_settings(index_dir=index_dir), index_dir)

    return make


@pytest.fixture
def make_server(serve_library):
    """Make a server over some roots or an index, used by a client in this process."""
    from skillsearch.library.thread import LibraryThread
    from skillsearch.mcp_server.server import SkillServer
    from skillsearch.mcp_server.session_tools import SessionTools

    threads = []

    def make(
        *roots,
        index_dir=None,
        toolset="default",
        call_seconds=60,
        max_waiting=64,
        runner=None,
        **options,
    ):
        thread = LibraryThread(call_seconds, max_waiting)
        threads.append(thread)
        served = serve_library(*roots, index_dir=index_dir)
        server = SkillServer(thread, SessionTools(toolset, served, runner), **options)
        server.thread, server.served = thread, served
        return server

    yield make
    for thread in threads:
        thread.close()


@pytest.fixture
def talk(monkeypatch):
    """Run a conversation with a server: what it is reached by, and what is said to it."""
    from mcp import Client
    from mcp.client import session

    # After this long the client takes a server for an old one, however busy the machine is.
    monkeypatch.setattr(session, "DISCOVER_TIMEOUT_SECONDS", WAIT_SECONDS)

    def run(target, say, mode="auto"):
        async def converse():
            async with Client(target, mode=mode) as client:
                return await say(client)

        return asyncio.run(asyncio.wait_for(converse(), WAIT_SECONDS))

    return run


@pytest.fixture
def start_mcp():
    """Start ``skillsearch mcp`` in a folder; return what sends it a message, and what asks it.

    Requests of the server are answered by the function of their name in `replies`.
    """
    processes = []

    def start(folder, *args, **replies):
        ours = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"]}
        ours |= {"PYTHONPATH": str(Path(skillsearch.__file__).parents[1])}
        ours |= {"SKILLSEARCH_MODEL": "hashing", "SKILLSEARCH_READER": "off"}
        ours |= {name: value for name, value in os.environ.items() if name.startswith("XDG_")}
        command = [sys.executable, "-m", "skillsearch", "mcp", *map(str, args)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, cwd=folder, env=ours, text=True, **pipes)
        processes.append(process)
        numbers = count()

        def send(**record):
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **record}) + "\n")
            process.stdin.flush()

        def ask(method, params):
            number = next(numbers)
            send(id=f"ask-{number}", method=method, params=params)
            while (message := json.loads(process.stdout.readline())).get("id") != f"ask-{number}":
                reply = replies.get(message.get("method", "").replace("/", "_"))
                if reply:
                    send(id=message["id"], result=reply())
            return message["result"]

        return send, ask

    yield start
    for process in processes:
        process.kill()
        process.communicate(timeout=WAIT_SECONDS)


class Watched:
    """A shell script that runs with a home folder and a network that are watched."""

    def __init__(self, folder, script, home=None):
        """Begin it, with an empty home or a copy of one."""
        self.folder = folder
        self.home = folder / "home"
        for name in ("tmp", "work", "bin", *(() if home else ("home",))):
            (folder / name).mkdir()
        if home:
            shutil.copytree(home, self.home)
        program = folder / "bin" / "skillsearch"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m skillsearch "$@"\n', "utf-8")
        program.chmod(0o755)
        # Nothing of the environment of the tests: CI, for one, has some reports switched off.
        variables = {"HOME": self.home, "TMPDIR": folder / "tmp", "LANG": "C.UTF-8"}
        path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
        self._process = subprocess.Popen(
            [*UNSHARE, sys.executable, RECORDER, folder / "report.json", "sh", "-c", script],
            cwd=folder / "work",
            env={**variables, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self):
        """Wait for the end, and return the exit code, what was printed, and who was asked."""
        output, _ = self._process.communicate()
        report = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))
        return self._process.returncode, output, report

    def foreign(self):
        """Return the files in the home folder that are not ours, and what is left in TMPDIR."""
        paths = [path.relative_to(self.home) for path in self.home.rglob("*") if not path.is_dir()]
        others = [path for path in paths if not any(map(path.is_relative_to, (*OURS, *ENGINES)))]
        return [*map(str, others), *(path.name for path in (self.folder / "tmp").iterdir())]

    def check(self, code=0):
        """Wait for the end; it must have worked, asked nobody, and written to our folders only."""
        ended, output, report = self.end()
        assert (ended, report, self.foreign()) == (code, NOBODY, []), output


@pytest.fixture(scope="session")
def watched():
    """Start shell scripts, each with a fresh home folder and network that are watched."""
    tried = shutil.which("unshare") and subprocess.run([*UNSHARE, "true"], capture_output=True)
    if not tried or tried.returncode:
        pytest.skip(
            "NOT CHECKED that nothing goes over the network: no network namespaces on this system"
        )
    # The path of a socket has to be short.
    with tempfile.TemporaryDirectory(prefix="ss") as folder:
        yield lambda script, home=None: Watched(
            Path(tempfile.mkdtemp(prefix="", dir=folder)), script, home
        )


@pytest.fixture(scope="session")
def conforms():
    """Check a record by the published rules of its kind, and return it."""
    return runpy.run_path(str(Path(__file__).with_name("ard_rules.py")))["conforms"]


@pytest.fixture(scope="session")
def repeating():
    """Repeat an action in another thread, as fast as it goes, until the block is over."""

    @contextmanager
    def repeat(action):
        is_over = threading.Event()

        def run():
            while not is_over.is_set():
                action()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    return repeat


@pytest.fixture(scope="session")
def swap_for_link():
    """Put a link in the place of a file or folder, and then what was there back."""

    def swap(victim, target, aside):
        victim.rename(aside)
        victim.symlink_to(target)
        victim.unlink()
        aside.rename(victim)

    return swap
