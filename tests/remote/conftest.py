"""A Milvus server of the tests' own, on loopback, one in memory, and small skills to index."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from enum import Enum
from functools import partial
from importlib import util
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from skillsearch.embedders.embedder import load_embedder
from skillsearch.errors import CollectionMissingError
from skillsearch.index.lexical.postings import average_idf
from skillsearch.index.roots.request import IndexRequest
from skillsearch.remote.client import MilvusServer, batches
from skillsearch.remote.generations import find_current
from skillsearch.remote.indexing import Indexing
from skillsearch.remote.remote_index import RemoteIndex
from skillsearch.remote.rows import FREQUENCIES, counts_of, frequencies_at
from skillsearch.remote.view import RemoteView

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
            server.wait(120)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_for(port, server):
    deadline = time.monotonic() + 120
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
def server(milvus):
    connection = MilvusServer(milvus)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def module_home(homes):
    """Have a home folder for what is indexed once for a module, before a test has its own."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("HOME", *(f"XDG_{kind}_HOME" for kind in ("CACHE", "CONFIG", "DATA"))):
            patched.setenv(name, tempfile.mkdtemp(dir=homes))
        patched.setenv("SKILLSEARCH_READER", "off")
        yield


@pytest.fixture
def collection():
    return f"skills_{os.getpid()}_{next(NUMBERS)}"


KITCHEN = {
    "brew-coffee": ("Brew filter coffee.", "# Grind\n\nGrind the beans first.\n"),
    "steep-tea": ("Steep green tea.", "# Water\n\nUse water of 80 degrees.\n"),
    "bake-bread": ("Bake sourdough bread.", "# Dough\n\nKnead, fold and rest.\n"),
    "fry-eggs": ("Fry eggs sunny side up.", "# Pan\n\nHeat butter in a pan.\n"),
    "label-jars": ("Print labels for jars.\ndisable_model_invocation: true", "# Body\n"),
}


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roots") / "kitchen"
    for name, (about, body) in KITCHEN.items():
        (folder / name).mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: {about}\n---\n{body}"
        (folder / name / "SKILL.md").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def root(tmp_path, kitchen):
    return Path(shutil.copytree(kitchen, tmp_path / "kitchen"))


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


def expected_totals(rows):
    """Count terms anew: by hash in how many documents, by field; and what BM25 has to know."""
    counted = [counts_of(row) for row in rows]
    frequencies = {}
    for counts in counted:
        for field, column in enumerate(counts.frequencies):
            for term in counts.hashes[column > 0].tolist():
                frequencies.setdefault(term, [0, 0])[field] += 1
    means = []
    for field in (0, 1):
        column = [numbers[field] for numbers in frequencies.values() if numbers[field]]
        means.append(average_idf(np.array(column), len(counted)) if column else 0.0)
    lengths = [sum(counts.lengths[field] for counts in counted) for field in (0, 1)]
    return frequencies, means, lengths


@pytest.fixture(scope="session")
def check_statistics():
    """Hold all that an index keeps of its terms against its documents."""

    def check(server, collection):
        current = find_current(server, collection)
        view = RemoteView(server, current.generation, current.head, {})
        frequencies, means, lengths = expected_totals(list(view.rows(["counts"])))
        stored = {}
        for page in server.iterate(current.generation.terms, "kind == 0", FREQUENCIES, 1_000):
            for row in page:
                stored[int(row["id"], 16)] = list(frequencies_at(row, current.head.version))
        assert {term: numbers for term, numbers in stored.items() if any(numbers)} == frequencies
        totals = [current.head.totals[field] for field in ("metadata", "full")]
        assert [field.length for field in totals] == lengths
        assert [field.average_idf for field in totals] == pytest.approx(means, abs=1e-12)

    return check


class Columns(set):
    """The names of a schema's fields; memory needs neither their types, functions nor indexes."""

    def add_field(self, name, kind, **options):
        self.add(name)

    def add_function(self, function):
        pass

    def add_index(self, name, **options):
        assert name


