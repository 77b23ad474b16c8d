"""A server to talk to: in this process, or as the program that a host starts."""

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

import skillsearch

WAIT_SECONDS = 120
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def variables_of(home):
    """Return the variables of a program that finds this package and loads no model."""
    folder = str(Path(skillsearch.__file__).parents[1])
    ours = {"HOME": str(home), "PYTHONPATH": folder, "SKILLSEARCH_MODEL": "hashing"}
    return {"PATH": os.environ["PATH"], **ours}


@pytest.fixture
def variables(home):
    return variables_of(home)


@pytest.fixture(scope="module")
def module_variables(tmp_path_factory):
    """Return the same for a program that the tests of a file share."""
    return variables_of(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def command():
    """Return the command line of the server; a file of tests may have another one."""
    return [sys.executable, "-m", "skillsearch", "mcp"]


@pytest.fixture(scope="module")
def launch(command):
    """Start the server as a program, for as long as a block lasts."""

    @contextmanager
    def start(folder, variables, *args, **options):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = subprocess.Popen(
            [*command, *map(str, args)], cwd=folder, env=variables, **{**pipes, **options}
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait(WAIT_SECONDS)
            for stream in (process.stdin, process.stdout, process.stderr):
                with suppress(BrokenPipeError):
                    stream.close()

    return start


@pytest.fixture
def program(launch, variables, tmp_path):
    return partial(launch, tmp_path, variables)


@pytest.fixture(scope="session")
def serve_over_http():
    """Serve at a listener, in a thread, for as long as a block lasts; yield the address."""
    import anyio

    from skillsearch.mcp_server.http import serve_http

    @contextmanager
    def start(server, listener, **options):
        stop, begun, portals = anyio.Event(), threading.Event(), []

        async def main():
            portals.append(anyio.lowlevel.current_token())
            begun.set()
            await serve_http(server, listener, stop, **options)

        thread = threading.Thread(target=anyio.run, args=(main,))
        thread.start()
        begun.wait(WAIT_SECONDS)
        try:
            yield listener.socket.getsockname()
        finally:
            anyio.from_thread.run_sync(stop.set, token=portals[0])
            thread.join(WAIT_SECONDS)

    return start


@pytest.fixture
def converse():
    import anyio

    from skillsearch.mcp_server.stdio import serve_stdio
    from skillsearch.mcp_server.streams import Streams, greet

    def say(server, lines, handshake=None, *, until=None):
        """Send lines to a server over pipes, greeted or not, and return what it answers.

        The client leaves at once, or when the request of the id `until` has its answer.
        """
        (theirs, ours), (answers, replies) = os.pipe(), os.pipe()
        heard = []

        def write():
            with os.fdopen(ours, "wb") as sender:
                sender.write(b"".join(lines))
                sender.flush()
                answered.wait(WAIT_SECONDS if until else 0)

        def listen():
            with os.fdopen(answers, "rb") as reader:
                for line in reader:
                    heard.append(json.loads(line))
                    if heard[-1].get("id") == until:
                        answered.set()

        async def serve():
            with os.fdopen(theirs, "rb") as incoming, os.fdopen(replies, "wb") as outgoing:
                streams = Streams(incoming, outgoing)
                streams = greet(streams, handshake) if handshake else streams
                await serve_stdio(server, streams, anyio.Event())

        answered = threading.Event()
        threads = [threading.Thread(target=target) for target in (write, listen)]
        for thread in threads:
            thread.start()
        anyio.run(serve)
        for thread in threads:
            thread.join(WAIT_SECONDS)
        return heard

    return say


class Wire:
    """A host that writes and reads messages without a library."""

    def __init__(self, process):
        self.process = process
        self.lines = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method, params=None, request_id=None):
        record = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        record |= {} if request_id is None else {"id": request_id}
        self.write(json.dumps(record).encode() + b"\n")

    def read(self):
        """Read a message; anything but JSON fails the test."""
        return json.loads(self.lines.get(timeout=WAIT_SECONDS))

    def ask(self, method, params=None, request_id=1):
        self.send(method, params, request_id)
        while (answer := self.read()).get("id") != request_id:
            pass
        return answer

    def greet(self):
        """Open a session of the older protocol."""
        answer = self.ask("initialize", HELLO, 0)
        self.send("notifications/initialized")
        return answer

    def rest(self):
        return [
            json.loads(line) for line in iter(lambda: self.lines.get(timeout=WAIT_SECONDS), b"")
        ]


@pytest.fixture(scope="session")
def open_wire():
    def start(process):
        made = Wire(process)
        made.greet()
        return made

    return start


@pytest.fixture
def wire(program, open_wire):
    @contextmanager
    def start(*args):
        with program(*args) as process:
            yield open_wire(process)

    return start
