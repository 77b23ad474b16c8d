"""A Milvus server of the tests' own, on loopback, and small skills to index in it."""

import os
import signal
import socket
import subprocess
import sys
import time
from importlib import util
from itertools import count
from pathlib import Path

import pytest

from skillsearch.index.request import IndexRequest
from skillsearch.remote.remote_index import RemoteIndex

NEEDED = ("pymilvus", "milvus_lite")
NUMBERS = count(1)


@pytest.fixture(scope="session")
def milvus(tmp_path_factory):
    """Run the gRPC server of milvus-lite and give its address."""
    if missing := [name for name in NEEDED if util.find_spec(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("milvus")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", str(folder / "data")]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))
    try:
        wait_for(port, server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_for(port, server):
    """Wait until a server listens."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert server.poll() is None, "the server ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("the server does not listen")


@pytest.fixture
def collection():
    """Name an index that no other test uses."""
    return f"skills_{os.getpid()}_{next(NUMBERS)}"


@pytest.fixture
def root(tmp_path, make_skill):
    """Make a root of five skills."""
    folder = tmp_path / "kitchen"
    make_skill(folder, "brew-coffee", "Brew filter coffee.", "# Grind\n\nGrind the beans first.\n")
    make_skill(folder, "steep-tea", "Steep green tea.", "# Water\n\nUse water of 80 degrees.\n")
    make_skill(folder, "bake-bread", "Bake sourdough bread.", "# Dough\n\nKnead, fold and rest.\n")
    make_skill(folder, "fry-eggs", "Fry eggs sunny side up.", "# Pan\n\nHeat butter in a pan.\n")
    make_skill(folder, "label-jars", "Print labels for jars.", disable_model_invocation=True)
    return folder


@pytest.fixture
def build(milvus, collection, root):
    """Index roots under the name of the test, by default `root`, and close what was opened."""
    opened = []

    def run(*roots, model="hashing", with_body=True, uri=milvus, **options):
        request = IndexRequest(tuple(map(Path, roots)) or (root,), model, with_body)
        index, report = RemoteIndex.build(request, uri, collection=collection, **options)
        opened.append(index)
        return index, report

    yield run
    for index in opened:
        index.close()