KINDS = "ARRAY BOOL FLOAT_VECTOR INT8 INT64 SPARSE_FLOAT_VECTOR VARCHAR"
PYMILVUS = SimpleNamespace(
    DataType=Enum("DataType", KINDS),
    Function=lambda name, kind, inputs, outputs: outputs,
    FunctionType=Enum("FunctionType", "BM25"),
    MilvusClient=SimpleNamespace(
        create_schema=lambda **options: Columns(), prepare_index_params=Columns
    ),
)


class MemoryServer:
    """The requests of `MilvusServer` answered from memory, for tests of everything but Milvus.

    Conditions are Python but for their constants. `nearest` gives every row that may be given, as
    an index does that leaves nothing out.
    """

    shown = "http://memory"

    def __init__(self):
        self.library = PYMILVUS
        self.tables, self.columns, self.aliases, self.requested = {}, {}, {}, []

    def rows_of(self, name):
        self.requested.append(name)
        name = self.aliases.get(name, name)
        if name not in self.tables:
            raise CollectionMissingError(f"there is no {name}")
        return self.tables[name]

    def collections(self):
        return list(self.tables)

    def target(self, alias):
        return self.aliases.get(alias)

    def point(self, alias, collection, *, is_new):
        assert is_new == (alias not in self.aliases)
        self.aliases[alias] = collection

    def create(self, name, schema, indexes):
        assert name not in self.tables
        self.tables[name], self.columns[name] = {}, schema

    def drop(self, name):
        del self.tables[name]

    def flush(self, name):
        self.rows_of(name)

    def insert(self, name, rows):
        table = self.rows_of(name)
        assert not table.keys() & {row["id"] for row in rows}
        columns = self.columns[self.aliases.get(name, name)]
        assert columns is None or all(row.keys() <= columns for row in rows)
        table.update((row["id"], dict(row)) for row in rows)

    def upsert(self, name, rows, *, partial=False):
        table = self.rows_of(name)
        for row in rows:
            table[row["id"]] = {**table[row["id"]], **row} if partial else dict(row)

    def delete(self, name, ids):
        table = self.rows_of(name)
        for row_id in ids:
            table.pop(row_id, None)

    def get(self, name, ids, fields):
        table = self.rows_of(name)
        return {row_id: self.shape(table[row_id], fields) for row_id in ids if row_id in table}

    def query(self, name, condition, fields, limit):
        return self.matching(name, condition, fields)[:limit]

    def iterate(self, name, condition, fields, batch):
        yield from batches(self.matching(name, condition, fields), batch)

    def nearest(self, name, queries, condition, limit, fields):
        assert all(metric in ("BM25", "IP") for metric, _ in queries.values())
        return self.matching(name, condition, fields)

    def matching(self, name, condition, fields):
        test = compile(condition or "True", "condition", "eval")
        names = {"__builtins__": {}, "true": True, "false": False}
        rows = self.rows_of(name).values()
        return [self.shape(row, fields) for row in rows if eval(test, names, row)]

    @staticmethod
    def shape(row, fields):
        return {name: row[name] for name in ("id", *fields) if name in row}

    def close(self):
        pass


@pytest.fixture(scope="session")
def memory_server():
    return MemoryServer


@pytest.fixture
def memory():
    return MemoryServer()


class CutOffError(Exception):
    """Stands for a kill."""


@pytest.fixture(scope="session")
def index_on():
    """Index roots on a server in memory; return the opened index and the report.

    With `cut`, the run is killed at that writing call, unless it ends before.
    """

    def run(server, *roots, with_body=True, cut=None):
        request = IndexRequest(tuple(map(Path, roots)), "hashing", with_body)
        left = count(cut or 1 << 30, -1)

        def call(name):
            def write(*args, **options):
                if next(left) <= 0:
                    raise CutOffError
                return getattr(type(server), name)(server, *args, **options)

            return write

        for name in ("insert", "upsert", "delete", "point", "create", "drop"):
            setattr(server, name, call(name))
        try:
            report = Indexing(server, "skills", request, load_embedder).run()
        except CutOffError:
            for table in server.tables.values():  # what else would have to expire
                for key in [key for key in table if key.startswith("claim-")]:
                    del table[key]
            return None
        return RemoteIndex(server, "skills"), report

    return run


@pytest.fixture
def index_in(memory, index_on):
    return partial(index_on, memory)
